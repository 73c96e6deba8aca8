"""Service Usage v1beta1: the quotas of a project on Cloud Run's GPUs, and on Compute Engine's TPUs and preemptible
GPUs. Limits are granted in `Cloud.quotas`.

Source: https://docs.cloud.google.com/service-usage/docs/reference/rest/v1beta1/services.consumerQuotaMetrics, read
2026-11-29. Google has no static discovery document of Cloud Quotas, which knows the same limits by their quota ids.
Other services' quotas are refused by name, and others of Compute Engine are not listed; overrides are not emulated.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote, unquote

from infra import catalog
from infra.catalog import GpuQuota, NodeGpuQuota, Quota, TpuQuota
from mockgcp.errors import ApiError, not_found
from mockgcp.paging import PARAMS, page
from mockgcp.quotas import EVERYWHERE
from mockgcp.service import Call
from mockgcp.services.serviceusage import service
from mockgcp.state import Project

_SERVICES = {quota.service for quota in catalog.quotas().values()}
_METHOD = "serviceusage.services.consumerQuotaMetrics"


def _parts(call: Call) -> list[str]:
    return str(call.params.get("parent") or call.params["name"]).split("/")


def _on(call: Call) -> str:
    kind, project = _parts(call)[:2]
    if kind != "projects":
        raise ApiError("UNIMPLEMENTED", f"mockgcp has quotas of projects, not of {kind}")
    return call.cloud.project(project).name


def _project(call: Call) -> Project:
    if (asked := _parts(call)[3]) not in _SERVICES:
        raise ApiError("UNIMPLEMENTED", f"mockgcp has quotas of {', '.join(sorted(_SERVICES))}, not of {asked}")
    return call.cloud.project(_on(call).split("/")[1])


def _quota(call: Call) -> Quota:
    metric = unquote(_parts(call)[5])
    for quota in _quotas(call):
        if quota.metric == metric:
            return quota
    raise not_found(
        f"mockgcp has no quota metric {metric}; it has {', '.join(quota.metric for quota in _quotas(call))}."
    )


def _quotas(call: Call) -> list[Quota]:
    """Those of the service that is asked about."""
    service_ = _parts(call)[3]
    return [quota for quota in catalog.quotas().values() if quota.service == service_]


def _name(call: Call, quota: Quota) -> str:
    service_ = f"projects/{_project(call).number}/services/{quota.service}"
    return f"{service_}/consumerQuotaMetrics/{quote(quota.metric, safe='')}"


def _metric(call: Call, quota: Quota) -> dict[str, Any]:
    return {
        "name": _name(call, quota),
        "metric": quota.metric,
        "displayName": quota.display_name,
        "unit": "1",
        "consumerQuotaLimits": [_limit(call, quota)],
    }


def _limit(call: Call, quota: Quota) -> dict[str, Any]:
    project = _project(call)
    regions = sorted(_regions(call, quota))
    granted = call.cloud.quotas.granted(project.id, quota.quota_id)
    shown = regions if call.params.get("view") == "FULL" else sorted(granted.keys() - {EVERYWHERE})
    return {
        "name": f"{_name(call, quota)}/limits/{_limit_id(quota)}",
        "metric": quota.metric,
        "unit": _unit(quota),
        "supportedLocations": regions,
        # The bucket of every region comes first (discovery document: least to most specific).
        "quotaBuckets": [_bucket(call, quota, EVERYWHERE), *(_bucket(call, quota, region) for region in shown)],
    }


def _unit(quota: Quota) -> str:
    further = "".join(f"/{{{dimension}}}" for dimension in quota.dimensions)
    return f"{catalog.fact('quotas', 'limit_unit').value}{further}"


def _limit_id(quota: Quota) -> str:
    """What a limit is called by: /project/region, and further dimensions."""
    return quote("/".join(["", "project", "region", *quota.dimensions]), safe="")


def _regions(call: Call, quota: Quota) -> set[str]:
    if isinstance(quota, TpuQuota):
        zones = catalog.fact("tpu", "zones").value.get(call.cloud.universe.domain, {})
        return {zone.rpartition("-")[0] for zone in zones.get(quota.generation, ())}
    if isinstance(quota, NodeGpuQuota):
        return set(catalog.compute_zones(call.cloud.universe))
    assert isinstance(quota, GpuQuota)
    places = catalog.fact("locations", "gpu_regions").value.get(call.cloud.universe.domain, {})
    return {region for regions in places.get(quota.accelerator, {}).values() for region in regions}


def _bucket(call: Call, quota: Quota, region: str) -> dict[str, Any]:
    return {
        "effectiveLimit": call.cloud.quotas.limit(_project(call).id, quota.quota_id, region),
        "defaultLimit": quota.default_limit,
        **({} if region == EVERYWHERE else {"dimensions": {"region": region, **quota.dimensions}}),
    }


@service.method(f"{_METHOD}.list", permission="serviceusage.quotas.get", on=_on, reads=("view", *PARAMS))
def list_(call: Call) -> Mapping[str, Any]:
    _project(call)
    metrics, more = page(call, [_metric(call, quota) for quota in _quotas(call)])
    return {"metrics": metrics, **more}


@service.method(f"{_METHOD}.get", permission="serviceusage.quotas.get", on=_on, reads=("view",))
def get(call: Call) -> Mapping[str, Any]:
    _project(call)
    return _metric(call, _quota(call))


@service.method(f"{_METHOD}.limits.get", permission="serviceusage.quotas.get", on=_on, reads=("view",))
def get_limit(call: Call) -> Mapping[str, Any]:
    _project(call)
    quota = _quota(call)
    if _parts(call)[7] != _limit_id(quota):
        raise not_found(f"The quota metric {quota.metric} has the limit {_limit_id(quota)} only.")
    return _limit(call, quota)
