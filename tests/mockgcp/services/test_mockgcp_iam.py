"""Service accounts."""

from __future__ import annotations

import pytest
from mockgcp_client import EMAIL, PROJECT, STRANGER, Client

from mockgcp.cloud import Cloud

CREATE = "iam.projects.serviceAccounts.create"
GET = "iam.projects.serviceAccounts.get"
PARENT = {"name": f"projects/{PROJECT}"}
NAME = {"name": f"projects/{PROJECT}/serviceAccounts/{EMAIL}"}


def test_an_account_has_its_e_mail_name_and_ids(gcp: Client) -> None:
    body = {"accountId": "gpu-job-sa", "serviceAccount": {"displayName": "GPU job", "email": "mine@x.com"}}
    made = gcp.call(CREATE, PARENT, body)
    assert (made["email"], made["name"], made["displayName"]) == (EMAIL, NAME["name"], "GPU job")
    assert len(made["uniqueId"]) == 21
    assert gcp.call(GET, NAME) == made
    assert gcp.call("iam.projects.serviceAccounts.list", PARENT)["accounts"] == [made]


@pytest.mark.parametrize("wanted", [EMAIL, "uniqueId"])
def test_the_wildcard_project_finds_by_e_mail_and_by_unique_id(gcp: Client, wanted: str) -> None:
    made = gcp.make_account()
    assert gcp.call(GET, {"name": f"projects/-/serviceAccounts/{made.get(wanted, wanted)}"}) == made


@pytest.mark.parametrize("account_id", ["short", "a" * 31, "Upper-case", "1-digit-first", "ends-with-", "under_score"])
def test_an_id_that_breaks_the_rules_is_refused_with_the_rules(gcp: Client, account_id: str) -> None:
    error = gcp.refused(CREATE, PARENT, {"accountId": account_id})
    assert error.status == "INVALID_ARGUMENT"
    assert error.message.startswith(f"accountId: {account_id!r} ")
    assert "6 to 30" in error.message or "does not match" in error.message


@pytest.mark.parametrize("account_id", ["six-ch", "a" * 30])
def test_an_id_at_the_limits_is_taken(gcp: Client, account_id: str) -> None:
    assert gcp.make_account(account_id)["email"].startswith(account_id + "@")


def test_an_id_is_taken_once(gcp: Client) -> None:
    gcp.make_account()
    error = gcp.refused(CREATE, PARENT, {"accountId": "gpu-job-sa"})
    assert (error.status, "already exists" in error.message) == ("ALREADY_EXISTS", True)


def test_what_does_not_exist_is_not_found(gcp: Client) -> None:
    for method in ("get", "delete"):
        error = gcp.refused(f"iam.projects.serviceAccounts.{method}", NAME)
        assert (error.status, NAME["name"] in error.message) == ("NOT_FOUND", True)


def test_a_patch_changes_what_its_mask_names(gcp: Client) -> None:
    gcp.make_account()
    patch = "iam.projects.serviceAccounts.patch"
    changes = {"displayName": "New", "description": "Text"}
    gcp.call(patch, NAME, {"serviceAccount": changes, "updateMask": "display_name"})
    found = gcp.call(GET, NAME)
    assert (found["displayName"], found.get("description")) == ("New", None)
    gcp.call(patch, NAME, {"serviceAccount": {}, "updateMask": "displayName,description"})
    assert gcp.call(GET, NAME)["displayName"] == ""


@pytest.mark.parametrize("mask", ["", "email"])
def test_a_mask_that_names_nothing_that_can_change_is_refused(gcp: Client, mask: str) -> None:
    gcp.make_account()
    body = {"serviceAccount": {"displayName": "New"}, "updateMask": mask}
    assert gcp.refused("iam.projects.serviceAccounts.patch", NAME, body).status == "INVALID_ARGUMENT"


def test_disable_and_enable(gcp: Client) -> None:
    gcp.make_account()
    gcp.call("iam.projects.serviceAccounts.disable", NAME, {})
    assert gcp.call(GET, NAME)["disabled"] is True
    gcp.call("iam.projects.serviceAccounts.enable", NAME, {})
    assert gcp.call(GET, NAME)["disabled"] is False


def test_an_accounts_own_policy_goes_with_it(cloud: Cloud, gcp: Client) -> None:
    gcp.make_account()
    resource = {"resource": NAME["name"]}
    policy = {"bindings": [{"role": "roles/iam.serviceAccountUser", "members": [STRANGER]}]}
    gcp.call("iam.projects.serviceAccounts.setIamPolicy", resource, {"policy": policy})
    assert gcp.as_(STRANGER).call(GET, NAME)["email"] == EMAIL
    gcp.call("iam.projects.serviceAccounts.delete", NAME)
    gcp.make_account()
    assert gcp.call("iam.projects.serviceAccounts.getIamPolicy", resource)["bindings"] == []
    assert gcp.as_(STRANGER).refused(GET, NAME).http_status == 403


def test_googles_own_agents_of_a_project_are_members_that_exist(cloud: Cloud, gcp: Client) -> None:
    gcp.make_bucket()
    number = cloud.project(PROJECT).number
    agent = f"serviceAccount:service-{number}@serverless-robot-prod.iam.gserviceaccount.com"
    gcp.grant("acme-train-checkpoints", "roles/storage.objectViewer", agent)
    assert gcp.as_(agent).call("storage.objects.list", {"bucket": "acme-train-checkpoints"})["items"] == []


def test_the_default_account_is_a_member_once_compute_engine_is_on(cloud: Cloud, gcp: Client) -> None:
    gcp.make_bucket()
    email = f"{cloud.project(PROJECT).number}-compute@developer.gserviceaccount.com"
    resource = {"bucket": "acme-train-checkpoints"}
    policy = {"bindings": [{"role": "roles/storage.objectViewer", "members": [f"serviceAccount:{email}"]}]}
    refused = gcp.refused("storage.buckets.setIamPolicy", resource, policy)
    assert refused.message == f"Service account {email} does not exist."
    cloud.project(PROJECT).services.add("compute.googleapis.com")
    gcp.call("storage.buckets.setIamPolicy", resource, policy)


def test_a_disabled_account_is_allowed_nothing(gcp: Client) -> None:
    gcp.make_account()
    gcp.make_bucket()
    gcp.grant("acme-train-checkpoints", "roles/storage.objectViewer", f"serviceAccount:{EMAIL}")
    task, resource = gcp.as_(f"serviceAccount:{EMAIL}"), {"bucket": "acme-train-checkpoints"}
    assert task.call("storage.objects.list", resource)["items"] == []
    gcp.call("iam.projects.serviceAccounts.disable", NAME, {})
    assert task.refused("storage.objects.list", resource).http_status == 403
    gcp.call("iam.projects.serviceAccounts.enable", NAME, {})
    assert task.call("storage.objects.list", resource)["items"] == []
