"""What a project may have at once, as Service Usage tells it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from holdfast.gcp.api import pages
from holdfast.preflight.report import Finding
from holdfast.preflight.site import Site
from infra import catalog

UNLIMITED = -1


@dataclass(frozen=True)
class Draw:
    """What a pool takes, in chips or GPUs. `queued`: by flex-start or as spot, of the preemptible quota first."""

    pool: str
    units: int
    queued: bool


@dataclass(frozen=True)
class Kind:
    """One kind of hardware: what its units are called, its two quotas, and who draws on them."""

    units: str
    standard: catalog.Quota
    preemptible: catalog.Quota
    draws: Sequence[Draw]


def judged(site: Site, kinds: Iterable[Kind]) -> Finding:
    """Whether the project may have all nodes of all pools at once. What others use of it is not looked at.

    Flex-start and spot draw on the preemptible quota, and where that is too small, on the other; then both share one.
    CloudError.
    """
    where = site.target.region
    said, short, figures, queued = [], [], [], False
    for kind in kinds:
        standard, preemptible = kind.standard, kind.preemptible
        limits = {each.quota_id: limit(site, each, where) for each in (standard, preemptible)}
        drawn = {standard.quota_id: [draw for draw in kind.draws if not draw.queued]}
        for draw in (each for each in kind.draws if each.queued):
            enough = _holds(limits[preemptible.quota_id], draw.units)
            # Without either, it is the preemptible one that is to be requested.
            falls_back = not enough and _holds(limits[standard.quota_id], sum(each.units for each in kind.draws))
            drawn.setdefault((standard if falls_back else preemptible).quota_id, []).append(draw)
        for each in (standard, preemptible):
            takers = drawn.get(each.quota_id, [])
            if not takers:
                continue
            units, has = sum(draw.units for draw in takers), limits[each.quota_id]
            whose = " and ".join(f"{draw.pool} ({draw.units})" for draw in takers)
            family = "".join(f" {value}" for value in each.dimensions.values())
            said.append(f"{each.display_name}{family}: {whose}: {units} {kind.units}, limit {shown(has)}")
            pools = [draw.pool for draw in takers]
            figures.append({"quota": each.quota_id, "pools": pools, "requested": units, "limit": has})
            if not _holds(has, units):
                short.append(f"{each.quota_id}{family} to {units}")
                queued |= any(draw.queued for draw in takers)
    found = f"in {where}: {'; '.join(said) or 'no pool draws on a quota'}"
    if not short:
        return Finding(status="ok", found=found, figures={"region": where, "quotas": figures})
    return Finding(
        status="failed",
        found=found + (". Without quota a flex-start request waits, and nothing says why" if queued else ""),
        do=f"request more of {' and '.join(short)} (Compute Engine API): {console(site)}",
        figures={"region": where, "quotas": figures},
    )


def _holds(limit: int | None, units: int) -> bool:
    return limit == UNLIMITED or (limit or 0) >= units


def limit(site: Site, quota: catalog.Quota, where: str) -> int | None:
    """The limit in a region, UNLIMITED for none; None when the project has no such quota. CloudError."""
    params = {"parent": f"projects/{site.target.project}/services/{quota.service}", "view": "FULL"}
    wanted = {"region": where, **quota.dimensions}
    for found in pages(site.api, "serviceusage.services.consumerQuotaMetrics.list", params, "metrics"):
        if found.get("metric") != quota.metric:
            continue
        buckets = [bucket for each in found.get("consumerQuotaLimits", ()) for bucket in each["quotaBuckets"]]
        fitting = [bucket for bucket in buckets if bucket.get("dimensions", {}).items() <= wanted.items()]
        # The more specific one counts.
        fitting.sort(key=lambda bucket: len(bucket.get("dimensions", {})))
        return int(fitting[-1].get("effectiveLimit", 0)) if fitting else None
    return None


def shown(limit: int | None) -> str:
    """A limit as it is said; a quota that is not listed is none at all."""
    return "none" if limit == UNLIMITED else str(limit or 0)


def console(site: Site) -> str:
    """The page on which more is requested."""
    return f"https://{site.target.universe.console_domain}/iam-admin/quotas?project={site.target.project}"
