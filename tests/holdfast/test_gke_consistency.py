"""Whether quotas fit the pools follows from what the cluster and the cloud say: tampered, it must not hold."""

import copy
from typing import Any

import pytest

from holdfast.rehearsal import gke_consistency
from infra.kueue_queues import manifests
from stacks.gke_config import GkeTpuConfig


def pool(name: str, machine: str, most: int) -> dict[str, Any]:
    scaling = {"enabled": True, "maxNodeCount": most}
    return {"name": name, "config": {"machineType": machine}, "autoscaling": scaling}


POOLS = [
    {"name": "default-pool", "config": {"machineType": "n2-standard-16"}, "initialNodeCount": 1},
    pool("on-demand-pool", "ct6e-standard-4t", 4),
    pool("dws-pool", "ct6e-standard-4t", 4),
]


def parts() -> tuple[dict[str, Any], list[dict[str, Any]], list[dict[str, Any]]]:
    """The stack's queue and flavors as they are applied, and its pools as the API has them."""
    made = list(manifests(GkeTpuConfig().queues()).values())
    [queue] = [each for each in made if each["kind"] == "ClusterQueue"]
    flavors = [each for each in made if each["kind"] == "ResourceFlavor"]
    return copy.deepcopy((queue, flavors, POOLS))


def test_the_stacks_quotas_fit_its_pools() -> None:
    queue, flavors, pools = parts()
    figures = gke_consistency.figures(queue, flavors, pools)
    assert [(each.flavor, each.quota, each.pool) for each in figures] == [
        ("default-cpu", 0, 0),
        ("on-demand", 16, 16),
        ("dws", 16, 16),
    ]
    assert gke_consistency.story(queue, flavors, pools).held


@pytest.mark.parametrize("which", ["quota", "pool", "flavor", "queue"])
def test_what_does_not_fit_does_not_hold(which: str) -> None:
    queue, flavors, pools = parts()
    of_dws = queue["spec"]["resourceGroups"][0]["flavors"][-1]["resources"]
    match which:
        case "quota":
            of_dws[-1]["nominalQuota"] = "1000000000"
        case "pool":
            pools[-1]["autoscaling"]["maxNodeCount"] = 8
        case "flavor":
            flavors[-1]["spec"]["nodeLabels"] = {}
        case "queue":
            queue["spec"]["resourceGroups"] = []
    assert not gke_consistency.story(queue, flavors, pools).held
