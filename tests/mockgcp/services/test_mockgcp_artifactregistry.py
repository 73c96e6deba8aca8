"""Artifact Registry: repositories, their rules and policies, and images with their tags."""

from __future__ import annotations

from typing import Any

import pytest
from mockgcp_client import IMAGE, LOCATION, PROJECT, STRANGER, Client

from mockgcp.cloud import Cloud
from mockgcp.errors import ApiError
from mockgcp.services import artifactregistry
from mockgcp.services.artifactregistry import Image

METHODS = "artifactregistry.projects.locations.repositories"
CREATE = f"{METHODS}.create"
NEW = {"parent": LOCATION, "repositoryId": "trainers"}
REPOSITORY = f"{LOCATION}/repositories/trainers"
NAME = {"name": REPOSITORY}
DOCKER: dict[str, Any] = {"format": "DOCKER"}
IMMUTABLE = {**DOCKER, "dockerConfig": {"immutableTags": True}}
HOST = f"europe-west4-docker.pkg.dev/{PROJECT}"
ONE, TWO = (f"sha256:{digit * 64}" for digit in "12")
KEEP = {"action": "KEEP", "mostRecentVersions": {"keepCount": 10}}
OLD = {"action": "DELETE", "condition": {"olderThan": "2592000s", "tagState": "UNTAGGED"}}


def pushed(cloud: Cloud, reference: str, digest: str) -> None:
    image = artifactregistry.parse(cloud, reference)
    assert image is not None
    artifactregistry.push(cloud, image, digest)


# -- repositories --------------------------------------------------------------------------------------------------


def test_a_repositorys_life(cloud: Cloud, gcp: Client) -> None:
    body = {**IMMUTABLE, "cleanupPolicies": {"keep": KEEP, "old": OLD}, "labels": {"app": "holdfast"}}
    operation = gcp.start(CREATE, NEW, body)
    read = {"name": operation.name}
    assert gcp.call("artifactregistry.projects.locations.operations.get", read)["done"] is False
    made = cloud.wait(operation)
    assert gcp.call(f"{METHODS}.get", NAME) == {**made, "sizeBytes": "0"}
    assert (made["name"], made["registryUri"], made["mode"]) == (REPOSITORY, f"{HOST}/trainers", "STANDARD_REPOSITORY")
    assert made["cleanupPolicies"]["keep"] == {**KEEP, "id": "keep"}
    changed = gcp.call(f"{METHODS}.patch", {**NAME, "updateMask": "labels,description"}, {"description": "images"})
    assert (changed["description"], "labels" in changed) == ("images", False)
    assert changed["dockerConfig"] == {"immutableTags": True}
    listed = gcp.call(f"{METHODS}.list", {"parent": LOCATION})["repositories"]
    assert [found["name"].rpartition("/")[2] for found in listed] == ["jobs", "trainers"]
    gcp.finish(f"{METHODS}.delete", NAME)
    assert gcp.refused(f"{METHODS}.get", NAME).status == "NOT_FOUND"


def test_a_name_is_taken_at_once(gcp: Client) -> None:
    gcp.start(CREATE, NEW, DOCKER)
    assert gcp.refused(CREATE, NEW, DOCKER).http_status == 409


@pytest.mark.parametrize("repository_id", ["", "Trainers", "1st", "end-", "under_score", "a" * 64])
def test_a_repository_id_that_breaks_the_rules(gcp: Client, repository_id: str) -> None:
    error = gcp.refused(CREATE, {**NEW, "repositoryId": repository_id}, DOCKER)
    assert (error.status, "repositoryId" in error.message) == ("INVALID_ARGUMENT", True)


def test_a_location_that_does_not_exist_names_the_nearest(gcp: Client) -> None:
    error = gcp.refused(CREATE, {**NEW, "parent": LOCATION.replace("europe-west4", "europe-west-4")}, DOCKER)
    assert "did you mean europe-west4?" in error.message
    gcp.finish(CREATE, {**NEW, "parent": LOCATION.replace("europe-west4", "europe")}, DOCKER)


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({}, "format"),
        ({**DOCKER, "labels": {"App": "x"}}, "key 'App'"),
        ({**DOCKER, "labels": {"app": "X y"}}, "value 'X y'"),
        ({**DOCKER, "cleanupPolicies": {"p": {"action": "KEEP"}}}, "exactly one of condition and mostRecentVersions"),
        ({**DOCKER, "cleanupPolicies": {"p": {**KEEP, "condition": {"tagState": "ANY"}}}}, "exactly one"),
        ({**DOCKER, "cleanupPolicies": {"p": {**KEEP, "action": "DELETE"}}}, "for KEEP only"),
        ({**DOCKER, "cleanupPolicies": {"p": {"condition": {}}}}, "DELETE or KEEP"),
        ({**DOCKER, "cleanupPolicies": {"p": {"action": "KEEP", "mostRecentVersions": {}}}}, "keepCount"),
        ({**DOCKER, "cleanupPolicies": {"p" * 128: KEEP}}, "127 characters"),
        ({**DOCKER, "cleanupPolicies": {f"p{n}": KEEP for n in range(11)}}, "at most 10"),
    ],
)
def test_what_is_refused_of_a_repository(gcp: Client, body: dict[str, Any], words: str) -> None:
    error = gcp.refused(CREATE, NEW, body)
    assert (error.status, words in error.message) == ("INVALID_ARGUMENT", True)
    if body:
        gcp.finish(CREATE, NEW, DOCKER)
        assert words in gcp.refused(f"{METHODS}.patch", {**NAME, "updateMask": "labels"}, body).message


@pytest.mark.parametrize(
    "body",
    [{"format": "MAVEN"}, {**DOCKER, "mode": "REMOTE_REPOSITORY"}, {**DOCKER, "kmsKeyName": "k"}],
)
def test_what_the_emulator_lacks_it_names(gcp: Client, body: dict[str, Any]) -> None:
    assert gcp.refused(CREATE, NEW, body).status == "UNIMPLEMENTED"


@pytest.mark.parametrize("mask", ["", "format", "name"])
def test_an_update_names_what_can_change(gcp: Client, mask: str) -> None:
    gcp.finish(CREATE, NEW, DOCKER)
    assert gcp.refused(f"{METHODS}.patch", {**NAME, "updateMask": mask}, {}).status == "INVALID_ARGUMENT"


def test_a_role_on_the_repository_alone(gcp: Client) -> None:
    gcp.finish(CREATE, NEW, DOCKER)
    upload = "artifactregistry.repositories.uploadArtifacts"
    asked = (f"{METHODS}.testIamPermissions", {"resource": REPOSITORY}, {"permissions": [upload]})
    stranger = gcp.as_(STRANGER)
    assert stranger.refused(f"{METHODS}.get", NAME).http_status == 403
    assert stranger.call(*asked).get("permissions", []) == []
    policy = {"bindings": [{"role": "roles/artifactregistry.writer", "members": [STRANGER]}]}
    gcp.call(f"{METHODS}.setIamPolicy", {"resource": REPOSITORY}, {"policy": policy})
    assert gcp.call(f"{METHODS}.getIamPolicy", {"resource": REPOSITORY})["bindings"] == policy["bindings"]
    assert stranger.call(*asked)["permissions"] == [upload]
    assert stranger.call(f"{METHODS}.get", NAME)["name"] == REPOSITORY
    assert stranger.refused(f"{METHODS}.delete", NAME).http_status == 403


# -- references ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("reference", "expected"),
    [
        (f"{HOST}/r/a/b:v1", Image("europe-west4", PROJECT, "r", "a/b", "v1", "")),
        (f"{HOST}/r/a", Image("europe-west4", PROJECT, "r", "a", "latest", "")),
        (f"{HOST}/r/a@{ONE}", Image("europe-west4", PROJECT, "r", "a", "", ONE)),
        (f"{HOST}/r/a:v1@{ONE}", Image("europe-west4", PROJECT, "r", "a", "v1", ONE)),
        (f"{HOST}/r", None),
        (f"{HOST}/r/a@sha256:12", None),
        ("docker.io/library/busybox", None),
        ("busybox", None),
    ],
)
def test_references(cloud: Cloud, reference: str, expected: Image | None) -> None:
    assert artifactregistry.parse(cloud, reference) == expected


def test_a_reference_of_another_universe() -> None:
    cloud = Cloud(universe="s3nsapis.fr")
    image = artifactregistry.parse(cloud, f"u-france-east1-docker.s3nsregistry.fr/s3ns/acme/r/a@{ONE}")
    assert image is not None
    assert image.repository == "projects/s3ns:acme/locations/u-france-east1/repositories/r"
    assert artifactregistry.parse(cloud, IMAGE) is None


# -- images --------------------------------------------------------------------------------------------------------


def test_an_image_by_all_the_views_of_it(cloud: Cloud, gcp: Client) -> None:
    gcp.finish(CREATE, NEW, DOCKER)
    artifactregistry.seed_image(cloud, f"{HOST}/trainers/team/trainer@{ONE}", "v1")
    package = f"{REPOSITORY}/packages/team%2Ftrainer"
    [image] = gcp.call(f"{METHODS}.dockerImages.list", {"parent": REPOSITORY})["dockerImages"]
    assert image["uri"] == f"{HOST}/trainers/team/trainer@{ONE}"
    assert image["tags"] == ["v1"]
    for short in (f"team%2Ftrainer@{ONE}", "team%2Ftrainer:v1"):
        assert gcp.call(f"{METHODS}.dockerImages.get", {"name": f"{REPOSITORY}/dockerImages/{short}"}) == image
    [found] = gcp.call(f"{METHODS}.packages.list", {"parent": REPOSITORY})["packages"]
    assert found == gcp.call(f"{METHODS}.packages.get", {"name": package})
    [version] = gcp.call(f"{METHODS}.packages.versions.list", {"parent": package, "view": "FULL"})["versions"]
    assert version["relatedTags"] == gcp.call(f"{METHODS}.packages.tags.list", {"parent": package})["tags"]
    tag = gcp.call(f"{METHODS}.packages.tags.get", {"name": f"{package}/tags/v1"})
    assert tag["version"] == version["name"] == f"{package}/versions/{ONE}"
    missing = {"name": f"{REPOSITORY}/dockerImages/team%2Ftrainer:v2"}
    assert gcp.refused(f"{METHODS}.dockerImages.get", missing).status == "NOT_FOUND"


def test_a_repository_takes_its_images_along(cloud: Cloud, gcp: Client) -> None:
    gcp.finish(CREATE, NEW, IMMUTABLE)
    pushed(cloud, f"{HOST}/trainers/trainer:v1", ONE)
    gcp.finish(f"{METHODS}.delete", NAME)
    assert [name for _, name in cloud.resources() if "trainers" in name] == []


def test_an_immutable_tag_is_neither_moved_nor_deleted(cloud: Cloud, gcp: Client) -> None:
    gcp.finish(CREATE, NEW, IMMUTABLE)
    package = f"{REPOSITORY}/packages/trainer"
    tag, versions = {"name": f"{package}/tags/v1"}, f"{METHODS}.packages.versions"
    pushed(cloud, f"{HOST}/trainers/trainer:v1", ONE)
    pushed(cloud, f"{HOST}/trainers/trainer:v1", ONE)  # the same again is no move
    pushed(cloud, f"{HOST}/trainers/trainer:v2", TWO)
    with pytest.raises(ApiError, match="tag immutability"):
        pushed(cloud, f"{HOST}/trainers/trainer:v1", TWO)
    moved = {"version": f"{package}/versions/{TWO}"}
    for method, params, body in (
        (f"{METHODS}.packages.tags.patch", tag, moved),
        (f"{METHODS}.packages.tags.delete", tag, None),
        (f"{versions}.delete", {"name": f"{package}/versions/{ONE}", "force": True}, None),
        (f"{METHODS}.packages.delete", {"name": package}, None),
    ):
        assert gcp.refused(method, params, body).status == "FAILED_PRECONDITION", method
    gcp.call(f"{METHODS}.packages.tags.create", {"parent": package, "tagId": "v3"}, moved)
    gcp.call(f"{METHODS}.patch", {**NAME, "updateMask": "dockerConfig"}, {})
    gcp.call(f"{METHODS}.packages.tags.patch", tag, moved)
    gcp.finish(f"{versions}.delete", {"name": f"{package}/versions/{ONE}"})
    assert "is tagged" in gcp.refused(f"{versions}.delete", {"name": f"{package}/versions/{TWO}"}).message
    gcp.finish(f"{versions}.delete", {"name": f"{package}/versions/{TWO}", "force": True})
    assert gcp.refused(f"{METHODS}.packages.get", {"name": package}).status == "NOT_FOUND"


def test_a_seeded_image_needs_a_digest_and_our_registry(cloud: Cloud) -> None:
    for reference in (f"{HOST}/r/a:v1", f"docker.io/a/b@{ONE}"):
        with pytest.raises(ValueError, match="no image with a digest"):
            artifactregistry.seed_image(cloud, reference)


def test_locations(gcp: Client) -> None:
    found = gcp.call("artifactregistry.projects.locations.list", {"name": f"projects/{PROJECT}"})["locations"]
    assert {"europe", "europe-west4"} <= {location["locationId"] for location in found}
    assert gcp.call("artifactregistry.projects.locations.get", {"name": LOCATION})["locationId"] == "europe-west4"
    nowhere = {"name": f"projects/{PROJECT}/locations/nowhere"}
    assert gcp.refused("artifactregistry.projects.locations.get", nowhere).status == "NOT_FOUND"
