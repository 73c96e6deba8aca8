"""Scenario C's resources as the provider has them: a Filestore instance and a training cluster."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from scenario_a import FILESTORE, PROJECT, REGION, Desk
from slurm_site import GPU, LOGIN, ZONE, settle, training_cluster

from mockgcp.cloud import Cloud
from mockgcp.errors import ApiError
from mockgcp.frontends.pulumi.core import ProviderError, State
from mockgcp.frontends.pulumi.values import UNKNOWN, Value

CLUSTER = "gcp:vertex/aiModelDevelopmentCluster:AiModelDevelopmentCluster"
NAME = f"projects/{PROJECT}/locations/{REGION}/modelDevelopmentClusters/flexvm"
METHODS = "aiplatform.projects.locations.modelDevelopmentClusters"
HOME = f"projects/{PROJECT}/locations/{ZONE}/instances/slurm-home"


@pytest.fixture
def cloud(cloud: Cloud) -> Cloud:
    settle(cloud, PROJECT)
    return cloud


def inputs(slurm: dict[str, Value] | None = None, **changes: Value) -> dict[str, Value]:
    body = training_cluster(PROJECT, slurm)
    return {"modelDevelopmentClusterId": "flexvm", "region": REGION, "labels": {"app": "holdfast"}, **body, **changes}


def gpu(**changes: Value) -> dict[str, Value]:
    return inputs(nodePools=[LOGIN, {**GPU, **changes}])


@pytest.fixture
def made(desk: Desk) -> State:
    return desk.create(CLUSTER, inputs())


# -- training clusters -----------------------------------------------------------------------------------------------


def test_it_is_made_as_the_program_says(desk: Desk, cloud: Cloud, made: State) -> None:
    assert (made.id, made.outputs["region"], made.outputs["project"]) == (NAME, REGION, PROJECT)
    assert made.outputs["clusterStatus"]["state"] == "RUNNING"
    [sent] = desk.sent(f"{METHODS}.create")
    assert sent == {**training_cluster(PROJECT), "labels": {"app": "holdfast", "goog-pulumi-provisioned": "true"}}
    assert made.outputs["nodePools"][1]["effectiveFlexStartMaxDuration"] == "604800s"
    assert made.outputs["labels"] == {"app": "holdfast"}


def test_a_minimum_of_no_nodes_is_sent(desk: Desk) -> None:
    desk.create(CLUSTER, gpu(scalingSpec={"minNodeCount": 0, "maxNodeCount": 2}))
    [sent] = desk.sent(f"{METHODS}.create")
    assert sent["nodePools"][1]["scalingSpec"] == {"minNodeCount": 0, "maxNodeCount": 2}


def test_a_second_time_changes_nothing(desk: Desk, made: State) -> None:
    found = desk.refresh(CLUSTER, made)
    assert found is not None
    assert found.inputs == made.inputs
    assert desk.diff(CLUSTER, State(found.id, found.outputs, found.inputs), inputs()) == {}


def test_a_program_that_says_the_least_is_quiet_too(desk: Desk) -> None:
    least: dict[str, Value] = copy.deepcopy(inputs())
    del (
        least["network"]["subnetwork"],
        least["region"],
        least["labels"],
        least["orchestratorSpec"]["slurmSpec"]["config"],
    )
    for pool in least["nodePools"]:
        del pool["bootDisk"]
    made = desk.create(CLUSTER, least)
    found = desk.refresh(CLUSTER, made)
    assert found is not None
    assert (made.id, desk.diff(CLUSTER, made, least), desk.diff(CLUSTER, found, least)) == (NAME, {}, {})


def test_an_import_learns_what_is_there(desk: Desk, made: State) -> None:
    found = desk.provider.read(CLUSTER, NAME, {}, {})
    assert found is not None
    assert desk.diff(CLUSTER, State(found.id, found.outputs, found.inputs), inputs()) == {}
    with pytest.raises(ProviderError, match="does not have the form projects/"):
        desk.provider.read(CLUSTER, "flexvm", {}, {})


PARTITIONS = [{"id": "a3u", "nodePoolIds": ["a3u"]}, {"id": "low", "nodePoolIds": ["a3u"]}]


@pytest.mark.parametrize(
    ("change", "mask"),
    [
        (inputs({"partitions": PARTITIONS}), {"orchestratorSpec.slurmSpec.partitions"}),
        (inputs({"config": {"PriorityWeightAge": "5"}}), {"orchestratorSpec.slurmSpec.config"}),
        (inputs({"config": {}}), {"orchestratorSpec.slurmSpec.config"}),
        (inputs({"prologBashScripts": ["#!/bin/bash\ntrue\n"]}), {"orchestratorSpec.slurmSpec.prologBashScripts"}),
        (
            inputs({"nodeSets": [{"nodePoolId": "a3u", "config": {"Weight": "10"}}]}),
            {"orchestratorSpec.slurmSpec.nodeSets"},
        ),
        (inputs({"defaultPartitionId": "a3u"}), {"orchestratorSpec.slurmSpec.defaultPartitionId"}),
        (gpu(scalingSpec={"minNodeCount": 0, "maxNodeCount": 4}), {"nodePools"}),
        (gpu(flexStartMaxDuration="3600s"), {"nodePools"}),
        (gpu(startupScript="#!/bin/bash\n"), {"nodePools"}),
        (inputs(displayName="other"), {"displayName"}),
        (inputs(labels={"app": "other"}), set()),
    ],
)
def test_each_change_in_place_names_itself_and_is_taken_back(
    desk: Desk, cloud: Cloud, made: State, change: dict[str, Value], mask: set[str]
) -> None:
    changed = desk.settles(CLUSTER, made, change)
    [entry] = cloud.audit.entries(f"{METHODS}.patch")
    assert set(entry.params["updateMask"].split(",")) == mask | {"labels"}
    desk.settles(CLUSTER, changed, inputs())


OTHER = {"network": f"projects/{PROJECT}/global/networks/other"}


@pytest.mark.parametrize(
    ("change", "path"),
    [
        (inputs(modelDevelopmentClusterId="other"), "modelDevelopmentClusterId"),
        (inputs(network={**training_cluster(PROJECT)["network"], **OTHER}), "network.network"),
        (inputs(runtimeSpec={"serviceAccount": "a@b.c"}), "runtimeSpec"),
        (gpu(machineSpec={"machineType": "a4-highgpu-8g"}), "nodePools[1].machineSpec.machineType"),
        (gpu(provisioningModel="SPOT"), "nodePools[1].provisioningModel"),
        (inputs({"homeDirectoryStorage": HOME}), "orchestratorSpec.slurmSpec.homeDirectoryStorage"),
        (inputs(nodePools=[LOGIN, GPU, {**GPU, "id": "more"}]), "nodePools[2]"),
    ],
)
def test_what_replaces(desk: Desk, made: State, change: dict[str, Value], path: str) -> None:
    """A pool that is added replaces: its id is for good, as the provider's resource has it."""
    assert desk.diff(CLUSTER, made, change)[path][1]


def test_a_refresh_shows_drift(desk: Desk, cloud: Cloud, made: State) -> None:
    stored = cloud.table("aiplatform.modelDevelopmentCluster")[NAME]
    stored["orchestratorSpec"]["slurmSpec"]["config"] = {}
    found = desk.refresh(CLUSTER, made)
    assert found is not None
    assert {key for key in made.inputs if found.inputs.get(key) != made.inputs[key]} == {"orchestratorSpec"}


@pytest.mark.parametrize(
    ("refused", "says"),
    [
        (gpu(flexStartMaxDuration="29s"), "a flex-start node runs 30s to 604800s"),
        (inputs({"defaultPartitionId": "a4"}), "there is no partition 'a4'"),
        (gpu(machineSpec={"machineTyp": "n2-standard-8"}), "nodePools[1].machineSpec.machineTyp is not a property"),
        (
            gpu(machineSpec={"machineType": "a3-ultragpu-8g", "acceleratorCount": 8}),
            "acceleratorCount is not a property",
        ),
        (inputs({"loginNodePoolId": None}), "orchestratorSpec.slurmSpec.loginNodePoolId is required and missing"),
    ],
)
def test_a_preview_meets_the_apis_rules_and_the_providers_types(
    desk: Desk, refused: dict[str, Value], says: str
) -> None:
    assert any(says in each for each in desk.refused(CLUSTER, refused))


def test_what_is_not_known_yet_is_not_judged(desk: Desk) -> None:
    assert desk.refused(CLUSTER, inputs({"homeDirectoryStorage": UNKNOWN})) == []


def test_a_deletion(desk: Desk, made: State) -> None:
    desk.provider.delete(CLUSTER, made)
    desk.provider.delete(CLUSTER, made)
    assert desk.refresh(CLUSTER, made) is None


# -- Filestore -------------------------------------------------------------------------------------------------------


def home(capacity: int = 1024, **changes: Any) -> dict[str, Value]:
    return {
        "name": "slurm-home",
        "location": ZONE,
        "tier": "BASIC_HDD",
        "fileShares": {"name": "home", "capacityGb": capacity},
        "networks": [{"network": "holdfast", "modes": ["MODE_IPV4"]}],
        **changes,
    }


def test_a_home_directory(desk: Desk) -> None:
    made = desk.create(FILESTORE, home())
    assert (made.id, made.outputs["location"], made.outputs["project"]) == (HOME, ZONE, PROJECT)
    assert made.outputs["fileShares"] == {"name": "home", "capacityGb": 1024}
    [network] = made.outputs["networks"]
    assert len(network["ipAddresses"]) == 1
    found = desk.refresh(FILESTORE, made)
    assert found is not None
    assert (found.inputs, desk.diff(FILESTORE, found, home())) == (made.inputs, {})
    desk.provider.delete(FILESTORE, made)
    assert desk.refresh(FILESTORE, made) is None


@pytest.mark.parametrize(
    "change", [{"labels": {"a": "b"}}, {"description": "home"}, {"deletionProtectionEnabled": True}, {"capacity": 2048}]
)
def test_what_changes_of_it_in_place(desk: Desk, change: dict[str, Any]) -> None:
    made = desk.create(FILESTORE, home())
    changed = desk.settles(FILESTORE, made, home(**change))
    if "capacity" not in change:
        desk.settles(FILESTORE, changed, home())


@pytest.mark.parametrize(
    ("change", "path"),
    [
        ({"tier": "ZONAL"}, "tier"),
        ({"location": "us-central1-b"}, "location"),
        ({"fileShares": {"name": "other", "capacityGb": 1024}}, "fileShares.name"),
        ({"networks": [{"network": "other", "modes": ["MODE_IPV4"]}]}, "networks[0].network"),
    ],
)
def test_what_of_it_replaces(desk: Desk, change: dict[str, Any], path: str) -> None:
    assert desk.diff(FILESTORE, desk.create(FILESTORE, home()), home(**change))[path][1]


def test_a_preview_knows_the_tiers(desk: Desk) -> None:
    assert "tier BASIC_HDD has 1024 to" in desk.refused(FILESTORE, home(100))[0]
    with pytest.raises(ApiError, match="only grows"):
        desk.update(FILESTORE, desk.create(FILESTORE, home(2048)), home())


def test_an_older_zone_says_where(desk: Desk) -> None:
    by_zone = {**home(), "zone": ZONE}
    del by_zone["location"]
    made = desk.create(FILESTORE, by_zone)
    assert (made.id, desk.diff(FILESTORE, made, by_zone)) == (HOME, {})
    assert desk.refresh(FILESTORE, made) is not None
