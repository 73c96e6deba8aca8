"""Which alert policies would have raised an incident by now: for tests and rehearsals, no API has it.

Looked at when asked, not as time passes. Evaluated: conditionMatchedLog, and conditionThreshold and conditionAbsent of
what counts (log-based counters, completed executions), and conditionPrometheusQueryLanguage as far as
monitoring_promql.py goes. Deliberately not: ratios, forecasts, distributions, gauges outside PromQL, a trigger of
several series, the closing of incidents; and with AND, each condition must have held at some time. Durations and
evaluation intervals are taken at a resolution of a minute, which is also that of log-based metrics.
"""

from __future__ import annotations

import math
import operator
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

from mockgcp.services.logging_counters import MINUTE_S
from mockgcp.services.logging_filter import fields, instant, parse_filter, values
from mockgcp.services.monitoring_alerts import POLICY
from mockgcp.services.monitoring_promql import Labels, compiled
from mockgcp.services.monitoring_series import Series, all_series
from mockgcp.state import Project, State


@dataclass(frozen=True)
class Incident:
    """One condition that held: since when, and what it saw (the entry's text, or the value)."""

    policy: str
    condition: str
    opened: datetime
    saw: str


def incidents(state: State, project_id: str) -> list[Incident]:
    """The incidents of a project's enabled policies up to now, each condition's first one, by time."""
    found: list[Incident] = []
    project = state.project(project_id)
    for name, policy in state.table(POLICY).items():
        if name.startswith(f"{project.name}/") and policy["enabled"]:
            held = [next(_held(state, project, policy, condition), None) for condition in policy["conditions"]]
            opened = [incident for incident in held if incident is not None]
            if opened and (policy["combiner"] == "OR" or len(opened) == len(held)):
                found += opened
    return sorted(found, key=lambda incident: incident.opened)


def _held(
    state: State, project: Project, policy: Mapping[str, Any], condition: Mapping[str, Any]
) -> Iterator[Incident]:
    def incident(opened: datetime, saw: str) -> Incident:
        return Incident(policy["displayName"], condition["displayName"], opened, saw)

    since = instant(policy["creationRecord"]["mutateTime"])
    if matched := condition.get("conditionMatchedLog"):
        keep = parse_filter(matched["filter"])
        for entry in state.table("logging.entry").values():
            own = entry["logName"].startswith(f"{project.name}/") and instant(entry["receiveTimestamp"]) >= since
            if own and keep(entry):
                yield incident(instant(entry["timestamp"]), str(_words(entry)))
    if inner := condition.get("conditionPrometheusQueryLanguage"):
        series = list(all_series(state, project))
        for at, saw in _true(inner, series, since.timestamp(), int(state.clock.now().timestamp())):
            yield incident(datetime.fromtimestamp(at, UTC), saw)
    for kind, evaluate in (("conditionThreshold", _over), ("conditionAbsent", _silent)):
        if inner := condition.get(kind):
            keep = parse_filter(inner["filter"])
            counted = [s for s in all_series(state, project) if s.counts and keep(s.described)]
            for points in _reduced(inner, counted):
                for at, saw in evaluate(inner, points, int(state.clock.now().timestamp())):
                    if at >= since.timestamp():
                        yield incident(datetime.fromtimestamp(at, UTC), saw)


def _words(entry: Mapping[str, Any]) -> Any:
    return entry.get("textPayload") or entry.get("jsonPayload", {}).get("message", "")


def _reduced(inner: Mapping[str, Any], series: list[Series]) -> Sequence[Mapping[int, int]]:
    """The points to look at: one series each, or added up in the groups that the aggregation makes."""
    first = (inner.get("aggregations") or [{}])[0]
    if first.get("crossSeriesReducer") != "REDUCE_SUM":
        return [each.points for each in series]
    paths = [fields(path) for path in first.get("groupByFields", [])]
    total: dict[str, Counter[int]] = {}
    for each in series:
        group = str([values(each.described, path) for path in paths])
        total.setdefault(group, Counter()).update(each.points)
    return list(total.values())


def _over(inner: Mapping[str, Any], points: Mapping[int, int], now: int) -> Iterator[tuple[int, str]]:
    """When the sum, or rate, over the alignment period has been beyond the threshold for the duration."""
    first = (inner.get("aggregations") or [{}])[0]
    period = int(float(first.get("alignmentPeriod", "60s")[:-1]))
    per = period if first.get("perSeriesAligner") == "ALIGN_RATE" else 1
    threshold, longer = inner.get("thresholdValue", 0), int(float(inner["duration"][:-1]))
    beyond = operator.gt if inner["comparison"] == "COMPARISON_GT" else operator.lt
    since: int | None = None
    for minute in range(min(points, default=now), now + 1, MINUTE_S):
        value = sum(n for at, n in points.items() if minute - period < at <= minute) / per
        since = (minute if since is None else since) if beyond(value, threshold) else None
        if since is not None and minute - since == longer:  # both are whole minutes
            yield min(minute + MINUTE_S, now), f"{value:g}"


def _true(inner: Mapping[str, Any], series: Sequence[Series], since: float, now: int) -> Iterator[tuple[int, str]]:
    """When a query has had the same element in its result for the duration, as an alerting rule of Prometheus."""
    query, longer = compiled(inner["query"], series), float(inner.get("duration", "0s")[:-1])
    begun: dict[Labels, int] = {}
    for at in (*range(math.ceil(since / MINUTE_S) * MINUTE_S, now, MINUTE_S), now):
        found = query(at)
        begun = {labels: begun.get(labels, at) for labels in found}
        for labels, first in begun.items():
            if at - first >= longer:
                yield at, f"{found[labels]:g}"


def _silent(inner: Mapping[str, Any], points: Mapping[int, int], now: int) -> Iterator[tuple[int, str]]:
    """When there had been nothing for the duration, after there had been something."""
    longest = int(float(inner["duration"][:-1]))
    times = [*sorted(points), now]
    for last, following in pairwise(times):
        if following - last >= longest + MINUTE_S:
            yield last + MINUTE_S + longest, f"nothing for {longest} s"
