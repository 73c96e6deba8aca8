"""Input that cannot work: one message that says what, where, why and the way out, and nothing is made."""

from typing import Any

import pytest
from pulumi_rig import FOUNDATION, JOB, Rig, refusal

from holdfast.rehearsal.pulumi_cli import PulumiError

pytestmark = pytest.mark.engine

FOUNDATION_FILE = f"stacks/Pulumi.{FOUNDATION}.yaml"
JOB_FILE = f"stacks/Pulumi.{JOB}.yaml"


@pytest.fixture(scope="module")
def ready(stage: Rig) -> Rig:
    """With both stacks there, and nothing in them."""
    for stack in (FOUNDATION, JOB):
        stage.stack(stack)
    stage.init(FOUNDATION, JOB)
    return stage


@pytest.mark.parametrize(
    ("stack", "change", "where", "says"),
    [
        (
            JOB,
            {"tsakTimeout": "43200s"},
            f"{JOB_FILE}, holdfast:tsakTimeout: ",
            ["no such key", "no effect", "did you mean holdfast:taskTimeout?"],
        ),
        (JOB, {"taskTimeout": "168h"}, f"{JOB_FILE}, holdfast:taskTimeout: ", ["168 h", "GPU", "Set at most 43200s"]),
        (JOB, {}, f"{JOB_FILE}, holdfast:foundation: ", ["not up yet", f"Run `pulumi up --stack {FOUNDATION}` first"]),
        (JOB, {"maxRetries": 0}, f"{JOB_FILE}, holdfast:maxRetries: ", ["0 retries", "maintenance", "Set"]),
        (JOB, {"cpu": 2}, f"{JOB_FILE}, holdfast:cpu: ", ["2 CPU", "nvidia-l4 needs at least 4 CPU", "Use 8 CPU"]),
        (
            FOUNDATION,
            {"serviceAccountId": "a" * 40},
            f"{FOUNDATION_FILE}, holdfast:serviceAccountId: ",
            ["40 characters", "6 to 30", "Shorten"],
        ),
        (
            FOUNDATION,
            {"gcp:project": "acme-production"},
            "gcp:project is 'acme-production'",
            ["not seeded with", "only record fake resources", "unset it", "PULUMI_DEBUG_PROVIDERS"],
        ),
    ],
)
def test_a_wrong_configuration(ready: Rig, stack: str, change: dict[str, Any], where: str, says: list[str]) -> None:
    ready.stack(stack, **change)
    said = refusal(ready.pulumi, "up", stack)
    assert said.count(where) == 1, said
    for part in says:
        assert part in said
    assert "Traceback" not in said
    assert ready.changed() == []


NESTED_TYPO = """
import pulumi_gcp as gcp

gcp.storage.Bucket("checkpoints", location="us-central1", soft_delete_policy={"retentionDuration": 0})
"""


def test_a_typo_in_a_nested_field(stage: Rig) -> None:
    said = refusal(stage.program("nested-typo", NESTED_TYPO), "up", "dev")
    assert said.count("softDeletePolicy.retentionDuration is not a property of BucketSoftDeletePolicy") == 1
    assert "did you mean 'retentionDurationSeconds'?" in said
    assert "checkpoints" in said
    assert stage.changed() == []


NAMELESS = """
import pulumi_gcp as gcp

gcp.storage.Bucket("checkpoints", location="us-central1")
"""


def test_autonaming_that_is_off_asks_for_a_name(stage: Rig) -> None:
    said = refusal(stage.program("nameless", NAMELESS, {"pulumi:autonaming": {"mode": "disabled"}}), "up", "dev")
    assert "name is required and missing: autonaming is disabled" in said
    assert stage.changed() == []


def job_program(image: str, **task: str) -> str:
    """A program's long L4 job, with further arguments of its task."""
    more = "".join(f"{name}={value},\n            " for name, value in task.items())
    return f"""
gcp.cloudrunv2.Job(
    "fragile",
    name="fragile",
    location="us-central1",
    launch_stage="BETA",
    template=gcp.cloudrunv2.JobTemplateArgs(
        template=gcp.cloudrunv2.JobTemplateTemplateArgs(
            {more}timeout="43200s",
            service_account="gpu-job-sa@holdfast-dev.iam.gserviceaccount.com",
            gpu_zonal_redundancy_disabled=True,
            node_selector=gcp.cloudrunv2.JobTemplateTemplateNodeSelectorArgs(accelerator="nvidia-l4"),
            containers=[
                gcp.cloudrunv2.JobTemplateTemplateContainerArgs(
                    image="us-central1-docker.pkg.dev/holdfast-dev/t/{image}",
                    resources=gcp.cloudrunv2.JobTemplateTemplateContainerResourcesArgs(
                        limits={{"cpu": "8", "memory": "32Gi", "nvidia.com/gpu": "1"}}
                    ),
                )
            ],
        )
    ),
)
"""


VIOLATIONS = f"""
import pulumi_gcp as gcp

gcp.storage.Bucket(
    "open",
    name="open-to-all",
    location="us-central1",
    public_access_prevention="inherited",
    uniform_bucket_level_access=True,
)
gcp.projects.IAMMember("wide", project="holdfast-dev", role="roles/storage.admin", member="user:a@example.com")
gcp.projects.IAMMember("basic", project="holdfast-dev", role="roles/editor", member="user:a@example.com")
{job_program("t:latest", max_retries="0")}
"""


def test_the_policy_pack_refuses_a_violating_program(stage: Rig) -> None:
    pulumi = stage.program("violations", VIOLATIONS)
    packs = ("--policy-pack", str(stage.sealed.policies))
    said = refusal(pulumi, "preview", "dev", *packs)
    for rule in (
        "gpu-job-without-retries",
        "pinned-image",
        "bucket-hardening",
        "public-bucket",
        "project-wide-storage-role",
        "broad-role",
    ):
        assert said.count(f"policy {rule}: ") == 1, said
    assert "Set it to enforced" in said
    assert "Grant it on the bucket" in said
    with pytest.raises(PulumiError, match="mandatory"):
        pulumi.run("up", "--stack", "dev", "--yes", *packs)
    assert stage.changed() == []


FLAT = f"""
import pulumi_gcp as gcp

bucket = gcp.storage.Bucket(
    "flat",
    name="flat-checkpoints",
    location="us-central1",
    public_access_prevention="enforced",
    uniform_bucket_level_access=True,
    soft_delete_policy=gcp.storage.BucketSoftDeletePolicyArgs(retention_duration_seconds=0),
    labels={{"app": "mine"}},
)
mount = gcp.cloudrunv2.JobTemplateTemplateVolumeGcsArgs(bucket=bucket.name, read_only=False)
volume = gcp.cloudrunv2.JobTemplateTemplateVolumeArgs(name="checkpoints", gcs=mount)
{job_program(f"t@sha256:{'0' * 64}", max_retries="1", volumes="[volume]")}
"""


def test_the_policy_pack_judges_the_whole_stack_and_only_says_advice(stage: Rig) -> None:
    pulumi = stage.program("flat", FLAT)
    with pytest.raises(PulumiError) as raised:
        pulumi.operate("preview", "dev", "--policy-pack", str(stage.sealed.policies))
    assert raised.value.outcome is not None
    levels = {each["policyName"]: each["enforcementLevel"] for each in raised.value.outcome.policy_violations}
    assert levels == {"mounted-bucket": "mandatory", "gpu-job-few-retries": "advisory", "labels": "advisory"}
    assert str(raised.value).count("policy mounted-bucket: ") == 1
    assert "few-retries" not in str(raised.value)
    assert stage.changed() == []
