"""One execution of a Cloud Run job in a rehearsal: run, followed, and what its raw evidence adds up to."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from holdfast.errors import OperatorError
from holdfast.toolcache import Progress
from mockgcp.cloud import DEFAULT_OWNER, Cloud
from mockgcp.operations import Operation
from workloads.trainer.events import read_events

_POLL_S = 0.2
_LOG_PAGE = 1000


@dataclass(frozen=True)
class Evidence:
    """What an execution left: the API's resources, the job's log without its steps, every task's own event log."""

    execution: Mapping[str, Any]
    tasks: Sequence[Mapping[str, Any]]
    log: Sequence[Mapping[str, Any]]
    events: Sequence[Mapping[str, Any]]
    task_dirs: Sequence[str]


@dataclass(frozen=True)
class Figures:
    """What follows from the evidence, over all tasks. `goodput`: productive seconds over the tasks' whole time."""

    succeeded: bool
    attempts: int
    preemptions: int
    resumes: int
    steps_total: int
    steps_repeated: int
    goodput: float


def execute(cloud: Cloud, project: str, region: str, job: str, bucket: Path, limit_s: float, say: Progress) -> Evidence:
    """Runs the job, says what its log says, and returns the evidence when the execution is complete.

    Args:
        bucket: the folder of the checkpoint bucket's objects.
        limit_s: wall-clock seconds after which it is given up.

    Raises:
        ApiError: the job cannot be run. OperatorError: it is not complete in time.
    """
    began = time.monotonic()
    name = f"projects/{project}/locations/{region}/jobs/{job}"
    operation = cloud.call("run.projects.locations.jobs.run", {"name": name}, {}, DEFAULT_OWNER)
    assert isinstance(operation, Operation)  # what the method's discovery document promises
    log = _Log(cloud, project, began, say)
    while not operation.done:
        if time.monotonic() > began + limit_s:
            raise OperatorError(f"the execution of {job} is not complete after {limit_s:.0f} s; rehearse fewer --steps")
        with cloud.changed:
            if not operation.done:
                cloud.changed.wait(timeout=_POLL_S)
        log.follow()
    log.follow()
    execution = operation.metadata["name"]
    tasks = _read(cloud, "run.projects.locations.jobs.executions.tasks.list", {"parent": execution})["tasks"]
    task_dirs = [bucket / job / str(task.get("index", 0)) for task in tasks]
    return Evidence(
        execution=_read(cloud, "run.projects.locations.jobs.executions.get", {"name": execution}),
        tasks=tasks,
        log=log.entries,
        events=[event for folder in task_dirs for event in read_events(folder / "events.jsonl")],
        task_dirs=[str(folder) for folder in task_dirs],
    )


def figures(evidence: Evidence) -> Figures:
    """Adds the evidence up."""
    events = evidence.events
    steps = [(event["task_index"], event["step"]) for event in events if event["event"] == "step"]
    seconds = sum(map(_seconds, evidence.tasks))
    productive = sum(event["productive_seconds"] for event in events if event["event"] == "done")
    return Figures(
        succeeded=all(task["conditions"][0]["state"] == "CONDITION_SUCCEEDED" for task in evidence.tasks),
        attempts=len({(event["task_index"], event["attempt"]) for event in events if event["event"] == "start"}),
        preemptions=sum(e.get("jsonPayload", {}).get("reason") == "INSTANCE_PREEMPTED" for e in evidence.log),
        resumes=sum(event["event"] == "resumed" for event in events),
        steps_total=len(set(steps)),
        steps_repeated=len(steps) - len(set(steps)),
        goodput=round(productive / seconds, 3) if seconds else 0.0,
    )


def _seconds(task: Mapping[str, Any]) -> float:
    if "startTime" not in task or "completionTime" not in task:
        return 0.0
    start, end = (datetime.fromisoformat(task[key]) for key in ("startTime", "completionTime"))
    return (end - start).total_seconds()


class _Log:
    """The job's log, but for its steps, read on from where it was left; each new line that matters is said."""

    def __init__(self, cloud: Cloud, project: str, began: float, say: Progress) -> None:
        self.entries: list[dict[str, Any]] = []
        self._cloud, self._project, self._began, self._say = cloud, project, began, say
        self._seen: set[str] = set()

    def follow(self) -> None:
        since = f' timestamp>="{self.entries[-1]["timestamp"]}"' if self.entries else ""
        body: dict[str, Any] = {
            "resourceNames": [f"projects/{self._project}"],
            "filter": f'resource.type="cloud_run_job" jsonPayload.event!="step"{since}',
            "pageSize": _LOG_PAGE,
        }
        while True:
            page = _read(self._cloud, "logging.entries.list", {}, body)
            for entry in page.get("entries", []):
                if entry["insertId"] not in self._seen:
                    self._seen.add(entry["insertId"])
                    self.entries.append(entry)
                    self._tell(entry)
            if not page.get("nextPageToken"):
                return
            body["pageToken"] = page["nextPageToken"]

    def _tell(self, entry: Mapping[str, Any]) -> None:
        if message := entry.get("jsonPayload", {}).get("message"):
            source = "platform" if "varlog" in entry["logName"] else "task"
            labels = entry["labels"]
            index, attempt = (labels[f"run.googleapis.com/task_{name}"] for name in ("index", "attempt"))
            self._say(
                f"  {time.monotonic() - self._began:5.1f} s  task {index} attempt {attempt}  {source:<8}  {message}"
            )


def _read(cloud: Cloud, method: str, params: Mapping[str, Any], body: Any = None) -> dict[str, Any]:
    return cloud.answer(method, params, body, DEFAULT_OWNER)
