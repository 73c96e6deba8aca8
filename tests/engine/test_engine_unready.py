"""What is made and not ready stays in the engine's state, so that the next `up` goes on with it."""

import json
from typing import Any

import pytest
from pulumi_rig import FOUNDATION, JOB, PROJECT, Rig, refusal

from holdfast.rehearsal.sealed import REPOSITORY, read_stack

pytestmark = pytest.mark.engine

JOB_NAME = f"projects/{PROJECT}/locations/us-central1/jobs/gpu-resilient-job"


def in_state(rig: Rig) -> dict[str, Any]:
    """The job as the engine keeps it."""
    resources = json.loads(rig.pulumi.run("stack", "export", "--stack", JOB))["deployment"]["resources"]
    [found] = [each for each in resources if each["type"] == "gcp:cloudrunv2/job:Job"]
    return dict(found)


def test_a_job_whose_image_comes_later(fresh: Rig) -> None:
    pulumi, cloud = fresh.pulumi, fresh.cloud
    fresh.stack(FOUNDATION)
    fresh.stack(JOB)
    fresh.init(FOUNDATION, JOB)
    pulumi.operate("up", FOUNDATION)
    image = read_stack(REPOSITORY / "stacks" / f"Pulumi.{JOB}.yaml").config["holdfast:image"]
    assert f"404 NOT_FOUND: Image '{image}' not found." in refusal(pulumi, "up", JOB)
    uid = cloud.table("run.job")[JOB_NAME]["uid"]
    kept = in_state(fresh)
    assert (kept["id"], kept["outputs"]["uid"]) == (JOB_NAME, uid)
    assert image in kept["initErrors"][0]

    # It never was ready, and can be destroyed all the same.
    pulumi.operate("destroy", JOB)
    assert cloud.table("run.job") == {}
    assert image in refusal(pulumi, "up", JOB)
    uid = cloud.table("run.job")[JOB_NAME]["uid"]

    # Still no image: the same again, of the same job.
    assert image in refusal(pulumi, "up", JOB)
    fresh.push_image()
    completed = pulumi.operate("up", JOB)
    assert completed.changes["update"] == 1
    assert {"replace", "delete"}.isdisjoint(completed.changes)
    assert cloud.table("run.job")[JOB_NAME]["uid"] == uid
    assert "initErrors" not in in_state(fresh)
    assert pulumi.operate("up", JOB).changed == 0

    for stack in (JOB, FOUNDATION):
        pulumi.operate("destroy", stack)
    assert cloud.resources() == []
