"""Each rule on GKE's clusters and node pools, violated and kept."""

from typing import Any

import pytest

from policies import (
    cluster_deletion_protection,
    cluster_version,
    cluster_workload_identity,
    default_service_account,
    flex_start_auto_repair,
    flex_start_pool,
    open_control_plane,
    tpu_topology,
)
from policies.props import UNKNOWN
from policies.rule import Props


def changed(base: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """`base` with changes; one of None leaves the property out."""
    return {key: value for key, value in {**base, **changes}.items() if value is not None}


def node(**changes: Any) -> dict[str, Any]:
    base = {"machineType": "ct6e-standard-4t", "flexStart": True, "maxRunDuration": "604800s"}
    affinity = {"reservationAffinity": {"consumeReservationType": "NO_RESERVATION"}}
    return {"nodeConfig": changed({**base, **affinity}, changes)}


def flex(**changes: Any) -> dict[str, Any]:
    """A flex-start pool of scenario B."""
    base = {
        "name": "dws-pool",
        **node(),
        "autoscaling": {"minNodeCount": 0, "maxNodeCount": 4},
        "initialNodeCount": 0,
        "management": {"autoRepair": False, "autoUpgrade": True},
        "placementPolicy": {"type": "COMPACT", "tpuTopology": "4x4"},
        "queuedProvisioning": {"enabled": True},
    }
    return changed(base, changes)


def cluster(**changes: Any) -> dict[str, Any]:
    """A cluster that breaks no rule, outside dev."""
    base = {
        "minMasterVersion": "1.34",
        "releaseChannel": {"channel": "REGULAR"},
        "workloadIdentityConfig": {"workloadPool": "p.svc.id.goog"},
        "controlPlaneEndpointsConfig": {"ipEndpointsConfig": {"enabled": False}},
        "deletionProtection": True,
        "resourceLabels": {"app": "holdfast", "environment": "prod"},
    }
    return changed(base, changes)


def by_address(*ranges: str, **more: Any) -> dict[str, Any]:
    blocks = {"masterAuthorizedNetworksConfig": {"cidrBlocks": [{"cidrBlock": each} for each in ranges]}}
    return cluster(controlPlaneEndpointsConfig=None, **blocks, **more)


@pytest.mark.parametrize(
    ("props", "says"),
    [
        (flex(**node(flexStart=None)), "nodeConfig.flexStart is not on: GKE refuses queued provisioning of TPUs"),
        (flex(queuedProvisioning=None), "queuedProvisioning.enabled is not on"),
        (flex(queuedProvisioning={"enabled": False}), "queuedProvisioning.enabled is not on"),
        (flex(autoscaling=None), "autoscaling is not set"),
        (flex(autoscaling={"minNodeCount": 4, "maxNodeCount": 4}), "autoscaling.minNodeCount: 4 nodes"),
        (flex(autoscaling={"totalMinNodeCount": 1, "totalMaxNodeCount": 4}), "autoscaling.totalMinNodeCount: 1"),
        (flex(initialNodeCount=4), "initialNodeCount: 4 nodes that no request asked for"),
        (flex(nodeCount=4), "nodeCount: 4 nodes"),
        (flex(**node(spot=True)), "nodeConfig.spot: "),
        (flex(**node(preemptible=True)), "nodeConfig.preemptible: "),
        (
            flex(**node(reservationAffinity={"consumeReservationType": "SPECIFIC_RESERVATION"})),
            "nodeConfig.reservationAffinity.consumeReservationType: SPECIFIC_RESERVATION",
        ),
        (flex(**node(maxRunDuration="604801s")), "nodeConfig.maxRunDuration: 604801s"),
        (flex(upgradeSettings={"strategy": "BLUE_GREEN"}), "upgradeSettings.strategy: BLUE_GREEN"),
    ],
)
def test_a_flex_start_pool_that_cannot_be_is_reported(props: Props, says: str) -> None:
    [message] = flex_start_pool.check(props)
    assert message.startswith(says)


@pytest.mark.parametrize(
    "props",
    [
        flex(),
        flex(autoscaling={"maxNodeCount": 4}, initialNodeCount=None),
        flex(autoscaling=UNKNOWN, queuedProvisioning=UNKNOWN, initialNodeCount=UNKNOWN),
        flex(**node(maxRunDuration=UNKNOWN, reservationAffinity=UNKNOWN, spot=UNKNOWN, flexStart=UNKNOWN)),
        flex(**node(maxRunDuration=None, reservationAffinity=None)),
        # GPUs may have either without the other.
        flex(queuedProvisioning=None, **node(machineType="a3-highgpu-8g")),
        flex(**node(machineType="a3-highgpu-8g", flexStart=None)),
        # No flex-start pool.
        flex(queuedProvisioning=None, initialNodeCount=4, **node(flexStart=None, spot=True)),
        {"nodeConfig": UNKNOWN},
        {},
    ],
)
def test_another_pool_is_left_alone(props: Props) -> None:
    assert flex_start_pool.check(props) == []


@pytest.mark.parametrize("management", [None, {}, {"autoRepair": True}, {"autoUpgrade": True}])
def test_a_repaired_flex_start_pool_is_reported(management: Any) -> None:
    [message] = flex_start_auto_repair.check(flex(management=management))
    assert message.startswith("management.autoRepair is on")


@pytest.mark.parametrize(
    "props",
    [
        flex(),
        flex(management=UNKNOWN),
        flex(management={"autoRepair": UNKNOWN}),
        flex(management=None, queuedProvisioning=None, **node(flexStart=None)),
    ],
)
def test_a_pool_that_may_be_repaired_is_left_alone(props: Props) -> None:
    assert flex_start_auto_repair.check(props) == []


@pytest.mark.parametrize(
    ("props", "says"),
    [
        (flex(placementPolicy={"tpuTopology": "4x5"}), "placementPolicy.tpuTopology: '4x5', which is no TPU topology"),
        (flex(**node(machineType="ct6e-standard-8t")), "placementPolicy.tpuTopology: '4x4'; ct6e-standard-8t can have"),
        (flex(**node(machineType="n2-standard-16")), "placementPolicy.tpuTopology: '4x4', but n2-standard-16 has no"),
        (flex(autoscaling={"maxNodeCount": 8}), "autoscaling.maxNodeCount: 8 nodes; topology 4x4 of ct6e-standard-4t"),
        (flex(autoscaling={"totalMaxNodeCount": 2}), "autoscaling.totalMaxNodeCount: 2 nodes"),
        (flex(autoscaling=None, nodeCount=3), "nodeCount: 3 nodes"),
    ],
)
def test_a_pool_that_is_no_whole_slice_is_reported(props: Props, says: str) -> None:
    [message] = tpu_topology.check(props)
    assert message.startswith(says)


@pytest.mark.parametrize(
    "props",
    [
        flex(),
        flex(autoscaling=None, nodeCount=4),
        flex(autoscaling={"maxNodeCount": 4.0, "totalMaxNodeCount": 0}),
        flex(autoscaling={"maxNodeCount": UNKNOWN}),
        # Each node is a slice of its own.
        flex(placementPolicy={"tpuTopology": "2x2"}, autoscaling={"maxNodeCount": 7}),
        flex(placementPolicy=None),
        flex(placementPolicy={"tpuTopology": UNKNOWN}),
        flex(**node(machineType="ct9-new-4t")),
        flex(**node(machineType=UNKNOWN)),
    ],
)
def test_a_pool_of_whole_slices_is_left_alone(props: Props) -> None:
    assert tpu_topology.check(props) == []


@pytest.mark.parametrize(
    ("props", "says"),
    [
        (by_address("0.0.0.0/0"), "masterAuthorizedNetworksConfig.cidrBlocks: 0.0.0.0/0 is the whole Internet"),
        (by_address("203.0.113.0/24", "::/0"), "masterAuthorizedNetworksConfig.cidrBlocks: ::/0"),
        (by_address("10.1.2.3/0"), "masterAuthorizedNetworksConfig.cidrBlocks: 10.1.2.3/0"),
        (cluster(controlPlaneEndpointsConfig=None), "masterAuthorizedNetworksConfig is not set"),
        (
            cluster(controlPlaneEndpointsConfig={"ipEndpointsConfig": {"enabled": True}}),
            "masterAuthorizedNetworksConfig is not set",
        ),
    ],
)
def test_an_open_control_plane_is_reported(props: Props, says: str) -> None:
    [message] = open_control_plane.check(props)
    assert message.startswith(says)


@pytest.mark.parametrize(
    "props",
    [
        cluster(),
        by_address("203.0.113.0/24"),
        by_address(),
        by_address(UNKNOWN),
        by_address("0.0.0.0/0", privateClusterConfig={"enablePrivateEndpoint": True}),
        cluster(controlPlaneEndpointsConfig=UNKNOWN),
        cluster(controlPlaneEndpointsConfig=None, masterAuthorizedNetworksConfig=UNKNOWN),
    ],
)
def test_a_closed_control_plane_is_left_alone(props: Props) -> None:
    assert open_control_plane.check(props) == []


def test_a_cluster_whose_pods_are_its_nodes_is_reported() -> None:
    shown = {"workloadMetadataConfig": {"mode": "GCE_METADATA"}}
    for props in (cluster(workloadIdentityConfig=None), cluster(nodeConfig=shown)):
        [message] = cluster_workload_identity.check_cluster(props)
        assert "service account" in message or "credentials" in message
    [message] = cluster_workload_identity.check_nodes(flex(nodeConfig=shown))
    assert message.startswith("nodeConfig.workloadMetadataConfig.mode")


@pytest.mark.parametrize(
    "props",
    [
        cluster(),
        cluster(workloadIdentityConfig={"workloadPool": UNKNOWN}),
        cluster(workloadIdentityConfig=UNKNOWN),
        cluster(workloadIdentityConfig=None, enableAutopilot=True),
        cluster(nodeConfig={"workloadMetadataConfig": {"mode": "GKE_METADATA"}}),
    ],
)
def test_a_cluster_with_identities_for_pods_is_left_alone(props: Props) -> None:
    assert cluster_workload_identity.check_cluster(props) == []


@pytest.mark.parametrize(
    ("labels", "says"),
    [({"environment": "prod"}, "in environment prod"), ({}, "no label"), (None, "no label")],
)
def test_an_unprotected_cluster_outside_dev_is_reported(labels: Any, says: str) -> None:
    [message] = cluster_deletion_protection.check(cluster(deletionProtection=False, resourceLabels=labels))
    assert message.startswith("deletionProtection is off, ")
    assert says in message


@pytest.mark.parametrize(
    "props",
    [
        cluster(),
        cluster(deletionProtection=None),
        cluster(deletionProtection=UNKNOWN),
        cluster(deletionProtection=False, resourceLabels={"environment": "dev"}),
        cluster(deletionProtection=False, resourceLabels=UNKNOWN),
    ],
)
def test_a_protected_cluster_and_one_of_dev_are_left_alone(props: Props) -> None:
    assert cluster_deletion_protection.check(props) == []


@pytest.mark.parametrize(
    ("props", "says"),
    [
        (cluster(minMasterVersion="1.31"), "minMasterVersion: GKE 1.31; TPU pools with Kueue and Ray take 1.34"),
        (cluster(minMasterVersion="newest"), "minMasterVersion: 'newest' is no GKE version"),
        (cluster(minMasterVersion=None, releaseChannel=None), "neither releaseChannel nor minMasterVersion is set"),
        (cluster(minMasterVersion=None, releaseChannel={"channel": "UNSPECIFIED"}), "neither releaseChannel nor"),
    ],
)
def test_a_cluster_of_an_old_version_or_of_any_is_reported(props: Props, says: str) -> None:
    [message] = cluster_version.check(props)
    assert message.startswith(says)


@pytest.mark.parametrize(
    "props",
    [
        cluster(),
        cluster(releaseChannel=None),
        cluster(minMasterVersion=None),
        cluster(minMasterVersion="1.35.8-gke.1036000", releaseChannel={"channel": "UNSPECIFIED"}),
        cluster(minMasterVersion=UNKNOWN, releaseChannel=None),
        cluster(minMasterVersion=None, releaseChannel={"channel": UNKNOWN}),
    ],
)
def test_a_cluster_that_is_new_enough_is_left_alone(props: Props) -> None:
    assert cluster_version.check(props) == []


@pytest.mark.parametrize("account", [None, "", "default", "123456789012-compute@developer.gserviceaccount.com"])
def test_nodes_under_a_default_account_are_reported(account: Any) -> None:
    for check in (default_service_account.check_pool, default_service_account.check_cluster):
        [message] = check({"nodeConfig": {"serviceAccount": account}})
        assert message.startswith("nodeConfig.serviceAccount")
        assert "Name an account of the workload's own" in message


@pytest.mark.parametrize(
    "props",
    [
        {"nodeConfig": {"serviceAccount": "gke-nodes@p.iam.gserviceaccount.com"}},
        {"nodeConfig": {"serviceAccount": UNKNOWN}},
        {"nodeConfig": UNKNOWN},
        {"enableAutopilot": True},
        {"removeDefaultNodePool": True},
    ],
)
def test_nodes_under_an_account_of_their_own_are_left_alone(props: Props) -> None:
    assert default_service_account.check_cluster(props) == []
