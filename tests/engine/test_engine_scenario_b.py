"""Scenario B's stack on the real engine, with a real control plane and real Kueue behind its cluster.

The tests share one stack, and follow one another in this order.
"""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pytest
from pulumi_rig import GKE, PROJECT, Rig, rig, with_plane

from holdfast import planes
from holdfast.rehearsal import gke_tpu_stage
from holdfast.rehearsal.pulumi_cli import Outcome
from infra import catalog
from mockgcp.cloud import DEFAULT_OWNER

pytestmark = [pytest.mark.engine, pytest.mark.planes]

CLUSTER = f"projects/{PROJECT}/locations/us-east5-b/clusters/tpu-cluster"
CLUSTERS = "container.projects.locations.clusters"
KUEUE = f"/apis/{catalog.kueue()['api_version']}"


@dataclass(frozen=True)
class Deployed:
    """The stack, and what its first preview and `up` did."""

    rig: Rig
    previewed: Outcome
    made: Outcome

    def get(self, path: str) -> dict[str, Any]:
        """An object of the cluster."""
        assert self.rig.plane
        cluster = self.rig.plane.cluster(CLUSTER)
        assert cluster
        api = cluster.api()
        try:
            found: dict[str, Any] = api.call("GET", path)
        finally:
            api.close()
        return found

    def operate(self, verb: str) -> Outcome:
        return self.rig.pulumi.operate(verb, GKE)

    def set(self, key: str, value: object) -> None:
        self.rig.pulumi.run("config", "set", "--stack", GKE, f"holdfast:{key}", str(value))

    @cached_property
    def queue(self) -> dict[str, Any]:
        """The queue as it was made."""
        return self.get(f"{KUEUE}/clusterqueues/cluster-queue")


@pytest.fixture(scope="module")
def deployed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployed]:
    if why := gke_tpu_stage.unavailable():
        pytest.skip(why)
    programs, provider = planes.find(), planes.provider()
    assert programs
    assert provider
    with rig(tmp_path_factory.mktemp("cache")) as bare, with_plane(bare, programs, provider) as made:
        made.stack(GKE, **gke_tpu_stage.changes(programs))
        made.init(GKE)
        previewed = made.pulumi.operate("preview", GKE)
        assert made.cloud.resources() == []
        yield Deployed(made, previewed, made.pulumi.operate("up", GKE))


def quotas(queue: dict[str, Any]) -> dict[str, dict[str, str]]:
    """What each flavor gives out of each resource."""
    [group] = queue["spec"]["resourceGroups"]
    return {
        flavor["name"]: {each["name"]: each["nominalQuota"] for each in flavor["resources"]}
        for flavor in group["flavors"]
    }


def test_up_makes_what_the_preview_announced_before_anything_was_there(deployed: Deployed) -> None:
    assert deployed.made.changes == deployed.previewed.changes
    assert deployed.made.changes.keys() == {"create"}
    outputs = deployed.rig.pulumi.outputs(GKE)
    assert deployed.get(f"{KUEUE}/namespaces/default/localqueues/{outputs['localQueue']}")["status"]["conditions"]
    assert quotas(deployed.queue)["dws"]["google.com/tpu"] == "16"


def test_nothing_changes_the_second_time_and_nothing_has_drifted(deployed: Deployed) -> None:
    assert deployed.operate("up").changed == 0
    assert deployed.operate("refresh").changed == 0


def test_a_resized_pool_has_its_nodes(deployed: Deployed) -> None:
    pool = {"name": f"{CLUSTER}/nodePools/default-pool"}

    def resized(count: int) -> tuple[int, int]:
        """The nodes that the cloud says there are, and those of the cluster, once they are as many."""
        deployed.rig.cloud.answer(f"{CLUSTERS}.nodePools.setSize", pool, {"nodeCount": count}, DEFAULT_OWNER)
        deadline = time.monotonic() + 60
        while len(nodes := deployed.get("/api/v1/nodes")["items"]) != count and time.monotonic() < deadline:
            time.sleep(0.2)
        return deployed.rig.cloud.answer(f"{CLUSTERS}.get", {"name": CLUSTER}, None, DEFAULT_OWNER)[
            "currentNodeCount"
        ], len(nodes)

    assert resized(2) == (2, 2)
    assert resized(1) == (1, 1)


def test_larger_jobs_change_the_queue_in_place(deployed: Deployed) -> None:
    before = deployed.queue
    deployed.set("headCpu", 3)
    assert deployed.operate("up").changes.get("update") == 1
    after = deployed.get(f"{KUEUE}/clusterqueues/cluster-queue")
    assert after["metadata"]["uid"] == before["metadata"]["uid"]
    assert (quotas(before)["default-cpu"]["cpu"], quotas(after)["default-cpu"]["cpu"]) == ("5", "7")


def test_another_topology_replaces_both_pools_as_the_preview_says(deployed: Deployed) -> None:
    deployed.set("topology", "2x4")
    announced = deployed.operate("preview").changes
    assert announced["replace"] == 2
    assert deployed.operate("up").changes == announced
    after = deployed.get(f"{KUEUE}/clusterqueues/cluster-queue")
    assert [each["google.com/tpu"] for each in quotas(after).values()] == ["0", "8", "8"]
    nodes = deployed.get("/api/v1/nodes")["items"]
    assert {node["metadata"]["labels"][catalog.node_label("pool")] for node in nodes} == {"default-pool"}
    assert deployed.operate("up").changed == 0


def test_destroy_leaves_nothing(deployed: Deployed) -> None:
    deployed.operate("destroy")
    assert deployed.rig.cloud.resources() == []
    assert deployed.rig.plane
    assert deployed.rig.plane.processes.alive() == []
