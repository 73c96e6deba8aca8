"""Kubernetes Engine: node pools, the rules of flex-start, queued provisioning and TPU slices, and their nodes."""

from __future__ import annotations

from typing import Any

import pytest
from mockgcp_client import PROJECT, Client

from infra import catalog
from mockgcp.cloud import Cloud
from mockgcp.services.container_nodes import node_template

LOCATION = f"projects/{PROJECT}/locations/us-east5-b"
CLUSTER = f"{LOCATION}/clusters/tpu"
CLUSTERS = "container.projects.locations.clusters"
POOLS = f"{CLUSTERS}.nodePools"
POOL = f"{CLUSTER}/nodePools/dws"
NO_RESERVATION = {"consumeReservationType": "NO_RESERVATION"}


@pytest.fixture
def gcp(cloud: Cloud) -> Client:
    cloud.project(PROJECT).services.update({"compute.googleapis.com", "container.googleapis.com"})
    owner, network = Client(cloud), f"projects/{PROJECT}/global/networks/holdfast"
    owner.finish("compute.networks.insert", {"project": PROJECT}, {"name": "holdfast", "autoCreateSubnetworks": False})
    subnet = {"name": "holdfast", "network": network, "ipCidrRange": "10.0.0.0/20"}
    owner.finish("compute.subnetworks.insert", {"project": PROJECT, "region": "us-east5"}, subnet)
    make_cluster(owner)
    return owner


def make_cluster(gcp: Client, location: str = LOCATION, **fields: Any) -> None:
    body = {"name": "tpu", "initialNodeCount": 1, "network": "holdfast", "initialClusterVersion": "1.34", **fields}
    gcp.finish(f"{CLUSTERS}.create", {"parent": location}, {"cluster": body})


def on_demand(**changes: Any) -> dict[str, Any]:
    return {
        "name": "on-demand",
        "autoscaling": {"enabled": True, "minNodeCount": 0, "maxNodeCount": 4},
        "config": {"machineType": "ct6e-standard-4t", "reservationAffinity": NO_RESERVATION},
        "management": {"autoRepair": True, "autoUpgrade": True},
        "placementPolicy": {"tpuTopology": "4x4", "type": "COMPACT"},
        **changes,
    }


def dws(config: dict[str, Any] | None = None, **changes: Any) -> dict[str, Any]:
    of_nodes = {**on_demand()["config"], "flexStart": True, "maxRunDuration": "604800s", **(config or {})}
    queued = {"name": "dws", "config": of_nodes, "queuedProvisioning": {"enabled": True}}
    return {**on_demand(), **queued, "management": {"autoUpgrade": True}, **changes}


def gpu(config: dict[str, Any] | None = None, **changes: Any) -> dict[str, Any]:
    return {
        "name": "gpu",
        "autoscaling": {"enabled": True, "maxNodeCount": 2},
        "config": {"machineType": "a3-ultragpu-8g", **(config or {})},
        **changes,
    }


def scaled(most: int, least: int = 0) -> dict[str, Any]:
    return {"enabled": True, "minNodeCount": least, "maxNodeCount": most}


def make(gcp: Client, pool: dict[str, Any]) -> dict[str, Any]:
    return gcp.finish(f"{POOLS}.create", {"parent": CLUSTER}, {"nodePool": pool})


def refused(gcp: Client, pool: dict[str, Any], parent: str = CLUSTER) -> str:
    error = gcp.refused(f"{POOLS}.create", {"parent": parent}, {"nodePool": pool})
    assert error.status == "INVALID_ARGUMENT", error
    return error.message


def get(gcp: Client, name: str = POOL) -> dict[str, Any]:
    return gcp.call(f"{POOLS}.get", {"name": name})


# -- both pools of the scenario ------------------------------------------------------------------------------------


def test_the_scenarios_pools(gcp: Client) -> None:
    make(gcp, on_demand())
    made = make(gcp, dws())
    assert made == get(gcp)
    assert (made["status"], made["config"]["flexStart"], made["initialNodeCount"]) == ("RUNNING", True, 0)
    assert (made["management"], made["version"]) == ({"autoUpgrade": True}, catalog.gke_version("1.34"))
    assert made["upgradeSettings"] == {"strategy": "SHORT_LIVED"}
    listed = gcp.call(f"{POOLS}.list", {"parent": CLUSTER})["nodePools"]
    assert [pool["name"] for pool in listed] == ["default-pool", "on-demand", "dws"]
    assert listed[1]["upgradeSettings"]["strategy"] == "SURGE"


def test_as_googles_command_line_sends_the_queued_pool(gcp: Client) -> None:
    placement, upgrade = {"tpuTopology": "4x4"}, {"maxSurge": 1}
    management = {"autoRepair": True, "autoUpgrade": True}
    sent = dws(placementPolicy=placement, upgradeSettings=upgrade, management=management)
    assert make(gcp, sent)["config"]["flexStart"] is True


@pytest.mark.parametrize(
    ("pool", "what"),
    [
        # Both flags, or neither (xpk 900); autoscaling from none (Config Connector 11085).
        (dws({"flexStart": False}), "needs flex start"),
        (dws(autoscaling={}), "need autoscaling from 0 nodes"),
        (dws(autoscaling=scaled(4, least=4)), "autoscaling from 0 nodes"),
        (dws(initialNodeCount=4), "initial_node_count of 0"),
        (dws({"spot": True}), "cannot be spot"),
        (dws({"reservationAffinity": {"consumeReservationType": "ANY_RESERVATION"}}), "takes no reservation"),
        (dws({"maxRunDuration": "604801s"}), "at most 604800s"),
        (dws(upgradeSettings={"strategy": "SURGE", "maxSurge": 1}), "SURGE is not supported with flex start"),
        (dws(upgradeSettings={"strategy": "BLUE_GREEN"}), "BLUE_GREEN is not supported with flex start"),
        (gpu({"spot": True}, queuedProvisioning={"enabled": True}), "not supported with spot"),
        (gpu(queuedProvisioning={"enabled": True}, autoscaling=scaled(2, least=1)), "minimum node count of 0, not 1"),
        (gpu(queuedProvisioning={"enabled": True}, initialNodeCount=1), "initial_node_count of 0, not 1"),
        (gpu(queuedProvisioning={"enabled": True}, autoscaling={}), "needs autoscaling"),
        (gpu(queuedProvisioning={"enabled": True}, placementPolicy={"type": "COMPACT"}), "for TPUs only"),
        (
            gpu(
                {"reservationAffinity": {"consumeReservationType": "ANY_RESERVATION"}},
                queuedProvisioning={"enabled": True},
            ),
            "takes no reservation",
        ),
        # Slices: whole ones, counted a zone (vllm-project/ci-infra 545).
        (on_demand(placementPolicy={"tpuTopology": "4x5"}), "'4x5', which is no TPU topology"),
        (on_demand(placementPolicy={"tpuTopology": "2x2x2"}), "ct6e-standard-4t can have"),
        (
            on_demand(autoscaling=scaled(3)),
            "Maximum node count 3 is not a valid size of TPU pod slice with topology 4x4",
        ),
        (on_demand(autoscaling=scaled(8)), "Maximum node count 8 is not a valid size"),
        (on_demand(autoscaling={"enabled": True, "totalMaxNodeCount": 4}), "Maximum node count 0 is not a valid size"),
        (on_demand(autoscaling=scaled(4, least=2)), "Minimum node count 2 is not a valid size"),
        (on_demand(autoscaling={}, initialNodeCount=3), "Initial node count 3 is not a valid size"),
        (on_demand(upgradeSettings={"strategy": "BLUE_GREEN"}), "not supported with compact placement"),
        ({"name": "cpu", "placementPolicy": {"tpuTopology": "2x2"}}, "has no TPU"),
        # The rest.
        ({"name": "Pool"}, "'Pool' does not match"),
        ({"name": "p" * 41}, "at most 40"),
        ({"config": {}}, "Invalid node pool name"),
        (
            on_demand(config={"machineType": "ct6e-standard-3t"}),
            'Invalid machine type "ct6e-standard-3t" in zone "us-east5-b"',
        ),
        (on_demand(config={"machineType": "ct5lp-hightpu-4t"}), 'Invalid machine type "ct5lp-hightpu-4t"'),
        (
            gpu({"accelerators": [{"acceleratorType": "nvidia-l4", "acceleratorCount": "1"}]}),
            "8 nvidia-h200-141gb, not 1",
        ),
        ({"name": "a", "autoscaling": {"enabled": True}}, "max_node_count must be greater than zero"),
        ({"name": "a", "autoscaling": scaled(2, least=3)}, "min_node_count must not exceed"),
        ({"name": "a", "autoscaling": {**scaled(2), "totalMaxNodeCount": 3}}, "mutually exclusive"),
        ({"name": "a", "autoscaling": scaled(2), "initialNodeCount": 3}, "must not exceed max_node_count, 2"),
        ({"name": "a", "version": "1.35"}, "must not be newer than the control plane's"),
        ({"name": "a", "version": "1.31"}, "unsupported"),
        ({"name": "a", "config": {"spot": True, "preemptible": True}}, "Only one of spot and preemptible"),
    ],
)
def test_refused_pools(gcp: Client, pool: dict[str, Any], what: str) -> None:
    message = refused(gcp, pool)
    assert what in message, message
    assert len(gcp.call(f"{POOLS}.list", {"parent": CLUSTER})["nodePools"]) == 1


@pytest.mark.parametrize(
    ("pool", "path"),
    [
        ({"name": "a", "placementPolicy": {"policyName": "mine"}}, "placementPolicy.policyName"),
        ({"name": "a", "config": {"sandboxConfig": {"type": "GVISOR"}}}, "config.sandboxConfig"),
        ({"name": "a", "networkConfig": {"createPodRange": True}}, "networkConfig.createPodRange"),
    ],
)
def test_what_is_not_emulated_is_named(gcp: Client, pool: dict[str, Any], path: str) -> None:
    error = gcp.refused(f"{POOLS}.create", {"parent": CLUSTER}, {"nodePool": pool})
    assert (error.status, path in error.message) == ("UNIMPLEMENTED", True)


@pytest.mark.parametrize(
    "pool",
    [
        gpu(queuedProvisioning={"enabled": True}),  # as before flex-start had its flag
        gpu({"flexStart": True}, autoscaling=scaled(3)),
        on_demand(autoscaling={}, initialNodeCount=4),
        on_demand(autoscaling=scaled(4, least=4)),
        on_demand(placementPolicy={}, autoscaling=scaled(7)),  # a slice a host
        on_demand(placementPolicy={"tpuTopology": "2x4"}, autoscaling=scaled(2)),
        {"name": "spot", "config": {"spot": True}, "initialNodeCount": 1},
        {"name": "a", "version": "1.33"},
        {"name": "a", "version": "1.34"},
    ],
)
def test_pools_that_there_may_be(gcp: Client, pool: dict[str, Any]) -> None:
    assert make(gcp, pool)["status"] == "RUNNING"


@pytest.mark.parametrize(
    ("version", "pool", "least"),
    [
        ("1.33.0-gke.1711999", dws(), "1.33.0-gke.1712000"),
        ("1.32.2-gke.1651999", gpu({"flexStart": True}), "1.32.2-gke.1652000"),
    ],
)
def test_flex_start_needs_a_version(gcp: Client, cloud: Cloud, version: str, pool: dict[str, Any], least: str) -> None:
    cloud.table("container.cluster")[CLUSTER]["currentMasterVersion"] = version
    message = refused(gcp, pool)
    assert "Flex start is not supported" in message
    assert least in message
    cloud.table("container.cluster")[CLUSTER]["currentMasterVersion"] = least
    assert make(gcp, pool)["version"] == least


def test_a_zone_may_have_a_machine_on_demand_only(gcp: Client) -> None:
    make_cluster(gcp, location := f"projects/{PROJECT}/locations/us-east5-c")
    message = refused(gcp, on_demand(), f"{location}/clusters/tpu")
    assert 'Invalid machine type "ct6e-standard-4t" in zone "us-east5-c": GCE_NOT_FOUND' in message


def test_a_slice_is_in_one_zone(gcp: Client) -> None:
    make_cluster(gcp, location := f"projects/{PROJECT}/locations/us-east5")
    pool = on_demand(locations=["us-east5-a", "us-east5-b"])
    assert "Compact placement needs one zone" in refused(gcp, pool, f"{location}/clusters/tpu")


@pytest.mark.parametrize("channel", ["REGULAR", "UNSPECIFIED"])
def test_a_release_channel_keeps_auto_upgrade_on(gcp: Client, channel: str) -> None:
    make_cluster(gcp, location := f"projects/{PROJECT}/locations/us-east5-a", releaseChannel={"channel": channel})
    pool, parent = {"name": "a", "management": {"autoRepair": True}}, {"parent": f"{location}/clusters/tpu"}
    if channel == "UNSPECIFIED":
        assert gcp.finish(f"{POOLS}.create", parent, {"nodePool": pool})["management"] == {"autoRepair": True}
    else:
        assert "Auto_upgrade cannot be false when release_channel REGULAR is set." in refused(
            gcp, pool, parent["parent"]
        )


def test_a_pool_needs_its_cluster_and_a_name_of_its_own(gcp: Client) -> None:
    make(gcp, dws())
    assert gcp.refused(f"{POOLS}.create", {"parent": CLUSTER}, {"nodePool": dws()}).status == "ALREADY_EXISTS"
    missing = {"parent": f"{LOCATION}/clusters/none"}
    assert gcp.refused(f"{POOLS}.create", missing, {"nodePool": dws()}).status == "NOT_FOUND"


def test_a_service_account_that_the_caller_may_use(gcp: Client) -> None:
    email = gcp.make_account("gke-nodes")["email"]
    assert make(gcp, dws({"serviceAccount": email}))["config"]["serviceAccount"] == email
    gone = f"gone@{PROJECT}.iam.gserviceaccount.com"
    pool = {"name": "b", "config": {"serviceAccount": gone}}
    error = gcp.refused(f"{POOLS}.create", {"parent": CLUSTER}, {"nodePool": pool})
    assert (error.status, gone in error.message) == ("PERMISSION_DENIED", True)


# -- changes -------------------------------------------------------------------------------------------------------


def test_autoscaling_changes_by_either_method(gcp: Client) -> None:
    make(gcp, {"name": "dws", "autoscaling": scaled(2)})
    gcp.finish(f"{POOLS}.setAutoscaling", {"name": POOL}, {"autoscaling": scaled(5, least=1)})
    assert get(gcp)["autoscaling"] == scaled(5, least=1)
    wanted = {"desiredNodePoolId": "dws", "desiredNodePoolAutoscaling": {"enabled": False}}
    gcp.finish(f"{CLUSTERS}.update", {"name": CLUSTER}, {"update": wanted})
    assert get(gcp)["autoscaling"] == {"enabled": False}


@pytest.mark.parametrize(
    ("autoscaling", "what"),
    [
        ({"enabled": False}, "need autoscaling"),
        (scaled(8), "Maximum node count 8 is not a valid size"),
        (scaled(4, least=4), "autoscaling from 0 nodes"),
    ],
)
def test_a_change_makes_no_pool_that_could_not_be_made(gcp: Client, autoscaling: dict[str, Any], what: str) -> None:
    make(gcp, dws())
    before = get(gcp)
    assert what in gcp.refused(f"{POOLS}.setAutoscaling", {"name": POOL}, {"autoscaling": autoscaling}).message
    assert get(gcp) == before


def test_management_and_configuration_change_in_place(gcp: Client) -> None:
    make(gcp, dws())
    gcp.finish(f"{POOLS}.setManagement", {"name": POOL}, {"management": {"autoRepair": True, "autoUpgrade": True}})
    taint = {"key": "team", "value": "a", "effect": "NO_SCHEDULE"}
    gcp.finish(f"{POOLS}.update", {"name": POOL}, {"labels": {"labels": {"team": "a"}}})
    gcp.finish(f"{POOLS}.update", {"name": POOL}, {"taints": {"taints": [taint]}, "nodePoolId": "dws"})
    pool = get(gcp)
    assert pool["management"]["autoRepair"] is True
    assert pool["config"]["labels"] == {"team": "a"}
    # GKE's own taints stay.
    keys = [each["key"] for each in pool["config"]["taints"]]
    assert keys == ["team", "google.com/tpu", "cloud.google.com/gke-queued"]
    assert "Must specify a field" in gcp.refused(f"{POOLS}.update", {"name": POOL}, {}).message
    storage = {"storagePools": ["x"]}
    assert gcp.refused(f"{POOLS}.update", {"name": POOL}, storage).status == "UNIMPLEMENTED"


def test_size_counts_nodes_a_zone_and_whole_slices(gcp: Client) -> None:
    made = make(gcp, on_demand(autoscaling={}, initialNodeCount=4))
    [group] = made["instanceGroupUrls"]
    zone, name = group.split("/")[-3], group.split("/")[-1]
    params = {"project": PROJECT, "zone": zone, "instanceGroupManager": name}
    assert gcp.call("compute.instanceGroupManagers.get", params)["targetSize"] == 4
    pool = {"name": f"{CLUSTER}/nodePools/on-demand"}
    assert "invalid target size '3'" in gcp.refused(f"{POOLS}.setSize", pool, {"nodeCount": 3}).message
    gcp.finish(f"{POOLS}.setSize", pool, {"nodeCount": 0})
    assert gcp.call("compute.instanceGroupManagers.get", params)["targetSize"] == 0
    assert gcp.call(f"{CLUSTERS}.get", {"name": CLUSTER})["currentNodeCount"] == 1
    gcp.finish(f"{POOLS}.delete", pool)
    assert gcp.refused("compute.instanceGroupManagers.get", params).status == "NOT_FOUND"
    assert gcp.refused(f"{POOLS}.get", pool).status == "NOT_FOUND"


# -- what nodes are ------------------------------------------------------------------------------------------------


def test_the_nodes_of_the_queued_pool(gcp: Client) -> None:
    node = node_template(make(gcp, dws({"labels": {"team": "a"}})))
    assert node.labels["cloud.google.com/gke-nodepool"] == "dws"
    assert node.labels["cloud.google.com/gke-tpu-accelerator"] == "tpu-v6e-slice"
    assert node.labels["cloud.google.com/gke-tpu-topology"] == "4x4"
    assert node.labels["cloud.google.com/gke-queued"] == node.labels["cloud.google.com/gke-flex-start"] == "true"
    assert node.labels["team"] == "a"
    assert [(taint["key"], taint["effect"]) for taint in node.taints] == [
        ("google.com/tpu", "NoSchedule"),
        ("cloud.google.com/gke-queued", "NoSchedule"),
    ]
    assert node.allocatable["google.com/tpu"] == "4"
    assert node.gang == 4


def test_the_nodes_of_other_pools(gcp: Client) -> None:
    plain = node_template(get(gcp, f"{CLUSTER}/nodePools/default-pool"))
    # e2-medium, 2 vCPU: 6% of the first and 1% of the second are kept.
    assert (plain.allocatable["cpu"], plain.allocatable["pods"], plain.taints, plain.gang) == ("1930m", "110", (), 1)
    assert "cloud.google.com/gke-queued" not in plain.labels
    tpu = node_template(make(gcp, on_demand()))
    assert [taint["key"] for taint in tpu.taints] == ["google.com/tpu"]
    single = node_template(make(gcp, on_demand(name="single", placementPolicy={})))
    assert (single.labels["cloud.google.com/gke-tpu-topology"], single.gang) == ("2x2", 1)
    with_gpu = node_template(make(gcp, gpu()))
    assert with_gpu.allocatable["nvidia.com/gpu"] == with_gpu.labels["cloud.google.com/gke-accelerator-count"] == "8"
    assert with_gpu.labels["cloud.google.com/gke-accelerator"] == "nvidia-h200-141gb"
    assert [taint["key"] for taint in with_gpu.taints] == ["nvidia.com/gpu"]


def test_what_a_node_keeps_for_itself() -> None:
    # github.com/hatemosphere/gke-node-allocatable-memory-calculator: of 150 GiB 9.8577 are kept, with the 100 MiB.
    found = catalog.allocatable(16, 150)
    assert found.memory_mib / 1024 == pytest.approx(140.1423, abs=0.001)
    assert found.cpu_m == 16000 - 60 - 10 - 10 - 30
