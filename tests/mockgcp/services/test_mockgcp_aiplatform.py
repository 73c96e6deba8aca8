"""Training clusters: how they are made, what is refused, how they change, and what a plane behind them is asked."""

from __future__ import annotations

import json
from typing import Any

import pytest
from mockgcp_client import OTHER, PROJECT, STRANGER, Client
from slurm_site import (
    CONFIG,
    GPU,
    LOGIN,
    REGION,
    ZONE,
    Schedulers,
    settle,
    slurm,
    training_cluster,
)

from mockgcp.cloud import DEFAULT_OWNER, Cloud
from mockgcp.frontends.rest import Answer, Sent, handle
from mockgcp.training_clusters import Event, Node, Status

LOCATION = f"projects/{PROJECT}/locations/{REGION}"
NAME = f"{LOCATION}/modelDevelopmentClusters/flexvm"
METHODS = "aiplatform.projects.locations.modelDevelopmentClusters"
NEW = {"parent": LOCATION, "modelDevelopmentClusterId": "flexvm"}
IT = {"name": NAME}
SPEC = "orchestratorSpec.slurmSpec"


@pytest.fixture
def gcp(cloud: Cloud) -> Client:
    settle(cloud, PROJECT)
    return Client(cloud)


def body(slurm_fields: dict[str, Any] | None = None, **fields: Any) -> dict[str, Any]:
    return training_cluster(PROJECT, slurm_fields, **fields)


@pytest.fixture
def made(gcp: Client) -> Client:
    gcp.finish(f"{METHODS}.create", NEW, body())
    return gcp


def get(gcp: Client) -> dict[str, Any]:
    return gcp.call(f"{METHODS}.get", IT)


def states(found: dict[str, Any]) -> dict[str, str]:
    return {each["instanceName"]: each["nodeState"] for each in found["clusterStatus"]["nodesStatus"]}


def rest(cloud: Cloud, verb: str, path: str, sent: Any = None) -> tuple[int, Any]:
    target, _, query = path.partition("?")
    content = b"" if sent is None else json.dumps(sent).encode()
    answer: Answer = handle(cloud, Sent(verb, target, query, {"authorization": f"Bearer {DEFAULT_OWNER}"}, content))
    return answer.status, json.loads(answer.body)


# -- creation ------------------------------------------------------------------------------------------------------


def test_a_cluster_passes_through_its_states_with_its_nodes(gcp: Client, cloud: Cloud) -> None:
    operation = gcp.start(f"{METHODS}.create", NEW, body())
    number = cloud.project(PROJECT).number
    assert operation.name.startswith(f"projects/{number}/locations/{REGION}/operations/")
    assert operation.metadata["@type"].endswith(".CreateModelDevelopmentClusterOperationMetadata")
    assert operation.metadata["progressMessage"].startswith("Create Model Development Cluster request received")
    making = get(gcp)
    assert making["clusterStatus"]["state"] == "PROVISIONING"
    assert states(making) == {"flexvm-login-0": "PREPARING", "flexvm-a3u-0": "PREPARING"}
    assert gcp.refused(f"{METHODS}.create", NEW, body()).status == "ALREADY_EXISTS"
    for method in ("patch", "delete"):
        assert (
            gcp.refused(f"{METHODS}.{method}", IT, body() if method == "patch" else None).status
            == "FAILED_PRECONDITION"
        )
    made = cloud.wait(operation)
    assert made == get(gcp)
    assert made["name"] == NAME.replace(PROJECT, str(number))
    assert (made["clusterStatus"]["state"], made["startTime"] > made["createTime"]) == ("RUNNING", True)
    # A dynamic node is made when a job waits; the second one of the pool is dynamic.
    assert states(made) == {"flexvm-login-0": "RUNNING", "flexvm-a3u-0": "RUNNING"}
    kinds = {each["nodePoolId"]: each["nodePoolType"] for each in made["clusterStatus"]["nodesStatus"]}
    assert kinds == {"login": "NODE_POOL_TYPE_LOGIN", "a3u": "NODE_POOL_TYPE_COMPUTE"}
    assert gcp.call(f"{METHODS}.list", {"parent": LOCATION})["modelDevelopmentClusters"] == [made]


def test_the_servers_choices(gcp: Client) -> None:
    plain = {key: value for key, value in GPU.items() if key not in ("bootDisk", "flexStartMaxDuration")}
    cpu = {
        "id": "cpu",
        "machineSpec": {"machineType": "n2-standard-8"},
        "scalingSpec": {"maxNodeCount": 3},
        "zone": ZONE,
    }
    network = {"network": f"projects/{PROJECT}/global/networks/holdfast"}
    made = gcp.finish(f"{METHODS}.create", NEW, body(nodePools=[LOGIN, plain, cpu], network=network))
    assert made["network"]["subnetwork"] == f"projects/{PROJECT}/regions/{REGION}/subnetworks/holdfast"
    _, gpu, cpu = made["nodePools"]
    assert gpu["effectiveFlexStartMaxDuration"] == "604800s"
    assert "flexStartMaxDuration" not in gpu
    assert gpu["bootDisk"] == {"bootDiskType": "hyperdisk-balanced", "bootDiskSizeGb": 100}
    assert cpu["bootDisk"] == {"bootDiskType": "pd-ssd", "bootDiskSizeGb": 100}
    assert (cpu["provisioningModel"], cpu["scalingSpec"]) == ("ON_DEMAND", {"minNodeCount": 0, "maxNodeCount": 3})
    assert "effectiveFlexStartMaxDuration" not in cpu


def test_the_tutorials_json_is_taken_as_the_api_takes_it(gcp: Client, cloud: Cloud) -> None:
    """Snake case, "true" as a string, a name that ends in a slash, the id in snake case, and operations at v1."""
    sent = {
        "display_name": "flexvm",
        "name": f"{LOCATION}/modelDevelopmentClusters/",
        "network": {"network": f"projects/{PROJECT}/global/networks/holdfast"},
        "node_pools": [
            {
                "id": "login",
                "machine_spec": {"machine_type": "n2-standard-8"},
                "scaling_spec": {"min_node_count": 1, "max_node_count": 1},
                "enable_public_ips": "true",
                "zone": ZONE,
                "boot_disk": {"boot_disk_type": "pd-standard", "boot_disk_size_gb": 120},
            },
            {
                "id": "a3u",
                "machine_spec": {
                    "machine_type": "a3-ultragpu-8g",
                    "accelerator_type": "NVIDIA_H200_141GB",
                    "accelerator_count": 8,
                },
                "provisioning_model": "FLEX_START",
                "flex_start_max_duration": "604800s",
                "scaling_spec": {"min_node_count": 0, "max_node_count": 2},
                "zone": ZONE,
                "enable_public_ips": "true",
                "boot_disk": {"boot_disk_type": "hyperdisk-balanced", "boot_disk_size_gb": 400},
            },
        ],
        "orchestrator_spec": {
            "slurm_spec": {
                "home_directory_storage": f"projects/{PROJECT}/locations/{ZONE}/instances/home",
                "partitions": [{"id": "a3u", "node_pool_ids": ["a3u"]}],
                "login_node_pool_id": "login",
            }
        },
    }
    path = f"/aiplatform/v1beta1/{LOCATION}/modelDevelopmentClusters"
    status, operation = rest(cloud, "POST", f"{path}?model_development_cluster_id=flexvm", sent)
    assert (status, operation["done"]) == (200, False)
    cloud.clock.advance(1000)
    for version in ("v1", "v1beta1"):
        status, polled = rest(cloud, "GET", f"/aiplatform/{version}/{operation['name']}")
        assert (status, polled["done"], polled["response"]["displayName"]) == (200, True, "flexvm")
    _, found = rest(cloud, "GET", f"{path}/flexvm")
    assert [pool["enablePublicIps"] for pool in found["nodePools"]] == [True, True]
    assert states(found) == {"flexvm-login-0": "RUNNING"}
    for page in ("", "?pageSize=1"):
        assert rest(cloud, "GET", f"{path}{page}") == (200, {"modelDevelopmentClusters": [found]})


# -- refusals ------------------------------------------------------------------------------------------------------


def pool(**fields: Any) -> dict[str, Any]:
    return body(nodePools=[LOGIN, {**GPU, **fields}])


@pytest.mark.parametrize(
    ("sent", "says"),
    [
        (body(displayName="Flex"), "displayName: 'Flex' does not match"),
        (body(network={}), "network.network: is missing"),
        (body(nodePools=[LOGIN, GPU, GPU]), "2 have the id 'a3u'"),
        (pool(machineSpec={"machineType": "a9-mega"}), "nodePools[1].machineSpec.machineType"),
        (pool(provisioningModel="PREEMPTIBLE"), "Invalid value at 'nodePools[1].provisioningModel' (enum)"),
        (pool(flexStartMaxDuration="29s"), "a flex-start node runs 30s to 604800s"),
        (pool(flexStartMaxDuration="604801s"), "a flex-start node runs 30s to 604800s"),
        (pool(flexStartMaxDuration="7d"), "Invalid value at 'nodePools[1].flexStartMaxDuration' (google-duration)"),
        (pool(provisioningModel="SPOT", flexStartMaxDuration="60s"), "only FLEX_START nodes have an end"),
        (pool(provisioningModel="RESERVATION"), "RESERVATION without a reservation"),
        (pool(scalingSpec={"minNodeCount": 3, "maxNodeCount": 2}), "3 to 2 nodes"),
        (pool(zone="us-east1-b"), "is no zone of the cluster's region"),
        (pool(bootDisk={"bootDiskType": "pd-standard"}), "boots from hyperdisk-balanced alone"),
        (pool(labels={"App": "x"}), "nodePools[1].labels: key 'App'"),
        (body({"loginNodePoolId": "door"}), f"{SPEC}.loginNodePoolId: there is no pool 'door'"),
        (body({"loginNodePoolId": None}), f"{SPEC}.loginNodePoolId: is missing"),
        (body({"homeDirectoryStorage": None}), f"{SPEC}.homeDirectoryStorage: is missing"),
        (body({"defaultPartitionId": "a4"}), f"{SPEC}.defaultPartitionId: there is no partition 'a4'"),
        (body({"partitions": [{"id": "a3u", "nodePoolIds": ["login", "a3u"]}]}), "has the login pool 'login'"),
        (body({"nodeSets": [{"nodePoolId": "login"}]}), "is the login pool"),
        (body({"nodeSets": [{"nodePoolId": "a3u"}] * 2}), "which has at most one"),
        (body({"config": {"PreemptTyp": "x"}}), f"{SPEC}.config: PreemptTyp in the cluster's config: is no key"),
        (body({"config": {"HealthCheckProgram": "/x"}}), "HealthCheckProgram in the cluster's config: is refused"),
        (body({"config": {"PriorityWeightAge": 1000}}), "Invalid value at 'orchestratorSpec.slurmSpec.config"),
        (
            body({"partitions": [{"id": "a3u", "nodePoolIds": ["a3u"], "config": {"Default": "YES"}}]}),
            "Default in a partition's config: is refused",
        ),
        (body({"scheduling": {"priorityType": "priority/basic"}}), f"{SPEC}.config: excludes scheduling"),
        (body({"prologBashScripts": [" "]}), f"{SPEC}.prologBashScripts[0]: is empty"),
        (body({"colour": "red"}), 'Unknown name "colour" at'),
        (
            body(network={"network": f"projects/{PROJECT}/global/networks/none"}),
            f"network.network: 'projects/{PROJECT}/global/networks/none' does not exist",
        ),
        (
            body({"homeDirectoryStorage": f"projects/{PROJECT}/locations/{ZONE}/instances/none"}),
            f"{SPEC}.homeDirectoryStorage: 'projects/{PROJECT}/locations/{ZONE}/instances/none' does not exist",
        ),
        (pool(filestores=[f"projects/{PROJECT}/locations/{ZONE}/instances/none"]), "nodePools[1].filestores: "),
        (body(runtimeSpec={"serviceAccount": "none@example.com"}), "runtimeSpec.serviceAccount: 'none@example.com'"),
    ],
)
def test_what_is_refused_says_where_and_why(gcp: Client, sent: dict[str, Any], says: str) -> None:
    refused = gcp.refused(f"{METHODS}.create", NEW, sent)
    assert (refused.status, says in refused.message) == ("INVALID_ARGUMENT", True), refused.message
    assert gcp.call(f"{METHODS}.list", {"parent": LOCATION})["modelDevelopmentClusters"] == []


@pytest.mark.parametrize("id_", ["", "Flex", "flex-vm", "elevenchars", "1flex"])
def test_an_id_that_is_none(gcp: Client, id_: str) -> None:
    refused = gcp.refused(f"{METHODS}.create", {"parent": LOCATION, "modelDevelopmentClusterId": id_}, body())
    assert "modelDevelopmentClusterId" in refused.message
    nowhere = {**NEW, "parent": f"projects/{PROJECT}/locations/moon-1"}
    assert "there is no region 'moon-1'" in gcp.refused(f"{METHODS}.create", nowhere, body()).message


@pytest.mark.parametrize(
    "sent",
    [
        body(orchestratorSpec={"gkeSpec": {"partitions": []}}),
        body(lustreExportConfig={"destinationBucket": "b"}),
        pool(lustres=[f"projects/{PROJECT}/locations/{ZONE}/instances/scratch"]),
        pool(machineSpec={"machineType": "a3-ultragpu-8g", "tpuTopology": "4x4"}),
    ],
)
def test_what_is_not_emulated_is_named(gcp: Client, sent: dict[str, Any]) -> None:
    assert gcp.refused(f"{METHODS}.create", NEW, sent).status == "UNIMPLEMENTED"


def test_a_home_on_another_network_cannot_be_reached(gcp: Client, cloud: Cloud) -> None:
    gcp.finish("compute.networks.insert", {"project": PROJECT}, {"name": "other", "autoCreateSubnetworks": False})
    other = f"projects/{PROJECT}/global/networks/other"
    subnet = {"name": "other", "network": other, "ipCidrRange": "10.0.0.0/20"}
    gcp.finish("compute.subnetworks.insert", {"project": PROJECT, "region": "us-east1"}, subnet)
    refused = gcp.refused(f"{METHODS}.create", NEW, body(network={"network": other}))
    assert "has no subnetwork in region us-central1" in refused.message
    wrong = {"network": other, "subnetwork": f"projects/{PROJECT}/regions/{REGION}/subnetworks/holdfast"}
    assert "is not of network" in gcp.refused(f"{METHODS}.create", NEW, body(network=wrong)).message
    gcp.finish(
        "compute.subnetworks.insert", {"project": PROJECT, "region": REGION}, {**subnet, "ipCidrRange": "10.9.0.0/20"}
    )
    assert (
        "can be reached from its own alone"
        in gcp.refused(f"{METHODS}.create", NEW, body(network={"network": other})).message
    )


def test_flex_start_nodes_need_the_google_apis_service_agent(gcp: Client, cloud: Cloud) -> None:
    project, agent = (
        f"projects/{PROJECT}",
        f"serviceAccount:{cloud.project(PROJECT).number}@cloudservices.gserviceaccount.com",
    )
    cloud.policies.set(project, {"bindings": [{"role": "roles/owner", "members": [DEFAULT_OWNER]}]})
    with pytest.raises(
        Exception, match=r"Required 'compute\.instances\.create' permission .* roles/compute\.instanceAdmin"
    ):
        gcp.finish(f"{METHODS}.create", NEW, body())
    failed = get(gcp)
    assert failed["clusterStatus"]["error"]["code"] == 7
    assert (failed["clusterStatus"]["state"], set(states(failed).values())) == ("ERROR", {"ERROR"})
    gcp.finish(f"{METHODS}.delete", IT)
    cloud.policies.grant(project, "roles/compute.instanceAdmin.v1", agent)
    with pytest.raises(Exception, match=r"Required 'iam\.serviceAccounts\.actAs' permission"):
        gcp.finish(f"{METHODS}.create", NEW, body())
    gcp.finish(f"{METHODS}.delete", IT)
    cloud.policies.grant(project, "roles/iam.serviceAccountUser", agent)
    assert gcp.finish(f"{METHODS}.create", NEW, body())["clusterStatus"]["state"] == "RUNNING"


def test_who_may(made: Client, cloud: Cloud) -> None:
    stranger = made.as_(STRANGER)
    assert stranger.refused(f"{METHODS}.get", IT).status == "PERMISSION_DENIED"
    cloud.policies.grant(f"projects/{PROJECT}", "roles/aiplatform.viewer", STRANGER)
    assert stranger.call(f"{METHODS}.get", IT)["displayName"] == "flexvm"
    assert stranger.refused(f"{METHODS}.delete", IT).status == "PERMISSION_DENIED"
    elsewhere = {**IT, "name": NAME.replace(PROJECT, OTHER)}
    assert made.refused(f"{METHODS}.get", elsewhere).reason == "SERVICE_DISABLED"


# -- changes -------------------------------------------------------------------------------------------------------


def patch(gcp: Client, mask: str, sent: dict[str, Any], **params: str) -> dict[str, Any]:
    return gcp.finish(f"{METHODS}.patch", {**IT, "updateMask": mask, **params}, sent)


def test_a_running_cluster_is_updated_in_place(made: Client, cloud: Cloud) -> None:
    before = get(made)
    two = {"partitions": [*slurm(PROJECT)["partitions"], {"id": "low", "nodePoolIds": ["a3u"]}], "config": {}}
    operation = made.start(f"{METHODS}.patch", {**IT, "updateMask": f"{SPEC}.partitions"}, body(two))
    assert get(made)["clusterStatus"]["state"] == "UPDATING"
    cloud.wait(operation)
    found = get(made)
    assert [each["id"] for each in found["orchestratorSpec"]["slurmSpec"]["partitions"]] == ["a3u", "low"]
    assert found["orchestratorSpec"]["slurmSpec"]["config"] == CONFIG, "the mask does not name it"
    assert (found["createTime"], found["updateTime"] > before["updateTime"]) == (before["createTime"], True)


def test_maps_and_lists_are_replaced_whole(made: Client) -> None:
    changed = {"config": {"PriorityWeightAge": "5"}, "prologBashScripts": ["#!/bin/bash\ntrue\n"]}
    mask = "orchestrator_spec.slurm_spec.config,orchestrator_spec.slurm_spec.prolog_bash_scripts"
    found = patch(made, mask, body(changed), updateMode="USER_ONLY")["orchestratorSpec"]["slurmSpec"]
    assert {key: found[key] for key in changed} == changed
    gone = patch(made, f"{SPEC}.config,{SPEC}.prologBashScripts", {})["orchestratorSpec"]["slurmSpec"]
    assert gone.keys() & changed.keys() == set()


def test_pools_are_resized_added_and_taken_away(made: Client) -> None:
    cpu = {"id": "cpu", "machineSpec": {"machineType": "n2-standard-8"}, "zone": ZONE}
    cpu |= {"scalingSpec": {"minNodeCount": 2, "maxNodeCount": 2}}
    before = {each["instanceName"]: each for each in get(made)["clusterStatus"]["nodesStatus"]}
    wider = {**GPU, "scalingSpec": {"minNodeCount": 2, "maxNodeCount": 4}}
    found = patch(made, "node_pools", body(nodePools=[LOGIN, wider, cpu]))
    after = {each["instanceName"]: each for each in found["clusterStatus"]["nodesStatus"]}
    assert sorted(after) == [f"flexvm-{each}" for each in ("a3u-0", "a3u-1", "cpu-0", "cpu-1", "login-0")]
    assert {name: after[name] for name in before} == before, "those that stay are the same"
    found = patch(made, "node_pools", body(nodePools=[LOGIN, GPU]))
    assert sorted(states(found)) == ["flexvm-a3u-0", "flexvm-login-0"]


def test_without_a_mask_all_that_is_sent_and_may_change_changes(made: Client) -> None:
    sent = body({"config": {}}, displayName="other", nodePools=[LOGIN, {**GPU, "flexStartMaxDuration": "3600s"}])
    found = made.finish(f"{METHODS}.patch", IT, sent)
    assert (found["displayName"], found["nodePools"][1]["effectiveFlexStartMaxDuration"]) == ("other", "3600s")
    assert found["orchestratorSpec"]["slurmSpec"]["config"] == {}


@pytest.mark.parametrize(
    ("mask", "sent", "says"),
    [
        ("network", body(), "name what changes"),
        ("orchestratorSpec", body(), "name what changes"),
        ("", {}, "name what changes"),
        (
            "nodePools",
            body(nodePools=[LOGIN, {**GPU, "provisioningModel": "SPOT"}]),
            "nodePools[1].provisioningModel cannot",
        ),
        (
            "nodePools",
            body(nodePools=[LOGIN, {**GPU, "machineSpec": {"machineType": "a4-highgpu-8g"}}]),
            "nodePools[1].machineSpec cannot change",
        ),
        ("nodePools", body(nodePools=[LOGIN]), "there is no pool 'a3u'"),
        (f"{SPEC}.config", body({"config": {"PriorityTyp": "x"}}), "PriorityTyp"),
        (f"{SPEC}.loginNodePoolId", {}, "loginNodePoolId: is missing"),
        ("", body(network={"network": f"projects/{PROJECT}/global/networks/other"}), "network cannot change"),
        (
            "",
            body({"homeDirectoryStorage": f"projects/{PROJECT}/locations/{ZONE}/instances/other"}),
            f"{SPEC}.homeDirectoryStorage cannot change",
        ),
    ],
)
def test_an_update_that_is_refused_leaves_all_as_it_was(made: Client, mask: str, sent: Any, says: str) -> None:
    before = get(made)
    params = {**IT, **({"updateMask": mask} if mask else {})}
    assert says in made.refused(f"{METHODS}.patch", params, sent).message
    assert get(made) == before


def test_a_deleted_cluster_is_gone_with_its_nodes_and_frees_its_subnet(made: Client, cloud: Cloud) -> None:
    subnet = {"project": PROJECT, "region": REGION, "subnetwork": "holdfast"}
    assert made.refused("compute.subnetworks.delete", subnet).reason == "resourceInUseByAnotherResource"
    operation = made.start(f"{METHODS}.delete", IT)
    assert get(made)["clusterStatus"]["state"] == "STOPPING"
    cloud.wait(operation)
    assert made.refused(f"{METHODS}.get", IT).status == "NOT_FOUND"
    assert not any(cloud.table("aiplatform.node"))
    made.finish("compute.subnetworks.delete", subnet)


# -- with schedulers behind -------------------------------------------------------------------------------------------


@pytest.fixture
def schedulers(cloud: Cloud) -> Schedulers:
    cloud.training_clusters = Schedulers()
    return cloud.training_clusters


def test_a_plane_is_given_the_cluster_and_tells_of_its_nodes(gcp: Client, schedulers: Schedulers) -> None:
    gcp.finish(f"{METHODS}.create", NEW, body())
    assert schedulers.asked == [("create", NAME)]
    assert schedulers.clusters[NAME]["orchestratorSpec"]["slurmSpec"]["defaultPartitionId"] == "a3u"
    assert schedulers.clusters[NAME]["nodePools"][1]["effectiveFlexStartMaxDuration"] == "604800s"
    at = "2026-01-01T00:00:00.000000Z"
    events = tuple(Event("VM_SLURM_DRAIN", f"event {i}", at) for i in range(120))
    schedulers.now = Status((Node("flexvm-a3u-1", "a3u", "UPDATING", at, at),), events)
    found = get(gcp)
    assert states(found) == {"flexvm-login-0": "RUNNING", "flexvm-a3u-1": "UPDATING"}, (
        "its own login node, the plane's others"
    )
    assert [each["eventMessage"] for each in found["clusterEvents"]] == [f"event {i}" for i in range(20, 120)]
    patch(gcp, f"{SPEC}.config", body({"config": {"PriorityWeightAge": "5"}}))
    assert schedulers.clusters[NAME]["orchestratorSpec"]["slurmSpec"]["config"] == {"PriorityWeightAge": "5"}
    gcp.finish(f"{METHODS}.delete", IT)
    assert [what for what, *_ in schedulers.asked] == ["create", "update", "delete"]


def test_what_a_plane_cannot_do_fails_the_operation(gcp: Client, schedulers: Schedulers) -> None:
    schedulers.fails = "slurmctld did not start"
    with pytest.raises(Exception, match="slurmctld did not start"):
        gcp.finish(f"{METHODS}.create", NEW, body())
    assert (get(gcp)["clusterStatus"]["state"], get(gcp)["clusterStatus"]["detail"]) == (
        "ERROR",
        "slurmctld did not start",
    )
    schedulers.fails = ""
    gcp.finish(f"{METHODS}.delete", IT)
    gcp.finish(f"{METHODS}.create", NEW, body())
    before = get(gcp)
    schedulers.fails = "slurmctld did not take it"
    with pytest.raises(Exception, match="slurmctld did not take it"):
        patch(gcp, f"{SPEC}.config", {})
    after = get(gcp)
    assert after.pop("clusterStatus") == {**before.pop("clusterStatus"), "detail": "slurmctld did not take it"}
    assert after == before
