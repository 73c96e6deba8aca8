"""The stacks on the emulated cloud, with the configuration files that are shipped."""

from pathlib import Path
from typing import Any

import pulumi
import pytest
import yaml

from infra.errors import InputError
from mockgcp.cloud import Cloud
from mockgcp.frontends.pulumi.mocks import EmulatedGcp, Result
from stacks.choose import choose

ROOT = Path(__file__).parents[2]
PROJECT = "holdfast-dev"


def shipped(stack: str) -> dict[str, Any]:
    document = yaml.safe_load((ROOT / "stacks" / f"Pulumi.{stack}.yaml").read_text(encoding="utf-8"))
    config: dict[str, Any] = document["config"]
    return config


def up(cloud: Cloud, stack: str, config: dict[str, Any], outputs: dict[str, Any] | None = None) -> Result:
    emulated = EmulatedGcp(
        cloud,
        project=PROJECT,
        region=config["gcp:region"],
        config=config,
        stack=stack,
        stack_outputs={} if outputs is None else {"organization/holdfast/dev-foundation": outputs},
    )
    return emulated.run(choose(stack))


@pytest.fixture
def cloud() -> Cloud:
    cloud = Cloud()
    cloud.seed_project(PROJECT, number=123456789012)
    return cloud


def test_the_project_finds_its_stacks() -> None:
    project = yaml.safe_load((ROOT / "Pulumi.yaml").read_text(encoding="utf-8"))
    assert (project["name"], project["main"], project["stackConfigDir"]) == ("holdfast", "stacks/", "stacks/")
    assert project["runtime"] == {"name": "python", "options": {"virtualenv": ".venv"}}


@pytest.mark.parametrize("path", sorted((ROOT / "stacks").glob("Pulumi.*.yaml")), ids=lambda path: path.stem)
def test_no_stack_has_a_default_kubernetes_provider(path: Path) -> None:
    config = yaml.safe_load(path.read_text(encoding="utf-8"))["config"]
    assert config["pulumi:disable-default-providers"] == ["kubernetes"]


def test_the_shipped_stacks_come_up_one_on_the_other(cloud: Cloud) -> None:
    foundation = up(cloud, "dev-foundation", shipped("dev-foundation"))
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
    # A copy of the shipped files loses nothing on destroy.
    assert registered.inputs["deletionProtection"] is True
    [bucket] = foundation.of_type("gcp:storage/bucket:Bucket")
    assert bucket.inputs["forceDestroy"] is False


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
    ],
)
def test_bad_input_is_one_message_and_nothing_is_made(cloud: Cloud, stack: str, key: str, value: object) -> None:
    before = len(cloud.audit.entries())
    with pytest.raises(InputError) as raised:
        up(cloud, stack, {**shipped(stack), f"holdfast:{key}": value})
    assert str(raised.value).startswith(f"stacks/Pulumi.{stack}.yaml, holdfast:{key}: ")
    assert "\n" not in str(raised.value)
    assert len(cloud.audit.entries()) == before


def test_a_job_in_another_region_than_its_bucket_is_warned_about(cloud: Cloud, monkeypatch: pytest.MonkeyPatch) -> None:
    warnings: list[str] = []
    monkeypatch.setattr(pulumi.log, "warn", warnings.append)
    foundation = up(cloud, "dev-foundation", shipped("dev-foundation"))
    up(cloud, "dev-cloud-run", shipped("dev-cloud-run"), foundation.outputs)
    assert warnings == []
    up(cloud, "dev-cloud-run", {**shipped("dev-cloud-run"), "gcp:region": "europe-west4"}, foundation.outputs)
    [warning] = warnings
    assert "gcp:region: europe-west4, but the checkpoint bucket is in us-central1" in warning
