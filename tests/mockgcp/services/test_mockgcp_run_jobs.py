"""Cloud Run jobs: what is refused, what is filled in, and a job's life."""

from __future__ import annotations

from typing import Any

import pytest
from mockgcp_client import EMAIL, IMAGE, JOB, LOCATION, OTHER, PROJECT, STRANGER, Client, job

from mockgcp import schemas
from mockgcp.cloud import Cloud
from mockgcp.durations import NOMINAL
from mockgcp.schemas import validate
from mockgcp.services import artifactregistry

CREATE = "run.projects.locations.jobs.create"
PATCH = "run.projects.locations.jobs.patch"
GET = "run.projects.locations.jobs.get"
NEW = {"parent": LOCATION, "jobId": "train"}
NAME = {"name": JOB}
L4: dict[str, Any] = {"nodeSelector": {"accelerator": "nvidia-l4"}, "gpuZonalRedundancyDisabled": True}


@pytest.fixture(autouse=True)
def account(gcp: Client) -> None:
    gcp.make_account()


def limits(**values: str) -> dict[str, Any]:
    return {"resources": {"limits": {name.replace("gpu", "nvidia.com/gpu"): v for name, v in values.items()}}}


def gpu_job(cpu: str = "8", memory: str = "32Gi", **task: Any) -> dict[str, Any]:
    return job(container=limits(cpu=cpu, memory=memory, gpu="1"), **{**L4, **task})


# -- rules ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "path", "words"),
    [
        (gpu_job(timeout="604800s"), "timeout", "43200s"),
        (gpu_job(cpu="2", memory="8Gi"), "containers[0].resources.limits.cpu", "nvidia-l4 needs at least 4 CPU"),
        (gpu_job(cpu="4", memory="8Gi"), "containers[0].resources.limits.memory", "at least 16 GiB"),
        (gpu_job(cpu="8", memory="64Gi"), "containers[0].resources.limits.memory", "8 CPU allows 4 to 32 GiB"),
        (gpu_job(nodeSelector={"accelerator": "nvidia-h100"}), "nodeSelector.accelerator", "nvidia-h100"),
        (job(**L4), "", "go together"),
        (job(container=limits(gpu="1")), "", "go together"),
        (job(container=limits(cpu="8", memory="32Gi", gpu="2"), **L4), "limits[nvidia.com/gpu]", "exactly 1"),
        (job(container=limits(gpu="one"), **L4), "nvidia.com/gpu", "'one' is not a number of GPUs"),
        (job(container=limits(cpu="3")), "containers[0].resources.limits.cpu", "no size of 3 CPU"),
        (job(container=limits(cpu="8 cores")), "", "is not a number of CPUs"),
        (job(container=limits(memory="16GB")), "", "is not an amount of memory"),
        (job(maxRetries=11), "maxRetries", "11 retries"),
        (job(maxRetries=-1), "maxRetries", "-1 retries"),
        (job(timeout="604801s"), "timeout", "604800s"),
        (job(timeout="0s"), "timeout", "0s"),
        (job(timeout="-5s"), "", "is not a duration"),
        (job(serviceAccount=""), "serviceAccount", "name one of your own"),
        (job(containers=[]), "containers", "exactly one container"),
        (job(containers=[{"image": IMAGE}, {"image": IMAGE}]), "containers", "exactly one container"),
        (job(containers=[{"command": ["x"]}]), "containers", "with an image"),
        (job(container={"volumeMounts": [{"name": "v", "mountPath": "/v"}]}), "volumeMounts", "no volume 'v'"),
        (
            job(
                container={"volumeMounts": [{"name": "v", "mountPath": "v"}]},
                volumes=[{"name": "v", "gcs": {"bucket": "b"}}],
            ),
            "mountPath",
            "must be absolute",
        ),
        (job(volumes=[{"gcs": {"bucket": "b"}}]), "volumes", "a volume has a name"),
        (job(volumes=[{"name": "v", "gcs": {}}]), "volumes", "a gcs volume a bucket"),
        (job(container={"env": [{"value": "x"}]}), "env.name", "required"),
        (job(container={"env": [{"name": "CLOUD_RUN_JOB", "value": "x"}]}), "env", "is reserved"),
        (job(container={"env": [{"name": "PORT", "value": "x"}]}), "env", "is reserved"),
        (job(execution={"taskCount": 0}), "taskCount", "0 tasks"),
        (job(execution={"taskCount": 10001}), "taskCount", "10001 tasks; a job has 1 to 10000"),
        (job(execution={"parallelism": -1}), "parallelism", "negative"),
        ({}, "containers", "exactly one container"),
        (job(container={"image": "ghcr.io/a/b:1"}), "image", "[region-]docker.pkg.dev or docker.io but obtained ghcr"),
        (job(container={"image": "europe-west4-docker.pkg.dev/acme-train/b"}), "image", "Expected an image path"),
        (job(volumes=[{"name": "v", "gcs": {"bucket": "b", "mountOptions": ["--o"]}}]), "mountOptions", "dashes"),
        (job(vpcAccess={"networkInterfaces": [{}]}), "networkInterfaces", "at least one of network or subnetwork"),
        (job(vpcAccess={"networkInterfaces": [{"network": "a"}] * 2}), "networkInterfaces", "single"),
        (job(vpcAccess={"egress": "ALL_TRAFFIC"}), "egress", "needs networkInterfaces"),
    ],
)
def test_what_the_service_refuses_of_a_template(gcp: Client, body: dict[str, Any], path: str, words: str) -> None:
    for method, params in ((CREATE, NEW), (PATCH, NAME)):
        error = gcp.refused(method, params, body)
        assert error.status == "INVALID_ARGUMENT"
        assert path in error.message
        assert words in error.message
    assert gcp.refused(GET, NAME).status == "NOT_FOUND"


def test_all_violations_come_in_one_message(gcp: Client) -> None:
    error = gcp.refused(CREATE, NEW, gpu_job(cpu="2", timeout="604800s", maxRetries=11))
    fields = [path for path, _ in error.violations]
    assert fields == [
        "template.template.containers[0].resources.limits.cpu",
        "template.template.timeout",
        "template.template.maxRetries",
    ]
    assert error.message.count("Violation in Job.") == 3


@pytest.mark.parametrize(
    ("body", "what"),
    [
        (job(volumes=[{"name": "v", "nfs": {"server": "s", "path": "/"}}]), "volume v"),
        (job(container={"env": [{"name": "S", "valueSource": {"secretKeyRef": {"secret": "s"}}}]}), "env S"),
    ],
)
def test_what_the_emulator_lacks_it_names(gcp: Client, body: dict[str, Any], what: str) -> None:
    error = gcp.refused(CREATE, NEW, body)
    assert (error.status, what in error.message) == ("UNIMPLEMENTED", True)


@pytest.mark.parametrize("job_id", ["", "Train", "1train", "train-", "a" * 57])
def test_a_job_name_that_breaks_the_rules_is_refused(gcp: Client, job_id: str) -> None:
    error = gcp.refused(CREATE, {"parent": LOCATION, "jobId": job_id}, job())
    assert error.message.startswith(f"jobId: {job_id!r} ")


def test_a_job_name_at_the_limit_leaves_room_for_the_execution(gcp: Client) -> None:
    name = gcp.make_job("a" * 56)["name"]
    _, execution = gcp.run_job(name)
    assert len(execution.split("/")[-1]) == 62


def test_the_cap_of_a_gpu_task_is_the_universes(gcp: Client) -> None:
    gcp.finish(CREATE, NEW, {**gpu_job(timeout="43200s"), "launchStage": "BETA"})


# -- what a job needs beside itself --------------------------------------------------------------------------------


def failed(gcp: Client, body: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """The error of a creation that ends so, and the condition of the job that stays."""
    operation = gcp.start(CREATE, NEW, body)
    gcp.cloud.clock.advance(NOMINAL[CREATE])
    assert operation.error is not None
    return f"{operation.error.status}: {operation.error.message}", gcp.call(GET, NAME)["terminalCondition"]


@pytest.mark.parametrize("suffix", ["@sha256:" + "1" * 64, ":none", ""])
def test_a_job_whose_image_is_missing_stays_not_ready(cloud: Cloud, gcp: Client, suffix: str) -> None:
    image = IMAGE.partition("@")[0] + suffix
    error, condition = failed(gcp, job(container={"image": image}))
    assert error == f"NOT_FOUND: Image '{image}' not found."
    assert (condition["state"], condition["reason"]) == ("CONDITION_FAILED", "CONTAINER_MISSING")
    refused = gcp.refused("run.projects.locations.jobs.run", NAME, {})
    assert (refused.status, image in refused.message) == ("FAILED_PRECONDITION", True)
    digest = suffix.removeprefix("@") if "@" in suffix else "sha256:" + "2" * 64
    artifactregistry.seed_image(cloud, f"{IMAGE.partition('@')[0]}@{digest}", suffix.removeprefix(":") or "latest")
    patched = gcp.finish(PATCH, NAME, job(container={"image": image}))
    assert patched["terminalCondition"]["state"] == "CONDITION_SUCCEEDED"


@pytest.mark.parametrize("image", ["busybox", "docker.io/library/busybox:1", "eu.gcr.io/a/b", "gcr.io/a/b"])
def test_images_of_other_registries_are_taken(gcp: Client, image: str) -> None:
    assert gcp.make_job(containers=[{"image": image}])["template"]["template"]["containers"][0]["image"] == image


def test_whoever_deploys_an_image_must_be_allowed_to_read_it(cloud: Cloud, gcp: Client) -> None:
    cloud.policies.grant(f"projects/{PROJECT}", "roles/run.developer", STRANGER)
    cloud.policies.grant(f"projects/{PROJECT}/serviceAccounts/{EMAIL}", "roles/iam.serviceAccountUser", STRANGER)
    error = gcp.as_(STRANGER).refused(CREATE, NEW, job())
    assert (error.http_status, "artifactregistry.repositories.downloadArtifacts" in error.message) == (403, True)


def test_an_image_of_another_project_must_be_readable_for_cloud_runs_agent(cloud: Cloud, gcp: Client) -> None:
    image = IMAGE.replace(PROJECT, OTHER)
    artifactregistry.seed_image(cloud, image)
    agent = f"service-{cloud.project(PROJECT).number}@serverless-robot-prod.iam.gserviceaccount.com"
    error, condition = failed(gcp, job(container={"image": image}))
    assert f"Google Cloud Run Service Agent {agent} must have permission to read the image" in error
    assert condition["reason"] == "CONTAINER_PERMISSION_DENIED"
    repository = f"projects/{OTHER}/locations/europe-west4/repositories/jobs"
    cloud.policies.grant(repository, "roles/artifactregistry.reader", f"serviceAccount:{agent}")
    gcp.finish(PATCH, NAME, job(container={"image": image}))


def test_a_gpu_needs_quota_of_its_kind_for_all_that_run_at_once(cloud: Cloud, gcp: Client) -> None:
    gcp.finish(CREATE, NEW, gpu_job() | {"launchStage": "GA"})
    many = gpu_job()
    many["template"].update(taskCount=9, parallelism=5)
    for method, params in ((CREATE, {**NEW, "jobId": "more"}), (PATCH, NAME)):
        error = gcp.refused(method, params, many)
        assert "Parallelism must be set to 4 or fewer in order to set GPU requirements." in error.message
        assert "NvidiaL4GpuAllocNoZonalRedundancyPerProjectRegion requested: 5 allowed: 4" in error.message
    many["template"]["parallelism"] = 4
    gcp.finish(PATCH, NAME, many)
    redundant = gcp.refused(CREATE, {**NEW, "jobId": "more"}, gpu_job(gpuZonalRedundancyDisabled=False))
    assert "You do not have quota for using GPUs with zonal redundancy." in redundant.message
    cloud.quotas.set(PROJECT, "NvidiaL4GpuAllocNoZonalRedundancyPerProjectRegion", "europe-west4", 0)
    assert "without zonal redundancy." in gcp.refused(PATCH, NAME, gpu_job()).message


def test_a_gpu_is_not_in_every_region(gcp: Client) -> None:
    elsewhere = {**NEW, "parent": LOCATION.replace("europe-west4", "us-west2")}
    error = gcp.refused(CREATE, elsewhere, gpu_job())
    assert (error.status, "no nvidia-l4 in us-west2" in error.message) == ("INVALID_ARGUMENT", True)


@pytest.mark.parametrize(
    ("body", "feature"),
    [
        (gpu_job(timeout="3601s"), "long running GPU jobs"),
        (gpu_job(cpu="20", memory="80Gi", nodeSelector={"accelerator": "nvidia-rtx-pro-6000"}), "nvidia-rtx-pro-6000"),
    ],
)
def test_a_preview_feature_needs_launch_stage_beta(
    cloud: Cloud, gcp: Client, body: dict[str, Any], feature: str
) -> None:
    cloud.quotas.set(PROJECT, "NvidiaRtxPro6000GpuAllocNoZonalRedundancyPerProjectRegion", "*", 1)
    for sent in (body, {**body, "launchStage": "GA"}):
        error = gcp.refused(CREATE, NEW, sent)
        assert f"The feature '{feature}" in error.message
        assert "should be specified at least as BETA" in error.message
    gcp.finish(CREATE, NEW, {**body, "launchStage": "BETA"})


def test_a_network_must_be_there_when_the_job_becomes_ready(cloud: Cloud, gcp: Client) -> None:
    body = job(vpcAccess={"networkInterfaces": [{"network": "holdfast", "subnetwork": "holdfast"}]})
    error, condition = failed(gcp, body)
    assert (f"projects/{PROJECT}/global/networks/holdfast" in error, condition["reason"]) == (
        True,
        "VPC_NETWORK_NOT_FOUND",
    )
    cloud.table("compute.network")[f"projects/{PROJECT}/global/networks/holdfast"] = {}
    cloud.table("compute.subnetwork")[f"projects/{PROJECT}/regions/europe-west4/subnetworks/holdfast"] = {}
    made = gcp.finish(PATCH, NAME, body)
    assert made["template"]["template"]["vpcAccess"]["egress"] == "PRIVATE_RANGES_ONLY"
    only = job(vpcAccess={"networkInterfaces": [{"network": f"projects/{PROJECT}/global/networks/holdfast"}]})
    gcp.finish(PATCH, NAME, only)


def test_compute_engines_default_account_once_it_is_there(cloud: Cloud, gcp: Client) -> None:
    cloud.project(PROJECT).services.add("compute.googleapis.com")
    made = gcp.finish(CREATE, NEW, job(serviceAccount=""))
    email = f"{cloud.project(PROJECT).number}-compute@developer.gserviceaccount.com"
    assert made["template"]["template"]["serviceAccount"] == email


def test_a_caller_must_be_allowed_to_act_as_the_account(cloud: Cloud, gcp: Client) -> None:
    for role in ("roles/run.developer", "roles/artifactregistry.reader"):
        cloud.policies.grant(f"projects/{PROJECT}", role, STRANGER)
    stranger = gcp.as_(STRANGER)
    error = stranger.refused(CREATE, NEW, job())
    assert (error.http_status, "iam.serviceaccounts.actAs" in error.message) == (403, True)
    assert gcp.refused(CREATE, NEW, job(serviceAccount="none@x.com")).http_status == 403
    cloud.policies.grant(f"projects/{PROJECT}/serviceAccounts/{EMAIL}", "roles/iam.serviceAccountUser", STRANGER)
    stranger.finish(CREATE, NEW, job())


def test_a_disabled_account_runs_nothing(gcp: Client) -> None:
    gcp.call("iam.projects.serviceAccounts.disable", {"name": f"projects/{PROJECT}/serviceAccounts/{EMAIL}"}, {})
    assert gcp.refused(CREATE, NEW, job()).status == "FAILED_PRECONDITION"


# -- defaults ------------------------------------------------------------------------------------------------------


def test_what_is_left_out_is_filled_in(gcp: Client) -> None:
    made = gcp.make_job()
    execution, task = made["template"], made["template"]["template"]
    assert (execution["taskCount"], execution["parallelism"], made["launchStage"]) == (1, 1, "GA")
    assert (task["timeout"], task["maxRetries"]) == ("600s", 3)
    assert task["executionEnvironment"] == "EXECUTION_ENVIRONMENT_GEN2"
    assert task["containers"][0]["resources"]["limits"] == {"cpu": "1000m", "memory": "512Mi"}


def test_what_was_sent_stays_as_it_was_sent(gcp: Client) -> None:
    body = job(
        execution={"taskCount": 4, "parallelism": 2},
        container=limits(cpu="2"),
        maxRetries=0,
        timeout="60s",
    )
    made = gcp.finish(CREATE, NEW, body)
    assert (made["template"]["taskCount"], made["template"]["parallelism"]) == (4, 2)
    assert made["template"]["template"]["maxRetries"] == 0
    assert made["template"]["template"]["timeout"] == "60s"
    assert made["template"]["template"]["containers"][0]["resources"]["limits"] == {"cpu": "2", "memory": "512Mi"}


def test_a_parallelism_of_nothing_is_as_much_as_possible(gcp: Client) -> None:
    made = gcp.finish(CREATE, NEW, job(execution={"taskCount": 3, "parallelism": 0}))
    assert made["template"]["parallelism"] == 3


# -- a job's life --------------------------------------------------------------------------------------------------


def test_a_job_is_ready_when_its_operation_is_done(cloud: Cloud, gcp: Client) -> None:
    operation = gcp.start(CREATE, NEW, job())
    read = ("run.projects.locations.operations.get", {"name": operation.name})
    cloud.clock.advance(NOMINAL[CREATE] - 1)
    pending = gcp.call(GET, NAME)
    assert (pending["reconciling"], pending["terminalCondition"]["state"]) == (True, "CONDITION_RECONCILING")
    assert gcp.call(*read)["done"] is False
    error = gcp.refused("run.projects.locations.jobs.run", NAME, {})
    assert (error.status, "is not ready yet" in error.message) == ("FAILED_PRECONDITION", True)
    cloud.clock.advance(1)
    ready = gcp.call(GET, NAME)
    assert (ready["terminalCondition"]["state"], ready["observedGeneration"]) == ("CONDITION_SUCCEEDED", "1")
    assert not ready["reconciling"]
    assert gcp.call(*read)["response"] == ready


def test_an_operations_response_keeps_to_the_documents_schema(gcp: Client) -> None:
    read = schemas.method(GET)
    assert read is not None
    made = gcp.make_job()
    assert validate.response(read, made) == made


def test_a_name_is_taken_once(gcp: Client) -> None:
    gcp.make_job()
    error = gcp.refused(CREATE, NEW, job())
    assert (error.http_status, error.message) == (409, "Resource 'train' already exists.")


def test_a_patch_replaces_the_template_and_keeps_the_jobs_identity(cloud: Cloud, gcp: Client) -> None:
    made = gcp.make_job(maxRetries=1)
    cloud.clock.advance(60)
    patched = gcp.finish(PATCH, NAME, job(timeout="60s"))
    assert patched["template"]["template"]["maxRetries"] == 3
    assert (patched["uid"], patched["createTime"], patched["generation"]) == (made["uid"], made["createTime"], "2")
    assert patched["updateTime"] > made["updateTime"]
    assert patched["etag"] != made["etag"]


def test_a_stale_etag_is_a_conflict(gcp: Client) -> None:
    stale = gcp.make_job()["etag"]
    fresh = gcp.finish(PATCH, NAME, {**job(), "etag": stale})["etag"]
    assert gcp.refused(PATCH, NAME, {**job(), "etag": stale}).status == "ABORTED"
    assert gcp.refused("run.projects.locations.jobs.delete", {**NAME, "etag": stale}).status == "ABORTED"
    assert gcp.refused("run.projects.locations.jobs.run", NAME, {"etag": stale}).status == "ABORTED"
    gcp.finish("run.projects.locations.jobs.delete", {**NAME, "etag": fresh})


def test_a_deleted_job_takes_its_executions_along_and_ends_their_operations(cloud: Cloud, gcp: Client) -> None:
    gcp.make_job()
    running, execution = gcp.run_job()
    gcp.finish("run.projects.locations.jobs.delete", NAME)
    error = gcp.refused(GET, NAME)
    assert error.message == (
        "Resource 'train' of kind 'JOB' in region 'europe-west4' in project 'acme-train' does not exist."
    )
    assert gcp.refused("run.projects.locations.jobs.executions.get", {"name": execution}).status == "NOT_FOUND"
    assert (cloud.table("run.task"), running.done) == ({}, True)
    assert running.error is not None
    assert running.error.status == "CANCELLED"


def test_listing_is_by_location(gcp: Client) -> None:
    gcp.make_job("b")
    gcp.make_job("a")
    elsewhere = LOCATION.replace("europe-west4", "us-central1")
    gcp.finish(CREATE, {"parent": elsewhere, "jobId": "c"}, job())
    listed = gcp.call("run.projects.locations.jobs.list", {"parent": LOCATION})["jobs"]
    assert [found["name"].split("/")[-1] for found in listed] == ["a", "b"]


def test_a_jobs_policy(gcp: Client) -> None:
    gcp.make_job()
    policy = {"bindings": [{"role": "roles/run.invoker", "members": [STRANGER]}]}
    gcp.call("run.projects.locations.jobs.setIamPolicy", {"resource": JOB}, {"policy": policy})
    found = gcp.call("run.projects.locations.jobs.getIamPolicy", {"resource": JOB})
    assert found["bindings"] == policy["bindings"]
    stranger = gcp.as_(STRANGER)
    stranger.run_job()
    assert stranger.refused(GET, NAME).http_status == 403


def test_an_unknown_operation_is_not_found(gcp: Client) -> None:
    error = gcp.refused("run.projects.locations.operations.get", {"name": f"{LOCATION}/operations/none"})
    assert error.status == "NOT_FOUND"


def test_an_operation_is_found_by_the_projects_number_too(cloud: Cloud, gcp: Client) -> None:
    name = gcp.start(CREATE, NEW, job()).name
    by_number = name.replace(PROJECT, str(cloud.project(PROJECT).number))
    assert gcp.call("run.projects.locations.operations.get", {"name": by_number})["name"] == name


def test_a_universe_without_gpu_hours_has_its_own_cap(tmp_path: Any) -> None:
    cloud = Cloud(state_dir=tmp_path, universe="s3nsapis.fr")
    cloud.seed_project(PROJECT).services.update(("run.googleapis.com", "iam.googleapis.com"))
    error = Client(cloud).refused(CREATE, NEW, gpu_job(timeout="43200s"))
    assert "3600s" in error.message


DELETE = "run.projects.locations.jobs.delete"


@pytest.mark.parametrize("change", [CREATE, PATCH])
def test_a_job_that_is_deleted_before_it_is_ready_was_not_made(gcp: Client, change: str) -> None:
    if change == PATCH:
        gcp.make_job()
    operation = gcp.start(change, NEW if change == CREATE else NAME, job())
    gcp.start(DELETE, NAME)
    gcp.cloud.clock.advance(60)
    assert operation.error is not None
    assert (operation.error.status, "was deleted" in operation.error.message) == ("ABORTED", True)
    assert gcp.refused(GET, NAME).status == "NOT_FOUND"


def test_a_second_deletion_takes_nothing_of_a_job_made_anew(gcp: Client) -> None:
    gcp.make_job()
    first = gcp.start(DELETE, NAME)
    gcp.cloud.clock.advance(NOMINAL[DELETE] / 2)
    second = gcp.start(DELETE, NAME)
    gcp.cloud.wait(first)
    made = gcp.start(CREATE, NEW, job())
    gcp.cloud.wait(second)
    assert gcp.cloud.wait(made)["name"] == JOB
    assert gcp.call(GET, NAME)["name"] == JOB
