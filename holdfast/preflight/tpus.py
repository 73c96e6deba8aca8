"""Whether the zone has the TPUs and the version, the project may have as many, and what they cost."""

from __future__ import annotations

from holdfast.gcp.api import find
from holdfast.preflight import quotas
from holdfast.preflight.capacity import money
from holdfast.preflight.report import Finding
from holdfast.preflight.site import Site, Tpus
from infra import catalog
from infra.pool_shape import PoolShape


def zone(site: Site, tpus: Tpus) -> Finding:
    """Compute Engine has the machine in the zone. What the zone has by flex-start is a matter of the configuration."""
    machine, where = tpus.config.machine, tpus.config.zone
    params = {"project": site.target.project, "zone": where, "machineType": machine}
    if find(site.api, "compute.machineTypes.get", params) is None:
        elsewhere = _fact("zones", machine, site.target.universe)
        return Finding(
            status="failed",
            found=f"Compute Engine has no {machine} in {where}",
            do=f"choose holdfast:zone among {', '.join(elsewhere) or 'those that the console shows'}",
        )
    by = [pool.provisioning for pool in tpus.config.tpu_pools().values()]
    listed = where in _fact("flex_start_zones" if "flex-start" in by else "zones", machine, site.target.universe)
    source = catalog.fact("tpu", "flex_start_zones").source
    if not listed:
        return Finding(
            status="warn",
            found=f"{where} has {machine}; whether {' and '.join(by)} is not known for this universe",
            do=f"see {source}",
        )
    return Finding(status="ok", found=f"{where} has {machine}, {' and '.join(by)}; no quota says when it is free")


def _fact(key: str, machine: str, universe: catalog.Universe) -> list[str]:
    zones: dict[str, list[str]] = catalog.fact("tpu", key).value.get(universe.domain, {})
    return zones.get(catalog.machines()[machine].generation, [])


def version(site: Site, tpus: Tpus) -> Finding:
    """The release channel has the version there."""
    wanted, channel, where = tpus.config.gke_version, tpus.config.release_channel, tpus.config.zone
    params = {"name": f"projects/{site.target.project}/locations/{where}"}
    served = site.api.call("container.projects.locations.getServerConfig", params)
    offered = (each.get("validVersions", []) for each in served.get("channels", ()) if each.get("channel") == channel)
    versions: list[str] = next(offered, [])
    fitting = [each for each in versions if each == wanted or each.startswith((f"{wanted}.", f"{wanted}-"))]
    if fitting:
        newest = max(fitting, key=catalog.gke_version_order)
        return Finding(status="ok", found=f"{wanted} is {newest} in channel {channel}", figures={"version": newest})
    have = ", ".join(versions) or "no version"
    return Finding(
        status="failed",
        found=f"channel {channel} has no {wanted} in {where}; it has {have}",
        do="set holdfast:gkeVersion to one of these, or another holdfast:releaseChannel",
    )


def quota(site: Site, tpus: Tpus) -> Finding:
    """The project may have all slices of all pools at once. What others use of it is not looked at.

    Flex-start draws on the preemptible quota, and where that is too small, on the other; then both pools share one.
    """
    where, pools = site.target.region, list(tpus.config.tpu_pools().values())
    generation = catalog.machines()[tpus.config.machine].generation
    standard, preemptible = (catalog.tpu_quota(generation, preemptible=each) for each in (False, True))
    limits = {each.quota_id: quotas.limit(site, each, where) for each in (standard, preemptible)}
    drawn: dict[str, list[PoolShape]] = {standard.quota_id: [pool for pool in pools if not pool.queued]}
    for pool in (each for each in pools if each.queued):
        enough = _holds(limits[preemptible.quota_id], pool.chips)
        # Without either, it is the preemptible one that is to be requested.
        falls_back = not enough and _holds(limits[standard.quota_id], sum(each.chips for each in pools))
        drawn.setdefault((standard if falls_back else preemptible).quota_id, []).append(pool)
    said, short, figures, queued = [], [], [], False
    for each in (standard, preemptible):
        takers = drawn.get(each.quota_id, [])
        if not takers:
            continue
        chips, limit = sum(pool.chips for pool in takers), limits[each.quota_id]
        whose = " and ".join(f"{pool.name} ({pool.chips})" for pool in takers)
        family = "".join(f" {value}" for value in each.dimensions.values())
        said.append(f"{each.display_name}{family}: {whose}: {chips} {generation} chips, limit {quotas.shown(limit)}")
        figures.append({"quota": each.quota_id, "pools": [p.name for p in takers], "requested": chips, "limit": limit})
        if not _holds(limit, chips):
            short.append(f"{each.quota_id}{family} to {chips}")
            queued |= any(pool.queued for pool in takers)
    found = f"in {where}: {'; '.join(said)}"
    if not short:
        return Finding(status="ok", found=found, figures={"region": where, "quotas": figures})
    return Finding(
        status="failed",
        found=found + (". Without quota a flex-start request waits, and nothing says why" if queued else ""),
        do=f"request more of {' and '.join(short)} (Compute Engine API): {quotas.console(site)}",
        figures={"region": where, "quotas": figures},
    )


def _holds(limit: int | None, chips: int) -> bool:
    return limit == quotas.UNLIMITED or (limit or 0) >= chips


def price(site: Site, tpus: Tpus) -> Finding:
    """What an hour and a run cost at list prices, with all slices of all pools."""
    hour, said, currency, read = 0.0, [], "", ""
    for pool in tpus.config.tpu_pools().values():
        each = catalog.tpu_chip_price(pool.node.generation, site.target.region, pool.queued, site.target.universe)
        if each.per_hour is None:
            return Finding(status="unknown", found=f"could not look: {each.reason}", do="look the price up there")
        hour, currency, read = hour + pool.chips * each.per_hour, each.currency, str(each.read)
        said.append(f"{pool.name} {money(pool.chips * each.per_hour, currency)} for {pool.chips} chips")
    run = hour * tpus.hours
    return Finding(
        status="ok",
        found=f"{money(hour, currency)} an hour with all slices ({', '.join(said)}); {tpus.hours:g} h: "
        f"{money(run, currency)}. TPU nodes are there while jobs are. List prices of {read}, without CPU nodes, the "
        "cluster, storage, network and discounts",
        figures={"hour": hour, "run": run, "hours": tpus.hours, "currency": currency, "read": read},
    )
