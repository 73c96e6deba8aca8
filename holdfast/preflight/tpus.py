"""Whether the zone has the TPUs and the version, the project may have as many, and what they cost."""

from __future__ import annotations

from holdfast.gcp.api import find
from holdfast.preflight import quotas
from holdfast.preflight.capacity import Cost, of_pools
from holdfast.preflight.report import Finding
from holdfast.preflight.site import Site, Tpus
from infra import catalog


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
    """The project may have all slices of all pools at once."""
    generation = catalog.machines()[tpus.config.machine].generation
    standard, preemptible = (catalog.tpu_quota(generation, preemptible=each) for each in (False, True))
    draws = [quotas.Draw(pool.name, pool.chips, pool.queued) for pool in tpus.config.tpu_pools().values()]
    return quotas.judged(site, [quotas.Kind(f"{generation} chips", standard, preemptible, draws)])


def price(site: Site, tpus: Tpus) -> Finding:
    """What an hour and a run cost at list prices, with all slices of all pools."""
    where = site.target
    costs = [
        Cost(
            pool.name,
            pool.chips,
            catalog.tpu_chip_price(pool.node.generation, where.region, pool.queued, where.universe),
        )
        for pool in tpus.config.tpu_pools().values()
    ]
    return of_pools(costs, tpus.hours, "slices", "chips", "TPU nodes are there while jobs are")
