"""The image on this machine: how builds reach package indexes. Building itself is proved by tests/containers."""

from __future__ import annotations

import time
import tomllib
from configparser import ConfigParser
from pathlib import Path

import psutil
import pytest

from holdfast.errors import OperatorError
from holdfast.image import local
from mockgcp.planes import container
from mockgcp.planes.processes import ProcessLedger
from mockgcp.planes.protocol import Availability


@pytest.mark.parametrize("name", ["UV_DEFAULT_INDEX", "UV_INDEX_URL", "PIP_INDEX_URL"])
def test_builds_use_the_index_that_this_machine_uses(tmp_path: Path, name: str) -> None:
    files = local.package_settings(tmp_path, {name: "https://user:secret@mirror.example/simple"})
    pip = ConfigParser(interpolation=None)
    pip.read(files["/etc/pip.conf"])
    [index] = tomllib.loads(files["/etc/uv/uv.toml"].read_text(encoding="utf-8"))["index"]
    assert pip["global"]["index-url"] == index["url"] == "https://user:secret@mirror.example/simple"
    assert index["default"] is True
    assert {files[path].stat().st_mode & 0o077 for path in ("/etc/pip.conf", "/etc/uv/uv.toml")} == {0}


def test_without_an_index_of_its_own_a_build_uses_pips_and_uvs(tmp_path: Path) -> None:
    files = local.package_settings(tmp_path, {})
    assert "index" not in files["/etc/pip.conf"].read_text(encoding="utf-8")
    assert "index" not in files["/etc/uv/uv.toml"].read_text(encoding="utf-8")


def test_another_release_or_package_is_another_base_image(monkeypatch: pytest.MonkeyPatch) -> None:
    before = local.base_entry().key
    monkeypatch.setattr(local, "PACKAGES", (*local.PACKAGES, "git"))
    assert local.base_entry().key != before


def test_what_is_missing_here_is_named_with_the_way_to_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(container, "availability", lambda: Availability(True))
    monkeypatch.setattr(local, "_debootstrap", lambda: None)
    with pytest.raises(OperatorError, match="debootstrap missing; apt-get install debootstrap"):
        local.builder(tmp_path, ProcessLedger(tmp_path / "p.jsonl"), print)


def test_an_interrupted_step_leaves_none_of_its_processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local, "REPORT_EVERY", 0.05)
    child = tmp_path / "child"

    def interrupt(line: str) -> None:
        if child.exists() and child.read_text():
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        local._run(["sh", "-c", "sleep 300 & echo $! > child; wait"], tmp_path, tmp_path / "log", interrupt)
    deadline = time.monotonic() + 10
    while psutil.pid_exists(pid := int(child.read_text())) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE:
        assert time.monotonic() < deadline, "the child is ended"
        time.sleep(0.02)
