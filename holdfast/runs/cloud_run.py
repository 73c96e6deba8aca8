"""Executions of a Cloud Run job as runs."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal
from urllib.parse import quote

from holdfast.errors import OperatorError
from holdfast.gcp.api import Api, find, pages
from holdfast.runs import options
from holdfast.runs.backend import RUN_ID, LogLine, Order, Run, Selection, State, Task, command
from holdfast.runs.plain_log import RECENT
from infra import catalog, console, job_logs

_PAGE = 1000  # entries.list's most
# Entries of one look: what more there is comes with the next one.
_LOOK = 5 * _PAGE
# Entries may arrive after younger ones: each look begins this much before the newest one. What is later is not shown.
_LATE = timedelta(seconds=60)
_SYSTEM = quote(job_logs.SYSTEM_LOG, safe="")
_LABEL = "run.googleapis.com/"
# What the names of the trainer's settings begin with.
_SETTING = "HOLDFAST_"


@dataclass(frozen=True)
class CloudRun:
    """The executions of one job.

    Attributes:
        job: projects/PROJECT/locations/REGION/jobs/NAME.
        stack: as of `Backend`.
    """

    api: Api
    job: str
    universe: catalog.Universe
    stack: str = ""
    verb: str = "cloud-run"

    def run_id(self, order: Order) -> str:
        if order.env.get(RUN_ID):
            return order.env[RUN_ID]
        return _run_id(self._template()["template"], _last(self.job))

    def _template(self) -> Mapping[str, Any]:
        """The job's template of an execution."""
        job = find(self.api, "run.projects.locations.jobs.get", {"name": self.job})
        if job is None:
            raise OperatorError(f"there is no job {self.job} yet: `pulumi up` makes it")
        template: Mapping[str, Any] = job["template"]
        return template

    def submit(self, order: Order) -> Run:
        container = {"env": [{"name": name, "value": value} for name, value in sorted(order.env.items())]}
        overrides = {
            **({"containerOverrides": [container]} if order.env else {}),
            **({"taskCount": order.tasks} if order.tasks is not None else {}),
            **({"timeout": f"{order.timeout_s:.10g}s"} if order.timeout_s is not None else {}),
        }
        body = {"overrides": overrides} if overrides else {}
        operation = self.api.call("run.projects.locations.jobs.run", {"name": self.job}, body)
        return self.run(_last(operation["metadata"]["name"]))

    def order(self, run: Run) -> Order:
        """What to order for the same run once more, of the trainer's settings those alone that are not the job's."""
        job = self._template()
        had = self.api.call("run.projects.locations.jobs.executions.get", {"name": run.resource})["template"]
        usual, env, timeout = job["template"], _env(had), had.get("timeout")
        return Order(
            # Other variables may hold secrets, which no command line is to show.
            {name: env[name] for name in env if name.startswith(_SETTING) and env[name] != _env(usual).get(name)},
            run.task_count if run.task_count != job.get("taskCount", 1) else None,
            catalog.parse_duration_s(timeout) if timeout and timeout != usual.get("timeout") else None,
        )

    def runs(self, most: int | None = None) -> list[Run]:
        listed = pages(self.api, "run.projects.locations.jobs.executions.list", {"parent": self.job}, "executions")
        found = sorted(map(_run, listed), key=lambda run: run.created, reverse=True)
        return found[:most]

    def run(self, name: str) -> Run:
        resource = f"{self.job}/executions/{_last(name)}"
        execution = find(self.api, "run.projects.locations.jobs.executions.get", {"name": resource})
        if execution is None:
            there = command(self, "runs")
            raise OperatorError(f"{_last(self.job)} has no execution {_last(name)}; `{there}` lists those it has")
        listed = pages(self.api, "run.projects.locations.jobs.executions.tasks.list", {"parent": resource}, "tasks")
        return _run(execution, [_task(task) for task in listed])

    def log(self, run: Run, selection: Selection) -> _Log:
        return _Log(self, run, selection)

    def last_step(self, run: Run) -> int | None:
        newest = self.newest(run, 'jsonPayload.event=("step" OR "saved" OR "resumed" OR "done")')
        payload = newest.get("jsonPayload", {}) if newest else {}
        step = payload.get("step", payload.get("from_step"))
        return None if step is None else int(step)

    def cancel(self, run: Run) -> None:
        self.api.call("run.projects.locations.jobs.executions.cancel", {"name": run.resource}, {})

    def cancel_says(self) -> str:
        grace = catalog.cloud_run().termination_grace_s
        return (
            f"Its tasks get SIGTERM, and SIGKILL {grace} s later: the trainer saves a checkpoint in between. They are "
            "not tried again; the next run of the same run id resumes from there"
        )

    def again(self, run: Run) -> str:
        words = command(self, "submit", self.verb, *options.words(self.order(run)))
        return f"`{words}` resumes from the checkpoints"

    def link(self, run: Run) -> str:
        _, project, _, region, _, _ = self.job.split("/")
        return console.execution_url(self.universe, project, region, run.name)

    def newest(self, run: Run, *terms: str) -> Mapping[str, Any] | None:
        """The newest entry of a run's log that fits all `terms`."""
        body = {**self.query(run, *terms), "orderBy": "timestamp desc", "pageSize": 1}
        # A page may be empty and yet not the last one.
        return next(pages(self.api, "logging.entries.list", {}, "entries", body), None)

    def query(self, run: Run, *terms: str) -> dict[str, Any]:
        """The body of entries.list for a run's log, from its beginning."""
        _, project, _, region, _, job = self.job.split("/")
        return {
            "resourceNames": [f"projects/{project}"],
            "filter": " AND ".join([job_logs.execution(job, region, run.name), _from(run.created), *terms]),
            "orderBy": "timestamp asc",
            "pageSize": _PAGE,
        }


class _Log:
    """Entries by time, each once: known by its timestamp and insertId."""

    def __init__(self, backend: CloudRun, run: Run, selection: Selection) -> None:
        self._backend, self._run = backend, run
        self._newest = selection.since or run.created
        self._seen: dict[tuple[str, str], datetime] = {}
        self._terms = []
        if selection.task is not None:
            self._terms.append(f'labels."{_LABEL}task_index"="{selection.task}"')
        if selection.severity is not None:
            self._terms.append(f"severity>={selection.severity}")
        if not selection.every_step and (last := backend.newest(run)) is not None:
            # The log's own time: this machine's clock may be another. NOT, since != is false where there is no event.
            recent = _time(last["timestamp"]) - RECENT
            self._terms.append(f'(NOT jsonPayload.event="step" OR {_from(recent)})')
        # Exactly from the beginning, this once.
        self._open = self._entries(self._newest)

    def read(self) -> list[LogLine]:
        try:
            entries = list(itertools.islice(self._open, _LOOK))
        except Exception:
            self._open = self._entries(self._newest - _LATE)
            raise
        lines = []
        for entry in entries:
            key = (entry["timestamp"], entry["insertId"])
            if key not in self._seen:
                self._seen[key] = _time(entry["timestamp"])
                lines.append(_line(entry))
        if len(entries) < _LOOK:
            self._newest = max([self._newest, *self._seen.values()])
            self._seen = {key: time for key, time in self._seen.items() if time >= self._newest - _LATE}
            self._open = self._entries(self._newest - _LATE)
        return lines

    def _entries(self, since: datetime) -> Iterator[dict[str, Any]]:
        body = self._backend.query(self._run, *self._terms, _from(since))
        return pages(self._backend.api, "logging.entries.list", {}, "entries", body)


def _from(moment: datetime) -> str:
    return f'timestamp>="{moment.isoformat()}"'


def _last(name: str) -> str:
    return name.rpartition("/")[2]


def _time(text: str) -> datetime:
    return datetime.fromisoformat(text)


def _env(task_template: Mapping[str, Any]) -> dict[str, str]:
    """The variables of a task template; empty for those of Secret Manager."""
    return {item["name"]: item.get("value", "") for item in task_template["containers"][0].get("env", [])}


def _run_id(task_template: Mapping[str, Any], job: str) -> str:
    return _env(task_template).get(RUN_ID) or job


def _run(execution: Mapping[str, Any], tasks: list[Task] | None = None) -> Run:
    return Run(
        name=_last(execution["name"]),
        resource=execution["name"],
        state=_state(execution),
        run_id=_run_id(execution["template"], execution["name"].split("/")[-3]),
        created=_time(execution["createTime"]),
        task_count=execution.get("taskCount", 1),
        ended=_time(execution["completionTime"]) if "completionTime" in execution else None,
        retries=execution.get("retriedCount", 0),
        tasks=tuple(sorted(tasks or (), key=lambda task: task.index)),
        message=_completed(execution).get("message", ""),
    )


def _task(task: Mapping[str, Any]) -> Task:
    return Task(task.get("index", 0), _state(task), task.get("retried", 0), task.get("maxRetries", 0))


def _completed(resource: Mapping[str, Any]) -> Mapping[str, Any]:
    return next((each for each in resource.get("conditions", ()) if each.get("type") == "Completed"), {})


def _state(resource: Mapping[str, Any]) -> State:
    """An execution's state, or a task's."""
    if "completionTime" not in resource:
        return "running" if "startTime" in resource else "pending"
    completed = _completed(resource)
    if completed.get("state") == "CONDITION_SUCCEEDED":
        return "succeeded"
    return "cancelled" if completed.get("executionReason") == "CANCELLED" else "failed"


def _line(entry: Mapping[str, Any]) -> LogLine:
    payload, labels = entry.get("jsonPayload", {}), entry.get("labels", {})
    source: Literal["task", "platform"] = "platform" if entry["logName"].endswith(_SYSTEM) else "task"
    return LogLine(
        time=_time(entry["timestamp"]),
        severity=entry.get("severity", "DEFAULT"),
        source=source,
        task=_number(labels, "task_index"),
        attempt=_number(labels, "task_attempt"),
        message=str(entry.get("textPayload") or payload.get("message") or dict(payload) or ""),
        payload=payload,
        entry=entry,
    )


def _number(labels: Mapping[str, str], name: str) -> int | None:
    text = labels.get(_LABEL + name, "")
    return int(text) if text.isdigit() else None
