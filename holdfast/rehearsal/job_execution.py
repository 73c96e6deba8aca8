"""One execution of a Cloud Run job in a rehearsal: run, followed, and what its raw evidence adds up to."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from mockgcp.cloud import DEFAULT_OWNER, Cloud
from mockgcp.operations import Operation
from mockgcp.services import storage

Say = Callable[[str], None]

_TIMEOUT_S = 900.0
_LOG_PAGE = 1000


@dataclass(frozen=True)
class Evidence:
    """What an execution left: the API's resources, the job's log, and the trainer's own event log of task 0."""

    execution: Mapping[str, Any]
    tasks: Sequence[Mapping[str, Any]]
    log: Sequence[Mapping[str, Any]]
    events: Sequence[Mapping[str, Any]]
    task_dir: str


@dataclass(frozen=True)
class Figures:
    """What follows from the evidence. `goodput`: productive seconds over the task's whole time, starts included."""

    succeeded: bool
    attempts: int
    preemptions: int
    resumes: int
    steps_total: int
    steps_repeated: int
    goodput: float


def execute(cloud: Cloud, project: str, region: str, job: str, bucket: str, say: Say) -> Evidence:
    """Runs the job, says what its log says, and returns the evidence when the execution is complete.

    Raises:
        ApiError: the job cannot be run.
    """
    began = time.monotonic()
    name = f"projects/{project}/locations/{region}/jobs/{job}"
    operation = cloud.call("run.projects.locations.jobs.run", {"name": name}, {}, DEFAULT_OWNER)
    assert isinstance(operation, Operation)  # what the method's discovery document promises
    told = 0
    while not operation.done and time.monotonic() < began + _TIMEOUT_S:
        with cloud.changed:
            cloud.changed.wait(timeout=0.2)
        told = _tell(_log(cloud, project), told, began, say)
    log = _log(cloud, project)
    _tell(log, told, began, say)
    execution = operation.metadata["name"]
    parent = {"parent": execution}
    task_dir = storage.folder(cloud.state_dir, bucket) / job / "0"
    events = task_dir / "events.jsonl"
    return Evidence(
        execution=_read(cloud, "run.projects.locations.jobs.executions.get", {"name": execution}),
        tasks=_read(cloud, "run.projects.locations.jobs.executions.tasks.list", parent)["tasks"],
        log=[entry for entry in log if _event(entry) != "step"],  # the trainer's own log has them all
        events=[json.loads(line) for line in events.read_text().splitlines()] if events.exists() else [],
        task_dir=str(task_dir),
    )


def figures(evidence: Evidence) -> Figures:
    """Adds the evidence up."""
    events, task = evidence.events, evidence.tasks[0]
    steps = [event["step"] for event in events if event["event"] == "step"]
    done: Mapping[str, Any] = next((event for event in events if event["event"] == "done"), {})
    seconds = _seconds(task)
    return Figures(
        succeeded=task["conditions"][0]["state"] == "CONDITION_SUCCEEDED",
        attempts=len({event["attempt"] for event in events if event["event"] == "start"}),
        preemptions=sum(e.get("jsonPayload", {}).get("reason") == "INSTANCE_PREEMPTED" for e in evidence.log),
        resumes=sum(event["event"] == "resumed" for event in events),
        steps_total=len(set(steps)),
        steps_repeated=len(steps) - len(set(steps)),
        goodput=round(done.get("productive_seconds", 0.0) / seconds, 3) if seconds else 0.0,
    )


def _seconds(task: Mapping[str, Any]) -> float:
    if "startTime" not in task or "completionTime" not in task:
        return 0.0
    start, end = (datetime.fromisoformat(task[key]) for key in ("startTime", "completionTime"))
    return (end - start).total_seconds()


def _tell(log: Sequence[Mapping[str, Any]], told: int, began: float, say: Say) -> int:
    """Says each line that is new and matters; returns how many lines are told now."""
    for entry in log[told:]:
        message = entry.get("jsonPayload", {}).get("message")
        if not message or _event(entry) == "step":
            continue
        source = "platform" if "varlog" in entry["logName"] else "task"
        attempt = entry["labels"]["run.googleapis.com/task_attempt"]
        say(f"  {time.monotonic() - began:5.1f} s  attempt {attempt}  {source:<8}  {message}")
    return len(log)


def _event(entry: Mapping[str, Any]) -> str:
    return str(entry.get("jsonPayload", {}).get("event", ""))


def _log(cloud: Cloud, project: str) -> list[dict[str, Any]]:
    """The whole log of the project's jobs, oldest first."""
    entries: list[dict[str, Any]] = []
    token = ""
    while True:
        body = {
            "resourceNames": [f"projects/{project}"],
            "filter": 'resource.type="cloud_run_job"',
            "pageSize": _LOG_PAGE,
            "pageToken": token,
        }
        page = _read(cloud, "logging.entries.list", {}, body)
        entries += page.get("entries", [])
        token = page.get("nextPageToken", "")
        if not token:
            return entries


def _read(cloud: Cloud, method: str, params: Mapping[str, Any], body: Any = None) -> dict[str, Any]:
    return cloud.answer(method, params, body, DEFAULT_OWNER)
