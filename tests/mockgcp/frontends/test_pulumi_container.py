"""Clusters and node pools as the engine uses them: no change the second time, drift, imports, updates in place."""

from __future__ import annotations

from typing import Any

import pytest
from scenario_a import CLUSTER, NETWORK, NODE_POOL, PROJECT, SUBNETWORK, Desk

from mockgcp.cloud import DEFAULT_OWNER, Cloud
from mockgcp.errors import ApiError
from mockgcp.frontends.pulumi.core import State
from mockgcp.frontends.pulumi.values import UNKNOWN, Secret, Value, reveal

ZONE = "us-east5-b"
NAME = f"projects/{PROJECT}/locations/{ZONE}/clusters/tpu-cluster"
POOL = f"{NAME}/nodePools/dws-pool"
CLUSTERS = "container.projects.locations.clusters"
NETWORK_ID = f"projects/{PROJECT}/global/networks/holdfast"


def cluster(**changes: Value) -> dict[str, Value]:
    return {
        "name": "tpu-cluster",
        "location": ZONE,
        "minMasterVersion": "1.34",
        "releaseChannel": {"channel": "REGULAR"},
        "network": "holdfast",
        "subnetwork": "holdfast",
        "ipAllocationPolicy": {"clusterIpv4CidrBlock": "/17", "servicesIpv4CidrBlock": "/22"},
        "privateClusterConfig": {"enablePrivateNodes": True},
        "controlPlaneEndpointsConfig": {
            "dnsEndpointConfig": {"allowExternalTraffic": True},
            "ipEndpointsConfig": {"enabled": False},
        },
        "workloadIdentityConfig": {"workloadPool": f"{PROJECT}.svc.id.goog"},
        "addonsConfig": {
            "rayOperatorConfigs": [{"enabled": True}],
            "gcsFuseCsiDriverConfig": {"enabled": True},
        },
        "initialNodeCount": 1,
        "nodeConfig": {"machineType": "n2-standard-16", "gcfsConfig": {"enabled": True}, "labels": {"team": "a"}},
        "maintenancePolicy": {
            "recurringWindow": {
                "startTime": "2026-01-03T02:00:00Z",
                "endTime": "2026-01-03T08:00:00Z",
                "recurrence": "FREQ=WEEKLY;BYDAY=SA,SU",
            },
            "maintenanceExclusions": [
                {
                    "exclusionName": "running-slices",
                    "startTime": "2026-01-01T00:00:00Z",
                    "exclusionOptions": {
                        "scope": "NO_MINOR_OR_NODE_UPGRADES",
                        "endTimeBehavior": "UNTIL_END_OF_SUPPORT",
                    },
                }
            ],
        },
        "deletionProtection": False,
        "resourceLabels": {"app": "holdfast"},
        **changes,
    }


def pool(config: dict[str, Value] | None = None, **changes: Value) -> dict[str, Value]:
    return {
        "name": "dws-pool",
        "cluster": "tpu-cluster",
        "location": ZONE,
        "initialNodeCount": 0,
        "autoscaling": {"minNodeCount": 0, "maxNodeCount": 4},
        "management": {"autoRepair": False, "autoUpgrade": True},
        "queuedProvisioning": {"enabled": True},
        "placementPolicy": {"type": "COMPACT", "tpuTopology": "4x4"},
        "nodeConfig": {
            "machineType": "ct6e-standard-4t",
            "flexStart": True,
            "maxRunDuration": "604800s",
            "labels": {"team": "a"},
            "reservationAffinity": {"consumeReservationType": "NO_RESERVATION"},
            **(config or {}),
        },
        **changes,
    }


INPUTS = {CLUSTER: cluster(), NODE_POOL: pool()}
IDS = {CLUSTER: NAME, NODE_POOL: POOL}


@pytest.fixture
def desk(desk: Desk) -> Desk:
    """A provider on a cloud with a network and a subnet."""
    desk.create(NETWORK, {"name": "holdfast", "autoCreateSubnetworks": False})
    subnet = {"name": "holdfast", "network": NETWORK_ID, "region": "us-east5", "ipCidrRange": "10.0.0.0/20"}
    desk.create(SUBNETWORK, subnet)
    return desk


@pytest.fixture
def made(desk: Desk) -> dict[str, State]:
    """A cluster and a queued pool, as an `up` leaves them."""
    return {token: desk.create(token, inputs) for token, inputs in INPUTS.items()}


def call(cloud: Cloud, method: str, name: str, body: Any = None) -> dict[str, Any]:
    """A change behind the engine's back."""
    return cloud.answer(f"{CLUSTERS}.{method}", {"name": name}, body, DEFAULT_OWNER)


# -- the second up -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("token", INPUTS)
def test_a_second_up_changes_nothing_also_after_a_refresh(desk: Desk, made: dict[str, State], token: str) -> None:
    assert made[token].id == IDS[token]
    assert desk.diff(token, made[token], INPUTS[token]) == {}
    refreshed = desk.refresh(token, made[token])
    assert refreshed is not None
    assert refreshed.inputs == made[token].inputs
    assert desk.diff(token, refreshed, INPUTS[token]) == {}


@pytest.mark.parametrize("token", INPUTS)
@pytest.mark.parametrize("short", [False, True])
def test_an_import_matches_the_program(desk: Desk, made: dict[str, State], token: str, short: bool) -> None:
    parts = IDS[token].split("/")
    found = desk.provider.read(token, "/".join(parts[1::2]) if short else IDS[token], {}, {})
    assert found is not None
    assert found.id == made[token].id
    # What only the provider knows of a cluster, and which version was asked for, no API tells.
    assert desk.diff(token, found, INPUTS[token]).keys() <= {"deletionProtection", "minMasterVersion"}


@pytest.mark.parametrize("written", [NETWORK_ID, f"https://www.googleapis.com/compute/v1/{NETWORK_ID}", "holdfast"])
def test_a_network_is_the_same_in_any_spelling(desk: Desk, made: dict[str, State], written: str) -> None:
    assert desk.diff(CLUSTER, made[CLUSTER], cluster(network=written)) == {}
    assert made[CLUSTER].outputs["network"] == NETWORK_ID


def test_a_pool_may_name_its_cluster_by_its_id(desk: Desk, made: dict[str, State]) -> None:
    inputs = {**pool(), "name": "other", "cluster": NAME}
    del inputs["location"]
    other = desk.create(NODE_POOL, inputs)
    assert other.id == f"{NAME}/nodePools/other"
    assert (other.outputs["cluster"], other.outputs["location"]) == ("tpu-cluster", ZONE)
    assert desk.diff(NODE_POOL, other, inputs) == {}


# -- outputs -------------------------------------------------------------------------------------------------------


def test_outputs_of_a_cluster(desk: Desk, made: dict[str, State]) -> None:
    outputs = made[CLUSTER].outputs
    assert outputs["masterVersion"].startswith("1.34.")
    assert outputs["minMasterVersion"] == "1.34"
    assert outputs["masterAuth"]["clusterCaCertificate"]
    assert outputs["controlPlaneEndpointsConfig"]["dnsEndpointConfig"]["endpoint"].endswith(".gke.googleapis.com")
    assert outputs["privateClusterConfig"]["enablePrivateNodes"] is True
    assert outputs["ipAllocationPolicy"]["clusterIpv4CidrBlock"].endswith("/17")
    assert outputs["addonsConfig"]["rayOperatorConfigs"] == [{"enabled": True}]
    assert outputs["resourceLabels"] == {"app": "holdfast"}
    assert isinstance(outputs["effectiveLabels"], Secret)
    assert outputs["nodeConfig"]["machineType"] == "n2-standard-16"
    public = desk.create(CLUSTER, cluster(name="public", controlPlaneEndpointsConfig=None, privateClusterConfig=None))
    assert public.outputs["endpoint"] == public.outputs["privateClusterConfig"]["publicEndpoint"] != ""


def test_outputs_of_a_pool(made: dict[str, State]) -> None:
    outputs = made[NODE_POOL].outputs
    assert (outputs["nodeCount"], outputs["nodeLocations"]) == (0, [ZONE])
    assert outputs["nodeConfig"]["flexStart"] is True
    assert outputs["queuedProvisioning"] == {"enabled": True}
    # GKE's taints are shown, and are none of the program's.
    assert outputs["nodeConfig"]["taints"] == []
    assert [taint["key"] for taint in outputs["nodeConfig"]["effectiveTaints"]] == [
        "google.com/tpu",
        "cloud.google.com/gke-queued",
    ]
    assert "/instanceGroups/" in outputs["instanceGroupUrls"][0]
    assert "/instanceGroupManagers/" in outputs["managedInstanceGroupUrls"][0]


def test_the_queued_pool_is_sent_with_both_flags(desk: Desk, made: dict[str, State]) -> None:
    [sent] = [entry["nodePool"] for entry in desk.sent(f"{CLUSTERS}.nodePools.create")]
    assert (sent["queuedProvisioning"], sent["config"]["flexStart"]) == ({"enabled": True}, True)
    assert "upgradeSettings" not in sent


# -- drift and changes ---------------------------------------------------------------------------------------------


def test_drift_is_shown_and_put_right(desk: Desk, cloud: Cloud, made: dict[str, State]) -> None:
    call(cloud, "nodePools.setManagement", POOL, {"management": {"autoRepair": True, "autoUpgrade": True}})
    call(cloud, "nodePools.update", POOL, {"labels": {"labels": {"team": "b"}}})
    refreshed = desk.refresh(NODE_POOL, made[NODE_POOL])
    assert refreshed is not None
    assert desk.diff(NODE_POOL, refreshed, pool()) == {
        "management.autoRepair": ("update", False),
        "nodeConfig.labels.team": ("update", False),
    }
    healed = desk.update(NODE_POOL, refreshed, pool())
    assert healed.outputs["management"] == {"autoUpgrade": True}
    assert healed.outputs["nodeConfig"]["labels"] == {"team": "a"}


def test_a_cluster_drifts_too(desk: Desk, cloud: Cloud, made: dict[str, State]) -> None:
    update = {"update": {"desiredReleaseChannel": {"channel": "RAPID"}}}
    call(cloud, "update", NAME, update)
    refreshed = desk.refresh(CLUSTER, made[CLUSTER])
    assert refreshed is not None
    assert desk.diff(CLUSTER, refreshed, cluster()) == {"releaseChannel.channel": ("update", False)}


def test_what_was_deleted_is_gone(desk: Desk, cloud: Cloud, made: dict[str, State]) -> None:
    call(cloud, "delete", NAME)
    assert desk.refresh(CLUSTER, made[CLUSTER]) is None
    assert desk.refresh(NODE_POOL, made[NODE_POOL]) is None
    desk.provider.delete(NODE_POOL, made[NODE_POOL])


@pytest.mark.parametrize(
    ("inputs", "changes"),
    [
        (pool(autoscaling={"minNodeCount": 0, "maxNodeCount": 8}), {"autoscaling.maxNodeCount": ("update", False)}),
        (pool({"labels": {"team": "b"}}), {"nodeConfig.labels.team": ("update", False)}),
        (pool({"machineType": "ct6e-standard-8t"}), {"nodeConfig.machineType": ("update", False)}),
        (pool({"maxRunDuration": "3600s"}), {"nodeConfig.maxRunDuration": ("update", True)}),
        (pool({"flexStart": False}), {"nodeConfig.flexStart": ("update", True)}),
        (pool(queuedProvisioning=None), {"queuedProvisioning": ("delete", True)}),
        (
            pool(placementPolicy={"type": "COMPACT", "tpuTopology": "8x8"}),
            {"placementPolicy.tpuTopology": ("update", True)},
        ),
        (pool(initialNodeCount=4), {"initialNodeCount": ("update", True)}),
    ],
)
def test_what_replaces_a_pool(
    desk: Desk, made: dict[str, State], inputs: dict[str, Value], changes: dict[str, tuple[str, bool]]
) -> None:
    # Not by desk.diff: some of these pools there cannot be, which its check would say first.
    found = desk.provider.diff(NODE_POOL, made[NODE_POOL], inputs)
    assert {change.path: (change.action, change.replace) for change in found.changes} == changes


def test_a_pool_changes_in_place(desk: Desk, cloud: Cloud) -> None:
    desk.create(CLUSTER, cluster())
    plain: dict[str, Value] = {"name": "dws-pool", "cluster": "tpu-cluster", "location": ZONE, "nodeCount": 1}
    first = desk.create(NODE_POOL, {**plain, "nodeConfig": {"machineType": "n2-standard-4"}})
    assert first.outputs["nodeCount"] == 1
    taint = {"key": "team", "value": "a", "effect": "NO_SCHEDULE"}
    wanted: dict[str, Value] = {
        **plain,
        "nodeCount": 3,
        "management": {"autoRepair": False, "autoUpgrade": True},
        "upgradeSettings": {"maxSurge": 2},
        "nodeConfig": {"machineType": "n2-standard-8", "taints": [taint], "resourceLabels": {"cost": "x"}},
    }
    changed = desk.update(NODE_POOL, first, wanted)
    assert desk.diff(NODE_POOL, changed, wanted) == {}
    assert changed.outputs["nodeCount"] == 3
    assert changed.outputs["nodeConfig"]["machineType"] == "n2-standard-8"
    assert changed.outputs["nodeConfig"]["taints"] == [taint]
    assert changed.outputs["upgradeSettings"]["maxSurge"] == 2
    scaled: dict[str, Value] = {**wanted, "nodeCount": None, "autoscaling": {"minNodeCount": 1, "maxNodeCount": 5}}
    grown = desk.update(NODE_POOL, changed, scaled)
    assert grown.outputs["autoscaling"]["maxNodeCount"] == 5
    assert grown.outputs["nodeCount"] == 3
    fixed = desk.update(NODE_POOL, grown, wanted)
    assert fixed.outputs["autoscaling"] is None


def test_a_cluster_changes_in_place(desk: Desk, made: dict[str, State]) -> None:
    wanted = cluster(
        addonsConfig={"rayOperatorConfigs": [{"enabled": False}], "gcsFuseCsiDriverConfig": {"enabled": True}},
        controlPlaneEndpointsConfig={
            "dnsEndpointConfig": {"allowExternalTraffic": False},
            "ipEndpointsConfig": {"enabled": True},
        },
        masterAuthorizedNetworksConfig={"cidrBlocks": [{"displayName": "office", "cidrBlock": "203.0.113.0/24"}]},
        minMasterVersion="1.35",
        resourceLabels={"app": "other"},
        maintenancePolicy=None,
        nodeConfig={"machineType": "n2-standard-16", "gcfsConfig": {"enabled": True}, "labels": {"team": "b"}},
        deletionProtection=True,
    )
    assert not any(replace for _, replace in desk.diff(CLUSTER, made[CLUSTER], wanted).values())
    changed = desk.update(CLUSTER, made[CLUSTER], wanted)
    assert desk.diff(CLUSTER, changed, wanted) == {}
    outputs = reveal(changed.outputs)
    assert outputs["masterVersion"].startswith("1.35.")
    assert outputs["resourceLabels"] == {"app": "other"}
    assert outputs["effectiveLabels"] == {"app": "other", "goog-pulumi-provisioned": "true"}
    assert outputs["masterAuthorizedNetworksConfig"]["cidrBlocks"][0]["cidrBlock"] == "203.0.113.0/24"
    assert outputs["maintenancePolicy"] is None
    assert outputs["nodeConfig"]["labels"] == {"team": "b"}
    refreshed = desk.refresh(CLUSTER, changed)
    assert refreshed is not None
    assert desk.diff(CLUSTER, refreshed, wanted) == {}


def test_a_change_that_mockgcp_does_not_make_is_refused(desk: Desk, made: dict[str, State]) -> None:
    with pytest.raises(ApiError, match="does not change enableIntranodeVisibility of gcp:container/cluster:Cluster"):
        desk.update(CLUSTER, made[CLUSTER], cluster(enableIntranodeVisibility=True))


@pytest.mark.parametrize("field", ["location", "network", "initialNodeCount", "name"])
def test_what_replaces_a_cluster(desk: Desk, made: dict[str, State], field: str) -> None:
    other = {"location": "us-east5-a", "network": f"{NETWORK_ID}2", "initialNodeCount": 2, "name": "other"}[field]
    assert desk.diff(CLUSTER, made[CLUSTER], cluster(**{field: other})) == {field: ("update", True)}


# -- creation ------------------------------------------------------------------------------------------------------


def test_without_a_default_pool(desk: Desk) -> None:
    made = desk.create(CLUSTER, cluster(removeDefaultNodePool=True))
    found = desk.cloud.call(f"{CLUSTERS}.nodePools.list", {"parent": NAME}, None, DEFAULT_OWNER)
    assert found == {"nodePools": []}
    assert desk.diff(CLUSTER, made, cluster(removeDefaultNodePool=True)) == {}
    refreshed = desk.refresh(CLUSTER, made)
    assert refreshed is not None
    assert desk.diff(CLUSTER, refreshed, cluster(removeDefaultNodePool=True)) == {}


@pytest.mark.parametrize(
    ("token", "inputs", "what"),
    [
        (CLUSTER, cluster(name="Tpu"), "'Tpu' does not match"),
        (CLUSTER, cluster(minMasterVersion="1.31"), 'Master version "1.31" is unsupported'),
        (CLUSTER, cluster(enableAutopilot=True), "property enableAutopilot of gcp:container/cluster:Cluster"),
        (CLUSTER, cluster(nodePools=[{"name": "a"}]), "property nodePools of"),
        (CLUSTER, cluster(addonsConfig={"kalmConfig": {"enabled": True}}), "addonsConfig.kalmConfig"),
        (NODE_POOL, pool({"flexStart": False}), "needs flex start"),
        (NODE_POOL, pool(autoscaling={"maxNodeCount": 3}), "not a valid size of TPU pod slice with topology 4x4"),
        (NODE_POOL, pool(upgradeSettings={"maxSurge": 1}), "SURGE is not supported with flex start"),
        (NODE_POOL, pool(location="us-east5-c"), 'Invalid machine type "ct6e-standard-4t" in zone "us-east5-c"'),
        (NODE_POOL, pool(namePrefix="x"), "property namePrefix of gcp:container/nodePool:NodePool"),
        (NODE_POOL, pool({"bootDisk": {"sizeGb": 50}}), "config.bootDisk"),
    ],
)
def test_a_preview_says_what_the_api_would_refuse(desk: Desk, token: str, inputs: dict[str, Value], what: str) -> None:
    [failure] = desk.refused(token, inputs)
    assert what in failure


def test_a_preview_of_a_pool_whose_cluster_is_not_there_yet(desk: Desk) -> None:
    assert desk.refused(NODE_POOL, pool()) == []
    assert desk.refused(NODE_POOL, {**pool(), "cluster": UNKNOWN}) == []


def test_a_protected_cluster_is_not_deleted(desk: Desk) -> None:
    made = desk.create(CLUSTER, cluster(deletionProtection=True))
    with pytest.raises(ApiError, match="without setting deletionProtection=false"):
        desk.provider.delete(CLUSTER, made)
    open_ = desk.update(CLUSTER, made, cluster())
    desk.provider.delete(CLUSTER, open_)
    assert desk.refresh(CLUSTER, open_) is None


def test_names_are_generated_within_their_limit(desk: Desk) -> None:
    inputs = {key: value for key, value in cluster().items() if key != "name"}
    checked = desk.checked(CLUSTER, inputs, name="a-cluster-with-a-name-that-is-far-too-long-for-it")
    assert len(checked["name"]) <= 40
    assert desk.provider.create(CLUSTER, checked).outputs["name"] == checked["name"]
