"""Each rule, violated and kept."""

import copy
import json
from typing import Any

import pytest

from policies import gpu_job_without_retries, project_wide_storage_role, public_bucket
from policies.props import UNKNOWN


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


def test_rules_do_not_change_what_they_judge() -> None:
    props = job()
    before = copy.deepcopy(props)
    gpu_job_without_retries.check(props)
    assert props == before
