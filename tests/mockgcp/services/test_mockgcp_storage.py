"""Buckets, their policies, and objects as files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from mockgcp_client import BUCKET, EMAIL, OTHER, PROJECT, STRANGER, Client

from mockgcp.cloud import Cloud
from mockgcp.errors import ApiError
from mockgcp.services import storage

INSERT = "storage.buckets.insert"
IN_PROJECT = {"project": PROJECT}
THIS = {"bucket": BUCKET}
UNIFORM: dict[str, Any] = {"iamConfiguration": {"uniformBucketLevelAccess": {"enabled": True}}}
HIERARCHICAL: dict[str, Any] = {**UNIFORM, "hierarchicalNamespace": {"enabled": True}}


def bucket(**fields: Any) -> dict[str, Any]:
    return {"name": BUCKET, "location": "europe-west4", **fields}


@pytest.fixture
def folder(cloud: Cloud, gcp: Client) -> Path:
    """The folder of a bucket that exists."""
    gcp.make_bucket()
    return storage.folder(cloud.state_dir, BUCKET)


def write(folder: Path, name: str, text: str = "x") -> None:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


# -- creating ------------------------------------------------------------------------------------------------------


def test_a_bucket_comes_back_with_the_servers_defaults_and_spelling(cloud: Cloud, gcp: Client) -> None:
    made = gcp.make_bucket()
    assert (made["location"], made["locationType"], made["storageClass"]) == ("EUROPE-WEST4", "region", "STANDARD")
    assert made["softDeletePolicy"] == {"retentionDurationSeconds": "604800"}
    assert made["iamConfiguration"] == {
        "publicAccessPrevention": "inherited",
        "uniformBucketLevelAccess": {"enabled": False},
    }
    assert made["projectNumber"] == str(cloud.project(PROJECT).number)
    assert gcp.call("storage.buckets.get", THIS) == made


def test_a_request_cannot_set_what_is_the_servers(cloud: Cloud, gcp: Client) -> None:
    made = gcp.make_bucket(metageneration="9", projectNumber="1", timeCreated="2020-01-01T00:00:00Z")
    assert (made["metageneration"], made["timeCreated"]) == ("1", cloud.clock.timestamp())
    fields = {"projectNumber": "1", "timeCreated": "2020-01-01T00:00:00Z", "id": "other"}
    assert gcp.call("storage.buckets.patch", THIS, fields)["timeCreated"] == made["timeCreated"]
    assert gcp.call("storage.buckets.get", THIS)["projectNumber"] == made["projectNumber"]


def test_a_name_taken_by_another_project_is_refused_in_the_apis_words(gcp: Client) -> None:
    gcp.make_bucket(project=OTHER)
    error = gcp.refused(INSERT, IN_PROJECT, bucket())
    assert error.http_status == 409
    assert error.message == (
        "The requested bucket name is not available. The bucket namespace is shared by all users of the system. "
        "Please select a different name and try again."
    )


def test_a_name_taken_by_oneself_says_so(gcp: Client) -> None:
    gcp.make_bucket()
    error = gcp.refused(INSERT, IN_PROJECT, bucket())
    assert (error.http_status, "you already own it" in error.message) == (409, True)


@pytest.mark.parametrize(
    "name",
    ["ab", "a" * 64, "Upper", "-dash", "dash-", "under score", "goog-mine", "my-google-bucket", "", "../up", "a.b"],
)
def test_a_name_that_breaks_the_rules_is_refused(gcp: Client, name: str) -> None:
    assert f"Invalid bucket name: '{name}'" in gcp.refused(INSERT, IN_PROJECT, bucket(name=name)).message


@pytest.mark.parametrize("name", ["abc", "a" * 63, "with-dashes-and_lines9"])
def test_a_name_at_the_limits_is_taken(gcp: Client, name: str) -> None:
    assert gcp.make_bucket(name)["name"] == name


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"storageClass": "WARM"}, "storageClass is 'WARM', expected one of STANDARD"),
        ({"iamConfiguration": {"publicAccessPrevention": "on"}}, "expected one of enforced, inherited"),
        ({"hierarchicalNamespace": {"enabled": True}}, "needs uniform bucket-level access"),
        ({**HIERARCHICAL, "versioning": {"enabled": True}}, "has no object versioning"),
        ({"lifecycle": {"rule": [{"action": {"type": "Remove"}}]}}, "lifecycle.rule.action.type is 'Remove'"),
        (
            {"softDeletePolicy": {"retentionDurationSeconds": "3600"}},
            "3600s; soft delete keeps objects for 604800s to 7776000s",
        ),
        ({"softDeletePolicy": {"retentionDurationSeconds": "7776001"}}, "7776001s; soft delete"),
    ],
)
def test_what_the_service_refuses_of_a_bucket(gcp: Client, fields: dict[str, Any], words: str) -> None:
    error = gcp.refused(INSERT, IN_PROJECT, bucket(**fields))
    assert (error.status, words in error.message) == ("INVALID_ARGUMENT", True), error.message


@pytest.mark.parametrize("seconds", ["0", "604800", "7776000"])
def test_soft_delete_is_off_or_in_range(gcp: Client, seconds: str) -> None:
    made = gcp.make_bucket(softDeletePolicy={"retentionDurationSeconds": seconds})
    assert made["softDeletePolicy"]["retentionDurationSeconds"] == seconds


def test_a_hierarchical_bucket_with_uniform_access_is_taken(gcp: Client) -> None:
    assert gcp.make_bucket(**HIERARCHICAL)["hierarchicalNamespace"] == {"enabled": True}


def test_listing_shows_ones_own_by_prefix(gcp: Client) -> None:
    for name, project in (("acme-b", PROJECT), ("acme-a", PROJECT), ("other", PROJECT), ("acme-c", OTHER)):
        gcp.make_bucket(name, project)
    listed = gcp.call("storage.buckets.list", {**IN_PROJECT, "prefix": "acme"})["items"]
    assert [b["name"] for b in listed] == ["acme-a", "acme-b"]


@pytest.mark.parametrize("method", ["buckets.get", "buckets.getIamPolicy", "buckets.delete", "objects.list"])
def test_a_bucket_that_does_not_exist_is_not_found_whoever_asks(gcp: Client, method: str) -> None:
    for client in (gcp, gcp.as_(STRANGER)):
        error = client.refused(f"storage.{method}", THIS)
        assert (error.http_status, error.message) == (404, "The specified bucket does not exist.")


# -- changing ------------------------------------------------------------------------------------------------------


def test_a_patch_changes_what_it_names_and_an_update_resets_what_it_leaves_out(gcp: Client) -> None:
    gcp.make_bucket(labels={"a": "b"}, versioning={"enabled": True}, storageClass="NEARLINE", **UNIFORM)
    patched = gcp.call("storage.buckets.patch", THIS, {"labels": {"c": "d"}})
    assert (patched["labels"], patched["versioning"], patched["metageneration"]) == (
        {"a": "b", "c": "d"},
        {"enabled": True},
        "2",
    )
    updated = gcp.call("storage.buckets.update", THIS, {"labels": {"e": "f"}})
    assert (updated["labels"], updated["storageClass"], updated["metageneration"]) == ({"e": "f"}, "STANDARD", "3")
    assert "versioning" not in updated
    assert updated["iamConfiguration"]["uniformBucketLevelAccess"]["enabled"] is True


def test_a_patch_of_one_access_setting_keeps_the_other_even_for_the_rules(gcp: Client) -> None:
    gcp.make_bucket(**HIERARCHICAL)
    change = {"iamConfiguration": {"publicAccessPrevention": "enforced"}}
    assert gcp.call("storage.buckets.patch", THIS, change)["iamConfiguration"] == {
        "publicAccessPrevention": "enforced",
        "uniformBucketLevelAccess": {"enabled": True},
    }
    off = {"iamConfiguration": {"uniformBucketLevelAccess": {"enabled": False}}}
    assert "needs uniform" in gcp.refused("storage.buckets.patch", THIS, off).message


@pytest.mark.parametrize(
    ("field", "value"),
    [("location", "us-central1"), ("hierarchicalNamespace", {"enabled": True}), ("name", "another-bucket")],
)
def test_what_is_chosen_at_creation_cannot_change(gcp: Client, field: str, value: Any) -> None:
    gcp.make_bucket(**UNIFORM)
    for method in ("patch", "update"):
        error = gcp.refused(f"storage.buckets.{method}", THIS, {field: value})
        assert f"{field} of a bucket cannot change" in error.message


def test_the_same_location_in_another_case_is_no_change(gcp: Client) -> None:
    gcp.make_bucket()
    assert gcp.call("storage.buckets.update", THIS, bucket())["location"] == "EUROPE-WEST4"


def test_a_bucket_with_objects_is_not_deleted_and_an_empty_one_is(gcp: Client, folder: Path) -> None:
    write(folder, "run/step-1/weights")
    error = gcp.refused("storage.buckets.delete", THIS)
    assert (error.http_status, error.message) == (409, "The bucket you tried to delete is not empty.")
    gcp.call("storage.objects.delete", {**THIS, "object": "run/step-1/weights"})
    gcp.call("storage.buckets.delete", THIS)
    assert not folder.exists()
    assert gcp.refused("storage.buckets.get", THIS).http_status == 404
    gcp.make_bucket(project=OTHER)


# -- policies ------------------------------------------------------------------------------------------------------


def test_public_access_prevention_refuses_public_members_and_only_them(gcp: Client) -> None:
    gcp.make_bucket(iamConfiguration={"publicAccessPrevention": "enforced"})
    for member in ("allUsers", "allAuthenticatedUsers"):
        body = {"bindings": [{"role": "roles/storage.objectViewer", "members": ["user:a@x.com", member]}]}
        error = gcp.refused("storage.buckets.setIamPolicy", THIS, body)
        assert error.status == "FAILED_PRECONDITION"
        assert f"Public access prevention is enforced on bucket {BUCKET}" in error.message
        assert member in error.message
    gcp.grant(BUCKET, "roles/storage.objectViewer", "user:a@x.com")


def test_without_prevention_a_bucket_can_be_made_public(gcp: Client) -> None:
    gcp.make_bucket()
    gcp.grant(BUCKET, "roles/storage.objectViewer", "allUsers")
    assert gcp.as_(STRANGER).call("storage.objects.list", THIS)["items"] == []


def test_a_bucket_role_gives_what_it_holds(gcp: Client) -> None:
    gcp.make_account()
    gcp.make_bucket()
    gcp.grant(BUCKET, "roles/storage.objectUser", f"serviceAccount:{EMAIL}")
    asked = ["storage.objects.create", "storage.objects.setIamPolicy", "storage.buckets.update"]
    answer = gcp.as_(f"serviceAccount:{EMAIL}").call(
        "storage.buckets.testIamPermissions", {**THIS, "permissions": asked}
    )
    assert answer["permissions"] == ["storage.objects.create"]


# -- objects -------------------------------------------------------------------------------------------------------


def test_a_file_in_the_folder_is_an_object_at_once(gcp: Client, folder: Path) -> None:
    write(folder, "train/0/step-5", "hello")
    found = gcp.call("storage.objects.get", {**THIS, "object": "train/0/step-5"})
    assert (found["name"], found["size"], found["md5Hash"]) == ("train/0/step-5", "5", "XUFAKrxLKna5cZ2REBfFkg==")
    listed = gcp.call("storage.objects.list", THIS)["items"]
    assert [item["name"] for item in listed] == ["train/0/step-5"]


def test_listing_by_prefix_and_delimiter_shows_one_level(gcp: Client, folder: Path) -> None:
    for name in ("train/0/a", "train/0/b/c", "train/1/d", "other"):
        write(folder, name)
    listed = gcp.call("storage.objects.list", {**THIS, "prefix": "train/0/", "delimiter": "/"})
    assert ([i["name"] for i in listed["items"]], listed["prefixes"]) == (["train/0/a"], ["train/0/b/"])


@pytest.mark.parametrize("name", ["../secret", "a/../../secret", "/etc/passwd", ".", "missing", "dir"])
def test_an_object_name_cannot_leave_the_buckets_folder(gcp: Client, folder: Path, name: str) -> None:
    secret = folder.parent / "secret"
    secret.write_text("not yours")
    (folder / "dir").mkdir()
    for method in ("get", "delete"):
        assert gcp.refused(f"storage.objects.{method}", {**THIS, "object": name}).http_status == 404
    assert secret.exists()


# -- uploads -------------------------------------------------------------------------------------------------------

INSERT_OBJECT = "storage.objects.insert"
CONTENT = b"123456789"


def upload(client: Client, name: str, content: bytes = CONTENT, **more: Any) -> dict[str, Any]:
    params = {"bucket": BUCKET, "name": name, **more.pop("params", {})}
    answer = client.cloud.call(INSERT_OBJECT, params, more or {}, client.principal, media=content)
    assert isinstance(answer, dict)
    return answer


def test_an_upload_is_a_file_and_answers_its_checksums(gcp: Client, folder: Path) -> None:
    made = upload(gcp, "source/a.tgz", contentType="application/gzip", metadata={"by": "me"})
    assert (folder / "source/a.tgz").read_bytes() == CONTENT
    # The checksum of these digits is the one that descriptions of CRC-32C give: E3069283.
    assert (made["size"], made["crc32c"], made["md5Hash"]) == ("9", "4waSgw==", "JfnnlDI7RTiF9RgfG2JNCw==")
    found = gcp.call("storage.objects.get", {"bucket": BUCKET, "object": "source/a.tgz"})
    assert found == made
    assert (found["contentType"], found["metadata"]) == ("application/gzip", {"by": "me"})
    write(folder, "source/a.tgz", "through the mount")
    assert "contentType" not in gcp.call("storage.objects.get", {"bucket": BUCKET, "object": "source/a.tgz"})


def test_an_upload_on_the_condition_that_nothing_is_there(gcp: Client, folder: Path) -> None:
    made = upload(gcp, "a", params={"ifGenerationMatch": "0"})
    for generation in ("0", "1"):
        with pytest.raises(ApiError) as caught:
            upload(gcp, "a", params={"ifGenerationMatch": generation})
        assert (caught.value.http_status, caught.value.reason) == (412, "conditionNotMet")
    upload(gcp, "a", b"new", params={"ifGenerationMatch": made["generation"]})
    assert (folder / "a").read_bytes() == b"new"


def test_creating_objects_is_not_yet_overwriting_them(gcp: Client, folder: Path) -> None:
    gcp.grant(BUCKET, "roles/storage.objectCreator", STRANGER)
    stranger = gcp.as_(STRANGER)
    upload(stranger, "a")
    with pytest.raises(ApiError, match=r"storage\.objects\.delete"):
        upload(stranger, "a")
    assert [item["name"] for item in gcp.call("storage.objects.list", THIS)["items"]] == ["a"]


@pytest.mark.parametrize("name", ["../x", "a//b", "a/", "/a", "./a", "taken/below", "folder"])
def test_names_that_a_file_cannot_have(gcp: Client, folder: Path, name: str) -> None:
    write(folder, "taken")
    write(folder, "folder/x")
    with pytest.raises(ApiError) as caught:
        upload(gcp, name)
    assert caught.value.status == "UNIMPLEMENTED"


def test_an_upload_has_a_name_and_bytes_and_nothing_unknown(gcp: Client, folder: Path) -> None:
    for name in ("", "x" * 1025):
        with pytest.raises(ApiError, match="1 to 1024 bytes"):
            upload(gcp, name)
    assert gcp.refused(INSERT_OBJECT, {"bucket": BUCKET, "name": "a"}, {}).status == "UNIMPLEMENTED"
    with pytest.raises(ApiError, match="temporaryHold"):
        upload(gcp, "a", temporaryHold=True)


# -- changes by null, and lifecycle rules --------------------------------------------------------------------------


def test_a_null_takes_a_field_or_a_label_away(gcp: Client) -> None:
    rule = {"action": {"type": "Delete"}, "condition": {"age": 1}}
    gcp.make_bucket(labels={"a": "1", "b": "2"}, lifecycle={"rule": [rule]}, storageClass="NEARLINE")
    changed = gcp.call("storage.buckets.patch", THIS, {"labels": {"a": None}, "lifecycle": None, "storageClass": None})
    assert (changed["labels"], "lifecycle" in changed, changed["storageClass"]) == ({"b": "2"}, False, "STANDARD")
    assert "labels" not in gcp.call("storage.buckets.patch", THIS, {"labels": {"b": None}})
    assert gcp.call("storage.buckets.patch", THIS, {"labels": {"c": "3"}})["labels"] == {"c": "3"}
    assert "labels" not in gcp.call("storage.buckets.patch", THIS, {"labels": None})


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        ({"action": {"type": "Delete"}}, "at least one condition"),
        ({"action": {"type": "SetStorageClass"}, "condition": {"age": 1}}, "storageClass is ''"),
        (
            {"action": {"type": "AbortIncompleteMultipartUpload"}, "condition": {"age": 1, "isLive": True}},
            "takes no condition isLive",
        ),
    ],
)
def test_lifecycle_rules(gcp: Client, rule: dict[str, Any], words: str) -> None:
    error = gcp.refused(INSERT, IN_PROJECT, bucket(lifecycle={"rule": [rule]}))
    assert (error.status, words in error.message) == ("INVALID_ARGUMENT", True)


def test_a_lifecycle_rule_by_prefix_stays_as_it_was_sent(gcp: Client) -> None:
    rule = {"action": {"type": "Delete"}, "condition": {"age": 30, "matchesPrefix": ["tmp/", "logs/"]}}
    assert gcp.make_bucket(lifecycle={"rule": [rule]})["lifecycle"] == {"rule": [rule]}
