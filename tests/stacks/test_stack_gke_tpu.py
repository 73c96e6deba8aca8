"""The gke_tpu stack on the emulated cloud with the configuration that is shipped, and all its bad input."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from infra import catalog, kueue
from infra.errors import InputError
from infra.ray_job import ray_job
from mockgcp.cloud import Cloud
from mockgcp.frontends.pulumi.mocks import EmulatedGcp, Result
from stacks.choose import choose
from stacks.config import Target, read
from stacks.gke_config import GkeTpuConfig

STACK, PROJECT = "dev-gke-tpu", "holdfast-dev"
FILE = Path(__file__).parents[2] / "stacks" / f"Pulumi.{STACK}.yaml"
TUTORIAL = {
    "default-cpu": {"cpu": 10, "memory": "20Gi", "google.com/tpu": 0},
    "on-demand": {"cpu": 40, "memory": "75Gi", "google.com/tpu": 16},
    "dws": {"cpu": 1000000000, "memory": "1000000000Gi", "google.com/tpu": 1000000000},
}


@pytest.fixture(autouse=True)
def answering(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """Kueue answers at once; what it was asked with."""
    asked: list[dict[str, Any]] = []
    monkeypatch.setattr(kueue, "_dry_run", asked.append)
    return asked


@pytest.fixture
def cloud() -> Cloud:
    cloud = Cloud()
    cloud.seed_project(PROJECT, number=123456789012)
    return cloud


def shipped(**change: Any) -> dict[str, Any]:
    config: dict[str, Any] = yaml.safe_load(FILE.read_text(encoding="utf-8"))["config"]
    return {**config, **{f"holdfast:{key}": value for key, value in change.items()}}


def up(cloud: Cloud, config: dict[str, Any], preview: bool = False, stack: str = STACK) -> Result:
    emulated = EmulatedGcp(
        cloud,
        project=PROJECT,
        region=config["gcp:region"],
        config=config,
        stack=stack,
        preview=preview,
        recorded=["kubernetes"],
    )
    return emulated.run(choose(stack))


def test_the_shipped_stack_comes_up(cloud: Cloud, answering: list[dict[str, Any]]) -> None:
    result = up(cloud, shipped())
    outputs = result.outputs
    assert outputs["pools"] == {"on-demand": "on-demand-pool", "dws": "dws-pool"}
    assert (outputs["clusterName"], outputs["zone"]) == ("tpu-cluster", "us-east5-b")
    assert (outputs["localQueue"], outputs["clusterQueue"]) == ("user-queue", "cluster-queue")
    assert outputs["jobServiceAccount"] == "ray-job"
    assert outputs["checkpointBucket"] == f"tpu-checkpoints-{PROJECT}"
    assert len(answering) == 1
    providers = {each.name for each in result.resources if each.type == "pulumi:providers:kubernetes"}
    assert providers == {"cluster"}
    [queue] = result.of_type("kubernetes:kueue.x-k8s.io/v1beta2:ClusterQueue")
    [group] = queue.inputs["spec"]["resourceGroups"]
    tpus = {each["name"]: each["resources"][2]["nominalQuota"] for each in group["flavors"]}
    assert tpus == {"default-cpu": "0", "on-demand": "16", "dws": "16"}


def test_a_preview_waits_for_nothing_and_makes_nothing(cloud: Cloud, answering: list[dict[str, Any]]) -> None:
    before = cloud.resources()
    planned = up(cloud, shipped(), preview=True)
    assert len(planned.of_type("gcp:container/nodePool:NodePool")) == 2
    assert answering == []
    assert cloud.resources() == before


def test_the_tutorials_own_quotas_are_possible(cloud: Cloud) -> None:
    [queue] = up(cloud, shipped(quotas=TUTORIAL, queuedQuotaAbovePool=True)).of_type(
        "kubernetes:kueue.x-k8s.io/v1beta2:ClusterQueue"
    )
    [group] = queue.inputs["spec"]["resourceGroups"]
    given = {each["name"]: {r["name"]: r["nominalQuota"] for r in each["resources"]} for each in group["flavors"]}
    assert given == {flavor: {key: str(each) for key, each in quota.items()} for flavor, quota in TUTORIAL.items()}


def test_a_namespace_of_its_own_is_made(cloud: Cloud) -> None:
    result = up(cloud, shipped(namespace="training"))
    [namespace] = result.of_type("kubernetes:core/v1:Namespace")
    [account] = result.of_type("kubernetes:core/v1:ServiceAccount")
    assert namespace.inputs["metadata"]["name"] == account.inputs["metadata"]["namespace"] == "training"


@pytest.mark.parametrize(("without", "left"), [("onDemandSlices", "dws"), ("flexStartSlices", "on-demand")])
def test_either_pool_can_be_left_out(cloud: Cloud, without: str, left: str) -> None:
    result = up(cloud, shipped(**{without: 0}))
    assert [each.name for each in result.of_type("gcp:container/nodePool:NodePool")] == [left]
    flavors = result.of_type("kubernetes:kueue.x-k8s.io/v1beta2:ResourceFlavor")
    assert {each.inputs["metadata"]["name"] for each in flavors} == {"default-cpu", left}
    assert len(result.of_type("kubernetes:kueue.x-k8s.io/v1beta2:AdmissionCheck")) == (left == "dws")


@pytest.mark.parametrize(("stack", "protected"), [("dev-gke-tpu", False), ("prod-gke-tpu", True)])
def test_the_cluster_is_protected_outside_dev(cloud: Cloud, stack: str, protected: bool) -> None:
    [cluster] = up(cloud, shipped(), preview=True, stack=stack).of_type("gcp:container/cluster:Cluster")
    assert cluster.inputs["deletionProtection"] is protected


@pytest.mark.parametrize(
    ("change", "key", "says"),
    [
        ({"topology": "4x5"}, "topology", "'4x5', which is no TPU topology; ct6e-standard-4t can have"),
        ({"machine": "ct6e-standard-8t"}, "topology", "ct6e-standard-8t can have 2x4"),
        ({"machine": "ct9e-standard-4t"}, "machine", "not in the catalog"),
        (
            {"quotas": {"on-demand": {**TUTORIAL["on-demand"], "google.com/tpu": 32}}},
            "quotas",
            "google.com/tpu 32 is above what pool on-demand-pool can ever hold, 16",
        ),
        ({"jobQueue": "users-queue"}, "jobQueue", "there is no queue 'users-queue'"),
        ({"jobName": "j" * 60}, "jobName", "has 60 characters; a RayJob's name has at most 47"),
        (
            {"topology": "2x2", "onDemandSlices": 4, "jobElasticMin": 1, "jobElasticMax": 4, "featureGates": []},
            "jobElasticMax",
            "needs Kueue's feature gate ElasticJobsViaWorkloadSlices, which is off",
        ),
        (
            {"jobElasticMin": 1, "jobElasticMax": 2},
            "jobElasticMax",
            "32 chips; the largest flavor, with its pool, has 16",
        ),
        ({"jobElasticMin": 1}, "jobElasticMax", "is missing: an elastic job has a range"),
        ({"gkeVersion": "1.31"}, "gkeVersion", "GKE 1.31; TPU pools with Kueue and Ray take 1.34 or newer"),
        ({"zone": "us-east5-c"}, "zone", "us-east5-c has no TPU v6e"),
        ({"zone": "us-west1-a"}, "zone", "no zone of us-east5"),
        (
            {"quotas": {"on-demand": {**TUTORIAL["on-demand"], "memory": 1000000000}}},
            "quotas",
            "'1000000000' has no unit, so it means bytes",
        ),
        ({"onDemandSlices": 2}, "onDemandSlices", "a pool of ct6e-standard-4t with topology 4x4 is one slice"),
        ({"onDemandSlices": 0, "flexStartSlices": 0}, "onDemandSlices", "there is no TPU pool"),
        ({"flexStartPool": "on-demand-pool"}, "flexStartPool", "need three names"),
        ({"maxRunDuration": "604801s"}, "maxRunDuration", "at most 604800s, 7 days"),
        ({"jobSlices": 2}, "jobSlices", "2 slices of 4 hosts are 32 chips"),
        ({"workerMemory": "16"}, "workerMemory", "has no unit"),
        ({"authorizedNetworks": {"all": "0.0.0.0/0"}}, "authorizedNetworks", "the whole Internet"),
        ({"releaseChannel": "NONE"}, "releaseChannel", "RAPID, REGULAR, STABLE, EXTENDED"),
        ({"defaultMachine": "n9"}, "defaultMachine", "not in the catalog"),
        ({"retryBaseSeconds": 0}, "retry", "rising seconds"),
        ({"topolgy": "4x4"}, "topolgy", "did you mean holdfast:topology?"),
    ],
)
def test_bad_input_is_one_message_before_anything_is_made(
    cloud: Cloud, change: dict[str, Any], key: str, says: str
) -> None:
    before = len(cloud.audit.entries())
    with pytest.raises(InputError) as raised:
        up(cloud, shipped(**change))
    assert "\n" not in str(raised.value)
    assert str(raised.value).startswith(f"stacks/Pulumi.{STACK}.yaml, holdfast:{key}: ")
    assert says in str(raised.value)
    assert len(cloud.audit.entries()) == before


def test_the_file_alone_describes_the_job_that_is_submitted() -> None:
    config, target = read(GkeTpuConfig, STACK, FILE)
    assert isinstance(target, Target)
    job = config.job(target, "job1", {"train.py": ""}, "python /app/train.py")
    assert config.job_problems(job) == []
    assert job.bucket == f"tpu-checkpoints-{PROJECT}"
    assert ray_job(job)["metadata"]["labels"][catalog.kueue()["queue_label"]] == "user-queue"
    assert [each.field for each in config.job_problems(config.job(target, "j" * 48))] == ["job_name"]
