"""The registration: the SDK's own proxies go in, violations of the right policy come out."""

import importlib
import inspect
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from pulumi_policy import (
    EnforcementLevel,
    PolicyProviderResource,
    PolicyResource,
    PolicyResourceOptions,
    ResourceValidationArgs,
    ResourceValidationPolicy,
    StackValidationArgs,
    StackValidationPolicy,
)
from pulumi_policy.policy import PolicyCustomTimeouts
from pulumi_policy.proxy import UNKNOWN_ARRAY_VALUE, UNKNOWN_STRING_VALUE, unknown_checking_proxy

from infra import kueue, model_development_cluster, names
from mockgcp.cloud import Cloud
from mockgcp.frontends.pulumi.mocks import EmulatedGcp, Result
from policies.labels import LABELLED
from policies.pack import POLICIES
from policies.rules import RULES
from stacks.choose import choose

ROOT = Path(__file__).parents[2]
PROJECT = "holdfast-dev"
LABELS = names.labels()
JOB = "gcp:cloudrunv2/job:Job"
BUCKET = "gcp:storage/bucket:Bucket"
MEMBER = "gcp:storage/bucketIAMMember:BucketIAMMember"
CLUSTER = "gcp:container/cluster:Cluster"
POOL = "gcp:container/nodePool:NodePool"
QUEUE = "kubernetes:kueue.x-k8s.io/v1beta2:ClusterQueue"
PROJECT_MEMBER = "gcp:projects/iAMMember:IAMMember"
OPTIONS = PolicyResourceOptions(False, [], None, [], PolicyCustomTimeouts(0, 0, 0), [])
HARD_BUCKET = {
    "name": "checkpoints",
    "uniformBucketLevelAccess": True,
    "publicAccessPrevention": "enforced",
    "hierarchicalNamespace": {"enabled": True},
    "softDeletePolicy": {"retentionDurationSeconds": 0},
    "labels": LABELS,
}


def violations(resource_type: str, props: dict[str, Any], **provider: Any) -> dict[str, list[str]]:
    """What each policy of the pack reports of one resource, by the policy's name. `provider`: its configuration."""
    configured = PolicyProviderResource("pulumi:providers:gcp", unknown_checking_proxy(provider), "urn", "default")
    args = ResourceValidationArgs(resource_type, unknown_checking_proxy(props), "urn", "name", OPTIONS, configured)
    reported: dict[str, list[str]] = {}
    for policy in POLICIES:
        if isinstance(policy, ResourceValidationPolicy):
            policy.validate(args, lambda message, _, name=policy.name: reported.setdefault(name, []).append(message))  # type: ignore[misc]
    return reported


def stack_violations(*resources: tuple[str, dict[str, Any]]) -> list[tuple[str, str | None]]:
    """What the pack's stack policies report of a stack, as the policy's name and the resource's URN."""
    stack = [
        PolicyResource(token, unknown_checking_proxy(props), f"urn:{index}", "name", OPTIONS, None, None, [], {})
        for index, (token, props) in enumerate(resources)
    ]
    reported: list[tuple[str, str | None]] = []
    for policy in POLICIES:
        if isinstance(policy, StackValidationPolicy):
            policy.validate(StackValidationArgs(stack), lambda _, urn, name=policy.name: reported.append((name, urn)))  # type: ignore[misc]
    return reported


def job(**task: Any) -> dict[str, Any]:
    """A job that breaks no rule, with changes to its task; a change of None leaves the field out."""
    base = {
        "maxRetries": 3,
        "timeout": "43200s",
        "serviceAccount": UNKNOWN_STRING_VALUE,
        "nodeSelector": {"accelerator": "nvidia-l4"},
        "volumes": [{"name": "checkpoints", "gcs": {"bucket": "checkpoints"}}],
        "containers": [container()],
    }
    changed = {key: value for key, value in {**base, **task}.items() if value is not None}
    return {"labels": LABELS, "template": {"template": changed}}


def container(image: str = f"t@sha256:{'0' * 64}", **limits: str) -> dict[str, Any]:
    return {
        "image": image,
        "resources": {"limits": {"cpu": "8", "memory": "32Gi", "nvidia.com/gpu": "1", **limits}},
    }


SOUND_CLUSTER = {
    "nodeConfig": {"serviceAccount": UNKNOWN_STRING_VALUE},
    "minMasterVersion": "1.34",
    "workloadIdentityConfig": {"workloadPool": UNKNOWN_STRING_VALUE},
    "controlPlaneEndpointsConfig": {"ipEndpointsConfig": {"enabled": False}},
    "resourceLabels": LABELS,
}


def pool(**changes: Any) -> dict[str, Any]:
    """A flex-start pool that breaks no rule, with changes."""
    unknown = dict.fromkeys(("maxRunDuration", "serviceAccount"), UNKNOWN_STRING_VALUE)
    node = {"machineType": "ct6e-standard-4t", "flexStart": True, **unknown}
    base = {
        "name": "dws-pool",
        "nodeConfig": node,
        "autoscaling": {"maxNodeCount": 4},
        "placementPolicy": {"tpuTopology": "4x4"},
        "queuedProvisioning": {"enabled": True},
        "management": {"autoRepair": False},
    }
    return {**base, **changes}


def queue(*order: str, memory: str = "64Gi", tpu: str = "16") -> dict[str, Any]:
    """A queue of one queued flavor, without the check that it needs."""
    quota = {"cpu": UNKNOWN_STRING_VALUE, "memory": memory, "google.com/tpu": tpu}
    resources = [{"name": each, "nominalQuota": quota[each]} for each in order or quota]
    group = {"coveredResources": list(quota), "flavors": [{"name": "dws", "resources": resources}]}
    return {"metadata": {"name": "cluster-queue"}, "spec": {"resourceGroups": [group]}}


def test_each_rule_is_a_policy_with_its_own_level() -> None:
    levels = {policy.name: policy.enforcement_level for policy in POLICIES}
    assert levels == {rule.name: EnforcementLevel(rule.severity) for rule in RULES}
    assert len(levels) == len(RULES)
    advisory = {name for name, level in levels.items() if level is EnforcementLevel.ADVISORY}
    assert advisory == {
        "gpu-job-few-retries",
        "flex-start-auto-repair",
        "queued-tpu-quota",
        "slurm-home-zone",
        "labels",
    }


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_each_rule_says_what_why_and_the_way_out(rule: Any) -> None:
    assert rule.source.startswith("https://")
    assert rule.summary.endswith(".")
    assert rule.way_out.endswith(".")


def resource_class(token: str) -> Any:
    """The SDK's class for a type's token."""
    module, name = re.fullmatch(r"gcp:(\w+)/\w+:(\w+)", token).groups()  # type: ignore[union-attr]
    return getattr(importlib.import_module(f"pulumi_gcp.{module}"), name)


def test_every_judged_type_is_one_of_the_providers() -> None:
    tokens = {token for rule in RULES for token in (*rule.checks, *rule.universe_checks, *rule.stack_types)}
    custom = {token for token in tokens if token.startswith("kubernetes:")}
    # The SDK does not have this class yet.
    for token in tokens - custom - {model_development_cluster.TOKEN}:
        assert resource_class(token).pulumi_type == token
    # Of a CustomResource the SDK makes the type as Kubernetes says it.
    assert all(re.fullmatch(r"kubernetes:(kueue\.x-k8s\.io/v1beta[12]|ray\.io/v1):[A-Z]\w+", token) for token in custom)


def training(slurm: dict[str, Any] | None = None, **changes: Any) -> dict[str, Any]:
    """A training cluster that breaks no rule, with changes to its Slurm and to its one pool of GPUs."""
    home = "projects/p/locations/us-central1-b/instances/home"
    sizes, login = {"minNodeCount": 1, "maxNodeCount": 1}, {"machineType": "n2-standard-8"}
    gpus = {"id": "a3u", "machineSpec": {"machineType": "a3-ultragpu-8g"}, "provisioningModel": "FLEX_START"}
    partitions = [{"id": "a3u", "nodePoolIds": ["a3u"]}]
    spec = {"homeDirectoryStorage": home, "loginNodePoolId": "login", "partitions": partitions, **(slurm or {})}
    return {
        "region": "us-central1",
        "labels": {**LABELS, "environment": "prod"},
        "network": {"network": UNKNOWN_STRING_VALUE, "subnetwork": UNKNOWN_STRING_VALUE},
        "nodePools": [
            {"id": "login", "machineSpec": login, "scalingSpec": sizes, "zone": "us-central1-b"},
            {**gpus, "scalingSpec": {"maxNodeCount": 2}, "zone": "us-central1-b", **changes},
        ],
        "orchestratorSpec": {"slurmSpec": spec},
    }


TRAINING = model_development_cluster.TOKEN
VIOLATIONS: list[tuple[str, dict[str, Any], str]] = [
    (JOB, job(maxRetries=0), "gpu-job-without-retries"),
    (JOB, job(maxRetries=2), "gpu-job-few-retries"),
    (JOB, job(timeout="604800s"), "gpu-task-timeout"),
    (JOB, job(containers=[container(cpu="4")]), "gpu-job-size"),
    (JOB, job(containers=[container(cpu="4", memory="16Gi")]), "mount-headroom"),
    (JOB, job(containers=[container("trainer:latest")]), "pinned-image"),
    (JOB, job(serviceAccount=None), "default-service-account"),
    (JOB, {**job(), "labels": {}}, "labels"),
    (
        MEMBER,
        {"bucket": UNKNOWN_STRING_VALUE, "role": "roles/storage.objectViewer", "member": "allUsers"},
        "public-bucket",
    ),
    (BUCKET, {**HARD_BUCKET, "publicAccessPrevention": "inherited"}, "public-bucket"),
    (BUCKET, {**HARD_BUCKET, "name": UNKNOWN_STRING_VALUE, "softDeletePolicy": None}, "bucket-hardening"),
    ("gcp:cloudrunv2/jobIamMember:JobIamMember", {"role": "roles/run.invoker", "member": "allUsers"}, "public-job"),
    ("gcp:serviceaccount/key:Key", {"serviceAccountId": UNKNOWN_STRING_VALUE}, "service-account-key"),
    (PROJECT_MEMBER, {"role": "roles/storage.admin", "member": "user:a@example.org"}, "project-wide-storage-role"),
    (PROJECT_MEMBER, {"role": "roles/editor", "member": UNKNOWN_STRING_VALUE}, "broad-role"),
    (
        "gcp:artifactregistry/repository:Repository",
        {"format": "DOCKER", "repositoryId": "trainers", "labels": LABELS},
        "immutable-tags",
    ),
    (POOL, pool(initialNodeCount=4), "flex-start-pool"),
    (POOL, pool(management={"autoRepair": True}), "flex-start-auto-repair"),
    (POOL, pool(placementPolicy={"tpuTopology": "4x5"}), "tpu-topology"),
    (CLUSTER, {**SOUND_CLUSTER, "controlPlaneEndpointsConfig": {}}, "open-control-plane"),
    (CLUSTER, {**SOUND_CLUSTER, "workloadIdentityConfig": None}, "cluster-workload-identity"),
    (CLUSTER, {**SOUND_CLUSTER, "deletionProtection": False}, "cluster-deletion-protection"),
    (CLUSTER, {**SOUND_CLUSTER, "minMasterVersion": "1.31"}, "cluster-version"),
    (CLUSTER, {**SOUND_CLUSTER, "resourceLabels": {}}, "labels"),
    (QUEUE, queue("memory", "cpu", "google.com/tpu"), "queue-flavor-resources"),
    (QUEUE, queue(memory="64"), "queue-memory-unit"),
    (TRAINING, training(flexStartMaxDuration="604801s"), "slurm-cluster"),
    (TRAINING, training(enablePublicIps=True), "slurm-public-ips"),
    (
        TRAINING,
        training({"config": {"PreemptType": "preempt/partition_prio", "PreemptMode": "REQUEUE", "JobRequeue": "0"}}),
        "slurm-requeue",
    ),
    (
        TRAINING,
        training({"config": {"SchedulerParameters": "bf_interval=30"}, "prologBashScripts": ["#!/bin/bash"]}),
        "slurm-prolog-hold",
    ),
    (TRAINING, training({"epilogBashScripts": ["true"]}), "slurm-scripts"),
    (TRAINING, training(zone="us-central1-a"), "slurm-home-zone"),
    ("kubernetes:ray.io/v1:RayJob", {"metadata": {"name": "j" * 48, "labels": UNKNOWN_STRING_VALUE}}, "ray-job"),
]


@pytest.mark.parametrize(("resource_type", "props", "policy"), VIOLATIONS)
def test_a_violation_is_reported_by_its_policy_alone(resource_type: str, props: dict[str, Any], policy: str) -> None:
    assert list(violations(resource_type, props)) == [policy]


def test_every_rule_is_violated_here() -> None:
    stack_rules = {rule.name for rule in RULES if rule.stack_check}
    assert {policy for _, _, policy in VIOLATIONS} | stack_rules == {rule.name for rule in RULES}


def test_a_flat_bucket_is_reported_for_the_job_that_writes_it() -> None:
    flat = {**HARD_BUCKET, "hierarchicalNamespace": {"enabled": False}}
    assert stack_violations((JOB, job()), (BUCKET, flat)) == [("mounted-bucket", "urn:1")]
    assert stack_violations((JOB, job()), (BUCKET, HARD_BUCKET)) == []


@pytest.mark.parametrize(
    ("tpu", "rules"),
    [
        ("16", {"queue-admission-check"}),
        ("12", {"queue-admission-check", "queue-tpu-quota"}),
        ("32", {"queue-admission-check", "queued-tpu-quota"}),
    ],
)
def test_a_queue_is_judged_with_the_pool_behind_it(tpu: str, rules: set[str]) -> None:
    flavor = {"metadata": {"name": "dws"}, "spec": {"nodeLabels": {"cloud.google.com/gke-nodepool": "dws-pool"}}}
    found = stack_violations(
        (QUEUE, queue(tpu=tpu)),
        (QUEUE.replace("ClusterQueue", "ResourceFlavor"), flavor),
        (POOL, pool()),
    )
    assert set(found) == {(rule, "urn:0") for rule in rules}


@pytest.mark.parametrize(
    ("resource_type", "props"),
    [
        (JOB, job(maxRetries=UNKNOWN_STRING_VALUE, timeout=UNKNOWN_STRING_VALUE)),
        (JOB, job(containers=UNKNOWN_ARRAY_VALUE, volumes=UNKNOWN_ARRAY_VALUE)),
        (JOB, job(nodeSelector={"accelerator": UNKNOWN_STRING_VALUE}, containers=[container(memory="16Gi")])),
        (BUCKET, dict.fromkeys(HARD_BUCKET, UNKNOWN_STRING_VALUE)),
        (MEMBER, {"member": UNKNOWN_STRING_VALUE, "role": UNKNOWN_STRING_VALUE}),
        (PROJECT_MEMBER, {"role": UNKNOWN_STRING_VALUE}),
        ("gcp:compute/network:Network", {"name": "n"}),
        (CLUSTER, {**dict.fromkeys(SOUND_CLUSTER, UNKNOWN_STRING_VALUE), "deletionProtection": UNKNOWN_STRING_VALUE}),
        (POOL, dict.fromkeys(pool(), UNKNOWN_STRING_VALUE)),
        (QUEUE, {"metadata": UNKNOWN_STRING_VALUE, "spec": UNKNOWN_STRING_VALUE}),
    ],
)
def test_what_a_preview_cannot_know_is_not_judged(resource_type: str, props: dict[str, Any]) -> None:
    assert violations(resource_type, {"labels": LABELS, **props}) == {}


@pytest.mark.parametrize(
    ("universe", "says"),
    [
        ({}, None),
        ({"universeDomain": "s3nsapis.fr"}, "up to 3600s"),
        ({"universeDomain": "example.org"}, "'example.org' is not in the catalog"),
        ({"universeDomain": UNKNOWN_STRING_VALUE}, None),
    ],
)
def test_the_timeouts_limit_is_that_of_the_providers_universe(universe: dict[str, str], says: str | None) -> None:
    found = violations(JOB, job(), **universe)
    assert list(found) == ([] if says is None else ["gpu-task-timeout"])
    assert says is None or says in found["gpu-task-timeout"][0]


def shipped(stack: str) -> dict[str, Any]:
    document = yaml.safe_load((ROOT / "stacks" / f"Pulumi.{stack}.yaml").read_text(encoding="utf-8"))
    config: dict[str, Any] = document["config"]
    return config


@pytest.fixture(scope="module")
def stacks() -> list[Result]:
    """What the shipped stacks register."""
    cloud = Cloud()
    cloud.seed_project(PROJECT, number=123456789012)
    config = shipped("dev-foundation")
    foundation = EmulatedGcp(cloud, project=PROJECT, config=config, stack="dev-foundation")
    results = [foundation.run(choose("dev-foundation"))]
    outputs = {"organization/holdfast/dev-foundation": results[0].outputs}
    config = shipped("dev-cloud-run")
    # A preview, since the shipped image is a placeholder.
    job = EmulatedGcp(cloud, project=PROJECT, config=config, stack="dev-cloud-run", stack_outputs=outputs, preview=True)
    results.append(job.run(choose("dev-cloud-run")))
    config = shipped("dev-gke-tpu")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kueue, "_dry_run", lambda _: None)
        gke = EmulatedGcp(
            cloud,
            project=PROJECT,
            region=config["gcp:region"],
            config=config,
            stack="dev-gke-tpu",
            recorded=["kubernetes"],
        )
        results.append(gke.run(choose("dev-gke-tpu")))
    return results


def test_the_shipped_stacks_violate_nothing(stacks: list[Result]) -> None:
    assert [len(stack.resources) > 1 for stack in stacks] == [True, True, True]
    for stack in stacks:
        for resource in stack.resources:
            assert violations(resource.type, dict(resource.inputs)) == {}, resource.name
        assert stack_violations(*((each.type, dict(each.outputs)) for each in stack.resources)) == []


def test_all_that_takes_labels_in_the_shipped_stacks_is_judged(stacks: list[Result]) -> None:
    types = {each.type for stack in stacks for each in stack.resources if each.type.startswith("gcp:")}
    labelled = {
        token
        for token in types
        if {"labels", "user_labels", "resource_labels"}
        & inspect.signature(resource_class(token)._internal_init).parameters.keys()
    }
    assert BUCKET in labelled
    assert labelled <= LABELLED.keys()
