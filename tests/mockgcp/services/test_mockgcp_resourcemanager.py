"""Projects and their IAM policies."""

from __future__ import annotations

from mockgcp_client import PROJECT, STRANGER, Client

from mockgcp.cloud import Cloud


def test_the_api_has_to_be_on(cloud: Cloud, gcp: Client) -> None:
    cloud.project(PROJECT).services.discard("cloudresourcemanager.googleapis.com")
    error = gcp.refused("cloudresourcemanager.projects.getIamPolicy", {"resource": PROJECT}, {})
    assert (error.reason, "Cloud Resource Manager API has not been used" in error.message) == ("SERVICE_DISABLED", True)


def test_a_project_is_found_by_id_and_by_number(cloud: Cloud, gcp: Client) -> None:
    number = str(cloud.project(PROJECT).number)
    found = gcp.call("cloudresourcemanager.projects.get", {"projectId": PROJECT})
    assert found == {
        "projectId": PROJECT,
        "projectNumber": number,
        "name": PROJECT,
        "lifecycleState": "ACTIVE",
    }
    assert gcp.call("cloudresourcemanager.projects.get", {"projectId": number}) == found


def test_a_role_granted_through_the_api_counts(gcp: Client) -> None:
    stranger, get = gcp.as_(STRANGER), ("cloudresourcemanager.projects.get", {"projectId": PROJECT})
    assert stranger.refused(*get).http_status == 403
    policy = gcp.call("cloudresourcemanager.projects.getIamPolicy", {"resource": PROJECT}, {})
    policy["bindings"].append({"role": "roles/viewer", "members": [STRANGER]})
    gcp.call("cloudresourcemanager.projects.setIamPolicy", {"resource": PROJECT}, {"policy": policy})
    assert stranger.call(*get)["projectId"] == PROJECT
    set_ = ("cloudresourcemanager.projects.setIamPolicy", {"resource": PROJECT}, {"policy": policy})
    assert stranger.refused(*set_).http_status == 403


def test_anybody_may_ask_what_they_may_do(gcp: Client) -> None:
    asked = ["resourcemanager.projects.get", "run.jobs.create"]
    ask = ("cloudresourcemanager.projects.testIamPermissions", {"resource": PROJECT}, {"permissions": asked})
    assert gcp.call(*ask) == {"permissions": asked}
    assert gcp.as_(STRANGER).call(*ask) == {"permissions": []}
