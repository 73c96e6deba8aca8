"""One execution of a Cloud Run job in a rehearsal, run and followed as an operator does, and what it adds up to."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from holdfast.gcp.api import Api
from holdfast.runs import verbs
from holdfast.runs.backend import LogLine, Order, Run, Selection
from holdfast.runs.cloud_run import CloudRun
from holdfast.toolcache import Progress
from workloads.trainer.events import read_events

_POLL_S = 0.2


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


def execute(backend: CloudRun, bucket: Path, limit_s: float, say: Progress) -> Evidence:
    """Runs the job, says what its log says, and returns the evidence when the execution is complete.

    Args:
        bucket: the folder of the checkpoint bucket's objects.
        limit_s: wall-clock seconds after which it is given up.

    Raises:
        CloudError: the job cannot be run. OperatorError: it is not complete in time.
    """
    began = time.monotonic()
    entries: list[Mapping[str, Any]] = []

    def tell(run: Run, lines: Sequence[LogLine]) -> None:
        for line in lines:
            if line.event != "step":
                entries.append(line.entry)
                where = f"task {line.task} attempt {line.attempt}"
                say(f"  {time.monotonic() - began:5.1f} s  {where}  {line.source:<8}  {line.message}")

    run = verbs.submit(backend, Order(), say)
    run = verbs.follow(backend, run, backend.log(run, Selection()), tell, say=say, poll_s=_POLL_S, limit_s=limit_s)
    folder = bucket / backend.job.rpartition("/")[2] / run.run_id
    task_dirs = [folder / str(task.index) for task in run.tasks]
    return Evidence(
        execution=_read(backend.api, "executions.get", {"name": run.resource}),
        tasks=_read(backend.api, "executions.tasks.list", {"parent": run.resource})["tasks"],
        log=entries,
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


def _read(api: Api, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
    return api.call(f"run.projects.locations.jobs.{method}", params)
