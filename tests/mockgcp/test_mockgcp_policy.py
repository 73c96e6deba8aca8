"""IAM allow policies: what is stored, what is refused, and who may do what."""

from __future__ import annotations

import base64

import pytest
from mockgcp_client import BUCKET, EMAIL, JOB, OTHER, PROJECT, STRANGER, Client

from mockgcp.cloud import Cloud
from mockgcp.errors import ApiError
from mockgcp.policy import Policies

RESOURCE = f"projects/_/buckets/{BUCKET}"
VIEWER = "roles/storage.objectViewer"


def policies(*emails: str) -> Policies:
    return Policies(emails.__contains__)


def bound(role: str, *members: str) -> dict[str, object]:
    return {"bindings": [{"role": role, "members": list(members)}]}


def test_a_resource_without_a_policy_has_an_empty_one_with_an_etag() -> None:
    assert policies().get(RESOURCE) == {"version": 1, "etag": "ACAB", "bindings": []}


def test_bindings_come_back_merged_sorted_and_without_empty_ones() -> None:
    stored = policies().set(
        RESOURCE,
        {
            "bindings": [
                {"role": VIEWER, "members": ["user:b@x.com", "user:a@x.com"]},
                {"role": "roles/storage.admin", "members": []},
                {"role": VIEWER, "members": ["user:a@x.com", "user:c@x.com"]},
            ]
        },
    )
    assert stored["bindings"] == [{"role": VIEWER, "members": ["user:a@x.com", "user:b@x.com", "user:c@x.com"]}]


def test_an_etag_is_new_with_each_change_and_base64_however_many_there_are() -> None:
    store = policies()
    etags = [store.set(RESOURCE, {"bindings": []})["etag"] for _ in range(400)]
    assert len(set(etags)) == 400
    assert all(base64.b64decode(etag, validate=True) for etag in etags)


def test_a_stale_etag_is_a_conflict_and_changes_nothing() -> None:
    store = policies()
    etag = store.get(RESOURCE)["etag"]
    store.set(RESOURCE, {"etag": etag, **bound(VIEWER, "user:a@x.com")})
    with pytest.raises(ApiError, match="concurrent policy changes") as caught:
        store.set(RESOURCE, {"etag": etag, "bindings": []})
    assert (caught.value.status, caught.value.http_status) == ("ABORTED", 409)
    assert store.get(RESOURCE)["bindings"] == [{"role": VIEWER, "members": ["user:a@x.com"]}]
    store.set(RESOURCE, {"bindings": []})
    assert store.get(RESOURCE)["bindings"] == []


def test_an_unknown_role_is_refused() -> None:
    with pytest.raises(ApiError, match=r"Role roles/storage\.objectAdmn is not supported"):
        policies().set(RESOURCE, bound("roles/storage.objectAdmn", "user:a@x.com"))


@pytest.mark.parametrize("member", ["a@x.com", "person:a@x.com", "user:", "allusers", "user:a@x.com extra", ""])
def test_a_malformed_member_is_refused(member: str) -> None:
    with pytest.raises(ApiError, match="unknown type"):
        policies().set(RESOURCE, bound(VIEWER, member))


@pytest.mark.parametrize(
    "member",
    [
        "allUsers",
        "group:g@x.com",
        "domain:x.com",
        "projectEditor:acme-train",
        "principal://iam.googleapis.com/projects/1/locations/global/workloadIdentityPools/p.svc.id.goog/subject/ns/n",
    ],
)
def test_well_formed_members_are_taken(member: str) -> None:
    assert policies().set(RESOURCE, bound(VIEWER, member))["bindings"][0]["members"] == [member]


def test_a_service_account_that_does_not_exist_is_refused_and_one_that_does_is_taken() -> None:
    with pytest.raises(ApiError, match=f"Service account {EMAIL} does not exist"):
        policies().set(RESOURCE, bound(VIEWER, f"serviceAccount:{EMAIL}"))
    assert policies(EMAIL).set(RESOURCE, bound(VIEWER, f"serviceAccount:{EMAIL}"))["bindings"]


def test_a_condition_is_refused_rather_than_ignored() -> None:
    policy = bound(VIEWER, "user:a@x.com")
    policy["bindings"][0]["condition"] = {"expression": "true"}  # type: ignore[index]
    with pytest.raises(ApiError, match="does not evaluate IAM conditions"):
        policies().set(RESOURCE, policy)


def test_a_role_grants_its_own_permissions_only() -> None:
    store = policies()
    store.grant(RESOURCE, VIEWER, "user:a@x.com")
    assert store.allowed("user:a@x.com", "storage.objects.get", [RESOURCE])
    assert not store.allowed("user:a@x.com", "storage.objects.create", [RESOURCE])
    assert not store.allowed("user:b@x.com", "storage.objects.get", [RESOURCE])
    assert not store.allowed("user:a@x.com", "storage.objects.get", ["projects/_/buckets/other"])


@pytest.mark.parametrize("member", ["allUsers", "allAuthenticatedUsers"])
def test_public_members_are_everybody(member: str) -> None:
    store = policies()
    store.grant(RESOURCE, VIEWER, member)
    assert store.allowed(STRANGER, "storage.objects.get", [RESOURCE])


def test_a_role_on_the_project_reaches_its_buckets_and_no_other_projects(cloud: Cloud, gcp: Client) -> None:
    gcp.make_bucket()
    gcp.make_bucket("acme-other-checkpoints", OTHER)
    cloud.policies.grant(f"projects/{PROJECT}", VIEWER, STRANGER)
    stranger = gcp.as_(STRANGER)
    assert stranger.call("storage.objects.list", {"bucket": BUCKET})["items"] == []
    assert stranger.refused("storage.objects.list", {"bucket": "acme-other-checkpoints"}).http_status == 403


def test_a_role_on_a_job_reaches_its_executions(cloud: Cloud, gcp: Client) -> None:
    gcp.make_account()
    gcp.make_job()
    _, execution = gcp.run_job()
    stranger = gcp.as_(STRANGER)
    read = ("run.projects.locations.jobs.executions.get", {"name": execution})
    assert stranger.refused(*read).http_status == 403
    cloud.policies.grant(JOB, "roles/run.viewer", STRANGER)
    assert stranger.call(*read)["name"] == execution


def test_a_projects_editors_and_viewers_have_the_legacy_roles_of_its_buckets(cloud: Cloud, gcp: Client) -> None:
    gcp.make_bucket()
    cloud.policies.grant(f"projects/{PROJECT}", "roles/editor", "user:editor@example.com")
    cloud.policies.grant(f"projects/{OTHER}", "roles/editor", STRANGER)
    editor = gcp.as_("user:editor@example.com")
    assert editor.call("storage.buckets.get", {"bucket": BUCKET})["name"] == BUCKET
    assert gcp.as_(STRANGER).refused("storage.buckets.get", {"bucket": BUCKET}).http_status == 403


def test_a_deleted_accounts_roles_do_not_come_back_with_its_name(cloud: Cloud, gcp: Client) -> None:
    account = gcp.make_account()
    gcp.make_bucket()
    member = f"serviceAccount:{EMAIL}"
    gcp.grant(BUCKET, VIEWER, member)
    gcp.call("iam.projects.serviceAccounts.delete", {"name": account["name"]})
    policy = gcp.call("storage.buckets.getIamPolicy", {"bucket": BUCKET})
    assert {"role": VIEWER, "members": [f"deleted:{member}?uid={account['uniqueId']}"]} in policy["bindings"]
    gcp.make_account()
    assert gcp.as_(member).refused("storage.objects.list", {"bucket": BUCKET}).http_status == 403
    gcp.grant(BUCKET, VIEWER, member)
    assert gcp.as_(member).call("storage.objects.list", {"bucket": BUCKET})["items"] == []
