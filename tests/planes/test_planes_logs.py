"""What pods have written, and the kubelets' server for it; no cluster runs."""

from __future__ import annotations

import http.client
import ssl
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from mockgcp.planes.k8s.api import Object
from mockgcp.planes.k8s.kubelet_logs import LogServer, PodLogs
from mockgcp.planes.k8s.pki import Authority

POD = ("default", "job-abcde")


def pod(uid: str = "1", phase: str = "Running", name: str = POD[1]) -> Object:
    return {"metadata": {"namespace": "default", "name": name, "uid": uid}, "status": {"phase": phase}}


def said(logs: PodLogs, key: tuple[str, str] = POD) -> list[str] | None:
    found = logs.lines(key)
    return None if found is None else [line for _, line in found[0]]


def test_lines_are_taken_once_and_whole(tmp_path: Path) -> None:
    logs, file = PodLogs(), tmp_path / "log"
    logs.look([pod()], {"1": file})
    assert said(logs) == []  # not written yet
    file.write_text("one\ntw")
    logs.look([pod()], {"1": file})
    assert said(logs) == ["one"]
    with file.open("a") as more:
        more.write("o\nthree")
    logs.look([pod()], {"1": file})
    assert said(logs) == ["one", "two"]
    logs.look([pod(phase="Succeeded")], {})  # its file is no longer named, but is its own
    assert said(logs) == ["one", "two", "three"]
    times = [at for at, _ in logs.lines(POD)[0]]  # type: ignore[index]
    assert times == sorted(set(times))


def test_a_pod_has_what_its_programs_wrote_one_after_the_other(tmp_path: Path) -> None:
    logs, first, second = PodLogs(), tmp_path / "1", tmp_path / "2"
    first.write_text("first\n")
    second.write_text("second\n")
    logs.look([pod()], {"1": first})
    logs.look([pod()], {"1": second})
    assert said(logs) == ["first", "second"]


def test_a_log_goes_with_its_pod_and_is_not_the_next_ones(tmp_path: Path) -> None:
    logs, file = PodLogs(), tmp_path / "log"
    file.write_text("mine\n")
    logs.look([pod("1")], {"1": file})
    logs.look([pod("2")], {"2": file})
    assert said(logs) == []
    logs.look([], {})
    assert said(logs) is None


@pytest.fixture
def served(tmp_path: Path) -> Iterator[tuple[PodLogs, int, Authority]]:
    pki = Authority(tmp_path / "pki")
    pki.sign("kubelet", "system:node:kubelet", hosts=("127.0.0.1",))
    pki.sign("apiserver", "kube-apiserver")
    logs = PodLogs()
    certificate, key = pki.folder / "kubelet.crt", pki.folder / "kubelet.key"
    server = LogServer(logs, certificate=certificate, key=key, authority=pki.certificate)
    yield logs, server.port, pki
    server.stop()


def get(port: int, pki: Authority, path: str, *, identified: bool = True) -> tuple[int, str]:
    context = ssl.create_default_context(cafile=str(pki.certificate))
    if identified:
        context.load_cert_chain(pki.folder / "apiserver.crt", pki.folder / "apiserver.key")
    connection = http.client.HTTPSConnection("127.0.0.1", port, context=context, timeout=10)
    try:
        connection.request("GET", path)
        response = connection.getresponse()
        return response.status, response.read().decode()
    finally:
        connection.close()


LOG = f"/containerLogs/{POD[0]}/{POD[1]}/submitter"


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("", "a\nb\nc\n"),
        ("?tailLines=2", "b\nc\n"),
        ("?tailLines=0", ""),
        ("?limitBytes=3", "a\nb"),
        ("?sinceTime=9999-01-01T00:00:00Z", ""),
        ("?sinceTime=2026-01-01T00:00:00Z", "a\nb\nc\n"),
        ("?sinceSeconds=3600", "a\nb\nc\n"),
    ],
)
def test_what_is_asked_for(served: tuple[PodLogs, int, Authority], tmp_path: Path, query: str, text: str) -> None:
    logs, port, pki = served
    (tmp_path / "log").write_text("a\nb\nc\n")
    logs.look([pod()], {"1": tmp_path / "log"})
    assert get(port, pki, f"{LOG}{query}") == (200, text)


def test_times_are_told_when_they_are_asked_for(served: tuple[PodLogs, int, Authority], tmp_path: Path) -> None:
    logs, port, pki = served
    (tmp_path / "log").write_text("a\n")
    before = datetime.now(UTC) - timedelta(microseconds=1)
    logs.look([pod()], {"1": tmp_path / "log"})
    stamp, _, line = get(port, pki, f"{LOG}?timestamps=true")[1].partition(" ")
    assert line == "a\n"
    assert before <= datetime.fromisoformat(stamp) <= datetime.now(UTC)


def test_it_is_followed_to_the_pods_end(served: tuple[PodLogs, int, Authority], tmp_path: Path) -> None:
    logs, port, pki = served
    file = tmp_path / "log"
    file.write_text("a\n")
    logs.look([pod()], {"1": file})
    answers: list[tuple[int, str]] = []
    reader = threading.Thread(target=lambda: answers.append(get(port, pki, f"{LOG}?follow=true")))
    reader.start()
    time.sleep(0.2)
    assert answers == []
    file.write_text("a\nb\n")
    logs.look([pod(phase="Failed")], {"1": file})
    reader.join(10)
    assert answers == [(200, "a\nb\n")]


@pytest.mark.parametrize(
    ("path", "status", "words"),
    [
        ("/containerLogs/default/other/c", 404, "pod 'other' not found"),
        (f"{LOG}?previous=true", 400, "previous terminated container 'submitter'"),
        (f"{LOG}?stream=Stderr", 400, "knows no parameter stream"),
        ("/exec/default/job/c", 501, "does not answer GET /exec/default/job/c"),
    ],
)
def test_what_it_refuses(served: tuple[PodLogs, int, Authority], path: str, status: int, words: str) -> None:
    logs, port, pki = served
    logs.look([pod()], {})
    code, text = get(port, pki, path)
    assert (code, words in text) == (status, True)


def test_nobody_reads_without_a_certificate(served: tuple[PodLogs, int, Authority]) -> None:
    _, port, pki = served
    with pytest.raises((ssl.SSLError, ConnectionError)):
        get(port, pki, LOG, identified=False)
