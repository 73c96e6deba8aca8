"""Every refusal of a training cluster, on the tutorial's: one message with the path, the reason and the way out."""

import copy
from typing import Any

import pytest

from infra import catalog
from infra.errors import InputError
from infra.slurm import TrainingCluster, TrainingClusterArgs, login_node, ssh_command, training_cluster_inputs
from infra.slurm_parts import SlurmPartition, SlurmPool

REGION, ZONE = "us-central1", "us-central1-b"
HOME = f"projects/p/locations/{ZONE}/instances/home"
RESERVATION = f"projects/p/zones/{ZONE}/reservations/r"
SPECIFIC = {"reservationAffinityType": "SPECIFIC_RESERVATION", "values": [RESERVATION]}
SPEC = "orchestratorSpec.slurmSpec"
ARGS = TrainingClusterArgs(
    project="p",
    region=REGION,
    network="projects/p/global/networks/n",
    subnetwork="projects/p/regions/us-central1/subnetworks/s",
    home=HOME,
    pools=[
        SlurmPool("login", "n2-standard-8", ZONE, 1, 1, boot_disk_type="pd-standard", boot_disk_gb=120),
        SlurmPool(
            "a3u",
            "a3-ultragpu-8g",
            ZONE,
            0,
            2,
            "FLEX_START",
            "604800s",
            boot_disk_type="hyperdisk-balanced",
            boot_disk_gb=400,
        ),
    ],
    partitions=[SlurmPartition("a3u", ["a3u"])],
    config=catalog.fact("slurm", "tutorial_config").value,
    prolog_scripts=["#!/bin/bash\necho first", "#!/bin/bash\necho second"],
    epilog_scripts=["#!/bin/bash\necho last"],
)
CLUSTER = training_cluster_inputs(ARGS)
GPUS = "nodePools[1]"


def changed(**changes: Any) -> dict[str, Any]:
    """The cluster with fields set by their paths (`nodePools/1/zone`); None takes one away."""
    cluster = copy.deepcopy(CLUSTER)
    for path, value in changes.items():
        *parents, last = path.split("/")
        at: Any = cluster
        for part in parents:
            at = at[int(part)] if isinstance(at, list) else at.setdefault(part, {})
        if value is None:
            del at[last]
        else:
            at[last] = value
    return cluster


def problems(cluster: dict[str, Any]) -> list[catalog.Problem]:
    return catalog.training_cluster_problems(cluster, region=REGION)


def test_the_tutorials_cluster_is_fine() -> None:
    assert problems(CLUSTER) == []
    assert catalog.training_cluster_id_problem(ARGS.cluster_id) is None


MODEL = "nodePools/1/provisioningModel"
AFFINITY = "nodePools/1/machineSpec/reservationAffinity"
DURATION = "nodePools/1/flexStartMaxDuration"


@pytest.mark.parametrize(
    "changes",
    [
        {MODEL: "ON_DEMAND", DURATION: None},
        {MODEL: "SPOT", DURATION: None},
        {MODEL: "RESERVATION", DURATION: None, AFFINITY: SPECIFIC},
        {MODEL: "RESERVATION", DURATION: None, AFFINITY: {"reservationAffinityType": "ANY_RESERVATION"}},
        {MODEL: None, DURATION: None, AFFINITY: SPECIFIC},
        {AFFINITY: {"reservationAffinityType": "NO_RESERVATION"}},
        {DURATION: "30s"},
        {"nodePools/1/scalingSpec": {"minNodeCount": 2, "maxNodeCount": 2}},
        {"nodePools/1/bootDisk": {"bootDiskSizeGb": 100}},
        {"nodePools/1/lustres": [HOME], "nodePools/1/filestores": [HOME]},
        {"orchestratorSpec/slurmSpec/nodeSets": [{"nodePoolId": "a3u", "config": {"Weight": "10"}}]},
        {"orchestratorSpec/slurmSpec/defaultPartitionId": "a3u"},
        {"orchestratorSpec/slurmSpec/homeDirectoryStorage": object()},  # not known yet
    ],
)
def test_other_clusters_that_are_fine(changes: dict[str, Any]) -> None:
    assert problems(changed(**changes)) == []


@pytest.mark.parametrize(
    ("changes", "where", "says"),
    [
        ({"displayName": "flex-vm"}, "displayName", "at most 10 lower-case letters and digits"),
        ({"network/network": "default"}, "network.network", "projects/P/global/networks/N"),
        ({"network/network": None}, "network.network", "is missing"),
        ({"network/subnetwork": "default"}, "network.subnetwork", "projects/P/regions/R/subnetworks/S"),
        ({"nodePools/1/id": "A3U", "orchestratorSpec/slurmSpec/partitions/0/nodePoolIds": ["A3U"]}, f"{GPUS}.id", ""),
        ({"nodePools/1/machineSpec/machineType": None, DURATION: None, MODEL: None}, f"{GPUS}.machineSpec", "missing"),
        ({"nodePools/1/machineSpec/machineType": "a3-ultragpu-4g"}, f"{GPUS}.machineSpec", "mean a3-ultragpu-8g?"),
        ({"nodePools/0/machineSpec/machineType": "e2-medium"}, "nodePools[0].machineSpec", "or one of family n2"),
        ({"nodePools/1/machineSpec/acceleratorCount": 4}, f"{GPUS}.machineSpec", "has 8 NVIDIA_H200_141GB"),
        ({MODEL: None, DURATION: None}, f"{GPUS}.provisioningModel", "says how its nodes come"),
        ({MODEL: "STANDARD"}, f"{GPUS}.provisioningModel", "there are ON_DEMAND, SPOT, RESERVATION, FLEX_START"),
        ({AFFINITY: SPECIFIC}, f"{GPUS}.machineSpec.reservationAffinity", "FLEX_START nodes come from no reservation"),
        ({MODEL: "SPOT", DURATION: None, AFFINITY: SPECIFIC}, f"{GPUS}.machineSpec.reservationAffinity", "SPOT nodes"),
        (
            {MODEL: "ON_DEMAND", DURATION: None, AFFINITY: SPECIFIC},
            f"{GPUS}.machineSpec.reservationAffinity",
            "ON_DEMAND nodes",
        ),
        ({MODEL: "RESERVATION", DURATION: None}, f"{GPUS}.machineSpec.reservationAffinity", "without a reservation"),
        (
            {MODEL: "RESERVATION", DURATION: None, AFFINITY: {"reservationAffinityType": "SPECIFIC_RESERVATION"}},
            f"{GPUS}.machineSpec.reservationAffinity",
            "names none",
        ),
        (
            {MODEL: "RESERVATION", DURATION: None, AFFINITY: {**SPECIFIC, "values": ["r"]}},
            f"{GPUS}.machineSpec.reservationAffinity",
            "'r' is no full name",
        ),
        (
            {MODEL: "RESERVATION", DURATION: None, AFFINITY: {**SPECIFIC, "reservationAffinityType": "SOME"}},
            f"{GPUS}.machineSpec.reservationAffinity",
            "there are NO_RESERVATION",
        ),
        ({DURATION: "29s"}, f"{GPUS}.flexStartMaxDuration", "30s to 604800s, 7 days"),
        ({DURATION: "604801s"}, f"{GPUS}.flexStartMaxDuration", "goes on from its last checkpoint"),
        ({DURATION: "7d"}, f"{GPUS}.flexStartMaxDuration", "write 604800s"),
        ({MODEL: "ON_DEMAND"}, f"{GPUS}.flexStartMaxDuration", "only FLEX_START nodes have an end"),
        ({"nodePools/0/scalingSpec/maxNodeCount": 2}, "nodePools[0].scalingSpec", "a login pool has a fixed size"),
        ({"nodePools/1/scalingSpec/minNodeCount": 3}, f"{GPUS}.scalingSpec", "3 to 2 nodes"),
        ({"nodePools/1/scalingSpec/minNodeCount": -1}, f"{GPUS}.scalingSpec", "-1 to 2 nodes"),
        ({"nodePools/1/scalingSpec/maxNodeCount": 0}, f"{GPUS}.scalingSpec", "0 to 0 nodes"),
        ({"nodePools/1/machineSpec/machineType": "a4x-highgpu-4g"}, f"{GPUS}.scalingSpec", "multiples of 18"),
        ({"nodePools/1/bootDisk/bootDiskType": "pd-ssd"}, f"{GPUS}.bootDisk.bootDiskType", "hyperdisk-balanced alone"),
        ({"nodePools/0/bootDisk/bootDiskType": "pd-fast"}, "nodePools[0].bootDisk.bootDiskType", "Choose pd-ssd"),
        ({"nodePools/0/bootDisk/bootDiskSizeGb": 0}, "nodePools[0].bootDisk.bootDiskSizeGb", "0 GB"),
        ({"nodePools/1/zone": "us-east1-b"}, f"{GPUS}.zone", "no zone of the cluster's region"),
        ({"nodePools/1/filestores": ["home"]}, f"{GPUS}.filestores", "projects/P/locations/Z/instances/NAME"),
        ({"nodePools/1/lustres": ["home"]}, f"{GPUS}.lustres", "projects/P/locations/Z/instances/NAME"),
    ],
)
def test_what_is_refused_of_network_and_pools(changes: dict[str, Any], where: str, says: str) -> None:
    [problem] = problems(changed(**changes))
    assert problem.field.startswith(where)
    assert says in problem.message
    assert "https://" in problem.message or says == "write 604800s"


SLURM = "orchestratorSpec/slurmSpec"


@pytest.mark.parametrize(
    ("changes", "where", "says"),
    [
        ({f"{SLURM}/loginNodePoolId": None}, "loginNodePoolId", "is missing"),
        ({f"{SLURM}/loginNodePoolId": "logins"}, "loginNodePoolId", "Did you mean 'login'?"),
        ({f"{SLURM}/homeDirectoryStorage": None}, "homeDirectoryStorage", "is missing"),
        ({f"{SLURM}/homeDirectoryStorage": "home"}, "homeDirectoryStorage", "'home' is no full name"),
        ({f"{SLURM}/partitions": []}, "partitions", "there is none"),
        ({f"{SLURM}/partitions/0/id": "A"}, "partitions[0].id", "does not match"),
        ({f"{SLURM}/partitions": [{"id": "a", "nodePoolIds": ["a3u"]}] * 2}, "partitions", "2 have the id 'a'"),
        ({f"{SLURM}/partitions/0/nodePoolIds": []}, "partitions[0].nodePoolIds", "has no pool"),
        ({f"{SLURM}/partitions/0/nodePoolIds": ["a3u", "login"]}, "partitions[0].nodePoolIds", "has the login pool"),
        ({f"{SLURM}/partitions/0/nodePoolIds": ["a3"]}, "partitions[0].nodePoolIds", "Did you mean 'a3u'?"),
        ({f"{SLURM}/partitions/0/nodePoolIds": ["a3u", "a3u"]}, "partitions[0].nodePoolIds", "twice"),
        ({f"{SLURM}/partitions/0/config": {"Default": "YES"}}, "partitions[0].config", "the default one"),
        ({f"{SLURM}/defaultPartitionId": "b"}, "defaultPartitionId", "there is no partition 'b'"),
        ({f"{SLURM}/config": {"Prolog": "/x"}}, "config", "as prolog scripts"),
        ({f"{SLURM}/scheduling": {"priorityType": "priority/basic"}}, "config", "excludes scheduling"),
        ({f"{SLURM}/nodeSets": [{"nodePoolId": "login"}]}, "nodeSets[0].nodePoolId", "the login pool"),
        ({f"{SLURM}/nodeSets": [{"nodePoolId": "x"}]}, "nodeSets[0].nodePoolId", "there is no pool 'x'"),
        ({f"{SLURM}/nodeSets": [{"nodePoolId": "a3u"}] * 2}, "nodeSets", "at most one"),
        (
            {f"{SLURM}/nodeSets": [{"nodePoolId": "a3u", "config": {"GraceTime": "1"}}]},
            "nodeSets[0].config",
            "Move it to a partition's config",
        ),
        ({f"{SLURM}/prologBashScripts": ["#!/bin/bash", " \n"]}, "prologBashScripts[1]", "is empty"),
        ({f"{SLURM}/epilogBashScripts": [""]}, "epilogBashScripts[0]", "is empty"),
    ],
)
def test_what_is_refused_of_slurm(changes: dict[str, Any], where: str, says: str) -> None:
    [problem] = problems(changed(**changes))
    assert problem.field == f"{SPEC}.{where}"
    assert says in problem.message


def test_pools_with_one_id_are_refused() -> None:
    [problem] = problems(changed(nodePools=[*CLUSTER["nodePools"], CLUSTER["nodePools"][1]]))
    assert (problem.field, "2 have the id 'a3u'" in problem.message) == ("nodePools", True)


@pytest.mark.parametrize("cluster_id", ["", "Flex", "flex-vm", "1flex", "elevenchars"])
def test_an_id_that_is_none_is_refused_with_all_else_before_anything_is_registered(cluster_id: str) -> None:
    args = TrainingClusterArgs(**{**vars(ARGS), "cluster_id": cluster_id, "display_name": "x", "login_pool": "x"})
    with pytest.raises(InputError, match=r"^TrainingCluster cluster, modelDevelopmentClusterId: ") as raised:
        TrainingCluster("cluster", args)
    assert f"TrainingCluster cluster, {SPEC}.loginNodePoolId: there is no pool 'x'" in str(raised.value)


def test_what_is_set_is_written_as_the_provider_has_it() -> None:
    pool = SlurmPool(
        "res",
        "a3-megagpu-8g",
        ZONE,
        2,
        2,
        "RESERVATION",
        reservations=[RESERVATION],
        public_ips=True,
        startup_script="#!/bin/bash",
        node_image="projects/p/global/images/i",
        filestores=[HOME],
        lustres=[HOME],
        labels={"team": "a"},
        config={"Weight": "1"},
    )
    written = pool.inputs({"app": "holdfast"})
    assert written["machineSpec"]["reservationAffinity"] == SPECIFIC
    assert (written["labels"], written["enablePublicIps"]) == ({"app": "holdfast", "team": "a"}, True)
    assert (written["filestores"], written["lustres"]) == ([HOME], [HOME])
    assert {"flexStartMaxDuration"}.isdisjoint(written)
    args = TrainingClusterArgs(**{**vars(ARGS), "pools": [*ARGS.pools, pool], "service_account": "a@b"})
    inputs = training_cluster_inputs(args)
    assert inputs["orchestratorSpec"]["slurmSpec"]["nodeSets"] == [{"nodePoolId": "res", "config": {"Weight": "1"}}]
    assert inputs["runtimeSpec"] == {"serviceAccount": "a@b"}
    assert CLUSTER["nodePools"][1]["scalingSpec"] == {"minNodeCount": 0, "maxNodeCount": 2}
    assert {"runtimeSpec"}.isdisjoint(CLUSTER)
    assert inputs["orchestratorSpec"]["slurmSpec"]["prologBashScripts"] == list(ARGS.prolog_scripts)


def test_people_log_in_through_identity_aware_proxy() -> None:
    assert login_node("flexvm", "login") == "flexvm-login-0"
    command = ssh_command("flexvm", "login", "p", ZONE)
    assert command == f"gcloud compute ssh flexvm-login-0 --project p --zone {ZONE} --tunnel-through-iap"
