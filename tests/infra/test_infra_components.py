"""Components on the emulated cloud: what they register, and what they refuse before they register anything."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pulumi
import pytest

from infra import catalog
from infra.checkpoint_bucket import CheckpointBucket, CheckpointBucketArgs
from infra.errors import InputError
from infra.gpu_job import IMAGE_USER, GpuJob, GpuJobArgs, GpuJobNetwork
from infra.network import Network, NetworkArgs
from infra.project_services import ProjectServices, ProjectServicesArgs
from infra.workload_identity import WorkloadIdentity, WorkloadIdentityArgs
from mockgcp.cloud import Cloud
from mockgcp.frontends.pulumi.mocks import EmulatedGcp
from mockgcp.services.artifactregistry import seed_image

PROJECT = "demo-project"
EMAIL = f"gpu-job-sa@{PROJECT}.iam.gserviceaccount.com"
IMAGE = f"us-central1-docker.pkg.dev/{PROJECT}/trainers/trainer@sha256:{'0' * 64}"
BUCKET = CheckpointBucketArgs(project=PROJECT, location="us-central1", bucket_name=f"gpu-checkpoints-{PROJECT}")


@pytest.fixture
def gcp() -> EmulatedGcp:
    cloud = Cloud()
    cloud.seed_project(PROJECT, number=123456789012)
    seed_image(cloud, IMAGE)
    for quota_id in catalog.gpu_quotas():
        cloud.quotas.set(PROJECT, quota_id, "*", 8)
    return EmulatedGcp(cloud, project=PROJECT, stack="dev-foundation")


def prepared(**job: Any) -> GpuJob:
    """A job with all that it needs in the project."""
    apis = ProjectServices("apis", ProjectServicesArgs(PROJECT, catalog.services().cloud_run_job))
    after = pulumi.ResourceOptions(depends_on=[apis])
    bucket = CheckpointBucket("checkpoints", BUCKET, after)
    identity = WorkloadIdentity("gpu-job", WorkloadIdentityArgs(PROJECT, "gpu-job-sa", bucket.bucket), after)
    return GpuJob("gpu-job", args(bucket=bucket.bucket, service_account=identity.email, **job))


def args(**changes: Any) -> GpuJobArgs:
    base = GpuJobArgs(
        project=PROJECT,
        location="us-central1",
        job_name="gpu-resilient-job",
        image=IMAGE,
        bucket=BUCKET.bucket_name,
        service_account=EMAIL,
    )
    return replace(base, **changes)


def test_children_have_their_component_as_parent(gcp: EmulatedGcp) -> None:
    result = gcp.run(prepared)
    components = {each.urn: each.type for each in result.resources if each.type.startswith("holdfast:")}
    assert sorted(components.values()) == [
        "holdfast:checkpoint_bucket:CheckpointBucket",
        "holdfast:gpu_job:GpuJob",
        "holdfast:project_services:ProjectServices",
        "holdfast:workload_identity:WorkloadIdentity",
    ]
    assert all(each.parent in components for each in result.resources if each.type.startswith("gcp:"))


def test_services_stay_enabled_on_destroy(gcp: EmulatedGcp) -> None:
    names = ["run.googleapis.com", "iam.googleapis.com", "run.googleapis.com"]
    result = gcp.run(lambda: ProjectServices("apis", ProjectServicesArgs(PROJECT, names)))
    services = result.of_type("gcp:projects/service:Service")
    assert sorted(str(each.inputs["service"]) for each in services) == ["iam.googleapis.com", "run.googleapis.com"]
    assert all(each.inputs["disableOnDestroy"] is False for each in services)


def test_the_bucket_is_private_hierarchical_and_bills_no_deleted_checkpoints(gcp: EmulatedGcp) -> None:
    result = gcp.run(lambda: CheckpointBucket("checkpoints", replace(BUCKET, delete_after_days=30)))
    [bucket] = result.of_type("gcp:storage/bucket:Bucket")
    assert bucket.inputs["name"] == "gpu-checkpoints-demo-project"
    assert bucket.inputs["hierarchicalNamespace"] == {"enabled": True}
    assert bucket.inputs["uniformBucketLevelAccess"] is True
    assert bucket.inputs["publicAccessPrevention"] == "enforced"
    assert bucket.inputs["softDeletePolicy"] == {"retentionDurationSeconds": 0}
    assert bucket.inputs["forceDestroy"] is False
    assert bucket.inputs["lifecycleRules"] == [
        {"action": {"type": "AbortIncompleteMultipartUpload"}, "condition": {"age": 1}},
        {"action": {"type": "Delete"}, "condition": {"age": 30}},
    ]


def test_the_identity_has_one_role_on_one_bucket(gcp: EmulatedGcp) -> None:
    result = gcp.run(prepared)
    [grant] = [each for each in result.resources if "IAM" in each.type]
    assert grant.type == "gcp:storage/bucketIAMMember:BucketIAMMember"
    assert grant.inputs["bucket"] == BUCKET.bucket_name
    assert grant.inputs["role"] == "roles/storage.objectUser"
    assert grant.inputs["member"] == f"serviceAccount:{EMAIL}"


def test_the_job_has_the_scenarios_values(gcp: EmulatedGcp) -> None:
    result = gcp.run(lambda: prepared(env={"HOLDFAST_STEPS": "1000"}))
    [job] = result.of_type("gcp:cloudrunv2/job:Job")
    assert job.inputs["launchStage"] == "BETA"
    assert job.inputs["deletionProtection"] is True
    assert job.inputs["template"] == {
        "taskCount": 1,
        "template": {
            "executionEnvironment": "EXECUTION_ENVIRONMENT_GEN2",
            "gpuZonalRedundancyDisabled": True,
            "maxRetries": 3,
            "nodeSelector": {"accelerator": "nvidia-l4"},
            "serviceAccount": EMAIL,
            "timeout": "43200s",
            "containers": [
                {
                    "image": IMAGE,
                    "resources": {"limits": {"cpu": "8", "memory": "32Gi", "nvidia.com/gpu": "1"}},
                    "envs": [
                        {"name": "CHECKPOINT_DIR", "value": "/checkpoints"},
                        {"name": "HOLDFAST_STEPS", "value": "1000"},
                    ],
                    "volumeMounts": [{"name": "checkpoints", "mountPath": "/checkpoints"}],
                }
            ],
            "volumes": [
                {
                    "name": "checkpoints",
                    "gcs": {
                        "bucket": BUCKET.bucket_name,
                        "readOnly": False,
                        "mountOptions": ["uid=65532", "gid=65532"],
                    },
                }
            ],
        },
    }


def test_what_else_a_job_can_be_told(gcp: EmulatedGcp) -> None:
    def program() -> None:
        after = pulumi.ResourceOptions(depends_on=[prepared(job_name="first")])
        network = Network("network", NetworkArgs(PROJECT, "us-central1"), after)
        options: dict[str, Any] = {
            "task_count": 8,
            "parallelism": 2,
            "mount_options": ["metadata-cache-ttl-secs=60", "implicit-dirs"],
            "run_id": "baseline-2",
            "network": GpuJobNetwork(network.network, network.subnetwork, "ALL_TRAFFIC"),
            "labels": {"app": "holdfast", "stack": "dev"},
            "accelerator": "nvidia-rtx-pro-6000",
            "cpu": "20",
            "memory": "88Gi",
        }
        GpuJob("second", args(**options))

    job = gcp.run(program).of_type("gcp:cloudrunv2/job:Job")[-1]
    task = job.inputs["template"]["template"]
    assert (job.inputs["template"]["taskCount"], job.inputs["template"]["parallelism"]) == (8, 2)
    assert job.inputs["labels"] == {"app": "holdfast", "stack": "dev"}
    options = task["volumes"][0]["gcs"]["mountOptions"]
    assert options == ["uid=65532", "gid=65532", "metadata-cache-ttl-secs=60", "implicit-dirs"]
    assert {"name": "HOLDFAST_RUN_ID", "value": "baseline-2"} in task["containers"][0]["envs"]
    assert task["vpcAccess"] == {
        "egress": "ALL_TRAFFIC",
        "networkInterfaces": [{"network": "holdfast", "subnetwork": "holdfast-us-central1"}],
    }
    assert task["containers"][0]["resources"]["limits"]["memory"] == "88Gi"


@pytest.mark.parametrize(("size", "warns"), [({"cpu": "4", "memory": "16Gi"}, True), ({}, False)])
def test_a_job_without_memory_for_its_mount_is_warned_about(
    gcp: EmulatedGcp, monkeypatch: pytest.MonkeyPatch, size: dict[str, str], warns: bool
) -> None:
    warnings: list[str] = []
    monkeypatch.setattr(pulumi.log, "warn", lambda message, _resource=None: warnings.append(message))
    gcp.run(lambda: prepared(**size))
    assert [each.startswith("GpuJob gpu-job, memory: 16 GiB") for each in warnings] == [True] * warns


def test_a_short_job_needs_no_preview_feature(gcp: EmulatedGcp) -> None:
    [job] = gcp.run(lambda: prepared(task_timeout="3600s")).of_type("gcp:cloudrunv2/job:Job")
    assert job.inputs["launchStage"] == "GA"


@pytest.mark.parametrize(
    ("change", "where", "says"),
    [
        ({"task_timeout": "604800s"}, "task_timeout", "604800s (168 h) a task attempt; with a GPU"),
        ({"task_timeout": "168h"}, "task_timeout", "Set at most 43200s"),
        ({"task_timeout": "12h"}, "task_timeout", "write 43200s"),
        ({"max_retries": 0}, "max_retries", "not live-migrated"),
        ({"max_retries": 11}, "max_retries", "0 to 10"),
        ({"cpu": "2"}, "cpu", "nvidia-l4 needs at least 4 CPU"),
        ({"cpu": "two"}, "cpu", "not a number of CPUs"),
        ({"memory": "32GB"}, "memory", "not an amount of memory"),
        ({"memory": "8Gi"}, "memory", "at least 16 GiB"),
        ({"accelerator": "nvidia-h100"}, "accelerator", "choose one of nvidia-l4"),
        ({"image": "trainer:latest"}, "image", "not pinned by a digest"),
        ({"job_name": "j" * 60}, "job_name", "Shorten it"),
        ({"task_count": 0}, "task_count", "1 to 10000"),
        ({"parallelism": 0}, "parallelism", "set at least 1, or leave it out"),
        ({"location": "us-west1"}, "location", "no nvidia-l4 in us-west1"),
        ({"location": "nowhere"}, "location", "Choose asia-southeast1, europe-west1, europe-west4, us-east4, or, by"),
        ({"mount_options": ["--implicit-dirs"]}, "mount_options", "without its hyphens"),
        ({"run_id": "../else"}, "run_id", "is no folder name"),
        ({"run_id": "a", "env": {"HOLDFAST_RUN_ID": "b"}}, "run_id", "Leave it in one of them"),
        ({"network": GpuJobNetwork("n", "s", "SOME")}, "egress", "PRIVATE_RANGES_ONLY, ALL_TRAFFIC"),
        ({"env": {"CHECKPOINT_DIR": "/tmp"}}, "env", "set by this component. Choose another name"),
        ({"env": {"PORT": "80"}}, "env", "PORT is reserved by Cloud Run"),
        ({"secret_env": {"X_GOOGLE_KEY": "x"}}, "secret_env", "X_GOOGLE_KEY is reserved by Cloud Run"),
        ({"secret_env": {"CLOUD_RUN_JOB": "x"}}, "secret_env", "Choose another name"),
        ({"env": {"TOKEN": "x"}, "secret_env": {"TOKEN": "y"}}, "secret_env", "Leave it in one of them"),
        ({"universe": catalog.universe("s3nsapis.fr")}, "task_timeout", "up to 3600s, 1 h"),
    ],
)
def test_a_job_that_cannot_work_is_refused_once_before_it_is_registered(
    change: dict[str, Any], where: str, says: str
) -> None:
    with pytest.raises(InputError) as raised:
        GpuJob("train", args(**change))
    message = str(raised.value)
    assert message.startswith(f"GpuJob train, {where}: ")
    assert says in message
    assert "\n" not in message


def test_a_service_account_id_of_40_letters_is_refused_before_it_is_registered() -> None:
    with pytest.raises(
        InputError, match=r"^WorkloadIdentity gpu-job, account_id: 'a+' has 40 characters; .*Shorten it"
    ):
        WorkloadIdentity("gpu-job", WorkloadIdentityArgs(PROJECT, "a" * 40, BUCKET.bucket_name))


@pytest.mark.parametrize(
    ("change", "where"), [({"bucket_name": "Checkpoints"}, "bucket_name"), ({"soft_delete_s": 3600}, "soft_delete_s")]
)
def test_a_bucket_that_cannot_work_is_refused_before_it_is_registered(change: dict[str, Any], where: str) -> None:
    with pytest.raises(InputError, match=f"^CheckpointBucket checkpoints, {where}: "):
        CheckpointBucket("checkpoints", replace(BUCKET, **change))


def test_pulumi_prints_wrong_input_without_a_traceback() -> None:
    assert issubclass(InputError, pulumi.RunError)


def test_the_mount_belongs_to_the_images_user() -> None:
    dockerfile = Path(__file__).parents[2] / "workloads" / "Dockerfile"
    assert f"USER {IMAGE_USER}:{IMAGE_USER}" in dockerfile.read_text(encoding="utf-8").splitlines()


def test_a_mount_may_have_an_owner_of_its_own(gcp: EmulatedGcp) -> None:
    [job] = gcp.run(lambda: prepared(mount_options=["uid=1000"])).of_type("gcp:cloudrunv2/job:Job")
    [volume] = job.inputs["template"]["template"]["volumes"]
    assert volume["gcs"]["mountOptions"] == ["gid=65532", "uid=1000"]
