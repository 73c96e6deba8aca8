"""The Cloud Run plane: an execution's tasks as real processes, with the platform's environment, signals and retries.

What a task runs is looked up in `images`, and the bucket's folder stands for the mount. A `LocalImage` is a process,
not a container: values of the environment, command and arguments that begin with a mount path point into that folder
instead (container.py has real ones). Deliberately not done: CPU and memory limits, and VPC.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Protocol

from infra import catalog
from mockgcp.clock import Clock
from mockgcp.cloud import PLATFORM, Cloud
from mockgcp.errors import ApiError
from mockgcp.planes.maintenance import Maintenance, NoMaintenance, TaskView
from mockgcp.planes.processes import ProcessLedger, signal_group
from mockgcp.planes.protocol import Availability
from mockgcp.services import storage
from mockgcp.services.logging import SEVERITIES

PREEMPTED = "Container instance preemption initiated by the platform due to underlying hardware maintenance"
_POLL_S = 0.02
_JOIN_S = 10.0
_READ = ("storage.objects.get", "storage.objects.list")
_WRITE = ("storage.objects.create", "storage.objects.delete")


@dataclass(frozen=True)
class Mount:
    """A folder of this machine that a task sees. `owner`: its user and group ids; None: everybody may write there."""

    folder: Path
    read_only: bool = False
    owner: tuple[int, int] | None = None


@dataclass(frozen=True)
class Launch:
    """What an attempt is to run: the job's own `command` (empty: the image's entry point), `args` and `env`, the
    mounts by their paths, and the attempt's own folder."""

    command: Sequence[str]
    args: Sequence[str]
    env: Mapping[str, str]
    mounts: Mapping[str, Mount]
    folder: Path


class Image(Protocol):
    """What stands for an image here."""

    def process(self, launch: Launch) -> tuple[list[str], dict[str, str]]:
        """The arguments and the whole environment of the process to start.

        It passes SIGTERM on to the container's first process, and ends with its exit code.
        """


@dataclass(frozen=True)
class LocalImage:
    """A process in an image's place: its entry point, and the environment the image itself sets."""

    entrypoint: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)

    def process(self, launch: Launch) -> tuple[list[str], dict[str, str]]:
        folders = {path: mount.folder for path, mount in launch.mounts.items()}
        argv = [*(launch.command or self.entrypoint), *launch.args]
        env = {
            "PATH": os.environ.get("PATH", os.defpath),
            "LANG": "C.UTF-8",
            "HOME": str(launch.folder),
            **self.env,
            **launch.env,
        }
        return [_into(folders, word) for word in argv], {key: _into(folders, value) for key, value in env.items()}


class _NotStartedError(Exception):
    """Why the platform could not start an attempt."""


@dataclass
class _Attempt:
    """One running attempt and what its log has said. `started` and `kill_at` are seconds of the cloud's clock."""

    process: subprocess.Popen[bytes]
    number: int
    started: float
    step: int | None = None
    ending: str = ""
    stopped: bool = False
    kill_at: float | None = None
    defect: Exception | None = None


class CloudRunPlane:
    """Runs every execution of the cloud's jobs while it is started.

    Args:
        images: what each image reference runs.
        maintenance: when the platform strikes.
        grace_s: seconds of the cloud's clock from SIGTERM to SIGKILL.
    """

    name = "cloud-run"

    def __init__(
        self,
        cloud: Cloud,
        *,
        state_dir: Path,
        images: Mapping[str, Image],
        maintenance: Maintenance | None = None,
        grace_s: float | None = None,
    ) -> None:
        self._cloud = cloud
        self._images = images
        self.maintenance: Maintenance = maintenance or NoMaintenance()
        self._grace_s = catalog.cloud_run().termination_grace_s if grace_s is None else grace_s
        self.state_dir = state_dir
        self.processes = ProcessLedger(state_dir / "processes.jsonl")
        self._stopping = threading.Event()
        self._tasks: dict[str, threading.Thread] = {}
        self._cancelled: set[str] = set()
        self._loop: threading.Thread | None = None

    @property
    def clock(self) -> Clock:
        return self._cloud.clock

    def availability(self) -> Availability:
        if os.name != "posix":
            return Availability(False, "tasks need POSIX signals", "run on Linux or macOS")
        return Availability(True)

    def start(self) -> None:
        found = self.availability()
        if not found.usable:
            raise RuntimeError(f"the Cloud Run plane cannot run here: {found.why}; {found.how}")
        self.state_dir.mkdir(parents=True, exist_ok=True)
        self._stopping.clear()
        self._loop = threading.Thread(target=self._watch, name="cloud-run-plane", daemon=True)
        self._loop.start()

    def stop(self) -> None:
        self._stopping.set()
        with self._cloud.changed:
            self._cloud.changed.notify_all()
        if self._loop is not None:
            self._loop.join(timeout=_JOIN_S)  # first: it starts the others
        for thread in self._tasks.values():
            thread.join(timeout=_JOIN_S)
        self.processes.kill()

    # -- executions ------------------------------------------------------------------------------------------------

    def _watch(self) -> None:
        """Starts what is waiting, each time something in the cloud has changed."""
        while not self._stopping.is_set():
            with self._cloud.changed:  # held from the look to the wait, or a change in between would go unnoticed
                listed = self._call("mockgcp.run.executions.list")["executions"]
                for execution in listed:
                    if execution["conditions"][0].get("executionReason") == "CANCELLING":
                        self._cancelled.add(execution["name"])
                    self._start_tasks(execution)
                # What runs on without its execution lost it to a deletion of the job.
                known = {execution["name"] for execution in listed}
                self._cancelled |= {name.partition("/tasks/")[0] for name in self._tasks} - known
                self._tasks = {name: thread for name, thread in self._tasks.items() if thread.is_alive()}
                if not self._stopping.is_set():
                    self._cloud.changed.wait(timeout=1.0)

    def _start_tasks(self, execution: Mapping[str, Any]) -> None:
        tasks = self._call("run.projects.locations.jobs.executions.tasks.list", {"parent": execution["name"]})["tasks"]
        running = sum(task["name"] in self._tasks and "completionTime" not in task for task in tasks)
        for task in tasks:
            if running >= execution["parallelism"]:
                return
            if "startTime" not in task and "completionTime" not in task and task["name"] not in self._tasks:
                thread = threading.Thread(target=self._run_task, args=(execution, task), name=task["name"], daemon=True)
                self._tasks[task["name"]] = thread
                thread.start()
                running += 1

    # -- one task --------------------------------------------------------------------------------------------------

    def _run_task(self, execution: Mapping[str, Any], task: Mapping[str, Any]) -> None:
        began, attempt, order = self.clock.seconds(), 0, "RETRY"
        while order == "RETRY" and not self._stopping.is_set():
            report = self._run_attempt(execution, task, attempt, began)
            if self._stopping.is_set():
                return
            order = self._report(task, {"attempt": attempt, **report})["next"]
            attempt += 1

    def _run_attempt(
        self, execution: Mapping[str, Any], task: Mapping[str, Any], number: int, began: float
    ) -> dict[str, Any]:
        """Runs one attempt to its end; what to report of it."""
        log = _TaskLog(self._cloud, execution["name"], task["index"], number)
        folder = self.state_dir / execution["name"].split("/")[-1] / f"task{task['index']}-attempt{number}"
        try:
            folder.mkdir(parents=True, exist_ok=True)
            argv, env = self._command(execution, task, number, folder)
            process = self.processes.spawn(
                argv, env=env, cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE
            )
        except Exception as error:  # whatever it is: without a report the execution would wait for ever
            message = str(error) if isinstance(error, (_NotStartedError, OSError)) else _defect(error)
            log.system("ERROR", message)
            return {"event": "NOT_STARTED", "message": message}
        running = _Attempt(process, number, started=self.clock.seconds())
        readers = [
            threading.Thread(target=self._read, args=(running, log, stream, name, folder / name), daemon=True)
            for stream, name in ((process.stdout, "stdout"), (process.stderr, "stderr"))
        ]
        try:
            self._report(task, {"event": "STARTED", "attempt": number})
            for reader in readers:
                reader.start()
            self._supervise(execution, task, running, log, began)
        except Exception as error:
            running.ending, running.stopped = _defect(error), True
        finally:  # what the main process left behind ends with its instance
            self.processes.end_tree(process)
            process.wait()
            for reader in readers:
                if reader.ident is not None:
                    reader.join(timeout=_JOIN_S)  # bounded: what hid from its ledger may hold the output open
        if running.defect is not None:
            running.ending, running.stopped = _defect(running.defect), True
        return _ending(process.returncode, running)

    def _supervise(
        self, execution: Mapping[str, Any], task: Mapping[str, Any], running: _Attempt, log: _TaskLog, began: float
    ) -> None:
        timeout_s = catalog.parse_duration_s(task["timeout"])
        while running.process.poll() is None:
            now = self.clock.seconds()
            if running.defect is not None:
                raise running.defect
            if self._stopping.is_set():  # nobody is left to hear of a graceful end, and a held clock would not bring it
                signal_group(running.process, signal.SIGKILL)
            elif running.kill_at is not None:
                if now >= running.kill_at:
                    signal_group(running.process, signal.SIGKILL)
            elif execution["name"] in self._cancelled:
                self._terminate(running, "The execution was cancelled.", stopped=True)
            elif now - running.started >= timeout_s:
                if self._terminate(running, "The configured timeout was reached.", stopped=True):
                    log.system(
                        "ERROR", f"Terminating task because it has reached the maximum timeout of {timeout_s:g} seconds"
                    )
            elif self.maintenance.strikes(
                view := TaskView(execution["name"], task["index"], running.number, now - began, running.step)
            ) and self._terminate(running, f"{PREEMPTED}."):  # logged after the signal: only who lived was preempted
                self.maintenance.struck(view)
                log.system("WARNING", f"{PREEMPTED}.", reason="INSTANCE_PREEMPTED")
            with contextlib.suppress(subprocess.TimeoutExpired):
                running.process.wait(timeout=_POLL_S)

    def _terminate(self, running: _Attempt, why: str, *, stopped: bool = False) -> bool:
        """Sends SIGTERM to the container's first process, as the platform does; False when it has ended already."""
        if running.process.poll() is not None:
            return False
        running.process.send_signal(signal.SIGTERM)
        running.ending, running.stopped = why, stopped
        running.kill_at = self.clock.seconds() + self._grace_s
        return True

    # -- environment -----------------------------------------------------------------------------------------------

    def _command(
        self, execution: Mapping[str, Any], task: Mapping[str, Any], number: int, folder: Path
    ) -> tuple[list[str], dict[str, str]]:
        container = task["containers"][0]
        image = self._images.get(container["image"])
        if image is None:
            raise _NotStartedError(f"Image '{container['image']}' not found.")
        mounts = {
            mount["mountPath"].rstrip("/"): self._mount(execution, task, mount["name"])
            for mount in container.get("volumeMounts", [])
        }
        env = {
            **{item["name"]: item.get("value", "") for item in container.get("env", [])},
            "CLOUD_RUN_JOB": execution["job"],
            "CLOUD_RUN_EXECUTION": execution["name"].split("/")[-1],
            "CLOUD_RUN_TASK_INDEX": str(task["index"]),
            "CLOUD_RUN_TASK_COUNT": str(execution["taskCount"]),
            "CLOUD_RUN_TASK_ATTEMPT": str(number),
        }
        return image.process(Launch(container.get("command", ()), container.get("args", ()), env, mounts, folder))

    def _mount(self, execution: Mapping[str, Any], task: Mapping[str, Any], name: str) -> Mount:
        """The folder a volume stands for, once the task's identity is found to be allowed to use it."""
        volume = next(volume for volume in task["volumes"] if volume["name"] == name)
        if "gcs" not in volume:
            folder: Path = self.state_dir / "volumes" / execution["name"].split("/")[-1] / f"{task['index']}-{name}"
            folder.mkdir(parents=True, exist_ok=True)
            return Mount(folder)
        bucket, identity = volume["gcs"]["bucket"], f"serviceAccount:{task['serviceAccount']}"
        needed = list(_READ if volume["gcs"].get("readOnly") else _READ + _WRITE)
        try:
            params = {"bucket": bucket, "permissions": needed}
            answer = self._cloud.answer("storage.buckets.testIamPermissions", params, None, identity)
        except ApiError as error:
            raise _NotStartedError(f"Mounting volume {name} failed: bucket {bucket}: {error.message}") from error
        missing = [p for p in needed if p not in answer.get("permissions", [])]
        if missing:
            raise _NotStartedError(
                f"Mounting volume {name} failed: {identity} lacks {', '.join(missing)} on bucket {bucket}."
            )
        return Mount(
            storage.folder(self._cloud.state_dir, bucket),
            read_only=bool(volume["gcs"].get("readOnly")),
            owner=_owner(name, volume["gcs"].get("mountOptions", ())),
        )

    # -- logs and reports ------------------------------------------------------------------------------------------

    def _read(self, running: _Attempt, log: _TaskLog, stream: IO[bytes], name: str, copy: Path) -> None:
        try:
            with stream, copy.open("wb") as file:
                for raw in stream:
                    file.write(raw)
                    file.flush()
                    line = raw.decode("utf-8", "replace").rstrip("\n")
                    payload = log.line(name, line)
                    step = payload.get("step") if payload else None
                    if isinstance(step, int):
                        running.step = step
        except Exception as defect:  # the attempt's own thread reports it
            running.defect = defect

    def _report(self, task: Mapping[str, Any], body: Mapping[str, Any]) -> dict[str, Any]:
        return self._call("mockgcp.run.tasks.report", {"name": task["name"]}, body)

    def _call(self, method: str, params: Mapping[str, Any] | None = None, body: Any = None) -> dict[str, Any]:
        return self._cloud.answer(method, params, body, PLATFORM)


class _TaskLog:
    """Writes a task's output and the platform's own lines to Cloud Logging, labelled as Cloud Run does."""

    def __init__(self, cloud: Cloud, execution: str, index: int, attempt: int) -> None:
        _, self._project, _, location, _, job, _, short = execution.split("/")
        self._cloud = cloud
        self._shared = {
            "resource": {
                "type": "cloud_run_job",
                "labels": {"project_id": self._project, "location": location, "job_name": job},
            },
            "labels": {
                "run.googleapis.com/execution_name": short,
                "run.googleapis.com/task_index": str(index),
                "run.googleapis.com/task_attempt": str(attempt),
            },
        }

    def line(self, stream: str, text: str) -> Mapping[str, Any] | None:
        """One line of output; a JSON object becomes a structured entry, and is returned."""
        payload = _json_object(text)
        entry: dict[str, Any] = {"textPayload": text} if payload is None else {"jsonPayload": payload}
        severity = str(payload.get("severity", "")).upper() if payload else ""
        if severity in SEVERITIES:  # Cloud Logging takes any other for DEFAULT
            entry["severity"] = severity
        self._write(f"run.googleapis.com%2F{stream}", entry)
        return payload

    def system(self, severity: str, message: str, reason: str = "") -> None:
        """A line of the platform."""
        payload = {"message": message, **({"reason": reason} if reason else {})}
        self._write("run.googleapis.com%2Fvarlog%2Fsystem", {"severity": severity, "jsonPayload": payload})

    def _write(self, log: str, entry: Mapping[str, Any]) -> None:
        entries = [{"logName": f"projects/{self._project}/logs/{log}", **self._shared, **entry}]
        self._cloud.call("logging.entries.write", {}, {"entries": entries}, PLATFORM)


def _json_object(text: str) -> dict[str, Any] | None:
    if not text.startswith("{"):
        return None
    with contextlib.suppress(json.JSONDecodeError):
        value = json.loads(text)
        return value if isinstance(value, dict) else None
    return None


def _owner(volume: str, options: Sequence[str]) -> tuple[int, int]:
    """Whose a mount's files are, by its options.

    Without them root's, since Cloud Run mounts as root (unchecked) and a mount's files belong to who mounted it:
    github.com/GoogleCloudPlatform/gcsfuse, docs/semantics.md, Permissions and ownership.
    """
    said = dict(option.partition("=")[::2] for option in options)
    try:
        return int(said.get("uid") or 0), int(said.get("gid") or 0)
    except ValueError as error:
        raise _NotStartedError(f"Mounting volume {volume} failed: uid and gid are numbers: {error}") from error


def _into(mounts: Mapping[str, Path], value: str) -> str:
    """The value with a leading mount path turned into the folder that stands for it."""
    for mount, folder in mounts.items():
        if value == mount or value.startswith(mount + "/"):
            return str(folder) + value[len(mount) :]
    return value


def _defect(error: Exception) -> str:
    return f"defect in mockgcp: {error if isinstance(error, ApiError) else repr(error)}"


def _ending(returncode: int, attempt: _Attempt) -> dict[str, Any]:
    report: dict[str, Any] = {"event": "ENDED", "exitCode": returncode if returncode >= 0 else 128 - returncode}
    report["stopped"] = attempt.stopped
    if returncode < 0:
        report["termSignal"] = -returncode
    if attempt.ending or returncode != 0:
        report["message"] = attempt.ending or f"The container exited with an error (exit code {report['exitCode']})."
    return report
