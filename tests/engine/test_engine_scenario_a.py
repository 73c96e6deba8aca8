"""Scenario A's stacks when they meet what is there already, changes, faults, and an operator who wants to delete."""

import json
from pathlib import Path
from typing import Any

import pytest
from pulumi_rig import FOUNDATION, JOB, PROJECT, Rig, refusal

from holdfast.rehearsal.pulumi_cli import PulumiError
from mockgcp.cloud import DEFAULT_OWNER
from mockgcp.errors import ApiError
from mockgcp.faults import Fault
from mockgcp.services import storage

pytestmark = pytest.mark.engine

BUCKET = f"gpu-checkpoints-{PROJECT}"
JOB_NAME = f"projects/{PROJECT}/locations/us-central1/jobs/gpu-resilient-job"
QUIET = ("--yes", "--generate-code=false", "--protect=false", "--skip-preview")


def components(resource: dict[str, Any], component: str, name: str) -> dict[str, Any]:
    """An import file: a resource in its component, which is not there yet either."""
    parent = {"type": component, "name": "component", "logicalName": name, "component": True}
    return {"resources": [parent, {**resource, "parent": "component"}]}


def import_into(rig: Rig, stack: str, content: dict[str, Any]) -> None:
    file = rig.sealed.project / "resources.json"
    file.write_text(json.dumps(content), encoding="utf-8")
    rig.pulumi.run("import", "--stack", stack, "--file", str(file), *QUIET)


def test_a_bucket_and_a_job_that_are_there_already(fresh: Rig, tmp_path: Path) -> None:
    pulumi, cloud = fresh.pulumi, fresh.cloud
    cloud.projects[0].services.add("storage.googleapis.com")
    body = {
        "name": BUCKET,
        "location": "us-central1",
        "hierarchicalNamespace": {"enabled": True},
        "iamConfiguration": {"uniformBucketLevelAccess": {"enabled": True}},
    }
    cloud.call("storage.buckets.insert", {"project": PROJECT}, body, DEFAULT_OWNER)
    checkpoint = storage.folder(cloud.state_dir, BUCKET) / "gpu-resilient-job" / "kept"
    checkpoint.parent.mkdir(parents=True)
    checkpoint.write_bytes(b"weights")
    fresh.stack(FOUNDATION)
    fresh.init(FOUNDATION)
    # The engine itself lists what could be imported: the component's and the bucket's names are those of its list.
    listed = tmp_path / "listed.json"
    pulumi.run("preview", "--stack", FOUNDATION, "--import-file", str(listed))
    offered = {
        (each["type"], each.get("logicalName", each["name"])) for each in json.loads(listed.read_text())["resources"]
    }
    for wanted in (
        ("holdfast:checkpoint_bucket:CheckpointBucket", "checkpoints"),
        ("gcp:storage/bucket:Bucket", "checkpoints"),
    ):
        assert wanted in offered
    bucket = {"type": "gcp:storage/bucket:Bucket", "name": "checkpoints", "id": BUCKET}
    import_into(fresh, FOUNDATION, components(bucket, "holdfast:checkpoint_bucket:CheckpointBucket", "checkpoints"))
    made = pulumi.operate("up", FOUNDATION)
    assert made.changes["update"] == 1
    assert {"replace", "delete"}.isdisjoint(made.changes)
    assert checkpoint.read_bytes() == b"weights"
    created = [entry.request["name"] for entry in cloud.audit.entries("storage.buckets.insert", ok=True)]
    assert created.count(BUCKET) == 1
    assert pulumi.operate("up", FOUNDATION).changed == 0

    # A job that somebody made by hand, with less memory and no retries.
    fresh.push_image()
    fresh.stack(JOB)
    fresh.init(JOB)
    pulumi.operate("up", JOB)
    spec = {"template": cloud.table("run.job")[JOB_NAME]["template"], "launchStage": "BETA"}
    pulumi.operate("destroy", JOB)
    spec["template"]["template"]["maxRetries"] = 0
    parent, job_id = JOB_NAME.rsplit("/jobs/", 1)
    cloud.answer("run.projects.locations.jobs.create", {"parent": parent, "jobId": job_id}, spec, DEFAULT_OWNER)
    uid = cloud.table("run.job")[JOB_NAME]["uid"]
    job = {"type": "gcp:cloudrunv2/job:Job", "name": "gpu-job", "id": JOB_NAME}
    import_into(fresh, JOB, components(job, "holdfast:gpu_job:GpuJob", "gpu-job"))
    adopted = pulumi.operate("up", JOB)
    assert adopted.changes["update"] == 1
    assert {"replace", "delete"}.isdisjoint(adopted.changes)
    after = cloud.table("run.job")[JOB_NAME]
    assert (after["uid"], after["template"]["template"]["maxRetries"]) == (uid, 3)
    assert pulumi.operate("up", JOB).changed == 0

    for stack in (JOB, FOUNDATION):
        pulumi.operate("destroy", stack)
    assert cloud.resources() == []


def test_changes_in_place_replacements_and_a_fault_half_way(fresh: Rig) -> None:
    pulumi, cloud = fresh.pulumi, fresh.cloud
    fresh.stack(FOUNDATION)
    fresh.stack(JOB)
    fresh.init(FOUNDATION, JOB)
    pulumi.operate("up", FOUNDATION)
    fresh.push_image()

    there = set(cloud.resources())
    cloud.faults.inject(Fault("monitoring.projects.alertPolicies.create", ApiError("UNAVAILABLE", "Try again later.")))
    assert "503 UNAVAILABLE: Try again later." in refusal(pulumi, "up", JOB)
    half = set(cloud.resources()) - there
    assert half  # at least the metrics that the alerts stand on
    rest = pulumi.operate("up", JOB)
    assert rest.changes["create"] >= 1
    assert half < set(cloud.resources()) - there
    uid = cloud.table("run.job")[JOB_NAME]["uid"]
    assert pulumi.operate("up", JOB).changed == 0

    def set_(key: str, value: object) -> None:
        pulumi.run("config", "set", "--stack", JOB, f"holdfast:{key}", str(value))

    set_("maxRetries", 5)
    assert pulumi.operate("up", JOB).changes["update"] >= 1
    job = cloud.table("run.job")[JOB_NAME]
    assert (job["uid"], job["template"]["template"]["maxRetries"]) == (uid, 5)

    set_("jobName", "another-job")
    assert pulumi.operate("up", JOB).changes["replace"] >= 1
    assert list(cloud.table("run.job")) == [JOB_NAME.replace("gpu-resilient-job", "another-job")]
    assert pulumi.operate("up", JOB).changed == 0

    # What an image's build leaves: an archive, and an image. All of it goes with the foundation.
    source = storage.folder(cloud.state_dir, pulumi.outputs(FOUNDATION)["sourceBucket"]) / "source.tar.gz"
    source.write_bytes(b"source")
    for stack in (JOB, FOUNDATION):
        pulumi.operate("destroy", stack)
    assert cloud.resources() == []
    assert not source.exists()


def test_outside_dev_nothing_that_is_dear_is_deleted_by_a_slip(fresh: Rig) -> None:
    pulumi, cloud = fresh.pulumi, fresh.cloud
    foundation, job = "prod-foundation", "prod-cloud-run"
    fresh.stack(foundation, copy_of=FOUNDATION)
    fresh.stack(job, copy_of=JOB)
    fresh.init(foundation, job)
    pulumi.operate("up", foundation)
    fresh.push_image()
    pulumi.operate("up", job)

    def refused(stack: str) -> str:
        with pytest.raises(PulumiError) as raised:
            pulumi.run("destroy", "--stack", stack, "--yes")
        return str(raised.value)

    before = cloud.resources()
    assert "deletionProtection=false and running `pulumi up`" in refused(job)
    assert JOB_NAME in cloud.table("run.job")
    assert "protect" in refused(foundation)
    assert BUCKET in cloud.table("storage.bucket")
    assert [each for each in before if each[0].startswith("storage")] == [
        each for each in cloud.resources() if each[0].startswith("storage")
    ]
    for stack in (job, foundation):
        pulumi.run("config", "set", "--stack", stack, "holdfast:deletionProtection", "false")
        pulumi.operate("up", stack)
    for stack in (job, foundation):
        pulumi.operate("destroy", stack)
    assert cloud.resources() == []
