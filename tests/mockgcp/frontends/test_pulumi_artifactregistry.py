"""Repositories and their members as the provider has them."""

from typing import Any

import pytest
from scenario_a import ACCOUNT, EMAIL, PROJECT, REGION, REPOSITORY, REPOSITORY_MEMBER, Desk, account

from mockgcp.cloud import Cloud
from mockgcp.errors import ApiError
from mockgcp.frontends.pulumi.core import State
from mockgcp.frontends.pulumi.values import Value

NAME = f"projects/{PROJECT}/locations/{REGION}/repositories/trainers"
KEEP: dict[str, Value] = {"id": "keep", "action": "KEEP", "mostRecentVersions": {"keepCount": 10}}
OLD: dict[str, Value] = {"id": "old", "action": "DELETE", "condition": {"olderThan": "2592000s"}}


def repository(**changes: Value) -> dict[str, Value]:
    return {
        "repositoryId": "trainers",
        "location": REGION,
        "format": "DOCKER",
        "dockerConfig": {"immutableTags": True},
        "cleanupPolicies": [OLD, KEEP],
        "labels": {"app": "holdfast"},
        **changes,
    }


def live(cloud: Cloud) -> dict[str, Any]:
    return cloud.table("artifactregistry.repository")[NAME]


@pytest.fixture
def made(desk: Desk) -> State:
    return desk.create(REPOSITORY, repository())


def test_policies_are_a_list_here_and_a_map_there(desk: Desk, cloud: Cloud, made: State) -> None:
    assert (made.id, made.outputs["name"], made.outputs["mode"]) == (NAME, "trainers", "STANDARD_REPOSITORY")
    assert made.outputs["registryUri"] == f"{REGION}-docker.pkg.dev/{PROJECT}/trainers"
    [sent] = desk.sent("artifactregistry.projects.locations.repositories.create")
    assert sent["cleanupPolicies"] == {
        "old": {"action": "DELETE", "condition": {"olderThan": "2592000s", "tagState": "ANY"}},
        "keep": {"action": "KEEP", "mostRecentVersions": {"keepCount": 10}},
    }
    assert [policy["id"] for policy in made.outputs["cleanupPolicies"]] == ["old", "keep"]


def test_a_second_time_changes_nothing(desk: Desk, made: State) -> None:
    found = desk.refresh(REPOSITORY, made)
    assert found is not None
    assert found.inputs == made.inputs
    assert desk.diff(REPOSITORY, State(found.id, found.outputs, found.inputs), repository()) == {}


def test_a_refresh_shows_drift(desk: Desk, cloud: Cloud, made: State) -> None:
    live(cloud)["dockerConfig"] = {}
    live(cloud)["cleanupPolicies"].pop("old")
    found = desk.refresh(REPOSITORY, made)
    assert found is not None
    assert {key for key in made.inputs if found.inputs.get(key) != made.inputs[key]} == {
        "cleanupPolicies",
        "dockerConfig",
    }


@pytest.mark.parametrize(
    ("changes", "path", "replaces"),
    [
        ({"description": "images"}, "description", False),
        ({"dockerConfig": {"immutableTags": False}}, "dockerConfig.immutableTags", False),
        ({"cleanupPolicies": [OLD]}, "cleanupPolicies[1]", False),
        ({"location": "us-east1"}, "location", True),
        ({"repositoryId": "other"}, "repositoryId", True),
    ],
)
def test_what_replaces(desk: Desk, made: State, changes: dict[str, Value], path: str, replaces: bool) -> None:
    [(found, (_, replace))] = desk.diff(REPOSITORY, made, repository(**changes)).items()
    assert (found, replace) == (path, replaces)


@pytest.mark.parametrize(
    "change",
    [
        {"description": "images"},
        {"dockerConfig": {"immutableTags": False}},
        {"cleanupPolicies": [KEEP]},
        {"cleanupPolicyDryRun": True},
        {"labels": {"app": "other"}},
        {"vulnerabilityScanningConfig": {"enablementConfig": "DISABLED"}},
    ],
)
def test_each_property_is_set_and_taken_back_in_place(desk: Desk, made: State, change: dict[str, Value]) -> None:
    changed = desk.settles(REPOSITORY, made, repository(**change))
    desk.settles(REPOSITORY, changed, repository())


def test_an_update_names_what_changed_and_leaves_the_rest(desk: Desk, cloud: Cloud, made: State) -> None:
    changed = desk.update(REPOSITORY, made, repository(dockerConfig={"immutableTags": False}, labels={}))
    assert changed.outputs["cleanupPolicies"] == made.outputs["cleanupPolicies"]
    assert "dockerConfig" not in live(cloud)
    assert live(cloud)["labels"] == {"goog-pulumi-provisioned": "true"}
    [entry] = cloud.audit.entries("artifactregistry.projects.locations.repositories.patch")
    assert entry.params["updateMask"].split(",") == ["dockerConfig", "labels"]


def test_a_preview_meets_the_apis_rules(desk: Desk) -> None:
    assert "does not match" in desk.refused(REPOSITORY, repository(repositoryId="Bad"))[0]
    assert "same id" in desk.refused(REPOSITORY, repository(cleanupPolicies=[KEEP, KEEP]))[0]


def test_the_providers_region_stands_in_for_a_location(desk: Desk) -> None:
    inputs = {key: value for key, value in repository().items() if key != "location"}
    made = desk.create(REPOSITORY, inputs)
    assert (made.id, made.outputs["location"]) == (NAME, REGION)
    assert desk.refresh(REPOSITORY, made) is not None


@pytest.mark.parametrize("located", [{"location": REGION}, {}])
def test_a_member_of_the_repository(desk: Desk, cloud: Cloud, made: State, located: dict[str, Value]) -> None:
    desk.create(ACCOUNT, account())
    role, member = "roles/artifactregistry.reader", f"serviceAccount:{EMAIL}"
    inputs = {"repository": "trainers", "role": role, "member": member, **located}
    granted = desk.create(REPOSITORY_MEMBER, inputs)
    assert granted.outputs["repository"] == NAME
    assert cloud.allowed(member, "artifactregistry.repositories.downloadArtifacts", NAME)
    assert desk.refresh(REPOSITORY_MEMBER, granted) is not None
    assert desk.diff(REPOSITORY_MEMBER, granted, inputs) == {}
    desk.provider.delete(REPOSITORY_MEMBER, granted)
    assert desk.refresh(REPOSITORY_MEMBER, granted) is None


def test_a_deletion_and_one_that_comes_too_late(desk: Desk, made: State) -> None:
    desk.provider.delete(REPOSITORY, made)
    desk.provider.delete(REPOSITORY, made)
    assert desk.refresh(REPOSITORY, made) is None
    with pytest.raises(ApiError, match="already exists"):
        desk.create(REPOSITORY, repository()) and desk.create(REPOSITORY, repository())
