"""What the official provider sent, replayed in order: each is answered as recorded, and a read shows the writes."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from facts_at_hand import requests
from scenario_a import EMAIL, NUMBER, PROJECT

from mockgcp import schemas
from mockgcp.cloud import DEFAULT_OWNER, Cloud
from mockgcp.frontends.rest import Sent, handle
from mockgcp.services import artifactregistry

# The recorded paths begin with the custom endpoint's name.
_APIS = {"ar": "artifactregistry", "crm": "cloudresourcemanager", "su": "serviceusage"}
_NOT_EMULATED: set[str] = set()
# The echoing server had nothing under the project's number, which the provider asks about; the project is there.
_FOUND_HERE = f"GET /compute/v1/projects/{NUMBER}"
_LONGEST_OPERATION_S = 300.0


def api_of(request: Mapping[str, Any]) -> str:
    endpoint = request["path"].split("/")[1]
    return _APIS.get(endpoint, endpoint)


def emulated() -> list[Mapping[str, Any]]:
    return [request for request in requests() if api_of(request) not in _NOT_EMULATED]


@pytest.fixture
def cloud(cloud: Cloud) -> Cloud:
    """What the recording found in place: the APIs but Cloud Run, which it enables, and the job's image."""
    cloud.project(PROJECT).services.discard("run.googleapis.com")
    [job] = [request for request in requests() if request["path"].startswith("/run/") and request["method"] == "POST"]
    artifactregistry.seed_image(cloud, job["body"]["template"]["template"]["containers"][0]["image"])
    # The repository that the image needs is among what the recording makes.
    cloud.table("artifactregistry.repository").clear()
    return cloud


def send(cloud: Cloud, method: str, address: str, body: Any) -> tuple[int, Any]:
    path, _, query = address.partition("?")
    content = b"" if body is None else json.dumps(body).encode()
    answer = handle(cloud, Sent(method, path, query, {"authorization": f"Bearer {DEFAULT_OWNER}"}, content))
    if method != "GET":
        cloud.clock.advance(_LONGEST_OPERATION_S)
    return answer.status, json.loads(answer.body or b"null")


def address(request: Mapping[str, Any]) -> str:
    """The request's address below its API's name."""
    return f"/{api_of(request)}/{request['path'].split('/', 2)[2]}"


def as_a_client_would(cloud: Cloud, request: Mapping[str, Any]) -> Any:
    """The body; a policy is written on top of the one that was read, which the echoing server had otherwise."""
    body, where = request["body"], address(request)
    if where.endswith("/iam?alt=json"):
        _, policy = send(cloud, "GET", where, None)
        return {**body, "etag": policy["etag"], "bindings": [*policy["bindings"], *body["bindings"]]}
    if ":setIamPolicy" in where:
        _, policy = send(cloud, "POST", where.replace(":set", ":get"), {})
        bindings = [*policy["bindings"], *body["policy"]["bindings"]]
        return {**body, "policy": {**body["policy"], "etag": policy["etag"], "bindings": bindings}}
    return body


def written(request: Mapping[str, Any]) -> tuple[str, Any]:
    """The address at which a write can be read, without its query, and what is to be found there."""
    path, _, query = address(request).partition("?")
    body = request["body"]
    if path.endswith("/iam"):
        return path, {"bindings": body["bindings"]}
    if path.endswith(":setIamPolicy"):
        return path.replace(":set", ":get"), {"bindings": body["policy"]["bindings"]}
    if path.endswith(":enable"):
        return path.removesuffix(":enable").rpartition("/")[0], {
            "services": [{"name": path.split("/")[-1].split(":")[0]}]
        }
    if "accountId" in body:
        return f"{path}/{EMAIL}", body["serviceAccount"]
    if path.startswith("/container/"):
        [body] = body.values()
        return f"{path}/{body['name']}", body
    by_query = [
        value for key, _, value in (each.partition("=") for each in query.split("&")) if key.endswith(("_id", "Id"))
    ]
    return f"{path}/{by_query[0] if by_query else body['name']}", body


def missing(wanted: Any, shown: Any, path: str = "") -> Iterator[str]:
    """Where what is shown lacks something that was written."""
    if isinstance(wanted, dict) and isinstance(shown, dict):
        for key, value in wanted.items():
            if value is not None:
                yield from missing(value, shown.get(key), f"{path}.{key}")
    elif isinstance(wanted, list) and isinstance(shown, list):
        for index, value in enumerate(wanted):
            if not any(not [*missing(value, other)] for other in shown):
                yield f"{path}[{index}]: wrote {value!r}, read {shown!r}"
    elif not same(wanted, shown):
        yield f"{path}: wrote {wanted!r}, read {shown!r}"


def same(wanted: Any, shown: Any) -> bool:
    """Equal, but for the API's own spelling: of locations, of versions, which come back in full, and of references,
    which come back as full links, or as bare names where the link is in a field of its own. 64-bit integers come back
    as strings."""
    if isinstance(wanted, int) and isinstance(shown, str):
        return str(wanted) == shown
    if not (isinstance(wanted, str) and isinstance(shown, str)):
        return bool(wanted == shown)
    linked = "/" in shown + wanted and wanted.rpartition("/")[2] == shown.rpartition("/")[2]
    return linked or wanted.lower() == shown.lower() or shown.startswith(f"{wanted}.")


def is_read(request: Mapping[str, Any]) -> bool:
    return request["method"] == "GET" or ":getIamPolicy" in request["path"]


def test_every_request_is_answered_as_recorded_and_every_read_shows_what_was_written(cloud: Cloud) -> None:
    there: dict[str, list[Any]] = {}
    seen: set[str] = set()
    for number, request in enumerate(emulated()):
        where = address(request).partition("?")[0]
        body = request["body"] if is_read(request) else as_a_client_would(cloud, request)
        status, answer = send(cloud, request["method"], address(request), body)
        expected = 200 if f"{request['method']} {where}" == _FOUND_HERE else request["status"]
        assert status == expected, (number, request["path"], answer)
        if is_read(request):
            for wanted in there.get(where, ()):
                assert [*missing(wanted, answer)] == [], (number, request["path"])
                seen.add(where)
        else:
            place, wanted = written(request)
            there.setdefault(place, []).append(wanted)
    # Bucket and policy, network, subnet, router, account, repository, API, job, project's policy, cluster, two pools,
    # Filestore: each was read back.
    assert seen == there.keys()
    assert len(seen) == 14


def test_what_is_not_emulated_yet_is_not_forgotten() -> None:
    left_out = {api_of(request) for request in requests()} - {api_of(request) for request in emulated()}
    assert left_out == _NOT_EMULATED
    # Once one is emulated, its requests are replayed too.
    assert left_out & schemas.VERSIONS.keys() == set()
