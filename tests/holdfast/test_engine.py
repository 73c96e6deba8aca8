"""Where the engine is looked for. Pulumi and Go on PATH are scripts here; nothing is built."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from holdfast import engine
from holdfast.engine import build, golang
from holdfast.toolcache import Entry


@pytest.fixture(autouse=True)
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty machine: nothing on PATH but what a test puts into the folder, an empty cache and home."""
    path = tmp_path / "bin"
    path.mkdir()
    monkeypatch.setenv("PATH", str(path))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("HOLDFAST_CACHE", str(tmp_path / "cache"))
    return path


def _script(file: Path, says: str) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f"#!/bin/sh\necho '{says}'\n")
    file.chmod(0o755)
    return file


def _cached(entry: Entry) -> Path:
    for name in ("pulumi", "pulumi-language-python"):
        _script(entry.path / "bin" / name, f"v{build.version()}")
    return entry.path


def test_nothing_is_found_on_an_empty_machine() -> None:
    assert engine.find() is None


def test_the_official_one_comes_first(machine: Path) -> None:
    _cached(build.cli_entry())
    pulumi = _script(machine / "pulumi", "v3.300.0")
    host = _script(machine / "pulumi-language-python", "1")
    assert engine.find() == engine.Engine(pulumi, "3.300.0", "path", machine, host, None)


def test_an_old_one_on_path_gives_way_to_the_cache(machine: Path) -> None:
    _script(machine / "pulumi", "v3.100.0")
    _script(machine / "pulumi-language-python", "1")
    assert engine.find() is None
    folder = _cached(build.cli_entry())
    found = engine.find()
    assert found
    assert (found.pulumi, found.source, found.version) == (folder / "bin" / "pulumi", "cache", build.version())
    assert found.language_exec == folder / "lib" / build.EXEC


def test_the_cache_on_path_is_still_the_cache(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = _cached(build.cli_entry())
    monkeypatch.setenv("PATH", f"{folder / 'bin'}:{machine}")
    found = engine.find()
    assert found
    assert found.source == "cache"


def test_an_official_one_without_a_host_gets_ours(machine: Path) -> None:
    pulumi = _script(machine / "pulumi", "v3.300.0")
    assert engine.find() is None
    folder = _cached(build.host_entry())
    found = engine.find()
    assert found
    assert (found.pulumi, found.source) == (pulumi, "path")
    assert found.language_host == folder / "bin" / "pulumi-language-python"
    environ = found.environ({"PATH": "/usr/bin", "OTHER": "kept"}, python="/py")
    assert environ["PATH"] == f"{folder / 'bin'}:{machine}:/usr/bin"
    assert (environ["HOLDFAST_PYTHON"], environ["OTHER"]) == ("/py", "kept")


def test_environ_uses_this_interpreter_by_default() -> None:
    _cached(build.cli_entry())
    found = engine.find()
    assert found
    assert found.environ({})["HOLDFAST_PYTHON"] == sys.executable


def test_the_recipe_is_readable() -> None:
    assert build.version().split(".")[0] == "3"
    assert build.go_minimum().startswith("1.")
    assert build.cli_entry().key.startswith(f"pulumi-{build.version()}-")


def test_go_on_path_must_be_new_enough(machine: Path) -> None:
    _script(machine / "go", "go version go1.20.1 linux/amd64")
    assert golang.find("1.26.6") is None
    _script(machine / "go", "go version go1.26.10 linux/amd64")
    found = golang.find("1.26.6")
    assert found
    assert (found.version, found.source) == ("1.26.10", "path")
    assert found.environ["GOTOOLCHAIN"] == "local"


def test_a_go_that_we_brought_keeps_its_caches_with_us(tmp_path: Path) -> None:
    entry = golang._entry()
    _script(entry.path / "go" / "bin" / "go", "go version go1.27.3 linux/amd64")
    found = golang.find("1.26.6")
    assert found
    assert (found.source, found.version) == ("cache", entry.version)
    assert found.caches == tmp_path / "cache" / "go"
    for name in ("GOPATH", "GOCACHE", "GOMODCACHE"):
        assert found.environ[name].startswith(str(found.caches))


def test_a_go_of_ours_writes_into_our_cache_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_CACHE", str(tmp_path))
    places = golang._environ(ours=True)
    for name in ("GOPATH", "GOMODCACHE", "GOCACHE", "XDG_CONFIG_HOME"):
        assert Path(places[name]).is_relative_to(tmp_path)
    assert golang._environ(ours=False).get("GOCACHE") == os.environ.get("GOCACHE")
