"""The Kubernetes layer against an API server that only says no, and without one."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from holdfast.errors import OperatorError
from holdfast.gcp.api import CloudError
from holdfast.kube import Kube
from infra.kubeconfig import PLUGIN, kubeconfig


def refusal(code: int, reason: str, message: str, name: str = "") -> tuple[int, bytes]:
    details = {"name": name} if name else {}
    said = {"kind": "Status", "status": "Failure", "reason": reason, "message": message, "details": details}
    return code, json.dumps(said).encode()


ANSWERS: dict[str, tuple[int, bytes]] = {
    "/api/v1/namespaces/default/pods/gone": refusal(404, "NotFound", 'pods "gone" not found', "gone"),
    "/apis/ray.io/v1/namespaces/default/rayjobs": (404, b"404 page not found\n"),
    "/apis/ray.io/v1/namespaces/default/rayjobs/one": (404, b"404 page not found\n"),
    "/apis/kueue.x-k8s.io/v1beta2/namespaces/default/workloads": (404, b"404 page not found\n"),
    "/apis/visibility.kueue.x-k8s.io/v1beta2": (503, b"service unavailable\n"),
    "/api/v1/secrets": refusal(403, "Forbidden", "secrets is forbidden"),
    "/api/v1/nodes": refusal(401, "Unauthorized", "Unauthorized"),
    "/api/v1/conflict": refusal(409, "Conflict", "the object has been modified"),
    "/api/v1/exists": refusal(409, "AlreadyExists", "already exists"),
    "/api/v1/invalid": refusal(422, "Invalid", "spec: Required value"),
    "/api/v1/proxy": (502, b"<html>bad gateway</html>"),
}


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            found = {"authorization": self.headers.get("Authorization"), "path": self.path}
            status, data = ANSWERS.get(self.path, (200, json.dumps(found).encode()))
            self.send_response(status)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as made:
        thread = threading.Thread(target=made.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{made.server_address[1]}"
        made.shutdown()
        thread.join()


def config(server: str, **user: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "c"}}],
        "clusters": [{"name": "c", "cluster": {"server": server}}],
        "users": [{"name": "c", "user": user or {"token": "secret"}}],
    }


@pytest.mark.parametrize(
    ("path", "status", "words"),
    [
        ("/apis/ray.io/v1/namespaces/default/rayjobs", "NOT_FOUND", "the Ray operator is off: `pulumi up`"),
        ("/apis/ray.io/v1/namespaces/default/rayjobs/one", "NOT_FOUND", "the Ray operator is off"),
        ("/apis/kueue.x-k8s.io/v1beta2/namespaces/default/workloads", "NOT_FOUND", "Kueue is not installed"),
        ("/apis/visibility.kueue.x-k8s.io/v1beta2", "UNAVAILABLE", "Kueue's visibility API does not answer"),
        ("/api/v1/secrets", "PERMISSION_DENIED", "secrets is forbidden"),
        ("/api/v1/nodes", "UNAUTHENTICATED", "Unauthorized. Log in with `gcloud auth login`"),
        ("/api/v1/conflict", "ABORTED", "has been modified"),
        ("/api/v1/exists", "ALREADY_EXISTS", "already exists"),
        ("/api/v1/invalid", "INVALID_ARGUMENT", "spec: Required value"),
        ("/api/v1/proxy", "INTERNAL", "bad gateway"),
    ],
)
def test_refusals_say_what_to_do(server: str, path: str, status: str, words: str) -> None:
    with pytest.raises(CloudError) as caught:
        Kube(lambda: config(server)).get(path)
    assert caught.value.status == status
    assert words in caught.value.message
    assert f"GET {path}" in str(caught.value)


def test_what_is_not_there_is_none(server: str) -> None:
    assert Kube(lambda: config(server)).get("/api/v1/namespaces/default/pods/gone") is None


def test_the_token_is_sent_and_selectors_are_encoded(server: str) -> None:
    kube = Kube(lambda: config(server))
    assert kube.get("/x") == {"authorization": "Bearer secret", "path": "/x"}
    assert kube.call("GET", "/x", {"labelSelector": "a=b"})["path"] == "/x?labelSelector=a%3Db"


def test_nothing_answers() -> None:
    with pytest.raises(CloudError, match=r"UNAVAILABLE: the cluster at http://127.0.0.1:9 does not answer"):
        Kube(lambda: config("http://127.0.0.1:9")).get("/x")


def test_the_cluster_is_looked_for_once_and_only_when_it_is_asked(server: str) -> None:
    asked: list[int] = []
    kube = Kube(lambda: asked.append(1) or config(server))  # type: ignore[func-returns-value]
    assert asked == []
    kube.get("/x")
    kube.get("/x")
    assert asked == [1]


def test_without_its_plugin_it_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(OperatorError, match=rf"{PLUGIN}.* is not on PATH. .*gcloud components install {PLUGIN}"):
        Kube(lambda: kubeconfig("c", "127.0.0.1:9")).get("/x")


def test_a_plugin_that_fails_is_heard(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plugin = tmp_path / PLUGIN
    plugin.write_text("#!/bin/sh\necho 'no account is active' >&2\nexit 1\n")
    plugin.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    with pytest.raises(CloudError, match=r"UNAUTHENTICATED: .*no account is active.* `gcloud auth login`"):
        Kube(lambda: kubeconfig("c", "127.0.0.1:9")).get("/x")
    assert capsys.readouterr().err == ""


def test_a_plugins_token_is_sent(server: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    plugin = tmp_path / PLUGIN
    said = {"apiVersion": "client.authentication.k8s.io/v1beta1", "kind": "ExecCredential", "status": {"token": "t1"}}
    plugin.write_text(f"#!/bin/sh\necho '{json.dumps(said)}'\n")
    plugin.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    users = kubeconfig("c", "127.0.0.1:9")["users"][0]["user"]
    assert Kube(lambda: config(server, **users)).call("GET", "/x")["authorization"] == "Bearer t1"
