"""The time series that Monitoring has: what log-based metrics counted, and what Cloud Run's executions do.

Metric and resource types: https://docs.cloud.google.com/monitoring/api/metrics_gcp and api/resources, read 2026-11-29.
The usage of a quota has a series only where something is used, as there, and is known for this moment only.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from infra import catalog
from mockgcp.services.logging_counters import MINUTE_S, TABLE
from mockgcp.services.logging_filter import instant
from mockgcp.state import Project, State

QUOTA_USAGE = "serviceruntime.googleapis.com/quota/allocation/usage"
RUNNING = "run.googleapis.com/job/running_executions"
COMPLETED = "run.googleapis.com/job/completed_execution_count"
BUILT_IN = (QUOTA_USAGE, RUNNING, COMPLETED)
_GPU = "nvidia.com/gpu"


@dataclass(frozen=True)
class Series:
    """One time series. `points` by their start, in seconds since 1970: DELTA a minute each, GAUGE at that moment."""

    metric: Mapping[str, Any]
    resource: Mapping[str, Any]
    points: Mapping[int, Any]
    kind: str = "DELTA"
    value_type: str = "INT64"
    buckets: Mapping[str, Any] | None = None

    @property
    def described(self) -> dict[str, Any]:
        """What a filter looks at; the labels under both of the spellings that filters have."""
        parts = {"metric": self.metric, "resource": self.resource}
        return {name: {**part, "label": part["labels"]} for name, part in parts.items()}

    @property
    def counts(self) -> bool:
        """Whether it counts what happens, minute by minute."""
        return (self.kind, self.value_type) == ("DELTA", "INT64")

    def to_dict(self, start: datetime, end: datetime, *, headers: bool) -> dict[str, Any] | None:
        """As the API answers it, the newest point first; None where the interval has no point."""
        if self.kind == "GAUGE":
            # Whoever asks up to "now" does so a moment before: the value stood then, too.
            latest, length = int(end.timestamp()), 0
            found = {min(at, latest): value for at, value in self.points.items() if at - latest <= MINUTE_S}
        else:
            found, length = dict(self.points), MINUTE_S
        points = [
            {"interval": {"startTime": _text(at), "endTime": _text(at + length)}, "value": self._value(found[at])}
            for at in sorted(found, reverse=True)
            if start.timestamp() <= at + length and at <= end.timestamp()
        ]
        if not points:
            return None
        shown = {
            "metric": self.metric,
            "resource": self.resource,
            "metricKind": self.kind,
            "valueType": self.value_type,
        }
        return shown if headers else {**shown, "points": points}

    def _value(self, value: Any) -> dict[str, Any]:
        if isinstance(value, list):
            return {"distributionValue": _distribution(value, self.buckets)}
        return {"int64Value": value}


def all_series(state: State, project: Project) -> Iterator[Series]:
    """Every time series of a project."""
    yield from log_based(state, project)
    yield from _of_executions(state, project)
    yield from _quota_usage(state, project)


def log_based(state: State, project: Project) -> Iterator[Series]:
    """What the project's log-based metrics counted."""
    for name, counter in state.table(TABLE).items():
        if name.startswith(f"{project.name}/metrics/"):
            metric = state.table("logging.metric")[name]
            descriptor = metric["metricDescriptor"]
            for key, points in counter.items():
                resource, labels = json.loads(key)
                yield Series(
                    {"type": descriptor["type"], "labels": labels},
                    {"type": resource["type"], "labels": resource.get("labels", {})},
                    points,
                    value_type=descriptor["valueType"],
                    buckets=metric.get("bucketOptions"),
                )


def gpus_in_use(state: State, project: Project) -> Mapping[tuple[str, str], int]:
    """GPUs of the running tasks by quota id and region."""
    used: Counter[tuple[str, str]] = Counter()
    for execution in _executions(state, project):
        task, running = execution["template"], execution.get("runningCount", 0)
        accelerator = task.get("nodeSelector", {}).get("accelerator")
        if accelerator is None or not running or "completionTime" in execution:
            continue
        quota = catalog.gpu_quota(accelerator, not task.get("gpuZonalRedundancyDisabled", False))
        gpus = sum(int(c.get("resources", {}).get("limits", {}).get(_GPU, 0)) for c in task["containers"])
        used[quota.quota_id, execution["name"].split("/")[3]] += gpus * running
    return used


def _quota_usage(state: State, project: Project) -> Iterator[Series]:
    for (quota_id, region), used in gpus_in_use(state, project).items():
        labels = {"project_id": project.id, "service": "run.googleapis.com", "location": region}
        yield Series(
            {"type": QUOTA_USAGE, "labels": {"quota_metric": catalog.gpu_quotas()[quota_id].metric}},
            {"type": "consumer_quota", "labels": labels},
            {_now(state): used},
            kind="GAUGE",
        )


def _of_executions(state: State, project: Project) -> Iterator[Series]:
    running: dict[str, Counter[int]] = {}
    ended: dict[tuple[str, str], Counter[int]] = {}
    for execution in _executions(state, project):
        job = execution["name"].partition("/executions/")[0]
        until = _now(state)
        if "completionTime" in execution:
            until = int(instant(execution["completionTime"]).timestamp())
            result = "failed" if execution.get("failedCount") or execution.get("cancelledCount") else "succeeded"
            ended.setdefault((job, result), Counter())[until // MINUTE_S * MINUTE_S] += 1
        if "startTime" in execution:
            since = int(instant(execution["startTime"]).timestamp())
            sampled = running.setdefault(job, Counter())
            sampled.update(range(-(-since // MINUTE_S) * MINUTE_S, until, MINUTE_S))
            if "completionTime" not in execution:
                sampled[until] += 1
    for job, points in running.items():
        yield Series({"type": RUNNING, "labels": {}}, _job_resource(job), points, kind="GAUGE")
    for (job, result), points in ended.items():
        yield Series({"type": COMPLETED, "labels": {"result": result}}, _job_resource(job), points)


def _executions(state: State, project: Project) -> Iterator[Mapping[str, Any]]:
    return (e for name, e in state.table("run.execution").items() if name.startswith(f"{project.name}/"))


def _job_resource(job: str) -> dict[str, Any]:
    _, project, _, location, _, name = job.split("/")
    return {"type": "cloud_run_job", "labels": {"project_id": project, "location": location, "job_name": name}}


def _distribution(values: Sequence[float], options: Mapping[str, Any] | None) -> dict[str, Any]:
    mean = sum(values) / len(values)
    found = {
        "count": len(values),
        "mean": mean,
        "sumOfSquaredDeviation": sum((value - mean) ** 2 for value in values),
    }
    if options is None:
        return found
    bounds = _bounds(options)
    filled = Counter(bisect_right(bounds, value) for value in values)
    return {**found, "bucketOptions": options, "bucketCounts": [filled[i] for i in range(max(filled) + 1)]}


def _bounds(options: Mapping[str, Any]) -> list[float]:
    if "linearBuckets" in options:
        linear = options["linearBuckets"]
        return [linear.get("offset", 0) + linear["width"] * i for i in range(linear["numFiniteBuckets"] + 1)]
    if "exponentialBuckets" in options:
        grown = options["exponentialBuckets"]
        return [grown["scale"] * grown["growthFactor"] ** i for i in range(grown["numFiniteBuckets"] + 1)]
    return list(options.get("explicitBuckets", {}).get("bounds", []))


def _now(state: State) -> int:
    return int(state.clock.now().timestamp())


def _text(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
