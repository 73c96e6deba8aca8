"""The Cloud Run plane with real, small processes. The clock is held: no test waits for a grace or a timeout."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from mockgcp_client import BUCKET, EMAIL, IMAGE, JOB, PROJECT, Client

from mockgcp.cloud import Cloud
from mockgcp.errors import ApiError
from mockgcp.faults import Fault
from mockgcp.operations import Operation
from mockgcp.planes.cloud_run import PREEMPTED, CloudRunPlane, LocalImage
from mockgcp.planes.maintenance import AtSteps, AtTimes, Maintenance, TaskView
from mockgcp.planes.processes import ProcessLedger
from mockgcp.services import storage

_PATIENCE_S = 15.0
MEMBER = f"serviceAccount:{EMAIL}"
VOLUME = {"name": "checkpoints", "gcs": {"bucket": BUCKET}}
MOUNT = {"volumeMounts": [{"name": "checkpoints", "mountPath": "/checkpoints"}]}
SYSTEM = f'logName="projects/{PROJECT}/logs/run.googleapis.com%2Fvarlog%2Fsystem"'

HANG = "import time; print('ready', flush=True); time.sleep(60)"
STUBBORN = """
import signal, time
signal.signal(signal.SIGTERM, lambda *_: print("ignored", flush=True))
print('{"step": 1}', flush=True)
while True:
    time.sleep(1)
"""
POLITE = """
import signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
print("ready", flush=True)
time.sleep(60)
"""
TRAINER = """
import json, os, pathlib, signal, sys, time
saved = pathlib.Path(os.environ["CHECKPOINT_DIR"]) / "step"
saved.parent.mkdir(parents=True, exist_ok=True)
step = int(saved.read_text()) if saved.exists() else 0
def stop(*_):
    saved.write_text(str(step))
    sys.exit(143)
signal.signal(signal.SIGTERM, stop)
print(json.dumps({"message": "start", "from": step, "attempt": os.environ["CLOUD_RUN_TASK_ATTEMPT"]}), flush=True)
while step < 6:
    step += 1
    print(json.dumps({"message": "step", "step": step}), flush=True)
    if step in (3, 5) and int(os.environ["CLOUD_RUN_TASK_ATTEMPT"]) == (step - 3) // 2:
        time.sleep(60)
"""


class Rig:
    """A started plane whose one image runs a Python script, and a job with the checkpoint bucket."""

    def __init__(self, gcp: Client, state_dir: Path) -> None:
        self.gcp, self.cloud, self.state_dir = gcp, gcp.cloud, state_dir
        self.plane: CloudRunPlane | None = None
        gcp.make_account()
        gcp.make_bucket()
        gcp.grant(BUCKET, "roles/storage.objectUser", MEMBER)
        self.folder = storage.folder(self.cloud.state_dir, BUCKET)

    def start(
        self,
        script: str,
        *,
        maintenance: Maintenance | None = None,
        env: Mapping[str, str] | None = None,
        container: Mapping[str, Any] | None = None,
        **job: Any,
    ) -> tuple[Operation, str]:
        """Starts the plane, makes the job and runs it."""
        image = LocalImage((sys.executable, "-I", "-S", "-c", script), env or {})
        self.plane = CloudRunPlane(self.cloud, state_dir=self.state_dir, images={IMAGE: image}, maintenance=maintenance)
        self.plane.start()
        self.gcp.make_job(**{"volumes": [VOLUME], "container": {**MOUNT, **(container or {})}, **job})
        return self.gcp.run_job()

    def until(self, holds: Callable[[], Any], what: str) -> None:
        deadline = time.monotonic() + _PATIENCE_S
        with self.cloud.changed:
            while not holds():
                assert time.monotonic() < deadline, f"{what}: not within {_PATIENCE_S:g} s; the log: {self.lines()}"
                self.cloud.changed.wait(timeout=0.02)

    def done(self, operation: Operation) -> None:
        self.until(lambda: operation.done, "the execution ends")

    def said(self, text: str, times: int = 1) -> None:
        self.until(lambda: self.lines().count(text) >= times, f"{text!r} is logged")

    def lines(self) -> list[str]:
        """Every text line of the log, and the messages of structured ones."""
        entries = self.gcp.logs()
        return [e.get("textPayload") or e.get("jsonPayload", {}).get("message", "") for e in entries]

    def system(self) -> list[dict[str, Any]]:
        """The platform's own lines."""
        return [entry["jsonPayload"] for entry in self.gcp.logs(SYSTEM)]

    def last_attempt(self, execution: str) -> dict[str, Any]:
        found: dict[str, Any] = self.gcp.tasks(execution)[0]["lastAttemptResult"]
        return found

    def alive(self) -> list[int]:
        assert self.plane is not None
        return [process.pid for process in self.plane.processes.alive()]


@pytest.fixture
def rig(gcp: Client, tmp_path: Path) -> Iterator[Rig]:
    rig = Rig(gcp, tmp_path / "plane")
    yield rig
    if rig.plane is not None:
        rig.plane.stop()
        assert rig.alive() == []


def completed(gcp: Client, execution: str) -> str:
    found: str = gcp.execution(execution)["conditions"][0]["state"]
    return found


# -- what a task sees ----------------------------------------------------------------------------------------------


def test_a_task_sees_the_platforms_environment_its_own_and_the_mount(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OF_THE_CALLER", "must not leak")
    script = """
import json, os, pathlib, sys
pathlib.Path(os.environ["OUT"]).write_text(json.dumps({"env": dict(os.environ), "argv": sys.argv[1:]}))
"""
    container = {
        "args": ["/checkpoints", "--dir=/checkpoints", "/checkpointsX"],
        "env": [
            {"name": "OUT", "value": "/checkpoints/out.json"},
            {"name": "PLAIN", "value": "gs://x/checkpoints"},
            {"name": "OF_THE_IMAGE", "value": "changed"},
            {"name": "EMPTY"},
        ],
    }
    operation, execution = rig.start(script, container=container, env={"OF_THE_IMAGE": "set", "BASE": "1"})
    rig.done(operation)
    assert operation.error is None
    seen = json.loads((rig.folder / "out.json").read_text())
    env, short = seen["env"], execution.split("/")[-1]
    assert {name: env[name] for name in env if name.startswith("CLOUD_RUN_")} == {
        "CLOUD_RUN_JOB": "train",
        "CLOUD_RUN_EXECUTION": short,
        "CLOUD_RUN_TASK_INDEX": "0",
        "CLOUD_RUN_TASK_COUNT": "1",
        "CLOUD_RUN_TASK_ATTEMPT": "0",
    }
    assert (env["OF_THE_IMAGE"], env["BASE"], env["EMPTY"], env["PLAIN"]) == ("changed", "1", "", "gs://x/checkpoints")
    assert "OF_THE_CALLER" not in env
    assert env["HOME"] == str(rig.state_dir / short / "task0-attempt0")
    assert seen["argv"] == [str(rig.folder), "--dir=/checkpoints", "/checkpointsX"]
    listed = rig.gcp.call("storage.objects.list", {"bucket": BUCKET})["items"]
    assert [item["name"] for item in listed] == ["out.json"]


def test_a_command_replaces_the_images_entry_point(rig: Rig) -> None:
    operation, _ = rig.start("raise SystemExit(9)", container={"command": ["sh", "-c"], "args": ["echo by hand"]})
    rig.done(operation)
    assert (operation.error, rig.lines()) == (None, ["by hand"])


def test_output_becomes_log_entries_and_json_structured_ones(rig: Rig) -> None:
    script = r"""
import sys
print("plain")
print('{"severity": "error", "message": "loud", "step": 3}')
print('{"severity": "WARN", "message": "own words"}')
print('{"severity": 30, "message": "number"}')
print("{not json")
print("[1]")
sys.stderr.write("bad\xff\n")
sys.stdout.write("no newline")
"""
    operation, execution = rig.start(script)
    rig.done(operation)
    assert operation.error is None
    out = rig.gcp.logs(f'logName="projects/{PROJECT}/logs/run.googleapis.com%2Fstdout"')
    assert [(e["severity"], e.get("textPayload"), e.get("jsonPayload")) for e in out] == [
        ("DEFAULT", "plain", None),
        ("ERROR", None, {"severity": "error", "message": "loud", "step": 3}),
        ("DEFAULT", None, {"severity": "WARN", "message": "own words"}),
        ("DEFAULT", None, {"severity": 30, "message": "number"}),
        ("DEFAULT", "{not json", None),
        ("DEFAULT", "[1]", None),
        ("DEFAULT", "no newline", None),
    ]
    (err,) = rig.gcp.logs('logName:"stderr"')
    assert err["resource"] == {
        "type": "cloud_run_job",
        "labels": {"project_id": PROJECT, "location": "europe-west4", "job_name": "train"},
    }
    short = execution.split("/")[-1]
    found = rig.gcp.logs(f'labels."run.googleapis.com/execution_name"="{short}" resource.labels.job_name="train"')
    assert len(found) == 8
    assert (rig.state_dir / short / "task0-attempt0" / "stdout").read_text().startswith("plain\n")


def test_a_volume_of_memory_is_the_tasks_own(rig: Rig) -> None:
    script = "import os, pathlib; pathlib.Path(os.environ['OUT']).write_text('x')"
    operation, _ = rig.start(
        script,
        volumes=[{"name": "scratch", "emptyDir": {}}],
        container={
            "volumeMounts": [{"name": "scratch", "mountPath": "/scratch"}],
            "env": [{"name": "OUT", "value": "/scratch/out"}],
        },
    )
    rig.done(operation)
    assert operation.error is None
    assert list(rig.folder.iterdir()) == []


# -- preemption ----------------------------------------------------------------------------------------------------


def test_a_preempted_task_resumes_in_its_next_attempt(rig: Rig) -> None:
    container = {"env": [{"name": "CHECKPOINT_DIR", "value": "/checkpoints/run"}]}
    operation, execution = rig.start(TRAINER, maintenance=AtSteps((3, 5)), container=container, maxRetries=2)
    rig.done(operation)
    assert completed(rig.gcp, execution) == "CONDITION_SUCCEEDED"
    payloads = [e["jsonPayload"] for e in rig.gcp.logs('logName:"stdout"')]
    assert [(p["from"], p["attempt"]) for p in payloads if p["message"] == "start"] == [(0, "0"), (3, "1"), (5, "2")]
    assert [p["step"] for p in payloads if p["message"] == "step"] == [1, 2, 3, 4, 5, 6]
    assert rig.system() == [{"message": f"{PREEMPTED}.", "reason": "INSTANCE_PREEMPTED"}] * 2
    assert [e["severity"] for e in rig.gcp.logs(SYSTEM)] == ["WARNING"] * 2
    attempts = [e["labels"]["run.googleapis.com/task_attempt"] for e in rig.gcp.logs(SYSTEM)]
    assert attempts == ["0", "1"]
    assert (rig.gcp.tasks(execution)[0]["retried"], rig.gcp.execution(execution)["retriedCount"]) == (2, 2)


def test_a_preempted_task_without_retries_fails_with_143(rig: Rig) -> None:
    operation, execution = rig.start(
        TRAINER,
        maintenance=AtSteps((3,)),
        container={"env": [{"name": "CHECKPOINT_DIR", "value": "/checkpoints"}]},
        maxRetries=0,
    )
    rig.done(operation)
    assert rig.last_attempt(execution) == {"exitCode": 143, "status": {"code": 2, "message": f"{PREEMPTED}."}}
    assert PREEMPTED in rig.gcp.execution(execution)["conditions"][0]["message"]


def test_who_ignores_sigterm_is_killed_when_the_grace_is_over_and_not_before(rig: Rig) -> None:
    operation, execution = rig.start(STUBBORN, maintenance=AtSteps((1,)), maxRetries=0)
    rig.said("ignored")
    rig.cloud.clock.advance(9.9)
    time.sleep(0.1)  # several looks of the plane at its clock
    assert not operation.done
    assert len(rig.alive()) == 1
    rig.cloud.clock.advance(0.2)
    rig.done(operation)
    result = rig.last_attempt(execution)
    assert (result["exitCode"], result["termSignal"]) == (137, 9)
    assert rig.lines().count("ignored") == 1, "one SIGTERM an attempt"


def test_maintenance_at_a_time_strikes_whatever_the_task_does(rig: Rig) -> None:
    operation, execution = rig.start(HANG, maintenance=AtTimes((100.0,)), maxRetries=0)
    rig.said("ready")
    rig.cloud.clock.advance(101)
    rig.done(operation)
    result = rig.last_attempt(execution)
    assert (result["exitCode"], result["termSignal"]) == (143, 15)
    assert [line["reason"] for line in rig.system()] == ["INSTANCE_PREEMPTED"]


# -- other ends ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("script", "code"), [(HANG, 143), (POLITE, 0)], ids=["killed", "exits-0"])
def test_the_timeout_ends_an_attempt_and_fails_it_whatever_its_exit_code(rig: Rig, script: str, code: int) -> None:
    operation, execution = rig.start(script, timeout="3600s", maxRetries=0)
    rig.said("ready")
    rig.cloud.clock.advance(3599)
    time.sleep(0.1)
    assert not operation.done
    rig.cloud.clock.advance(2)
    rig.done(operation)
    result = rig.last_attempt(execution)
    assert (result["exitCode"], result["status"]["message"]) == (code, "The configured timeout was reached.")
    assert completed(rig.gcp, execution) == "CONDITION_FAILED"
    (line,) = rig.system()
    assert line["message"] == "Terminating task because it has reached the maximum timeout of 3600 seconds"


def test_the_timeout_is_an_attempts_own(rig: Rig) -> None:
    operation, execution = rig.start(HANG, timeout="3600s", maxRetries=1)
    rig.said("ready")
    rig.cloud.clock.advance(3601)
    rig.said("ready", times=2)
    rig.cloud.clock.advance(3000)
    time.sleep(0.1)
    assert not operation.done
    rig.cloud.clock.advance(601)
    rig.done(operation)
    assert rig.gcp.tasks(execution)[0]["retried"] == 1


def test_retries_are_used_up_one_by_one(rig: Rig) -> None:
    script = "import os; print('attempt', os.environ['CLOUD_RUN_TASK_ATTEMPT']); raise SystemExit(3)"
    operation, execution = rig.start(script, maxRetries=2)
    rig.done(operation)
    assert rig.lines() == ["attempt 0", "attempt 1", "attempt 2"]
    message = rig.gcp.execution(execution)["conditions"][0]["message"]
    assert "The container exited with an error (exit code 3)." in message
    assert operation.error is not None
    assert operation.error.status == "ABORTED"


def test_an_image_that_does_not_exist(rig: Rig) -> None:
    container = {"image": "docker.io/acme/none:latest"}  # a job is made of it: the service does not look there
    operation, execution = rig.start("", container=container, maxRetries=1)
    rig.done(operation)
    words = f"Image '{container['image']}' not found."
    assert words in rig.gcp.execution(execution)["conditions"][0]["message"]
    assert [line["message"] for line in rig.system()] == [words] * 2
    assert rig.gcp.tasks(execution)[0]["retried"] == 1


def test_a_command_that_does_not_exist(rig: Rig) -> None:
    operation, execution = rig.start("", container={"command": ["/no/such/program"]}, maxRetries=0)
    rig.done(operation)
    assert "/no/such/program" in rig.gcp.execution(execution)["conditions"][0]["message"]


def test_an_account_without_the_buckets_permissions_cannot_mount_it(rig: Rig) -> None:
    rig.gcp.call("storage.buckets.setIamPolicy", {"bucket": BUCKET}, {"bindings": []})
    rig.gcp.grant(BUCKET, "roles/storage.objectViewer", MEMBER)
    operation, execution = rig.start("", maxRetries=0)
    rig.done(operation)
    message = rig.gcp.execution(execution)["conditions"][0]["message"]
    assert f"Mounting volume checkpoints failed: {MEMBER} lacks" in message
    assert f"storage.objects.create, storage.objects.delete on bucket {BUCKET}" in message


def test_reading_is_enough_for_a_read_only_volume(rig: Rig) -> None:
    rig.gcp.call("storage.buckets.setIamPolicy", {"bucket": BUCKET}, {"bindings": []})
    rig.gcp.grant(BUCKET, "roles/storage.objectViewer", MEMBER)
    volume = {"name": "checkpoints", "gcs": {"bucket": BUCKET, "readOnly": True}}
    operation, _ = rig.start("", volumes=[volume])
    rig.done(operation)
    assert operation.error is None


def test_a_bucket_that_does_not_exist_cannot_be_mounted(rig: Rig) -> None:
    volume = {"name": "checkpoints", "gcs": {"bucket": "acme-train-none"}}
    operation, execution = rig.start("", volumes=[volume], maxRetries=0)
    rig.done(operation)
    message = rig.gcp.execution(execution)["conditions"][0]["message"]
    assert "bucket acme-train-none: The specified bucket does not exist." in message


# -- several tasks, cancelling, deleting, stopping -----------------------------------------------------------------

WAIT_FOR_GO = """
import os, pathlib, time
index = os.environ["CLOUD_RUN_TASK_INDEX"]
print("started", index, "of", os.environ["CLOUD_RUN_TASK_COUNT"], flush=True)
while not pathlib.Path(os.environ["GO"] + index).exists():
    time.sleep(0.01)
"""


def test_tasks_run_side_by_side_up_to_the_parallelism(rig: Rig) -> None:
    operation, execution = rig.start(
        WAIT_FOR_GO,
        execution={"taskCount": 4, "parallelism": 2},
        container={"env": [{"name": "GO", "value": "/checkpoints/go"}]},
    )
    rig.said("started 0 of 4")
    rig.said("started 1 of 4")
    time.sleep(0.1)
    assert rig.gcp.execution(execution)["runningCount"] == 2
    assert ["startTime" in task for task in rig.gcp.tasks(execution)] == [True, True, False, False]
    (rig.folder / "go1").touch()
    rig.said("started 2 of 4")
    assert rig.gcp.execution(execution)["runningCount"] == 2
    for index in (0, 2, 3):
        (rig.folder / f"go{index}").touch()
    rig.done(operation)
    assert rig.gcp.execution(execution)["succeededCount"] == 4


def test_one_failing_task_of_several_is_named(rig: Rig) -> None:
    script = "import os; raise SystemExit(int(os.environ['CLOUD_RUN_TASK_INDEX']))"
    operation, execution = rig.start(script, execution={"taskCount": 2}, maxRetries=0)
    rig.done(operation)
    short = execution.split("/")[-1]
    message = rig.gcp.execution(execution)["conditions"][0]["message"]
    assert message.startswith(f"Task {short}-task1 failed with message: ")
    assert rig.gcp.execution(execution)["succeededCount"] == 1


def test_a_cancelled_execution_gets_sigterm_and_no_retry(rig: Rig) -> None:
    operation, execution = rig.start(HANG, execution={"taskCount": 2, "parallelism": 1}, maxRetries=3)
    rig.said("ready")
    rig.gcp.start("run.projects.locations.jobs.executions.cancel", {"name": execution}, {})
    rig.done(operation)
    found = rig.gcp.execution(execution)
    assert (found["cancelledCount"], found["conditions"][0]["executionReason"]) == (2, "CANCELLED")
    assert rig.last_attempt(execution)["termSignal"] == 15
    assert rig.lines() == ["ready"]


def test_a_task_cancelled_while_its_process_starts_ends(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    real = ProcessLedger.spawn

    def spawn_and_cancel(ledger: ProcessLedger, *args: Any, **options: Any) -> Any:
        process = real(ledger, *args, **options)
        listed = rig.gcp.call("run.projects.locations.jobs.executions.list", {"parent": JOB})["executions"]
        rig.gcp.start("run.projects.locations.jobs.executions.cancel", {"name": listed[0]["name"]}, {})
        return process

    monkeypatch.setattr(ProcessLedger, "spawn", spawn_and_cancel)
    operation, execution = rig.start(HANG)
    rig.done(operation)
    rig.until(lambda: rig.alive() == [], "its process ends")
    assert completed(rig.gcp, execution) == "CONDITION_FAILED"


def test_a_deleted_jobs_tasks_end(rig: Rig) -> None:
    operation, _ = rig.start(HANG)
    rig.said("ready")
    rig.gcp.finish("run.projects.locations.jobs.delete", {"name": JOB})
    rig.done(operation)
    rig.gcp.call("logging.entries.write", {}, {"entries": [{"logName": f"projects/{PROJECT}/logs/app"}]})
    rig.until(lambda: rig.alive() == [], "its process ends")


def test_what_a_main_process_leaves_behind_ends_with_it(rig: Rig) -> None:
    script = "import subprocess; print(subprocess.Popen(['sleep', '60']).pid)"
    operation, _ = rig.start(script)
    rig.done(operation)
    assert operation.error is None
    rig.until(lambda: rig.alive() == [], "the child ends")


def test_a_daemon_that_keeps_the_output_open_does_not_keep_the_task(rig: Rig) -> None:
    script = "import os, time; os.fork() and os._exit(0); os.setsid(); time.sleep(60)"
    operation, _ = rig.start(f"import os\nif not os.fork():\n    exec({script!r})\nos.wait()")
    began = time.monotonic()
    rig.done(operation)
    assert time.monotonic() - began < 5
    assert operation.error is None
    assert rig.alive() == []


def test_output_held_open_by_what_hid_altogether_is_waited_for_a_bounded_time(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mockgcp.planes.cloud_run._JOIN_S", 0.2)
    hidden = f"""
import os
ready, done = os.pipe()
child = os.fork()
if not child:
    os.setsid()
    os.set_inheritable(done, True)
    os.execve({sys.executable!r}, ["python", "-I", "-S", "-c",
              f"import os, time; os.write({{done}}, b'x'); time.sleep(60)"], {{}})
os.read(ready, 1)
print(child, flush=True)
"""
    operation, _ = rig.start(hidden)
    rig.done(operation)
    assert operation.error is None
    (child,) = rig.lines()
    os.kill(int(child), signal.SIGKILL)


def test_an_environment_no_process_can_have_ends_the_attempt(rig: Rig) -> None:
    operation, execution = rig.start("", container={"env": [{"name": "A", "value": "a\0b"}]}, maxRetries=0)
    rig.done(operation)
    message = rig.gcp.execution(execution)["conditions"][0]["message"]
    assert "defect in mockgcp: ValueError('embedded null byte')" in message


def test_a_defect_after_the_start_ends_the_process_and_the_attempt(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(plane: CloudRunPlane, *args: Any) -> None:
        raise ApiError("NOT_FOUND", "no such thing")

    monkeypatch.setattr(CloudRunPlane, "_supervise", broken)
    operation, execution = rig.start(HANG, maxRetries=0)
    rig.done(operation)
    assert "defect in mockgcp: 404 NOT_FOUND: no such thing" in rig.gcp.execution(execution)["conditions"][0]["message"]
    assert rig.alive() == []


@dataclass
class AfterItsEnd:
    """Maintenance that finds the task ended by the time it strikes."""

    alive: Callable[[], list[int]]
    struck_tasks: list[TaskView] = field(default_factory=list)
    tried: bool = False

    def strikes(self, task: TaskView) -> bool:
        if task.step is None:
            return False
        while not self.tried and self.alive():
            time.sleep(0.01)
        self.tried = True
        return True

    def struck(self, task: TaskView) -> None:
        self.struck_tasks.append(task)


def test_a_task_that_ended_before_the_signal_was_not_preempted(rig: Rig) -> None:
    maintenance = AfterItsEnd(lambda: rig.alive())
    operation, execution = rig.start(
        "print('{\"step\": 1}', flush=True); import time; time.sleep(0.3)", maintenance=maintenance
    )
    rig.done(operation)
    assert operation.error is None
    assert (maintenance.tried, maintenance.struck_tasks, rig.system()) == (True, [], [])
    assert rig.gcp.execution(execution)["succeededCount"] == 1


def test_stop_ends_every_process_at_once_on_a_held_clock_and_can_be_called_again(rig: Rig) -> None:
    script = "import subprocess; subprocess.Popen(['sleep', '60'])\n" + STUBBORN
    operation, execution = rig.start(script, execution={"taskCount": 2})
    rig.until(lambda: rig.gcp.execution(execution)["runningCount"] == 2, "both tasks run")
    rig.until(lambda: len(rig.alive()) == 4, "both have a child")
    assert rig.plane is not None
    began = time.monotonic()
    rig.plane.stop()
    assert time.monotonic() - began < 5
    assert rig.alive() == []
    rig.plane.stop()
    assert not operation.done, "an execution is not over because its plane is"


def test_a_stopped_plane_starts_again_and_takes_up_what_waits(rig: Rig) -> None:
    operation, _ = rig.start("print('one')")
    rig.done(operation)
    assert rig.plane is not None
    rig.plane.stop()
    second, _ = rig.gcp.run_job()
    rig.plane.start()
    rig.done(second)
    assert rig.lines() == ["one", "one"]


def test_faults_meant_for_clients_do_not_stop_the_plane(rig: Rig) -> None:
    rig.cloud.faults.inject(
        Fault("run.projects.locations.jobs.executions.*", ApiError("UNAVAILABLE", "later"), times=None)
    )
    operation, _ = rig.start("print('hello')")
    rig.done(operation)
    assert operation.error is None


def test_a_plane_says_whether_it_can_run_here(cloud: Cloud, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plane = CloudRunPlane(cloud, state_dir=tmp_path, images={})
    assert (plane.name, plane.availability().usable, plane.clock) == ("cloud-run", True, cloud.clock)
    with monkeypatch.context() as patch:
        patch.setattr("os.name", "nt")
        found = plane.availability()
        with pytest.raises(RuntimeError, match="cannot run here: tasks need POSIX signals; run on Linux or macOS"):
            plane.start()
    assert not found.usable
