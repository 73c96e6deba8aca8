"""PromQL of alert policies, as far as it is emulated, over the series of monitoring_series.py.

There are `increase` over a range of what counts, the latest value of a gauge, `sum` of all, `>` and `<` with a number
on the right, and `unless`; labels are matched by `=`, and no modifier is taken. All else is refused by name.
Sources: https://docs.cloud.google.com/monitoring/promql/promql-mapping (names and labels) and
https://prometheus.io/docs/prometheus/latest/querying/ (the language), read 2026-11-29.
"""

from __future__ import annotations

import operator
import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Mapping, Sequence

import promql_parser as promql

from mockgcp.errors import ApiError
from mockgcp.services.logging_counters import MINUTE_S
from mockgcp.services.logging_metrics import TYPE_PREFIX
from mockgcp.services.monitoring_series import COMPLETED, RUNNING, Series

# How long a gauge's last value stands: Prometheus' default lookback. Of Cloud Monitoring it is unchecked.
LOOKBACK_S = 300
_COMPARISONS: Mapping[str, Callable[[float, float], bool]] = {">": operator.gt, "<": operator.lt}
_HAS = "it has sum(), increase(counter[range]), a gauge, > and < a number, unless, and labels by =; no modifiers"

Labels = frozenset[tuple[str, str]]
Vector = Mapping[Labels, float]
At = Callable[[int], Vector]
"""The vector at a time, in seconds since 1970."""


def prometheus_name(metric_type: str) -> str:
    """A metric type as PromQL spells it: the first / is a colon, and whatever else is no letter or digit a _."""
    domain, _, path = metric_type.partition("/")
    return ":".join(re.sub(r"\W", "_", part) for part in (domain, path))


_LOG_BASED, _COMPLETED, _RUNNING = map(prometheus_name, (TYPE_PREFIX, COMPLETED, RUNNING))


def compiled(query: str, series: Sequence[Series] = ()) -> At:
    """A query over these series.

    Raises:
        ValueError: it is no PromQL. ApiError: UNIMPLEMENTED for what is not emulated, which is named.
    """
    return _vector(promql.parse(query), series)


def _vector(node: object, series: Sequence[Series]) -> At:
    match node:
        case promql.ParenExpr():
            return _vector(node.expr, series)
        case promql.AggregateExpr() if str(node.op) == "sum" and node.modifier is None:
            return _sum(_vector(node.expr, series))
        case promql.BinaryExpr() if _plain(node.modifier) and str(node.op) == "unless":
            return _unless(_vector(node.lhs, series), _vector(node.rhs, series))
        case promql.BinaryExpr(rhs=promql.NumberLiteral() as number) if _plain(node.modifier):
            if holds := _COMPARISONS.get(str(node.op)):
                return _compared(_vector(node.lhs, series), holds, number.val)
        case promql.Call(args=[promql.MatrixSelector() as matrix]) if node.func.name == "increase":
            name = matrix.vector_selector.name or ""
            if name == _COMPLETED or name.startswith(_LOG_BASED):
                counted = _selected(matrix.vector_selector, [each for each in series if each.counts])
                return _increase(counted, matrix.range.total_seconds())
        case promql.VectorSelector(name=name) if name == _RUNNING:
            return _latest(_selected(node, series))
    raise _not_emulated(node)


def _not_emulated(node: object) -> ApiError:
    return ApiError("UNIMPLEMENTED", f"mockgcp does not emulate {node} in PromQL; {_HAS}")


def _plain(modifier: promql.BinModifier | None) -> bool:
    return modifier is None or not (modifier.matching or modifier.return_bool or modifier.group_labels)


Selected = Sequence[tuple[Labels, Mapping[int, int]]]


def _selected(node: promql.VectorSelector, series: Sequence[Series]) -> Selected:
    """The labels and points of what is selected."""
    matchers = node.matchers.matchers
    others = node.matchers.or_matchers or any(each.op != promql.MatchOp.Equal for each in matchers)
    if node.offset is not None or node.at is not None or others:
        raise _not_emulated(node)
    found = []
    for each in series:
        labels = {**each.resource["labels"], **each.metric["labels"], "monitored_resource": each.resource["type"]}
        same = all(labels.get(matcher.name, "") == matcher.value for matcher in matchers)
        if prometheus_name(each.metric["type"]) == node.name and same:
            found.append((frozenset(labels.items()), each.points))
    return found


def _increase(counted: Selected, range_s: float) -> At:
    """What was counted in the range up to a time, in whole minutes, of which the last may not be over yet."""
    ordered = [(labels, sorted(points), points) for labels, points in counted]

    def at(now: int) -> Vector:
        found = {}
        for labels, times, points in ordered:
            window = times[bisect_right(times, now - range_s - MINUTE_S) : bisect_left(times, now)]
            if window:
                found[labels] = float(sum(points[minute] for minute in window))
        return found

    return at


def _latest(gauges: Selected) -> At:
    ordered = [(labels, sorted(points), points) for labels, points in gauges]

    def at(now: int) -> Vector:
        found = {}
        for labels, times, points in ordered:
            window = times[bisect_right(times, now - LOOKBACK_S) : bisect_right(times, now)]
            if window:
                found[labels] = float(points[window[-1]])
        return found

    return at


def _sum(inner: At) -> At:
    def at(now: int) -> Vector:
        values = inner(now).values()
        return {frozenset(): sum(values)} if values else {}

    return at


def _compared(inner: At, holds: Callable[[float, float], bool], number: float) -> At:
    return lambda now: {labels: value for labels, value in inner(now).items() if holds(value, number)}


def _unless(left: At, right: At) -> At:
    def at(now: int) -> Vector:
        without = right(now)
        return {labels: value for labels, value in left(now).items() if labels not in without}

    return at
