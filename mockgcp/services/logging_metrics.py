"""Cloud Logging v2: log-based metrics. What they count is in logging_counters.py, Monitoring reads it.

Source of the rules: https://docs.cloud.google.com/logging/docs/reference/v2/rest/v2/projects.metrics, read 2026-11-29.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote, unquote

from infra import catalog
from mockgcp.errors import ApiError, already_exists, invalid, not_found, permission_denied
from mockgcp.paging import PARAMS, page
from mockgcp.service import Call
from mockgcp.services import logging_counters
from mockgcp.services.logging import service
from mockgcp.services.logging_filter import parse_filter
from mockgcp.state import State

TYPE_PREFIX = "logging.googleapis.com/user/"
_VALUE_TYPES = ("INT64", "DISTRIBUTION")


def known_metric(state: State, project: str, metric_id: str) -> bool:
    """Whether Monitoring knows the log-based metric by now.

    There a new one takes up to ten minutes (catalog.monitoring().metric_known_after_s); here none, unless the cloud's
    `durations` say how many seconds under logging.projects.metrics.create, which is no operation and has no nominal.
    """
    metric = state.table("logging.metric").get(f"{project}/metrics/{metric_id}")
    return metric is not None and state.clock.seconds() >= metric["_known_at"]


def _project(call: Call) -> str:
    return call.cloud.project((call.params.get("parent") or call.params["metricName"]).split("/")[1]).name


def _name(call: Call) -> str:
    return f"{_project(call)}/metrics/{unquote(call.params['metricName'].split('/', 3)[3])}"


def _stored(call: Call) -> dict[str, Any]:
    found = call.cloud.table("logging.metric").get(_name(call))
    if found is None:
        raise not_found(f"Metric {_name(call).split('/metrics/')[1]} does not exist.")
    return found


def _shown(metric: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in metric.items() if not key.startswith("_")}


def _check(call: Call) -> None:
    body, limits = call.body, catalog.monitoring()
    name, descriptor = body.get("name", ""), body.get("metricDescriptor", {})
    if not re.fullmatch(limits.metric_name_pattern, name) or len(name) > limits.metric_name_max:
        raise invalid(
            f"Invalid metric name {name!r}: 1 to {limits.metric_name_max} of A-Z a-z 0-9 _-.,+!*',()%/, and no / first",
            ("name", "malformed"),
        )
    if not body.get("filter"):
        raise invalid("A log-based metric needs a filter.", ("filter", "required"))
    if len(body.get("description", "")) > limits.metric_description_max:
        raise invalid(f"A description has at most {limits.metric_description_max} characters.", ("description", ""))
    if "bucketName" in body:
        raise ApiError("UNIMPLEMENTED", "mockgcp does not emulate metrics of a log bucket (bucketName)")
    parse_filter(body["filter"])
    _check_kind(body, descriptor)
    keys, extractors = [label.get("key", "") for label in descriptor.get("labels", [])], body.get("labelExtractors", {})
    if sorted(keys) != sorted(extractors):
        raise invalid(
            f"Each label has one extractor: metricDescriptor.labels has {sorted(keys)}, labelExtractors has "
            f"{sorted(extractors)}",
            ("labelExtractors", "mismatch"),
        )
    if len(keys) > limits.metric_labels_max:
        raise invalid(f"A metric has at most {limits.metric_labels_max} labels.", ("metricDescriptor.labels", "size"))
    for expression in extractors.values():
        logging_counters.extractor(expression)


def _check_kind(body: Mapping[str, Any], descriptor: Mapping[str, Any]) -> None:
    kind, value_type = descriptor.get("metricKind", "DELTA"), descriptor.get("valueType", "INT64")
    if kind != "DELTA" or value_type not in _VALUE_TYPES:
        raise invalid(
            f"A log-based metric is DELTA and {' or '.join(_VALUE_TYPES)}, not {kind} {value_type}.",
            ("metricDescriptor", "unsupported"),
        )
    extracted = body.get("valueExtractor")
    if (value_type == "DISTRIBUTION") != bool(extracted):
        raise invalid("A DISTRIBUTION needs a valueExtractor, and nothing else takes one.", ("valueExtractor", ""))
    if "bucketOptions" in body and not extracted:
        raise invalid("bucketOptions are for a DISTRIBUTION.", ("bucketOptions", ""))
    if extracted:
        logging_counters.extractor(extracted)


def _made(call: Call, old: Mapping[str, Any] | None) -> dict[str, Any]:
    now, project, body = call.cloud.clock.timestamp(), _project(call), call.body
    type_ = TYPE_PREFIX + body["name"]
    known_at = call.cloud.clock.seconds() + call.cloud.durations.get("logging.projects.metrics.create", 0.0)
    return {
        **{key: value for key, value in body.items() if value not in ("", {}, False)},
        "metricDescriptor": {
            "metricKind": "DELTA",
            "valueType": "INT64",
            "unit": "1",
            **body.get("metricDescriptor", {}),
            "name": f"{project}/metricDescriptors/{type_}",
            "type": type_,
            "description": body.get("description", ""),
        },
        "resourceName": f"{project}/metrics/{quote(body['name'], safe='')}",
        "createTime": old["createTime"] if old else now,
        "updateTime": now,
        "_known_at": old["_known_at"] if old else known_at,
    }


@service.method("logging.projects.metrics.create", permission="logging.logMetrics.create", on=_project, rules=_check)
def create(call: Call) -> Mapping[str, Any]:
    name = f"{_project(call)}/metrics/{call.body['name']}"
    if name in call.cloud.table("logging.metric"):
        raise already_exists(f"Metric {call.body['name']} already exists.")
    made = call.cloud.table("logging.metric")[name] = _made(call, None)
    return _shown(made)


@service.method("logging.projects.metrics.get", permission="logging.logMetrics.get", on=_project)
def get(call: Call) -> Mapping[str, Any]:
    return _shown(_stored(call))


@service.method("logging.projects.metrics.list", permission="logging.logMetrics.list", on=_project, reads=PARAMS)
def list_(call: Call) -> Mapping[str, Any]:
    prefix = _project(call) + "/metrics/"
    found = [_shown(m) for name, m in call.cloud.table("logging.metric").items() if name.startswith(prefix)]
    metrics, more = page(call, found)
    return {"metrics": metrics, **more}


@service.method("logging.projects.metrics.update", permission="logging.logMetrics.update", on=_project, rules=_check)
def update(call: Call) -> Mapping[str, Any]:
    """Replaces the metric, or makes it (which takes the permission to create)."""
    name = _name(call)
    if call.body["name"] != name.split("/metrics/")[1]:
        raise invalid(f"The name {call.body['name']!r} is not the one of {name}.", ("metric.name", "mismatch"))
    old = call.cloud.table("logging.metric").get(name)
    if old is None and not call.cloud.allowed(call.principal, "logging.logMetrics.create", _project(call)):
        raise permission_denied(f"Permission 'logging.logMetrics.create' denied on resource '{_project(call)}'.")
    made = _made(call, old)
    for key in ("metricKind", "valueType"):
        if old and made["metricDescriptor"][key] != old["metricDescriptor"][key]:
            raise invalid(f"The {key} of a metric cannot be changed.", (f"metricDescriptor.{key}", "immutable"))
    call.cloud.table("logging.metric")[name] = made
    return _shown(made)


@service.method("logging.projects.metrics.delete", permission="logging.logMetrics.delete", on=_project)
def delete(call: Call) -> Mapping[str, Any]:
    _stored(call)
    del call.cloud.table("logging.metric")[_name(call)]
    call.cloud.table(logging_counters.TABLE).pop(_name(call), None)
    return {}
