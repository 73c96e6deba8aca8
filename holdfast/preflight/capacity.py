"""Whether the hardware is to be had, and what it costs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from holdfast.gcp.api import CloudError, pages
from holdfast.preflight import quotas
from holdfast.preflight.report import Finding
from holdfast.preflight.site import Job, Site
from infra import catalog

_USAGE = "serviceruntime.googleapis.com/quota/allocation/usage"
# Monitoring samples the usage of an allocation quota now and then; none within a day is none.
_SAMPLED = timedelta(days=1)


def region(site: Site, job: Job) -> Finding:
    """The region has the GPU for everybody. That it has it at all is a matter of the configuration."""
    accelerator, where = job.config.accelerator, site.target.region
    if catalog.gpu_by_invitation(accelerator, where, site.target.universe):
        return Finding(
            status="warn",
            found=f"{accelerator} in {where} is by invitation only",
            do="ask Google's account team, or choose another region",
        )
    return Finding(status="ok", found=f"Cloud Run has {accelerator} in {where}")


def quota(site: Site, job: Job) -> Finding:
    """The project may have as many GPUs at once as the job asks for, of the kind that it asks for."""
    kind = catalog.gpu_quota(job.config.accelerator, job.config.gpu_zonal_redundancy)
    where, requested = site.target.region, _at_once(job)
    limit = quotas.limit(site, kind, where)
    used, why = _used(site, kind.metric, where)
    request = (
        f"request more of {kind.quota_id} in {where}: {catalog.fact('quotas', 'request_url').value} or "
        f"{quotas.console(site)}"
    )
    figures = {"quota": kind.quota_id, "region": where, "requested": requested, "limit": limit, "usage": used}
    asked = f"{kind.display_name} in {where}: requested {requested}"
    if limit is None:
        found = f"{asked}; Service Usage was asked and lists no such quota, so it is 0"
        return Finding(status="failed", found=found, do=request, figures=figures)
    in_use = f"could not look ({why})" if used is None else str(used)
    found = f"{asked}, limit {quotas.shown(limit)}, usage {in_use}"
    if limit != quotas.UNLIMITED and limit < requested:
        return Finding(status="failed", found=found, do=request, figures=figures)
    if used is None:
        return Finding(
            status="warn", found=found, do="have roles/monitoring.viewer granted to see the usage", figures=figures
        )
    if limit != quotas.UNLIMITED and limit - used < requested:
        return Finding(status="warn", found=found, do=f"wait until GPUs are free, or {request}", figures=figures)
    return Finding(status="ok", found=found, figures=figures)


def _at_once(job: Job) -> int:
    return min(job.config.parallelism or job.config.task_count, job.config.task_count)


def _used(site: Site, metric: str, where: str) -> tuple[int | None, str]:
    """GPUs in use in a region; None, and why, when that could not be looked at."""
    now = datetime.now(UTC)
    params = {
        "name": f"projects/{site.target.project}",
        "filter": f'metric.type="{_USAGE}" AND metric.labels.quota_metric="{metric}" '
        f'AND resource.labels.location="{where}"',
        "interval.startTime": _text(now - _SAMPLED),
        "interval.endTime": _text(now),
    }
    try:
        series = list(pages(site.api, "monitoring.projects.timeSeries.list", params, "timeSeries"))
    except CloudError as error:
        return None, str(error)
    return sum(_newest(each) for each in series), ""


def _newest(series: Mapping[str, Any]) -> int:
    points = series.get("points", ())
    return int(points[0]["value"].get("int64Value", 0)) if points else 0


def _text(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def price(site: Site, job: Job) -> Finding:
    """What an hour and a run cost at list prices, and the most that a run can cost."""
    config = job.config
    each = catalog.job_price(
        site.target.region,
        catalog.parse_cpu(config.cpu),
        catalog.parse_memory_gib(config.memory),
        config.accelerator,
        config.gpu_zonal_redundancy,
        site.target.universe,
    )
    if each.per_hour is None:
        return Finding(status="unknown", found=f"could not look: {each.reason}", do="look the price up there")
    attempts, timeout_h = 1 + config.max_retries, catalog.parse_duration_s(config.task_timeout) / 3600
    hour = each.per_hour * config.task_count
    run, most_h = hour * job.hours, attempts * timeout_h
    cap = hour * most_h
    figures = {
        "hour": hour,
        "run": run,
        "cap": cap,
        "hours": job.hours,
        "currency": each.currency,
        "read": str(each.read),
    }
    found = (
        f"{money(hour, each.currency)} an hour ({config.task_count} task(s); {', '.join(each.parts)}); "
        f"{job.hours:g} h: {money(run, each.currency)}; an execution at most {money(cap, each.currency)} "
        f"({attempts} attempts of {timeout_h:g} h). List prices of {each.read}, without storage, network and discounts"
    )
    if job.hours <= most_h:
        return Finding(status="ok", found=found, figures=figures)
    return Finding(
        status="warn",
        found=f"{found}. {job.hours:g} h do not fit into one execution, which ends after {most_h:g} h at the latest",
        do="submit again then, which resumes; or raise holdfast:maxRetries or holdfast:taskTimeout",
        figures=figures,
    )


@dataclass(frozen=True)
class Cost:
    """What so many of a pool's units cost."""

    pool: str
    units: int
    each: catalog.Price


def of_pools(costs: Sequence[Cost], hours: float, every: str, units: str, when: str) -> Finding:
    """What an hour and so many hours cost with `every` part of the pools, in whose `units` prices are."""
    for cost in costs:
        if cost.each.per_hour is None:
            return Finding(status="unknown", found=f"could not look: {cost.each.reason}", do="look the price up there")
    hour = sum(cost.units * (cost.each.per_hour or 0) for cost in costs)
    currency, read = next(((cost.each.currency, str(cost.each.read)) for cost in costs), ("", ""))
    said = (
        f"{cost.pool} {money(cost.units * (cost.each.per_hour or 0), currency)} for {cost.units} {units}"
        for cost in costs
    )
    return Finding(
        status="ok",
        found=f"{money(hour, currency)} an hour with all {every} ({', '.join(said)}); {hours:g} h: "
        f"{money(hour * hours, currency)}. {when}. List prices of {read}, without CPU nodes, the cluster, storage, "
        "network and discounts",
        figures={"hour": hour, "run": hour * hours, "hours": hours, "currency": currency, "read": read},
    )


def money(amount: float, currency: str) -> str:
    """An amount as it is said."""
    return f"{amount:,.2f} {currency}"
