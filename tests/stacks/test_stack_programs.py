"""The stacks on the emulated cloud, with the configuration files that are shipped."""

from pathlib import Path
from typing import Any

import pulumi
import pytest
import yaml

from infra import catalog, job_logs
from infra.errors import InputError
from mockgcp.cloud import Cloud
from mockgcp.frontends.pulumi.mocks import EmulatedGcp, Result
from mockgcp.services.artifactregistry import seed_image
from mockgcp.services.billing import seed_billing
from stacks.choose import choose

ROOT = Path(__file__).parents[2]
PROJECT = "holdfast-dev"


def shipped(stack: str) -> dict[str, Any]:
    document = yaml.safe_load((ROOT / "stacks" / f"Pulumi.{stack}.yaml").read_text(encoding="utf-8"))
    config: dict[str, Any] = document["config"]
    return config


def up(
    cloud: Cloud, stack: str, config: dict[str, Any], outputs: dict[str, Any] | None = None, preview: bool = False
) -> Result:
    emulated = EmulatedGcp(
        cloud,
        project=config["gcp:project"],
        region=config["gcp:region"],
        config=config,
        stack=stack,
        stack_outputs={} if outputs is None else {"organization/holdfast/dev-foundation": outputs},
        preview=preview,
    )
    return emulated.run(choose(stack))


@pytest.fixture
def cloud() -> Cloud:
    cloud = Cloud()
    cloud.seed_project(PROJECT, number=123456789012)
    for quota_id in catalog.gpu_quotas():
        cloud.quotas.set(PROJECT, quota_id, "*", 1)
    return cloud


@pytest.fixture
def foundation(cloud: Cloud) -> Result:
    """The shipped foundation, with the image of the shipped job in its repository."""
    result = up(cloud, "dev-foundation", shipped("dev-foundation"))
    seed_image(cloud, shipped("dev-cloud-run")["holdfast:image"])
    return result


def test_the_project_finds_its_stacks() -> None:
    project = yaml.safe_load((ROOT / "Pulumi.yaml").read_text(encoding="utf-8"))
    assert (project["name"], project["main"], project["stackConfigDir"]) == ("holdfast", "stacks/", "stacks/")
    assert project["runtime"] == {"name": "python", "options": {"virtualenv": ".venv"}}


@pytest.mark.parametrize("path", sorted((ROOT / "stacks").glob("Pulumi.*.yaml")), ids=lambda path: path.stem)
def test_no_stack_has_a_default_kubernetes_provider(path: Path) -> None:
    config = yaml.safe_load(path.read_text(encoding="utf-8"))["config"]
    assert config["pulumi:disable-default-providers"] == ["kubernetes"]


def test_the_shipped_stacks_come_up_one_on_the_other(cloud: Cloud, foundation: Result) -> None:
    assert foundation.outputs["checkpointBucket"] == f"gpu-checkpoints-{PROJECT}"
    assert foundation.outputs["serviceAccountEmail"] == f"gpu-job-sa@{PROJECT}.iam.gserviceaccount.com"
    assert "run.googleapis.com" in foundation.outputs["services"]

    job = up(cloud, "dev-cloud-run", shipped("dev-cloud-run"), foundation.outputs)
    assert job.outputs["jobName"] == "gpu-resilient-job"
    assert job.outputs["jobId"] == f"projects/{PROJECT}/locations/us-central1/jobs/gpu-resilient-job"
    [registered] = job.of_type("gcp:cloudrunv2/job:Job")
    task = registered.inputs["template"]["template"]
    assert task["serviceAccount"] == foundation.outputs["serviceAccountEmail"]
    assert task["volumes"][0]["gcs"]["bucket"] == foundation.outputs["checkpointBucket"]
    assert {"name": "HOLDFAST_SEED", "value": "0"} in task["containers"][0]["envs"]
    labels = {"app": "holdfast", "environment": "dev", "stack": "dev-cloud-run"}
    assert registered.inputs["labels"] == labels
    assert all(each.inputs["userLabels"] == labels for each in job.of_type("gcp:monitoring/alertPolicy:AlertPolicy"))
    [bucket] = [each for each in foundation.of_type("gcp:storage/bucket:Bucket") if each.name == "checkpoints"]
    assert bucket.inputs["forceDestroy"] is False
    assert bucket.inputs["labels"] == {**labels, "stack": "dev-foundation"}


def test_a_preview_registers_the_same_and_changes_nothing(cloud: Cloud, foundation: Result) -> None:
    before = cloud.resources()
    for stack, outputs in (("dev-foundation", None), ("dev-cloud-run", foundation.outputs)):
        planned = up(cloud, stack, shipped(stack), outputs, preview=True)
        assert {each.type for each in planned.resources if each.type.startswith("gcp:")}
    assert cloud.resources() == before


def test_the_foundation_says_what_image_builds_and_jobs_need(foundation: Result) -> None:
    outputs = foundation.outputs
    assert outputs["repository"] == f"us-central1-docker.pkg.dev/{PROJECT}/trainers"
    assert shipped("dev-cloud-run")["holdfast:image"].startswith(f"{outputs['repository']}/")
    assert outputs["buildServiceAccount"] == f"trainer-build@{PROJECT}.iam.gserviceaccount.com"
    assert outputs["sourceBucket"] == f"{PROJECT}-build-source"
    assert (outputs["network"], outputs["subnetwork"]) == ("holdfast", "holdfast-us-central1")
    assert outputs["checkpointBucketUrl"] == f"gs://gpu-checkpoints-{PROJECT}"


def test_the_job_says_what_comes_next(cloud: Cloud, foundation: Result) -> None:
    outputs = up(cloud, "dev-cloud-run", shipped("dev-cloud-run"), foundation.outputs).outputs
    assert outputs["executeCommand"] == "holdfast submit cloud-run --stack dev-cloud-run"
    assert outputs["gcloudExecuteCommand"].endswith(f" gpu-resilient-job --project {PROJECT} --region us-central1")
    assert outputs["logFilter"] == job_logs.job("gpu-resilient-job", "us-central1")
    links = outputs["links"]
    assert set(links) == {"job", "logs", "dashboard", "bucket"}
    assert all(link.startswith("https://console.cloud.google.com/") for link in links.values())
    assert f"/storage/browser/gpu-checkpoints-{PROJECT}?" in links["bucket"]


def test_both_stacks_come_up_in_another_universe_with_its_domains_and_its_cap() -> None:
    project, region, domain = "s3ns:acme-train", "u-france-east1", "s3nsapis.fr"
    cloud = Cloud(universe=domain)
    cloud.seed_project(project)
    for quota_id in catalog.gpu_quotas():
        cloud.quotas.set(project, quota_id, "*", 1)
    where = {"gcp:project": project, "gcp:region": region, "gcp:universeDomain": domain}
    foundation = up(cloud, "dev-foundation", {**shipped("dev-foundation"), **where}).outputs
    assert foundation["serviceAccountEmail"] == "gpu-job-sa@acme-train.s3ns.iam.gserviceaccount.com"
    assert foundation["checkpointBucket"] == "gpu-checkpoints-acme-train"

    config = {**shipped("dev-cloud-run"), **where}
    config["holdfast:image"] = f"{foundation['repository']}/trainer@sha256:{'0' * 64}"
    seed_image(cloud, config["holdfast:image"])
    with pytest.raises(InputError, match=r"holdfast:taskTimeout: 43200s .* up to 3600s, 1 h"):
        up(cloud, "dev-cloud-run", config, foundation)
    outputs = up(cloud, "dev-cloud-run", {**config, "holdfast:taskTimeout": "3600s"}, foundation).outputs
    assert outputs["jobId"] == f"projects/{project}/locations/{region}/jobs/gpu-resilient-job"
    links = [*outputs["links"].values(), *foundation["links"].values()]
    assert {link.split("/")[2] for link in links} == {"console.cloud.s3nscloud.fr"}
    assert all(link.endswith("?project=s3ns%3Aacme-train") for link in links)


def test_a_job_whose_foundation_is_not_up_says_so(cloud: Cloud) -> None:
    with pytest.raises(pulumi.RunError) as raised:
        up(cloud, "dev-cloud-run", shipped("dev-cloud-run"), {})
    said = str(raised.value)
    assert said.startswith("stacks/Pulumi.dev-cloud-run.yaml, holdfast:foundation: stack dev-foundation has no output ")
    assert "Run `pulumi up --stack dev-foundation` first" in said
    assert cloud.resources() == []


def test_a_job_can_be_in_the_foundations_network(cloud: Cloud, foundation: Result) -> None:
    config = {**shipped("dev-cloud-run"), "holdfast:networkEnabled": True, "holdfast:networkEgress": "ALL_TRAFFIC"}
    [job] = up(cloud, "dev-cloud-run", config, foundation.outputs).of_type("gcp:cloudrunv2/job:Job")
    assert job.inputs["template"]["template"]["vpcAccess"] == {
        "egress": "ALL_TRAFFIC",
        "networkInterfaces": [{"network": "holdfast", "subnetwork": "holdfast-us-central1"}],
    }


def test_a_budget_comes_with_its_api(cloud: Cloud) -> None:
    seed_billing(cloud, PROJECT, "012345-6789AB-CDEF01")
    config = {
        **shipped("dev-foundation"),
        "holdfast:billingAccount": "012345-6789AB-CDEF01",
        "holdfast:budgetAmount": 500,
    }
    planned = up(cloud, "dev-foundation", config, preview=True)  # before the API that knows the project's number is on
    result = up(cloud, "dev-foundation", config)
    assert all(len(each.of_type("gcp:billing/budget:Budget")) == 1 for each in (planned, result))
    assert "billingbudgets.googleapis.com" in result.outputs["services"]


@pytest.mark.parametrize(("environment", "protected"), [("dev", False), ("prod", True)])
def test_a_copy_of_the_shipped_files_for_another_environment_is_protected(
    cloud: Cloud, foundation: Result, environment: str, protected: bool
) -> None:
    config = {**shipped("dev-cloud-run"), "holdfast:foundation": "dev-foundation"}
    [job] = up(cloud, f"{environment}-cloud-run", config, foundation.outputs).of_type("gcp:cloudrunv2/job:Job")
    assert job.inputs["deletionProtection"] is protected


@pytest.mark.parametrize(
    ("stack", "key", "value"),
    [
        ("dev-cloud-run", "taskTimeout", "168h"),
        ("dev-cloud-run", "taskTimeout", "604800s"),
        ("dev-cloud-run", "maxRetries", 0),
        ("dev-cloud-run", "cpu", 2),
        ("dev-cloud-run", "tsakTimeout", "43200s"),
        ("dev-foundation", "serviceAccountId", "a" * 40),
        ("dev-foundation", "forceDestory", True),
        ("dev-foundation", "subnetCidr", "10.0.0.0/29"),
        ("dev-cloud-run", "mountOptions", ["--implicit-dirs"]),
    ],
)
def test_bad_input_is_one_message_and_nothing_is_made(cloud: Cloud, stack: str, key: str, value: object) -> None:
    before = len(cloud.audit.entries())
    with pytest.raises(InputError) as raised:
        up(cloud, stack, {**shipped(stack), f"holdfast:{key}": value})
    assert str(raised.value).startswith(f"stacks/Pulumi.{stack}.yaml, holdfast:{key}: ")
    assert "\n" not in str(raised.value)
    assert len(cloud.audit.entries()) == before


def test_a_job_in_another_region_than_its_bucket_is_warned_about(
    cloud: Cloud, foundation: Result, monkeypatch: pytest.MonkeyPatch
) -> None:
    warnings: list[str] = []
    monkeypatch.setattr(pulumi.log, "warn", warnings.append)
    up(cloud, "dev-cloud-run", shipped("dev-cloud-run"), foundation.outputs)
    assert warnings == []
    up(cloud, "dev-cloud-run", {**shipped("dev-cloud-run"), "gcp:region": "europe-west4"}, foundation.outputs)
    [warning] = warnings
    assert "gcp:region: europe-west4, but the checkpoint bucket is in us-central1" in warning
