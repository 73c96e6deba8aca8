"""Lists in pages: every API's, and what is not a page token."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from mockgcp_client import BUCKET, JOB, LOCATION, PROJECT, Client

from mockgcp.cloud import Cloud
from mockgcp.services import storage

Listing = tuple[str, Mapping[str, Any], str, str]
LISTS: tuple[Listing, ...] = (
    ("storage.buckets.list", {"project": PROJECT}, "maxResults", "items"),
    ("storage.objects.list", {"bucket": BUCKET}, "maxResults", "items"),
    ("iam.projects.serviceAccounts.list", {"name": f"projects/{PROJECT}"}, "pageSize", "accounts"),
    ("serviceusage.services.list", {"parent": f"projects/{PROJECT}"}, "pageSize", "services"),
    ("run.projects.locations.jobs.list", {"parent": LOCATION}, "pageSize", "jobs"),
    ("run.projects.locations.jobs.executions.list", {"parent": JOB}, "pageSize", "executions"),
    ("run.projects.locations.jobs.executions.tasks.list", {"parent": f"{JOB}/executions/-"}, "pageSize", "tasks"),
)
each = pytest.mark.parametrize(("method", "params", "size", "key"), LISTS, ids=[found[0] for found in LISTS])


@pytest.fixture(autouse=True)
def three_of_each(cloud: Cloud, gcp: Client) -> None:
    for index in range(3):
        gcp.make_account(f"account-{index}")
        gcp.make_bucket(BUCKET if index == 0 else f"{BUCKET}-{index}")
        (storage.folder(cloud.state_dir, BUCKET) / f"object-{index}").write_text("x")
    gcp.make_account()
    for name in ("train", "other", "third"):
        gcp.make_job(name)
    for _ in range(3):
        gcp.run_job()


@each
def test_pages_put_together_are_the_whole_list(
    gcp: Client, method: str, params: Mapping[str, Any], size: str, key: str
) -> None:
    whole = gcp.call(method, params)[key]
    pages, token = [], ""
    while True:
        answer = gcp.call(method, {**params, size: 2, "pageToken": token})
        pages.append(answer[key])
        token = answer.get("nextPageToken", "")
        if not token:
            break
    assert [entry for page in pages for entry in page] == whole
    assert len(whole) >= 3
    assert {len(page) for page in pages[:-1]} == {2}


@each
def test_what_was_not_handed_out_for_a_list_is_no_token_of_it(
    gcp: Client, method: str, params: Mapping[str, Any], size: str, key: str
) -> None:
    other = next(found for found in LISTS if found[0] != method)
    foreign = gcp.call(other[0], {**other[1], other[2]: 1})["nextPageToken"]
    for token in ("nonsense", "2", foreign, "MDAwMDAw", "ä"):
        error = gcp.refused(method, {**params, "pageToken": token})
        assert (error.status, "page token" in error.message) == ("INVALID_ARGUMENT", True)


def test_a_negative_size_is_refused_and_zero_is_the_default(gcp: Client) -> None:
    method, params, size, key = LISTS[4]
    assert gcp.refused(method, {**params, size: -1}).status == "INVALID_ARGUMENT"
    assert len(gcp.call(method, {**params, size: 0})[key]) == 3


def test_a_size_above_the_most_is_cut_and_the_default_is_the_apis(gcp: Client) -> None:
    for index in range(100):
        gcp.make_account(f"extra-{index:03d}")
    method, params, size, key = LISTS[2]
    assert len(gcp.call(method, params)[key]) == 20
    assert len(gcp.call(method, {**params, size: 1000})[key]) == 100


def test_a_page_of_objects_counts_prefixes_too(cloud: Cloud, gcp: Client) -> None:
    folder = storage.folder(cloud.state_dir, BUCKET) / "folder"
    folder.mkdir()
    (folder / "inside").write_text("x")
    params = {"bucket": BUCKET, "delimiter": "/", "maxResults": 2}
    first = gcp.call("storage.objects.list", params)
    assert ([item["name"] for item in first["items"]], first["prefixes"]) == (["object-0"], ["folder/"])
    second = gcp.call("storage.objects.list", {**params, "pageToken": first["nextPageToken"]})
    assert ([item["name"] for item in second["items"]], second["prefixes"]) == (["object-1", "object-2"], [])
    assert "nextPageToken" not in second
