"""Each rule, violated and kept."""

import copy
import json
from typing import Any

import pytest

from policies import (
    broad_role,
    bucket_hardening,
    default_service_account,
    gpu_job_few_retries,
    gpu_job_size,
    gpu_job_without_retries,
    gpu_task_timeout,
    immutable_tags,
    labels,
    mount_headroom,
    mounted_bucket,
    pinned_image,
    project_wide_storage_role,
    public_bucket,
    public_job,
    service_account_key,
)
from policies.props import UNKNOWN
from policies.rule import EVERY_IAM, PROJECT_IAM, Rule, StackResource

PUBLIC, SOVEREIGN = "googleapis.com", "s3nsapis.fr"


def job(**task: Any) -> dict[str, Any]:
    """A long L4 job's inputs, with changes to its task; a change of None leaves the field out."""
    base = {
        "timeout": "43200s",
        "maxRetries": 0,
        "nodeSelector": {"accelerator": "nvidia-l4"},
        "containers": [{"image": "trainer", "resources": {"limits": {"nvidia.com/gpu": "1"}}}],
    }
    changed = {key: value for key, value in {**base, **task}.items() if value is not None}
    return {"location": "us-central1", "template": {"template": changed}}


def sized(gpu: str | None = "1", image: str = "trainer", **limits: Any) -> list[dict[str, Any]]:
    """A task's containers: a sidecar, and one with these limits."""
    chosen = {**limits, **({} if gpu is None else {"nvidia.com/gpu": gpu})}
    return [{"image": f"side@sha256:{'0' * 64}"}, {"image": image, "resources": {"limits": chosen}}]


def mounting(**gcs: Any) -> list[dict[str, Any]]:
    """A task's volumes: a scratch one and a bucket."""
    return [{"name": "scratch", "emptyDir": {}}, {"name": "checkpoints", "gcs": {"bucket": "checkpoints", **gcs}}]


def bucket(**changes: Any) -> dict[str, Any]:
    """A hardened bucket's properties, with changes; one of None leaves the property out."""
    base = {
        "name": "checkpoints",
        "uniformBucketLevelAccess": True,
        "hierarchicalNamespace": {"enabled": True},
        "softDeletePolicy": {"retentionDurationSeconds": 0},
    }
    return {key: value for key, value in {**base, **changes}.items() if value is not None}


def stack(bucket: dict[str, Any], **task: Any) -> list[StackResource]:
    """A job, and a bucket whose URN is `bucket`."""
    return [
        StackResource("gcp:cloudrunv2/job:Job", "job", job(**{"volumes": mounting(), **task})),
        StackResource("gcp:storage/bucket:Bucket", "bucket", bucket),
    ]


def policy(role: str, *members: str) -> dict[str, Any]:
    return {"policyData": json.dumps({"bindings": [{"role": role, "members": list(members)}]})}


@pytest.mark.parametrize(
    "props",
    [
        job(),
        job(maxRetries=0.0),
        job(maxRetries="0"),
        job(maxRetries="0.0"),
        job(maxRetries="0x0"),
        job(timeout=43200),
        job(timeout="12h"),
        job(timeout="3601s"),
        job(timeout="3600.5s"),
        job(nodeSelector=None),
        job(containers=UNKNOWN),
        job(nodeSelector=UNKNOWN),
    ],
)
def test_a_long_gpu_job_without_retries_is_reported(props: dict[str, Any]) -> None:
    [message] = gpu_job_without_retries.check(props)
    assert message.startswith("template.template.maxRetries: 0 retries; ")
    assert "Set at least 1" in message


@pytest.mark.parametrize(
    "props",
    [
        job(maxRetries=1),
        job(maxRetries="1"),
        job(maxRetries="none"),
        job(maxRetries=None),
        job(maxRetries=UNKNOWN),
        job(timeout=None),
        job(timeout=UNKNOWN),
        job(timeout="3600s"),
        job(timeout="1h"),
        job(timeout=3600),
        job(timeout="an hour"),
        job(nodeSelector=None, containers=[{"image": "trainer"}, None]),
        job(nodeSelector={"accelerator": UNKNOWN}, containers=None),
        {"template": UNKNOWN},
        {"template": {"template": None}},
        {},
    ],
)
def test_other_jobs_are_left_alone(props: dict[str, Any]) -> None:
    assert gpu_job_without_retries.check(props) == []


@pytest.mark.parametrize("prevention", [None, "inherited"])
def test_a_bucket_that_could_become_public_is_reported(prevention: str | None) -> None:
    [message] = public_bucket.check_bucket({"name": "b", "publicAccessPrevention": prevention})
    assert "Set it to enforced" in message


@pytest.mark.parametrize("prevention", ["enforced", UNKNOWN])
def test_a_bucket_that_cannot_become_public_is_left_alone(prevention: str) -> None:
    assert public_bucket.check_bucket({"publicAccessPrevention": prevention}) == []


@pytest.mark.parametrize(
    "props",
    [
        {"role": "roles/storage.objectViewer", "member": "allUsers"},
        {"role": "roles/storage.objectViewer", "member": "allAuthenticatedUsers"},
        {"role": "roles/storage.objectViewer", "members": ["user:a@example.org", "allUsers"]},
        policy("roles/storage.objectViewer", "allUsers"),
        {"role": "READER", "entity": "allUsers"},
        {"roleEntities": ["OWNER:user-a@example.org", "READER:allAuthenticatedUsers"]},
        {"predefinedAcl": "publicRead"},
        {"defaultAcl": "authenticatedRead"},
    ],
)
def test_storage_that_lets_everybody_in_is_reported(props: dict[str, Any]) -> None:
    [message] = public_bucket.check_access(props)
    assert "anybody could take them" in message
    assert "Grant the role to the workload's own service account" in message


@pytest.mark.parametrize(
    "props",
    [
        {"role": "roles/storage.objectUser", "member": "serviceAccount:a@p.iam.gserviceaccount.com"},
        {"role": "roles/storage.objectUser", "member": UNKNOWN},
        {"role": "roles/storage.objectUser", "members": UNKNOWN},
        {"role": "roles/storage.objectUser", "members": ["user:a@example.org", None]},
        policy("roles/storage.objectUser", "user:a@example.org"),
        {"policyData": UNKNOWN},
        {"policyData": "[]"},
        {"policyData": json.dumps({"bindings": None})},
        {"role": "READER", "entity": "user-a@example.org"},
        {"roleEntities": ["OWNER:user-a@example.org", None]},
        {"predefinedAcl": "private"},
        {},
    ],
)
def test_storage_for_named_members_is_left_alone(props: dict[str, Any]) -> None:
    assert public_bucket.check_access(props) == []


@pytest.mark.parametrize(
    "props",
    [
        {"role": "roles/storage.objectAdmin", "member": "serviceAccount:a@p.iam.gserviceaccount.com"},
        {"role": "roles/storage.objectViewer", "members": [UNKNOWN]},
        policy("roles/storage.admin", "user:a@example.org"),
    ],
)
def test_a_storage_role_on_a_project_is_reported(props: dict[str, Any]) -> None:
    [message] = project_wide_storage_role.check(props)
    assert message.startswith("roles/storage.")
    assert "Grant it on the bucket" in message


@pytest.mark.parametrize(
    "props",
    [
        {"role": "roles/run.developer", "member": "user:a@example.org"},
        {"role": UNKNOWN, "member": "user:a@example.org"},
        policy("roles/logging.viewer", "user:a@example.org"),
        {"policyData": None},
        {},
    ],
)
def test_other_roles_on_a_project_are_left_alone(props: dict[str, Any]) -> None:
    assert project_wide_storage_role.check(props) == []


@pytest.mark.parametrize("retries", [1, 2, "2", 2.0])
def test_a_long_gpu_job_with_few_retries_gets_an_advice(retries: Any) -> None:
    [message] = gpu_job_few_retries.check(job(maxRetries=retries))
    assert "maintenance takes one" in message
    assert message.endswith("Set 3")


@pytest.mark.parametrize(
    "props",
    [
        job(),  # none at all is another rule's
        job(maxRetries=3),
        job(maxRetries=None),
        job(maxRetries=UNKNOWN),
        job(maxRetries=1, timeout="3600s"),
        job(maxRetries=1, timeout=UNKNOWN),
        job(maxRetries=1, nodeSelector=None, containers=[{"image": "trainer"}]),
    ],
)
def test_enough_retries_need_no_advice(props: dict[str, Any]) -> None:
    assert gpu_job_few_retries.check(props) == []


@pytest.mark.parametrize(
    ("props", "universe", "says"),
    [
        (job(timeout="43201s"), PUBLIC, "up to 43200s"),
        (job(timeout="168h"), PUBLIC, "up to 43200s"),
        (job(timeout="43200s"), SOVEREIGN, "up to 3600s"),
        (job(timeout="60s"), "example.org", "'example.org' is not in the catalog"),
    ],
)
def test_a_gpu_task_that_may_not_run_so_long_is_reported(props: dict[str, Any], universe: str, says: str) -> None:
    [message] = gpu_task_timeout.check(props, universe)
    assert says in message
    assert message.startswith(("template.template.timeout: ", "gcp:universeDomain: "))


@pytest.mark.parametrize(
    ("props", "universe"),
    [
        (job(), PUBLIC),
        (job(timeout="3600s"), SOVEREIGN),
        (job(timeout=None), SOVEREIGN),
        (job(timeout=UNKNOWN), SOVEREIGN),
        (job(timeout="604800s", nodeSelector=None, containers=[{"image": "trainer"}]), "example.org"),
    ],
)
def test_a_task_that_may_run_so_long_is_left_alone(props: dict[str, Any], universe: str) -> None:
    assert gpu_task_timeout.check(props, universe) == []


@pytest.mark.parametrize(
    ("props", "where", "says"),
    [
        (job(containers=sized(cpu="2", memory="32Gi")), "containers[1].resources.limits[cpu]", "at least 4 CPU"),
        (job(containers=sized(cpu="8000m", memory="8Gi")), "containers[1].resources.limits[memory]", "at least 16 GiB"),
        (job(containers=sized(cpu=4.0, memory="32Gi")), "containers[1].resources.limits[memory]", "4 CPU allows"),
        (job(containers=sized(gpu="2")), "containers[1].resources.limits[nvidia.com/gpu]", "exactly 1"),
        (job(nodeSelector={"accelerator": "nvidia-h100"}), "nodeSelector.accelerator", "nvidia-l4"),
        (job(nodeSelector=None), "nodeSelector.accelerator", "without an accelerator type"),
    ],
)
def test_a_size_that_does_not_fit_is_reported(props: dict[str, Any], where: str, says: str) -> None:
    [message] = gpu_job_size.check(props)
    assert message.startswith(f"template.template.{where}: ")
    assert says in message


@pytest.mark.parametrize(
    "props",
    [
        job(containers=sized(cpu="8", memory="32Gi")),
        job(containers=sized(cpu="4", memory="16Gi")),
        job(containers=sized(cpu=UNKNOWN, memory=UNKNOWN)),
        job(containers=sized(gpu=UNKNOWN)),
        job(containers=UNKNOWN),
        job(containers=sized(cpu="2", memory="8Gi"), nodeSelector=UNKNOWN),
        job(containers=sized(gpu=None, cpu="1", memory="512Mi"), nodeSelector=None),
        job(containers=sized(cpu="a lot", memory="much")),  # the platform says so itself
        job(containers=sized(cpu="20", memory="80Gi"), nodeSelector={"accelerator": "nvidia-rtx-pro-6000"}),
    ],
)
def test_a_size_that_fits_is_left_alone(props: dict[str, Any]) -> None:
    assert gpu_job_size.check(props) == []


@pytest.mark.parametrize(
    ("accelerator", "memory"), [("nvidia-l4", "16Gi"), ("nvidia-l4", "8Gi"), ("nvidia-rtx-pro-6000", "80Gi")]
)
def test_a_mount_without_headroom_is_reported(accelerator: str, memory: str) -> None:
    task = job(containers=sized(memory=memory), volumes=mounting(), nodeSelector={"accelerator": accelerator})
    [message] = mount_headroom.check(task)
    assert message.startswith("template.template.containers[1].resources.limits[memory]: ")
    assert "Add at least the largest file's size" in message


@pytest.mark.parametrize(
    "props",
    [
        job(containers=sized(memory="24Gi"), volumes=mounting()),
        job(containers=sized(memory="16Gi"), volumes=mounting(readOnly=True)),
        job(containers=sized(memory="16Gi"), volumes=mounting(readOnly="true")),
        job(containers=sized(memory="16Gi"), volumes=mounting(readOnly=UNKNOWN)),
        job(containers=sized(memory="16Gi"), volumes=[{"name": "checkpoints", "gcs": UNKNOWN}]),
        job(containers=sized(memory="16Gi")),
        job(containers=sized(memory=UNKNOWN), volumes=mounting()),
        job(containers=sized(memory="16Gi"), volumes=mounting(), nodeSelector=UNKNOWN),
        job(containers=sized(gpu=None, memory="512Mi"), volumes=mounting(), nodeSelector=None),
    ],
)
def test_a_mount_with_headroom_or_none_is_left_alone(props: dict[str, Any]) -> None:
    assert mount_headroom.check(props) == []


@pytest.mark.parametrize("image", ["trainer", "host/p/r/trainer:1", "trainer@sha256:0", f"trainer@sha256:{'g' * 64}"])
def test_an_image_without_a_digest_is_reported(image: str) -> None:
    [message] = pinned_image.check(job(containers=sized(image=image)))
    assert message.startswith(f"template.template.containers[1].image: '{image}' is not pinned")


@pytest.mark.parametrize("image", [f"host/p/r/trainer@sha256:{'0' * 64}", f"t:1@sha256:{'a' * 64}", UNKNOWN, None])
def test_an_image_with_a_digest_is_left_alone(image: Any) -> None:
    assert pinned_image.check(job(containers=sized(image=image))) == []


@pytest.mark.parametrize(
    "props",
    [
        {"format": "DOCKER"},
        {"format": "docker", "mode": "STANDARD_REPOSITORY", "dockerConfig": {}},
        {"format": "DOCKER", "dockerConfig": {"immutableTags": False}},
        {"format": "DOCKER", "dockerConfig": {"immutableTags": "false"}},
    ],
)
def test_a_repository_whose_tags_can_move_is_reported(props: dict[str, Any]) -> None:
    [message] = immutable_tags.check(props)
    assert message.startswith("dockerConfig.immutableTags is off")


@pytest.mark.parametrize(
    "props",
    [
        {"format": "DOCKER", "dockerConfig": {"immutableTags": True}},
        {"format": "DOCKER", "dockerConfig": {"immutableTags": "true"}},
        {"format": "DOCKER", "dockerConfig": {"immutableTags": UNKNOWN}},
        {"format": "DOCKER", "dockerConfig": UNKNOWN},
        {"format": "DOCKER", "mode": "REMOTE_REPOSITORY"},
        {"format": "DOCKER", "mode": UNKNOWN},
        {"format": "PYTHON"},
        {"format": UNKNOWN},
    ],
)
def test_a_repository_whose_tags_cannot_move_is_left_alone(props: dict[str, Any]) -> None:
    assert immutable_tags.check(props) == []


@pytest.mark.parametrize(
    ("props", "where"),
    [
        (bucket(uniformBucketLevelAccess=None), "uniformBucketLevelAccess"),
        (bucket(uniformBucketLevelAccess=False), "uniformBucketLevelAccess"),
        (bucket(softDeletePolicy=None), "softDeletePolicy.retentionDurationSeconds"),
        (bucket(softDeletePolicy={}), "softDeletePolicy.retentionDurationSeconds"),
        (bucket(versioning={"enabled": True}), "versioning.enabled"),
    ],
)
def test_a_bucket_that_is_not_hardened_is_reported(props: dict[str, Any], where: str) -> None:
    [message] = bucket_hardening.check(props)
    assert message.startswith(where)


@pytest.mark.parametrize(
    "props",
    [
        bucket(),
        bucket(softDeletePolicy={"retentionDurationSeconds": 604800}),
        bucket(softDeletePolicy={"retentionDurationSeconds": UNKNOWN}),
        bucket(hierarchicalNamespace=None, versioning={"enabled": True}),
        bucket(hierarchicalNamespace=UNKNOWN, versioning={"enabled": True}),
        bucket(versioning={"enabled": UNKNOWN}),
        bucket(versioning={"enabled": False}),
        dict.fromkeys(bucket(), UNKNOWN),
    ],
)
def test_a_hardened_bucket_is_left_alone(props: dict[str, Any]) -> None:
    assert bucket_hardening.check(props) == []


@pytest.mark.parametrize(
    ("props", "says"),
    [
        (bucket(hierarchicalNamespace=None), "hierarchicalNamespace.enabled: "),
        (bucket(hierarchicalNamespace={"enabled": False}), "hierarchicalNamespace.enabled: "),
        (bucket(versioning={"enabled": True}), "versioning.enabled: "),
    ],
)
def test_a_bucket_that_a_job_cannot_commit_on_is_reported(props: dict[str, Any], says: str) -> None:
    [(urn, message)] = mounted_bucket.check(stack(props))
    assert urn == "bucket"
    assert message.startswith(says)


@pytest.mark.parametrize(
    "resources",
    [
        stack(bucket()),
        stack(bucket(hierarchicalNamespace=UNKNOWN)),
        stack(bucket(hierarchicalNamespace=None, name="another")),
        stack(bucket(hierarchicalNamespace=None, name=UNKNOWN), volumes=mounting(bucket=UNKNOWN)),
        stack(bucket(hierarchicalNamespace=None), volumes=mounting(readOnly=True)),
        stack(bucket(hierarchicalNamespace=None), volumes=None),
        stack(bucket(hierarchicalNamespace=None))[1:],
    ],
)
def test_other_buckets_are_left_alone(resources: list[StackResource]) -> None:
    assert mounted_bucket.check(resources) == []


@pytest.mark.parametrize(
    "props",
    [
        {"role": "roles/run.invoker", "member": "allUsers"},
        {"role": "roles/run.viewer", "members": ["user:a@example.org", "allAuthenticatedUsers"]},
        policy("roles/run.invoker", "allUsers"),
    ],
)
def test_a_job_that_everybody_may_run_is_reported(props: dict[str, Any]) -> None:
    for check in (public_job.check_job, public_job.check_project):
        [message] = check(props)
        assert "Grant it to those who submit" in message


@pytest.mark.parametrize(
    "props",
    [
        {"role": "roles/run.invoker", "member": "group:ml@example.org"},
        {"role": "roles/run.invoker", "member": UNKNOWN},
        policy("roles/run.invoker", "user:a@example.org"),
        {},
    ],
)
def test_a_job_that_some_may_run_is_left_alone(props: dict[str, Any]) -> None:
    assert public_job.check_job(props) == []


def test_a_projects_other_roles_are_not_about_jobs() -> None:
    assert public_job.check_project({"role": "roles/browser", "member": "allUsers"}) == []


@pytest.mark.parametrize(
    "account",
    [
        "123456789012-compute@developer.gserviceaccount.com",
        "my-project@appspot.gserviceaccount.com",
        "123456789012@cloudbuild.gserviceaccount.com",
    ],
)
def test_a_default_account_is_reported(account: str) -> None:
    [ran] = default_service_account.check_job(job(serviceAccount=account))
    [granted] = default_service_account.check_grant({"role": "roles/run.viewer", "member": f"serviceAccount:{account}"})
    for message in (ran, granted):
        assert f"{account} is " in message
        assert "Name an account of the workload's own" in message


@pytest.mark.parametrize("account", [None, ""])
def test_a_job_without_an_account_of_its_own_is_reported(account: str | None) -> None:
    [message] = default_service_account.check_job(job(serviceAccount=account))
    assert message.startswith("template.template.serviceAccount is not set")


@pytest.mark.parametrize(
    "account",
    ["gpu-job-sa@p.iam.gserviceaccount.com", "service-123@gcp-sa-cloudbuild.iam.gserviceaccount.com", UNKNOWN],
)
def test_an_account_of_the_workloads_own_is_left_alone(account: str) -> None:
    assert default_service_account.check_job(job(serviceAccount=account)) == []
    assert default_service_account.check_grant({"member": f"serviceAccount:{account}"}) == []


def test_a_job_that_is_not_known_yet_has_an_account() -> None:
    assert default_service_account.check_job({"template": UNKNOWN}) == []


@pytest.mark.parametrize("token", ["gcp:serviceaccount/key:Key", "gcp:storage/hmacKey:HmacKey"])
def test_a_key_is_reported(token: str) -> None:
    [message] = service_account_key.RULE.checks[token]({})
    assert "lasts for years" in message


@pytest.mark.parametrize(
    "props",
    [
        {"role": "roles/owner", "member": "user:a@example.org"},
        {"role": "roles/editor", "members": UNKNOWN},
        policy("roles/viewer", "group:all@example.org"),
        {"role": "roles/iam.serviceAccountTokenCreator", "member": "serviceAccount:a@p.iam.gserviceaccount.com"},
        {"role": "roles/iam.serviceAccountUser", "members": ["user:a@example.org", "principalSet://pool/*"]},
        policy("roles/resourcemanager.projectIamAdmin", "serviceAccount:a@p.iam.gserviceaccount.com"),
    ],
)
def test_a_broad_role_is_reported(props: dict[str, Any]) -> None:
    [message] = broad_role.check(props)
    assert message.startswith("role: roles/")
    assert "Grant " in message


@pytest.mark.parametrize(
    "props",
    [
        {"role": "roles/logging.logWriter", "member": "serviceAccount:a@p.iam.gserviceaccount.com"},
        {"role": "roles/resourcemanager.projectIamAdmin", "member": "group:platform@example.org"},
        {"role": "roles/iam.serviceAccountUser", "member": UNKNOWN},
        {"role": UNKNOWN, "member": "serviceAccount:a@p.iam.gserviceaccount.com"},
        {"policyData": UNKNOWN},
        {},
    ],
)
def test_a_narrow_role_is_left_alone(props: dict[str, Any]) -> None:
    assert broad_role.check(props) == []


@pytest.mark.parametrize("prop", ["labels", "userLabels"])
@pytest.mark.parametrize("chosen", [None, {}, {"team": "ml"}, {"app": ""}])
def test_a_resource_without_the_label_is_reported(prop: str, chosen: Any) -> None:
    [message] = labels.check(prop, {prop: chosen})
    assert message.startswith(f"{prop} has no `app`")


@pytest.mark.parametrize("chosen", [{"app": "holdfast"}, {"app": UNKNOWN}, UNKNOWN])
def test_a_resource_with_the_label_is_left_alone(chosen: Any) -> None:
    assert labels.check("labels", {"labels": chosen}) == []


@pytest.mark.parametrize("rule", [broad_role.RULE, project_wide_storage_role.RULE], ids=lambda rule: rule.name)
def test_every_way_to_grant_above_a_resource_is_judged(rule: Rule) -> None:
    kinds = ("projects/iAM", "folder/iAM", "organizations/iAM")
    tokens = {f"gcp:{kind}{variant}:IAM{variant}" for kind in kinds for variant in ("Binding", "Member", "Policy")}
    assert set(rule.checks) == tokens == set(PROJECT_IAM)
    assert tokens <= set(EVERY_IAM)


def test_rules_do_not_change_what_they_judge() -> None:
    props = job()
    before = copy.deepcopy(props)
    gpu_job_without_retries.check(props)
    assert props == before
