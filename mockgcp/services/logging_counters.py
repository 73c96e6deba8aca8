"""What log-based metrics count: each entry is looked at once, as it is written, and adds to a point a minute.

Extractors' source: https://docs.cloud.google.com/logging/docs/reference/v2/rest/v2/projects.metrics, read 2026-11-29.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

from mockgcp.errors import invalid
from mockgcp.services.logging_filter import fields, instant, parse_filter, regex, text, unquoted, values
from mockgcp.state import State

# By the metric's name: by the series (its resource and labels, as JSON): by the minute's start, in seconds since 1970:
# how many entries, or of a distribution the extracted values.
TABLE = "logging.counter"
MINUTE_S = 60

_EXTRACTOR = re.compile(r'(EXTRACT|REGEXP_EXTRACT)\(\s*([^,\s()]+)\s*(?:,\s*("(?:[^"\\]|\\.)*")\s*)?\)')
# What a label is where nothing could be extracted.
_EMPTY = {"STRING": "", "INT64": "0", "BOOL": "false"}


def count(state: State, entry: Mapping[str, Any]) -> None:
    """Adds an entry to every metric of its project whose filter it passes."""
    metrics = state.table("logging.metric")
    project = state.project(entry["logName"].split("/")[1]).name if metrics else ""
    for name, metric in metrics.items():
        counts = name.startswith(f"{project}/metrics/") and not metric.get("disabled")
        if counts and parse_filter(metric["filter"])(entry):
            _add(state.table(TABLE).setdefault(name, {}), project, metric, entry)


def _add(counter: dict[str, Any], project: str, metric: Mapping[str, Any], entry: Mapping[str, Any]) -> None:
    value = 1.0
    if "valueExtractor" in metric:
        try:
            value = float(extractor(metric["valueExtractor"])(entry) or "")
        except ValueError:  # what is no number is not recorded
            return
    resource = entry.get("resource") or {"type": "global", "labels": {"project_id": project.split("/")[1]}}
    kinds = {d["key"]: d.get("valueType", "STRING") for d in metric["metricDescriptor"].get("labels", [])}
    labels = {key: _label(kinds[key], how, entry) for key, how in metric.get("labelExtractors", {}).items()}
    points = counter.setdefault(json.dumps([resource, labels], sort_keys=True), {})
    minute = int(instant(entry["timestamp"]).timestamp()) // MINUTE_S * MINUTE_S
    if "valueExtractor" in metric:
        points.setdefault(minute, []).append(value)
    else:
        points[minute] = points.get(minute, 0) + 1


def _label(kind: str, how: str, entry: Mapping[str, Any]) -> str:
    found = extractor(how)(entry)
    if found is None or (kind == "INT64" and not re.fullmatch(r"-?\d+", found)):
        return _EMPTY[kind]
    return found


@lru_cache(maxsize=512)
def extractor(expression: str) -> Callable[[Mapping[str, Any]], str | None]:
    """What EXTRACT(field) or REGEXP_EXTRACT(field, "regex") finds in an entry; None where it finds nothing.

    Raises:
        ApiError: INVALID_ARGUMENT for another expression, or a regex that has not exactly one group.
    """
    match = _EXTRACTOR.fullmatch(expression.strip())
    if match is None or (match[1] == "EXTRACT") != (match[3] is None):
        raise invalid(
            f'Invalid extractor expression {expression!r}: EXTRACT(field) or REGEXP_EXTRACT(field, "regex")',
            ("labelExtractors", "malformed"),
        )
    keys = fields(match[2])
    if match[3] is None:
        return lambda entry: next((text(v) for v in values(entry, keys)), None)
    pattern = regex(unquoted(match[3]))
    if pattern.groups != 1:
        raise invalid(f"The regex of {expression!r} needs exactly one group.", ("labelExtractors", "malformed"))

    def found(entry: Mapping[str, Any]) -> str | None:
        matches = (pattern.search(text(v)) for v in values(entry, keys))
        return next((m[1] for m in matches if m), None)

    return found
