"""Whether what Kueue gives out is what the node pools can hold, as the cluster and the cloud say it themselves."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from holdfast.rehearsal.report import FlavorFigures, Story
from infra import catalog

_TPU: str = catalog.kueue()["resources"][-1]


def figures(
    queue: Mapping[str, Any], flavors: Sequence[Mapping[str, Any]], pools: Sequence[Mapping[str, Any]]
) -> list[FlavorFigures]:
    """The TPU chips that each flavor of a ClusterQueue may give out, and those that its node pool can have.

    `flavors` are ResourceFlavors, which say the pool by their node label; `pools` are as the container API has them.
    """
    label = catalog.node_label("pool")
    pool_of = {each["metadata"]["name"]: each["spec"].get("nodeLabels", {}).get(label) for each in flavors}
    chips = {each["name"]: _chips(each) for each in pools}
    return [
        FlavorFigures(flavor=name, quota=quota, pool=chips.get(pool_of.get(name) or "", 0))
        for name, quota in _quotas(queue)
    ]


def story(queue: Mapping[str, Any], flavors: Sequence[Mapping[str, Any]], pools: Sequence[Mapping[str, Any]]) -> Story:
    """Each flavor's quota of chips is what its pool can hold, so that what is admitted gets its nodes."""
    found = figures(queue, flavors, pools)
    evidence = {
        "cluster_queue": queue["spec"],
        "flavors": {each["metadata"]["name"]: each["spec"] for each in flavors},
        "pools": [
            {"name": p["name"], "machineType": p["config"]["machineType"], "autoscaling": p.get("autoscaling", {})}
            for p in pools
        ],
    }
    return Story(name="quotas-fit-pools", held=bool(found) and all(e.consistent for e in found), evidence=evidence)


def _quotas(queue: Mapping[str, Any]) -> Iterator[tuple[str, int]]:
    for group in queue["spec"]["resourceGroups"]:
        for flavor in group["flavors"]:
            for resource in flavor["resources"]:
                if resource["name"] == _TPU:
                    yield flavor["name"], int(resource["nominalQuota"])


def _chips(pool: Mapping[str, Any]) -> int:
    machine, scaling = catalog.machines()[pool["config"]["machineType"]], pool.get("autoscaling", {})
    nodes = int(scaling.get("maxNodeCount", 0)) if scaling.get("enabled") else int(pool.get("initialNodeCount", 0))
    return nodes * machine.chips
