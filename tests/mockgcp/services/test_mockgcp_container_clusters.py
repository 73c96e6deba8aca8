"""Kubernetes Engine: clusters, operations one at a time, and what changes of a cluster."""

from __future__ import annotations

from typing import Any

import pytest
from mockgcp_client import PROJECT, STRANGER, Client

from infra import catalog
from mockgcp.cloud import Cloud

ZONE = "us-east5-b"
LOCATION = f"projects/{PROJECT}/locations/{ZONE}"
NAME = f"{LOCATION}/clusters/tpu"
DEFAULT_POOL = f"{NAME}/nodePools/default-pool"
NETWORK = f"projects/{PROJECT}/global/networks/holdfast"
CLUSTERS = "container.projects.locations.clusters"
OPERATIONS = "container.projects.locations.operations"
THE_CLUSTER = {"name": NAME}
ROOT = "https://container.googleapis.com/v1beta1/"


@pytest.fixture
def gcp(cloud: Cloud) -> Client:
    """The owner of a project with a network, and a subnet with ranges for pods and services."""
    cloud.project(PROJECT).services.update({"compute.googleapis.com", "container.googleapis.com"})
    owner = Client(cloud)
    owner.finish("compute.networks.insert", {"project": PROJECT}, {"name": "holdfast", "autoCreateSubnetworks": False})
    ranges = [
        {"rangeName": "pods", "ipCidrRange": "10.4.0.0/14"},
        {"rangeName": "services", "ipCidrRange": "10.8.0.0/20"},
    ]
    subnet = {"name": "holdfast", "network": NETWORK, "ipCidrRange": "10.0.0.0/20", "secondaryIpRanges": ranges}
    owner.finish("compute.subnetworks.insert", {"project": PROJECT, "region": "us-east5"}, subnet)
    return owner


def cluster(**fields: Any) -> dict[str, Any]:
    return {
        "cluster": {"name": "tpu", "initialNodeCount": 1, "network": "holdfast", "subnetwork": "holdfast", **fields}
    }


@pytest.fixture
def made(gcp: Client) -> Client:
    gcp.finish(f"{CLUSTERS}.create", {"parent": LOCATION}, cluster(nodeConfig={"machineType": "n2-standard-16"}))
    return gcp


def get(gcp: Client) -> dict[str, Any]:
    return gcp.call(f"{CLUSTERS}.get", THE_CLUSTER)


def update(gcp: Client, **wanted: Any) -> dict[str, Any]:
    return gcp.finish(f"{CLUSTERS}.update", THE_CLUSTER, {"update": wanted})


# -- creation ------------------------------------------------------------------------------------------------------


def test_a_cluster_comes_with_the_servers_choices_and_its_default_pool(made: Client) -> None:
    found = get(made)
    assert (found["status"], found["location"], found["locations"]) == ("RUNNING", ZONE, [ZONE])
    assert found["currentMasterVersion"] == catalog.gke_version()
    assert found["releaseChannel"] == {"channel": "REGULAR"}
    assert (found["selfLink"], found["network"]) == (ROOT + NAME, "holdfast")
    assert found["networkConfig"]["network"] == NETWORK
    assert found["endpoint"] == found["privateClusterConfig"]["publicEndpoint"]
    assert found["masterAuth"]["clusterCaCertificate"]
    [pool] = found["nodePools"]
    assert (pool["name"], pool["status"], pool["initialNodeCount"]) == ("default-pool", "RUNNING", 1)
    assert pool["config"]["machineType"] == found["nodeConfig"]["machineType"] == "n2-standard-16"
    assert (pool["config"]["serviceAccount"], pool["config"]["imageType"]) == ("default", "COS_CONTAINERD")
    assert found["currentNodeCount"] == 1


def test_it_is_there_while_it_is_being_made(gcp: Client, cloud: Cloud) -> None:
    operation = gcp.start(f"{CLUSTERS}.create", {"parent": LOCATION}, cluster())
    assert (get(gcp)["status"], get(gcp)["nodePools"][0]["status"]) == ("PROVISIONING", "PROVISIONING")
    cloud.wait(operation)
    assert get(gcp)["status"] == "RUNNING"


def test_a_regional_cluster_has_nodes_in_three_zones(gcp: Client) -> None:
    parent = {"parent": f"projects/{PROJECT}/locations/us-east5"}
    found = gcp.finish(f"{CLUSTERS}.create", parent, cluster(initialNodeCount=2))
    assert found["locations"] == ["us-east5-a", "us-east5-b", "us-east5-c"]
    assert (len(found["nodePools"][0]["instanceGroupUrls"]), found["currentNodeCount"]) == (3, 6)


def test_a_private_control_plane_has_no_public_endpoint(gcp: Client) -> None:
    endpoints = {"ipEndpointsConfig": {"enablePublicEndpoint": False}}
    private = {"controlPlaneEndpointsConfig": endpoints, "networkConfig": {"defaultEnablePrivateNodes": True}}
    found = gcp.finish(f"{CLUSTERS}.create", {"parent": LOCATION}, cluster(**private))
    shown = found["privateClusterConfig"]
    assert (shown["enablePrivateNodes"], shown["enablePrivateEndpoint"], shown["publicEndpoint"]) == (True, True, "")
    assert found["endpoint"] == shown["privateEndpoint"]
    assert found["nodePools"][0]["networkConfig"]["enablePrivateNodes"] is True


def test_named_ranges_are_the_subnets_and_others_are_free_ones_of_their_size(gcp: Client) -> None:
    named = {"clusterSecondaryRangeName": "pods", "servicesSecondaryRangeName": "services"}
    first = gcp.finish(f"{CLUSTERS}.create", {"parent": LOCATION}, cluster(ipAllocationPolicy=named))
    assert (first["clusterIpv4Cidr"], first["servicesIpv4Cidr"]) == ("10.4.0.0/14", "10.8.0.0/20")
    sized = {"clusterIpv4CidrBlock": "/17", "servicesIpv4CidrBlock": "/22"}
    body = cluster(name="other", ipAllocationPolicy=sized)
    second = gcp.finish(f"{CLUSTERS}.create", {"parent": LOCATION}, body)
    blocks = [second["clusterIpv4Cidr"], second["servicesIpv4Cidr"]]
    assert [block.partition("/")[2] for block in blocks] == ["17", "22"]
    taken = ["10.0.0.0/20", "10.4.0.0/14", "10.8.0.0/20"]
    assert not any(catalog.overlapping(block, taken) for block in blocks)
    assert catalog.overlapping(blocks[0], blocks[1:]) is None
    overlap = cluster(name="third", ipAllocationPolicy={"clusterIpv4CidrBlock": "10.4.0.0/16"})
    assert "overlaps 10.4.0.0/14" in gcp.refused(f"{CLUSTERS}.create", {"parent": LOCATION}, overlap).message


def test_what_the_cluster_says_its_pools_have(gcp: Client) -> None:
    fields = {
        "nodePoolDefaults": {"nodeConfigDefaults": {"gcfsConfig": {"enabled": True}}},
        "workloadIdentityConfig": {"workloadPool": f"{PROJECT}.svc.id.goog"},
    }
    gcp.finish(f"{CLUSTERS}.create", {"parent": LOCATION}, cluster(**fields))
    config = gcp.call(f"{CLUSTERS}.nodePools.get", {"name": DEFAULT_POOL})["config"]
    assert config["gcfsConfig"] == {"enabled": True}
    assert config["workloadMetadataConfig"] == {"mode": "GKE_METADATA"}


@pytest.mark.parametrize(
    ("location", "fields", "status", "what"),
    [
        (ZONE, {"name": "Tpu"}, "INVALID_ARGUMENT", "'Tpu' does not match"),
        (ZONE, {"name": "t" * 41}, "INVALID_ARGUMENT", "at most 40"),
        ("us-east5-d", {}, "INVALID_ARGUMENT", 'Location "us-east5-d" does not exist'),
        ("mars-east1", {}, "INVALID_ARGUMENT", 'Location "mars-east1" does not exist'),
        (ZONE, {"initialNodeCount": 0}, "INVALID_ARGUMENT", "must be greater than zero"),
        (ZONE, {"initialClusterVersion": "1.31"}, "INVALID_ARGUMENT", 'Master version "1.31" is unsupported'),
        (ZONE, {"initialClusterVersion": "newest"}, "INVALID_ARGUMENT", 'Master version "newest" is unsupported'),
        (ZONE, {"releaseChannel": {"channel": "FAST"}}, "INVALID_ARGUMENT", "RAPID, REGULAR"),
        (ZONE, {"network": "other"}, "INVALID_ARGUMENT", 'has no network named "other"'),
        (ZONE, {"subnetwork": "other"}, "INVALID_ARGUMENT", "has no subnetwork"),
        (
            ZONE,
            {"ipAllocationPolicy": {"clusterSecondaryRangeName": "nope"}},
            "INVALID_ARGUMENT",
            'Pod secondary range "nope" does not exist',
        ),
        (
            ZONE,
            {"workloadIdentityConfig": {"workloadPool": "acme-other.svc.id.goog"}},
            "INVALID_ARGUMENT",
            f"only supported identity namespace for workload identity is {PROJECT}.svc.id.goog",
        ),
        (ZONE, {"nodeConfig": {"machineType": "z9-huge"}}, "INVALID_ARGUMENT", 'Invalid machine type "z9-huge"'),
        (
            ZONE,
            {"nodeConfig": {"serviceAccount": f"nobody@{PROJECT}.iam.gserviceaccount.com"}},
            "PERMISSION_DENIED",
            "does not have access to service account",
        ),
        (
            ZONE,
            {
                "maintenancePolicy": {
                    "window": {
                        "maintenanceExclusions": {
                            "x": {"startTime": "2026-12-02T00:00:00Z", "endTime": "2026-12-01T00:00:00Z"}
                        }
                    }
                }
            },
            "INVALID_ARGUMENT",
            "before it starts",
        ),
        (ZONE, {"autopilot": {"enabled": True}}, "UNIMPLEMENTED", "autopilot"),
        (ZONE, {"nodePools": [{"name": "a"}]}, "UNIMPLEMENTED", "nodePools"),
        (
            ZONE,
            {"fleet": {"project": "x"}},
            "UNIMPLEMENTED",
            "fleet",
        ),
        (ZONE, {"nodeConfig": {"nodeGroup": "sole"}}, "UNIMPLEMENTED", "nodeConfig.nodeGroup"),
        (ZONE, {"ipAllocationPolicy": {"useIpAliases": False}}, "UNIMPLEMENTED", "VPC-native"),
        (ZONE, {"shape": "round"}, "INVALID_ARGUMENT", 'Unknown name "shape"'),
    ],
)
def test_what_a_new_cluster_is_refused_for(
    gcp: Client, location: str, fields: dict[str, Any], status: str, what: str
) -> None:
    parent = {"parent": f"projects/{PROJECT}/locations/{location}"}
    error = gcp.refused(f"{CLUSTERS}.create", parent, cluster(**fields))
    assert (error.status, what in error.message) == (status, True), error.message
    assert gcp.call(f"{CLUSTERS}.list", {"parent": f"projects/{PROJECT}/locations/-"}) == {"clusters": []}


@pytest.mark.parametrize("off", [{"autopilot": {"enabled": False}}, {"legacyAbac": {}}, {"nodePools": []}])
def test_what_is_not_emulated_may_be_off(gcp: Client, off: dict[str, Any]) -> None:
    assert gcp.finish(f"{CLUSTERS}.create", {"parent": LOCATION}, cluster(**off))["status"] == "RUNNING"


@pytest.mark.parametrize(
    ("wanted", "given"),
    [
        ("1.34", "1.34.9-gke.1287000"),
        ("1.34.9", "1.34.9-gke.1287000"),
        ("1.34.1-gke.100", "1.34.1-gke.100"),
        ("latest", "1.35.8-gke.1036000"),
        ("-", "1.35.8-gke.1036000"),
    ],
)
def test_versions(gcp: Client, wanted: str, given: str) -> None:
    found = gcp.finish(f"{CLUSTERS}.create", {"parent": LOCATION}, cluster(initialClusterVersion=wanted))
    assert found["initialClusterVersion"] == found["currentMasterVersion"] == found["currentNodeVersion"] == given
    assert (
        catalog.gke_version()
        in gcp.call("container.projects.locations.getServerConfig", {"name": LOCATION})["validMasterVersions"]
    )


def test_a_name_is_taken_once(made: Client) -> None:
    assert made.refused(f"{CLUSTERS}.create", {"parent": LOCATION}, cluster()).status == "ALREADY_EXISTS"
    elsewhere = {"parent": f"projects/{PROJECT}/locations/us-east5-a"}
    made.finish(f"{CLUSTERS}.create", elsewhere, cluster())
    assert len(made.call(f"{CLUSTERS}.list", {"parent": f"projects/{PROJECT}/locations/-"})["clusters"]) == 2
    assert len(made.call(f"{CLUSTERS}.list", {"parent": LOCATION})["clusters"]) == 1


def test_a_deleted_cluster_leaves_nothing(gcp: Client, cloud: Cloud) -> None:
    before = cloud.resources()
    gcp.finish(f"{CLUSTERS}.create", {"parent": LOCATION}, cluster())
    assert len(cloud.resources()) > len(before)
    operation = gcp.start(f"{CLUSTERS}.delete", THE_CLUSTER)
    assert get(gcp)["status"] == "STOPPING"
    cloud.wait(operation)
    assert gcp.refused(f"{CLUSTERS}.get", THE_CLUSTER).status == "NOT_FOUND"
    assert cloud.resources() == before


def test_a_subnet_stays_as_long_as_its_cluster(made: Client) -> None:
    subnet = {"project": PROJECT, "region": "us-east5", "subnetwork": "holdfast"}
    assert made.refused("compute.subnetworks.delete", subnet).reason == "resourceInUseByAnotherResource"
    made.finish(f"{CLUSTERS}.delete", THE_CLUSTER)
    made.finish("compute.subnetworks.delete", subnet)


# -- operations ----------------------------------------------------------------------------------------------------


def test_an_operation_has_the_apis_own_form(gcp: Client, cloud: Cloud) -> None:
    operation = gcp.start(f"{CLUSTERS}.create", {"parent": LOCATION}, cluster())
    running = gcp.call(f"{OPERATIONS}.get", {"name": operation.name})
    assert (running["operationType"], running["status"], running["zone"]) == ("CREATE_CLUSTER", "RUNNING", ZONE)
    assert (running["targetLink"], running["selfLink"]) == (ROOT + NAME, ROOT + operation.name)
    assert operation.name == f"{LOCATION}/operations/{running['name']}"
    cloud.wait(operation)
    [done] = gcp.call(f"{OPERATIONS}.list", {"parent": f"projects/{PROJECT}/locations/-"})["operations"]
    assert (done["status"], "error" in done) == ("DONE", False)
    assert done["startTime"] < done["endTime"]


@pytest.mark.parametrize(
    ("method", "params", "body", "doing"),
    [
        (f"{CLUSTERS}.nodePools.create", {"parent": NAME}, {"nodePool": {"name": "a"}}, "creating a node pool for"),
        (f"{CLUSTERS}.nodePools.delete", {"name": DEFAULT_POOL}, None, "deleting a node pool for"),
        (f"{CLUSTERS}.update", THE_CLUSTER, {"update": {"desiredLoggingService": "none"}}, "updating"),
        (f"{CLUSTERS}.delete", THE_CLUSTER, None, "deleting"),
    ],
)
def test_one_operation_at_a_time_in_a_cluster(
    made: Client, cloud: Cloud, method: str, params: dict[str, str], body: Any, doing: str
) -> None:
    before = get(made)
    first = made.start(method, params, body)
    error = made.refused(f"{CLUSTERS}.nodePools.create", {"parent": NAME}, {"nodePool": {"name": "second"}})
    said = f"Operation {first.metadata['name']} is currently {doing} cluster tpu. Please wait and try again"
    assert (error.status, error.message.startswith(said)) == ("FAILED_PRECONDITION", True), error.message
    cloud.wait(first)
    if method != f"{CLUSTERS}.delete":
        made.finish(f"{CLUSTERS}.nodePools.create", {"parent": NAME}, {"nodePool": {"name": "second"}})
        assert "second" in {pool["name"] for pool in get(made)["nodePools"]} - {p["name"] for p in before["nodePools"]}


def test_another_cluster_is_not_kept_waiting(made: Client) -> None:
    made.start(f"{CLUSTERS}.nodePools.create", {"parent": NAME}, {"nodePool": {"name": "a"}})
    assert made.finish(f"{CLUSTERS}.create", {"parent": LOCATION}, cluster(name="other"))["status"] == "RUNNING"


def test_a_cancelled_operation_is_undone(made: Client, cloud: Cloud) -> None:
    operation = made.start(f"{CLUSTERS}.nodePools.create", {"parent": NAME}, {"nodePool": {"name": "a"}})
    made.call(f"{OPERATIONS}.cancel", {"name": operation.name}, {})
    assert made.call(f"{OPERATIONS}.get", {"name": operation.name})["status"] == "ABORTING"
    cloud.clock.advance(600)
    done = made.call(f"{OPERATIONS}.get", {"name": operation.name})
    assert (done["status"], done["error"]["code"]) == ("DONE", 1)
    assert [pool["name"] for pool in get(made)["nodePools"]] == ["default-pool"]
    assert made.refused(f"{OPERATIONS}.cancel", {"name": operation.name}, {}).status == "FAILED_PRECONDITION"


def test_an_unknown_operation(gcp: Client) -> None:
    assert gcp.refused(f"{OPERATIONS}.get", {"name": f"{LOCATION}/operations/nope"}).status == "NOT_FOUND"


# -- changes -------------------------------------------------------------------------------------------------------


def test_addons_change_one_by_one(made: Client) -> None:
    found = update(made, desiredAddonsConfig={"rayOperatorConfig": {"enabled": True}})
    assert found["addonsConfig"]["rayOperatorConfig"] == {"enabled": True}
    assert found["addonsConfig"]["gcePersistentDiskCsiDriverConfig"] == {"enabled": True}


def test_closing_the_public_endpoint(made: Client) -> None:
    found = update(made, desiredControlPlaneEndpointsConfig={"ipEndpointsConfig": {"enablePublicEndpoint": False}})
    assert found["privateClusterConfig"]["enablePrivateEndpoint"] is True
    assert found["endpoint"] == found["privateClusterConfig"]["privateEndpoint"] != ""
    assert found["controlPlaneEndpointsConfig"]["dnsEndpointConfig"]["endpoint"]


def test_a_cluster_may_be_reached_by_its_name_alone_and_opened_later(made: Client) -> None:
    closed = update(made, desiredControlPlaneEndpointsConfig={"ipEndpointsConfig": {"enabled": False}})
    assert (closed["endpoint"], closed["privateClusterConfig"]["publicEndpoint"]) == ("", "")
    by_ip = {"enabled": True, "enablePublicEndpoint": True}
    opened = update(made, desiredControlPlaneEndpointsConfig={"ipEndpointsConfig": by_ip})
    assert opened["endpoint"] == opened["privateClusterConfig"]["publicEndpoint"] != ""


def test_the_control_plane_is_upgraded_and_never_back(made: Client) -> None:
    made.finish(f"{CLUSTERS}.delete", THE_CLUSTER)
    made.finish(f"{CLUSTERS}.create", {"parent": LOCATION}, cluster(initialClusterVersion="1.34"))
    found = update(made, desiredMasterVersion="1.35")
    assert found["currentMasterVersion"] == catalog.gke_version("1.35")
    assert found["currentNodeVersion"] == catalog.gke_version("1.34")
    error = made.refused(f"{CLUSTERS}.update", THE_CLUSTER, {"update": {"desiredMasterVersion": "1.34"}})
    assert "cannot be downgraded" in error.message


@pytest.mark.parametrize(
    ("wanted", "status", "what"),
    [
        ({}, "INVALID_ARGUMENT", "exactly one field"),
        ({"desiredLoggingService": "none", "desiredMonitoringService": "none"}, "INVALID_ARGUMENT", "exactly one"),
        ({"desiredMasterVersion": "1.31"}, "INVALID_ARGUMENT", "unsupported"),
        ({"desiredDatapathProvider": "ADVANCED_DATAPATH"}, "UNIMPLEMENTED", "desiredDatapathProvider"),
        ({"desiredAddonsConfig": {"kalmConfig": {"enabled": True}}}, "UNIMPLEMENTED", "kalmConfig"),
        ({"desiredWorkloadIdentityConfig": {"workloadPool": "x.svc.id.goog"}}, "INVALID_ARGUMENT", "namespace"),
    ],
)
def test_refused_updates(made: Client, wanted: dict[str, Any], status: str, what: str) -> None:
    before = get(made)
    error = made.refused(f"{CLUSTERS}.update", THE_CLUSTER, {"update": wanted})
    assert (error.status, what in error.message) == (status, True), error.message
    assert get(made) == before


def test_labels_need_the_current_fingerprint(made: Client) -> None:
    stale = get(made)["labelFingerprint"]
    body = {"resourceLabels": {"app": "holdfast"}, "labelFingerprint": stale}
    assert made.finish(f"{CLUSTERS}.setResourceLabels", THE_CLUSTER, body)["resourceLabels"] == {"app": "holdfast"}
    assert "fingerprint" in made.refused(f"{CLUSTERS}.setResourceLabels", THE_CLUSTER, body).message


def test_maintenance_policy(made: Client) -> None:
    exclusion = {"startTime": "2026-12-01T00:00:00Z", "endTime": "2026-12-20T00:00:00Z"}
    policy = {"window": {"maintenanceExclusions": {"training": exclusion}}}
    made.finish(f"{CLUSTERS}.setMaintenancePolicy", THE_CLUSTER, {"maintenancePolicy": policy})
    assert get(made)["maintenancePolicy"]["window"]["maintenanceExclusions"]["training"] == exclusion


def test_the_path_and_the_older_fields_must_agree(made: Client) -> None:
    body = {"update": {"desiredLoggingService": "none"}, "clusterId": "other"}
    assert "clusterId is 'other'" in made.refused(f"{CLUSTERS}.update", THE_CLUSTER, body).message
    made.finish(f"{CLUSTERS}.update", THE_CLUSTER, {**body, "clusterId": "tpu"})


# -- who may -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("role", "may"),
    [
        ("roles/container.viewer", {"get"}),
        ("roles/container.developer", {"get"}),
        ("roles/container.clusterAdmin", {"get", "update", "delete"}),
        ("roles/container.admin", {"get", "update", "delete"}),
        ("roles/container.defaultNodeServiceAccount", set()),
    ],
)
def test_roles(made: Client, cloud: Cloud, role: str, may: set[str]) -> None:
    cloud.policies.grant(f"projects/{PROJECT}", role, STRANGER)
    stranger = made.as_(STRANGER)
    bodies: dict[str, Any] = {"get": None, "update": {"update": {"desiredLoggingService": "none"}}, "delete": None}
    for verb, body in bodies.items():
        if verb in may:
            cloud.call(f"{CLUSTERS}.{verb}", THE_CLUSTER, body, STRANGER)
            cloud.clock.advance(600)
        else:
            assert stranger.refused(f"{CLUSTERS}.{verb}", THE_CLUSTER, body).status == "PERMISSION_DENIED"


def test_the_api_must_be_on(made: Client, cloud: Cloud) -> None:
    cloud.project(PROJECT).services.discard("container.googleapis.com")
    assert made.refused(f"{CLUSTERS}.get", THE_CLUSTER).reason == "SERVICE_DISABLED"
