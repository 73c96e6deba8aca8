"""The REST front end: routing over the discovery documents, uploads, errors in Google's form, and the command."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from mockgcp_client import BUCKET, EMAIL, LOCATION, PROJECT, STRANGER, Client, seeded

from mockgcp import schemas
from mockgcp.cloud import DEFAULT_OWNER, Cloud
from mockgcp.errors import ApiError
from mockgcp.frontends import rest
from mockgcp.frontends.rest import Answer, Sent, handle, route

BEARER = {"authorization": f"Bearer {DEFAULT_OWNER}"}


@pytest.fixture
def cloud(tmp_path: Path) -> Cloud:
    """The two projects of the services' tests, not this folder's own."""
    return seeded(tmp_path / "cloud")


def send(cloud: Cloud, verb: str, url: str, body: bytes = b"", **headers: str) -> Answer:
    path, _, query = url.partition("?")
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return handle(cloud, Sent(verb, path, query, {**BEARER, **named}, body))


def asked(cloud: Cloud, verb: str, url: str, body: Any = None, **headers: str) -> dict[str, Any]:
    answer = send(cloud, verb, url, b"" if body is None else json.dumps(body).encode(), **headers)
    assert answer.status == 200, answer.body
    found: dict[str, Any] = json.loads(answer.body)
    return found


def refused(answer: Answer) -> dict[str, Any]:
    error: dict[str, Any] = json.loads(answer.body)["error"]
    assert error["code"] == answer.status
    return error


# -- routing -------------------------------------------------------------------------------------------------------


def example(method: schemas.Method) -> tuple[str, dict[str, str]]:
    """A path of the method with a plausible value for each of its parameters."""
    values = {}
    for name, schema in method.params.items():
        if schema.get("location") == "path":
            # ^projects/[^/]+/locations/[^/]+$, with a value that needs encoding.
            shape = schema.get("pattern", "^x$").strip("^$")
            values[name] = (
                re.sub(r"\[\^/\]\+", "a-1", shape).replace("\\", "").replace("/.*", "/a-1").replace(".*", "a-1")
            )
    path = method.path
    for name, value in values.items():
        path = path.replace(f"{{+{name}}}", urllib.parse.quote(value, safe="/:"))
        path = path.replace(f"{{{name}}}", urllib.parse.quote(value, safe=""))
    return path, values


EMULATED = [m for service in Cloud._services.values() for m in service.handlers if service.api != "mockgcp"]


@pytest.mark.parametrize("method_id", EMULATED)
def test_every_emulated_method_is_reached_below_its_apis_name(method_id: str) -> None:
    method = schemas.method(method_id)
    assert method is not None
    path, values = example(method)
    found = route(method.http_method, f"/{method.api}/{path}")
    assert (found.method.id, dict(found.params)) == (method_id, values)


def test_a_path_of_one_api_needs_no_name() -> None:
    assert route("GET", f"/storage/v1/b/{BUCKET}").method.id == "storage.buckets.get"
    assert (
        route("POST", f"/v1/projects/{PROJECT}:getIamPolicy").method.id == "cloudresourcemanager.projects.getIamPolicy"
    )
    assert route("GET", f"/v2/{LOCATION}/jobs/train").method.id == "run.projects.locations.jobs.get"


def test_a_path_of_several_apis_is_refused_with_the_way_out() -> None:
    with pytest.raises(ApiError, match=r"could be of .*logging.*run.*: send it to /") as caught:
        route("GET", f"/v2/{LOCATION}/operations/one")
    assert caught.value.status == "INVALID_ARGUMENT"
    assert route("GET", f"/run/v2/{LOCATION}/operations/one").method.id == "run.projects.locations.operations.get"


def test_what_is_encoded_is_decoded_once() -> None:
    found = route("GET", f"/storage/v1/b/{BUCKET}/o/runs%2F1%2Fa%2520b.txt")
    assert (found.method.id, found.params["object"]) == ("storage.objects.get", "runs/1/a%20b.txt")


@pytest.mark.parametrize("path", ["/", "/nothing", f"/storage/v1/b/{BUCKET}/", f"/run/v1/{LOCATION}/jobs", "/v9/x"])
def test_a_path_of_no_api_is_not_found(cloud: Cloud, path: str) -> None:
    assert refused(send(cloud, "GET", path))["status"] == "NOT_FOUND"


def test_the_planes_methods_are_no_ones_by_path(cloud: Cloud) -> None:
    assert refused(send(cloud, "GET", "/v1/run/executions"))["status"] == "NOT_FOUND"
    assert refused(send(cloud, "GET", "/mockgcp/v1/run/executions"))["status"] == "PERMISSION_DENIED"


# -- parameters and bodies -----------------------------------------------------------------------------------------


def test_parameters_come_by_type_and_in_either_spelling(cloud: Cloud, gcp: Client) -> None:
    for name in ("one", "two", "three"):
        gcp.make_bucket(f"{BUCKET}-{name}")
    url = f"/storage/v1/b?project={PROJECT}&max_results=2&prefix={BUCKET}&alt=json&prettyPrint=false"
    page = asked(cloud, "GET", url)
    assert [bucket["name"] for bucket in page["items"]] == [f"{BUCKET}-one", f"{BUCKET}-three"]
    rest_ = asked(cloud, "GET", f"{url}&pageToken={page['nextPageToken']}")
    assert [bucket["name"] for bucket in rest_["items"]] == [f"{BUCKET}-two"]
    wanted = ["storage.objects.get", "storage.buckets.get"]
    many = f"/storage/v1/b/{BUCKET}-one/iam/testPermissions?{'&'.join(f'permissions={each}' for each in wanted)}"
    assert asked(cloud, "GET", many)["permissions"] == wanted


@pytest.mark.parametrize(
    ("url", "words"),
    [
        (f"/storage/v1/b?project={PROJECT}&maxResults=two", "maxResults"),
        (f"/storage/v1/b?project={PROJECT}&colour=red", "colour"),
        ("/storage/v1/b", "project"),
    ],
)
def test_wrong_parameters_are_refused_by_name(cloud: Cloud, url: str, words: str) -> None:
    error = refused(send(cloud, "GET", url))
    assert (error["status"], words in error["message"]) == ("INVALID_ARGUMENT", True)


def test_a_body_that_is_no_json_is_refused(cloud: Cloud) -> None:
    error = refused(send(cloud, "POST", f"/storage/v1/b?project={PROJECT}", b"{name:"))
    assert error["message"].startswith("Invalid JSON payload received.")


def test_a_method_without_an_answer_answers_204(cloud: Cloud, gcp: Client) -> None:
    gcp.make_bucket()
    answer = send(cloud, "DELETE", f"/storage/v1/b/{BUCKET}")
    assert (answer.status, answer.body) == (204, b"")


# -- uploads -------------------------------------------------------------------------------------------------------

UPLOAD = f"/upload/storage/v1/b/{BUCKET}/o"


def object_bytes(cloud: Cloud, name: str) -> bytes:
    answer = send(cloud, "GET", f"/storage/v1/b/{BUCKET}/o/{name}?alt=media")
    assert (answer.status, answer.media_type) == (200, "application/octet-stream")
    return answer.body


@pytest.mark.parametrize("prefix", ["", "/storage"])
def test_a_simple_upload(cloud: Cloud, gcp: Client, prefix: str) -> None:
    gcp.make_bucket()
    answer = send(cloud, "POST", f"{prefix}{UPLOAD}?uploadType=media&name=x", b"\r\ndata\n")
    assert json.loads(answer.body)["size"] == "7"
    assert object_bytes(cloud, "x") == b"\r\ndata\n"


@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
@pytest.mark.parametrize("content", [b"", b"a\r", b"\r\n\r\n", b"--cut"])
def test_a_multipart_upload_with_either_end_of_line(cloud: Cloud, gcp: Client, end: bytes, content: bytes) -> None:
    gcp.make_bucket()
    lines = [
        *(b"--cut-1", b"Content-Type: application/json", b"", b'{"name": "x"}'),
        *(b"--cut-1", b"Content-Type: application/octet-stream", b"", content, b"--cut-1--", b""),
    ]
    kind = 'multipart/related; boundary="cut-1"'
    answer = send(cloud, "POST", f"{UPLOAD}?uploadType=multipart", end.join(lines), content_type=kind)
    assert json.loads(answer.body)["name"] == "x"
    assert object_bytes(cloud, "x") == content


@pytest.mark.parametrize(
    ("query", "kind", "status"),
    [
        ("uploadType=resumable&name=x", "application/json", "UNIMPLEMENTED"),
        ("name=x", "application/octet-stream", "UNIMPLEMENTED"),
        ("uploadType=multipart", "application/json", "INVALID_ARGUMENT"),
        ("uploadType=multipart", "multipart/related; boundary=other", "INVALID_ARGUMENT"),
    ],
)
def test_other_uploads_are_refused(cloud: Cloud, gcp: Client, query: str, kind: str, status: str) -> None:
    gcp.make_bucket()
    answer = send(cloud, "POST", f"{UPLOAD}?{query}", b"--cut\n\nx\n--cut--", content_type=kind)
    assert refused(answer)["status"] == status


def test_a_download_is_the_seams_to_allow(cloud: Cloud, gcp: Client) -> None:
    gcp.make_bucket()
    send(cloud, "POST", f"{UPLOAD}?uploadType=media&name=x", b"data")
    stranger = f"Bearer {STRANGER}"
    assert send(cloud, "GET", f"/storage/v1/b/{BUCKET}/o/x?alt=media", authorization=stranger).status == 403
    assert send(cloud, "GET", f"/storage/v1/b/{BUCKET}/o/..%2F..%2Fx?alt=media").status == 404


# -- who calls, and refusals ---------------------------------------------------------------------------------------


def test_the_token_is_the_principal(cloud: Cloud) -> None:
    url = f"/v1/projects/{PROJECT}"
    asked(cloud, "GET", url)
    for token, status in (
        (STRANGER, 403),
        (f"serviceAccount:{EMAIL}", 403),
        ("ya29.secret", 401),
        ("system:mockgcp", 401),
    ):
        assert send(cloud, "GET", url, authorization=f"Bearer {token}").status == status
    assert send(cloud, "GET", url, authorization="Basic dXNlcg==").status == 401


def test_a_caller_without_a_token_is_who_the_server_says(cloud: Cloud) -> None:
    sent = Sent("GET", f"/v1/projects/{PROJECT}", "", {}, b"")
    assert handle(cloud, sent).status == 401
    assert handle(cloud, sent, anonymous=DEFAULT_OWNER).status == 200


def test_errors_have_googles_form(cloud: Cloud) -> None:
    error = refused(send(cloud, "GET", f"/storage/v1/b/{BUCKET}"))
    assert error == {
        "code": 404,
        "message": "The specified bucket does not exist.",
        "status": "NOT_FOUND",
        "errors": [{"message": "The specified bucket does not exist.", "domain": "global", "reason": "notFound"}],
    }
    cloud.project(PROJECT).services.remove("run.googleapis.com")
    error = refused(send(cloud, "GET", f"/v2/{LOCATION}/jobs"))
    assert [detail["reason"] for detail in error["details"]] == ["SERVICE_DISABLED"]
    assert "errors" not in error
    error = refused(send(cloud, "POST", f"/storage/v1/b?project={PROJECT}", b'{"nam": "x"}'))
    assert error["details"][0]["fieldViolations"] == [{"field": "nam", "description": "unknown field"}]


def test_batches_are_refused_by_name(cloud: Cloud) -> None:
    for path in ("/batch", "/batch/storage/v1", "/storage/batch"):
        error = refused(send(cloud, "POST", path))
        assert (error["code"], "batches" in error["message"]) == (501, True)


# -- the server ----------------------------------------------------------------------------------------------------


def get(url: str) -> tuple[int, Any]:
    request = urllib.request.Request(url, headers={"Authorization": f"Bearer {DEFAULT_OWNER}"})
    with urllib.request.urlopen(request, timeout=10) as answer:
        return answer.status, json.load(answer)


def test_the_server_ends_with_its_context(cloud: Cloud) -> None:
    with rest.serve(cloud) as port:
        assert get(f"http://127.0.0.1:{port}/v1/projects/{PROJECT}")[1]["projectId"] == PROJECT
    with pytest.raises(OSError, match="refused"):
        get(f"http://127.0.0.1:{port}/v1/projects/{PROJECT}")


def test_a_port_that_is_taken_is_an_error(cloud: Cloud) -> None:
    with rest.serve(cloud) as port, pytest.raises(OSError, match="in use"), rest.serve(cloud, port=port):
        pass


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_command_serves_until_it_is_ended(tmp_path: Path, number: int) -> None:
    argv = [sys.executable, "-m", "mockgcp", "--project", "demo", "--state-dir", str(tmp_path / "state")]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            line = next(line for line in process.stdout if line.startswith("export "))
            name, _, endpoint = line.removeprefix("export ").strip().partition("=")
            assert name == "HOLDFAST_API_ENDPOINT"
            with urllib.request.urlopen(f"{endpoint}/storage/v1/b?project=demo", timeout=10) as answer:
                assert json.load(answer)["items"] == []
            os.kill(process.pid, number)
            assert process.wait(timeout=20) == 0
        finally:
            process.kill()


def test_the_command_says_what_is_wrong(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    with socket.create_server(("127.0.0.1", 0)) as taken:
        for option, value, words in (
            ("--image", "no-command", "REFERENCE=COMMAND"),
            ("--image", "docker.io/x@sha256:1=true", "no image with a digest"),
            ("--universe", "example.org", "not in the catalog"),
            ("--state-dir", str(file), "File exists"),
            ("--port", str(taken.getsockname()[1]), "in use"),
        ):
            argv = [sys.executable, "-m", "mockgcp", option, value]
            done = subprocess.run(
                argv, capture_output=True, text=True, timeout=30, env={**os.environ, "COLUMNS": "300"}
            )
            assert (done.returncode, words in done.stderr) == (2, True), done.stderr
