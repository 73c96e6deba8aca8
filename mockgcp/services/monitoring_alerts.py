"""Cloud Monitoring v3: alert policies. Which of them would have raised an incident is in monitoring_incidents.py.

Sources: https://docs.cloud.google.com/monitoring/api/ref_v3/rest/v3/projects.alertPolicies (read 2026-11-29), and the
API's own refusals as they are quoted in the issues named at the rules. TF: hashicorp/terraform-provider-google.
PromQL that could not be evaluated is refused: monitoring_promql.py.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from infra import catalog
from mockgcp.errors import ApiError, invalid, not_found
from mockgcp.service import Call
from mockgcp.services import monitoring
from mockgcp.services.logging_counters import extractor
from mockgcp.services.logging_filter import parse_filter
from mockgcp.services.logging_metrics import TYPE_PREFIX, known_metric
from mockgcp.services.monitoring import service
from mockgcp.services.monitoring_promql import compiled
from mockgcp.services.monitoring_series import BUILT_IN

POLICY = "monitoring.alertPolicy"
_METHOD = "monitoring.projects.alertPolicies"
monitoring.serve_reads("alertPolicies", POLICY)
_RESOURCE_TYPE = re.compile(r"\bresource\.type\b")
_IN_PROMQL = re.compile(r"\blogging_googleapis_com:user_(\w+)")
# Condition types of the discovery document that nothing here looks into.
_NOT_EMULATED = ("conditionMonitoringQueryLanguage", "conditionSql")


def _wrong(path: str, value: Any, why: str) -> ApiError:
    """A refusal in the words of Monitoring: `Field alert_policy.x had an invalid value of "y": why`."""
    return invalid(f'Field alert_policy.{path} had an invalid value of "{value}": {why}', (path, "invalid"))


def _seconds(duration: str) -> float:
    return float(duration[:-1])


def _check(call: Call) -> None:
    """What needs no other resource to be refused."""
    body, limits = call.body, catalog.monitoring()
    conditions = body.get("conditions", [])
    if not body.get("displayName") or len(body["displayName"]) > limits.display_name_max:
        raise _wrong("display_name", body.get("displayName", ""), f"1 to {limits.display_name_max} characters")
    if not 1 <= len(conditions) <= limits.conditions_max:
        raise _wrong("conditions", len(conditions), f"a policy has 1 to {limits.conditions_max} conditions")
    if body.get("combiner", "COMBINE_UNSPECIFIED") == "COMBINE_UNSPECIFIED":
        raise _wrong("combiner", "COMBINE_UNSPECIFIED", "a combiner must be specified")
    for index, condition in enumerate(conditions):
        _check_condition(f"conditions[{index}]", condition)
    _check_strategy(body, [c for c in conditions if "conditionMatchedLog" in c])
    documentation = body.get("documentation", {})
    if len(documentation.get("content", "")) > limits.documentation_max:
        raise _wrong("documentation.content", "...", f"at most {limits.documentation_max} characters")
    if documentation.get("mimeType", "text/markdown") != "text/markdown":
        raise _wrong("documentation.mime_type", documentation["mimeType"], "only text/markdown is supported")
    monitoring.check_user_labels(body.get("userLabels", {}))


def _check_condition(path: str, condition: Mapping[str, Any]) -> None:
    kinds = [key for key in condition if key.startswith("condition")]
    if len(kinds) != 1:  # googleapis/google-api-nodejs-client 3114
        raise _wrong(
            f"{path}.condition_case",
            len(kinds),
            'Condition subtype (e.g. "condition_absent","condition_threshold", etc.) is absent or unknown.',
        )
    if not condition.get("displayName"):
        raise _wrong(f"{path}.display_name", "", "a condition needs a display name")
    kind, inner = kinds[0], condition[kinds[0]]
    if kind in _NOT_EMULATED:
        raise ApiError("UNIMPLEMENTED", f"mockgcp does not emulate {kind} ({path})")
    here = f"{path}.{re.sub('([A-Z])', lambda m: '_' + m[1].lower(), kind)}"
    _KINDS[kind](here, inner)


def _check_filter(path: str, filter_: str) -> None:
    if not _RESOURCE_TYPE.search(filter_):  # TF 7179
        raise _wrong(
            f"{path}.filter",
            filter_,
            'must specify a restriction on "resource.type" in the filter; see '
            '"https://cloud.google.com/monitoring/api/resources" for a list of available resource types.',
        )
    monitoring.metric_type(filter_, f"alert_policy.{path}.filter")
    monitoring.series_filter(filter_)


def _check_metric_condition(path: str, inner: Mapping[str, Any], shortest_s: int) -> None:
    limits = catalog.monitoring()
    _check_filter(path, inner.get("filter", ""))
    duration = inner.get("duration")
    step, longest = limits.condition_duration_step_s, limits.condition_duration_max_s
    if duration is None or _seconds(duration) % step or not shortest_s <= _seconds(duration) <= longest:
        raise _wrong(f"{path}.duration", duration, f"a multiple of {step} s, {shortest_s} s to {longest} s")
    for index, aggregation in enumerate(inner.get("aggregations", [])):
        period = aggregation.get("alignmentPeriod", "0s")
        if _seconds(period) < limits.alignment_period_min_s:
            at_least = f"at least {limits.alignment_period_min_s} s"
            raise _wrong(f"{path}.aggregations[{index}].alignment_period", period, at_least)


def _check_threshold(path: str, inner: Mapping[str, Any]) -> None:
    _check_metric_condition(path, inner, 0)
    if inner.get("comparison") not in ("COMPARISON_GT", "COMPARISON_LT"):
        raise _wrong(f"{path}.comparison", inner.get("comparison"), "COMPARISON_GT or COMPARISON_LT")
    if "evaluationMissingData" in inner and not _seconds(inner["duration"]):  # TF 16892
        why = "Conditions setting evaluation_missing_data must have a non-zero duration."
        raise _wrong(f"{path}.evaluation_missing_data", inner["evaluationMissingData"], why)


def _check_absent(path: str, inner: Mapping[str, Any]) -> None:
    _check_metric_condition(path, inner, catalog.monitoring().absence_duration_min_s)


def _check_matched_log(path: str, inner: Mapping[str, Any]) -> None:
    if not inner.get("filter"):
        raise _wrong(f"{path}.filter", "", "a filter is required")
    parse_filter(inner["filter"])
    for expression in inner.get("labelExtractors", {}).values():
        extractor(expression)


def _check_promql(path: str, inner: Mapping[str, Any]) -> None:
    query = inner.get("query", "")
    if not query:
        raise _wrong(f"{path}.query", "", "the query must not be empty")
    try:
        compiled(query)
    except ValueError as error:
        raise _wrong(f"{path}.query", query, f"not valid PromQL: {error}") from error  # words unchecked
    except ApiError as error:
        raise ApiError(error.status, f"{path}.query: {error.message}") from error
    step, interval = catalog.monitoring().evaluation_interval_step_s, inner.get("evaluationInterval")
    if interval is not None and (_seconds(interval) <= 0 or _seconds(interval) % step):
        raise _wrong(f"{path}.evaluation_interval", interval, f"a positive multiple of {step} s")
    if _seconds(inner.get("duration", "0s")) < 0:
        raise _wrong(f"{path}.duration", inner["duration"], "0 s or more")


_KINDS = {
    "conditionThreshold": _check_threshold,
    "conditionAbsent": _check_absent,
    "conditionMatchedLog": _check_matched_log,
    "conditionPrometheusQueryLanguage": _check_promql,
}


def _check_strategy(body: Mapping[str, Any], matched: list[Mapping[str, Any]]) -> None:
    strategy, limits = body.get("alertStrategy", {}), catalog.monitoring()
    if matched and len(body["conditions"]) > 1:  # chainguard-dev/terraform-infra-common 384
        raise invalid("Alert policies with a log matching condition can only have a single condition.")
    period = strategy.get("notificationRateLimit", {}).get("period")
    # chainguard-dev/terraform-infra-common 352 (the one) and 135 (the other)
    if period is not None and not matched:
        why = "metric-based alert policies must not specify a notification rate limit"
        raise _wrong("alert_strategy.notification_rate_limit", period, why)
    if matched and period is None:
        why = "log-based alert policies must specify a notification rate limit"
        raise _wrong("alert_strategy.notification_rate_limit", "", why)
    closes = strategy.get("autoClose")
    if closes is not None and not limits.auto_close_min_s <= _seconds(closes) <= limits.auto_close_max_s:
        why = f"{limits.auto_close_min_s} s to {limits.auto_close_max_s} s"
        raise _wrong("alert_strategy.auto_close", closes, why)


def _check_references(call: Call, body: Mapping[str, Any]) -> None:
    """Metrics and channels that a policy names have to be there."""
    owner = monitoring.project(call)
    for condition in body["conditions"]:
        for kind in ("conditionThreshold", "conditionAbsent"):
            if kind in condition:
                _need_metric(call, owner, monitoring.metric_type(condition[kind]["filter"], kind))
        promql = condition.get("conditionPrometheusQueryLanguage", {})
        if not promql.get("disableMetricValidation"):
            names = {
                name.split("/metrics/")[1] for name in call.cloud.table("logging.metric") if name.startswith(owner)
            }
            by_prometheus = {re.sub(r"\W", "_", name): name for name in names}
            for found in _IN_PROMQL.findall(promql.get("query", "")):
                _need_metric(call, owner, TYPE_PREFIX + by_prometheus.get(found, found))
    for channel in body.get("notificationChannels", []):
        parts = channel.split("/")
        full = "/".join([call.cloud.project(parts[1]).name, *parts[2:]]) if len(parts) == 4 else channel
        if full not in call.cloud.table(monitoring.CHANNEL):
            raise not_found(f"The notification channel {channel} was not found.")


def _need_metric(call: Call, owner: str, metric_type: str) -> None:
    if metric_type in BUILT_IN:
        return
    if not metric_type.startswith(TYPE_PREFIX):
        raise ApiError(
            "UNIMPLEMENTED", f"mockgcp has no metric {metric_type}; it has {', '.join(BUILT_IN)} and log-based ones"
        )
    if not known_metric(call.cloud, owner, metric_type.removeprefix(TYPE_PREFIX)):  # TF 11102
        minutes = catalog.monitoring().metric_known_after_s // 60
        raise not_found(
            f'Cannot find metric(s) that match type = "{metric_type}". If a metric was created recently, it could take '
            f"up to {minutes} minutes to become available. Please try again soon."
        )


def _made(call: Call, name: str, body: Mapping[str, Any], created: Mapping[str, str]) -> dict[str, Any]:
    """The policy as it is kept. A condition that has no name of this policy's own gets a new one."""
    conditions = [
        c
        if c.get("name", "").startswith(f"{name}/conditions/")
        else {**c, "name": f"{name}/conditions/{monitoring.new_id(call)}"}
        for c in body["conditions"]
    ]
    record = {"creationRecord": created, "mutationRecord": monitoring.mutation(call)}
    return {"enabled": True, **body, "name": name, "conditions": conditions, **record}


@service.method(f"{_METHOD}.create", permission="monitoring.alertPolicies.create", on=monitoring.project, rules=_check)
def create(call: Call) -> Mapping[str, Any]:
    if "name" in call.body:
        raise _wrong("name", call.body["name"], "the server gives the name")
    _check_references(call, call.body)
    name = f"{monitoring.project(call)}/alertPolicies/{monitoring.new_id(call)}"
    made = call.cloud.table(POLICY)[name] = _made(call, name, call.body, monitoring.mutation(call))
    return made


@service.method(
    f"{_METHOD}.patch", permission="monitoring.alertPolicies.update", on=monitoring.project, reads=("updateMask",)
)
def patch(call: Call) -> Mapping[str, Any]:
    old = monitoring.stored(call, POLICY)
    new = monitoring.patched(call, old)
    _check(Call(call.cloud, call.method, call.params, new, call.principal))
    _check_references(call, new)
    changed = call.cloud.table(POLICY)[old["name"]] = _made(call, old["name"], new, old["creationRecord"])
    return changed


@service.method(f"{_METHOD}.delete", permission="monitoring.alertPolicies.delete", on=monitoring.project)
def delete(call: Call) -> Mapping[str, Any]:
    del call.cloud.table(POLICY)[monitoring.stored(call, POLICY)["name"]]
    return {}
