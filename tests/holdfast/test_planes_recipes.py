"""How the planes' programs are found and built. Go is a script here; nothing is compiled."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from holdfast import doctor, planes
from holdfast.engine import gobuild
from holdfast.engine.gobuild import GoBuild
from holdfast.engine.golang import Go

GO = """#!/bin/sh
case "$1" in
  list) if [ "$2" = -m ]; then echo "$MODULE"; else printf 'a\\nb\\nc\\n'; fi;;
  build) echo one >&2; echo "$@" >> "$CALLS"
    while [ "$1" != -o ]; do shift; done
    mkdir -p "${2%/*}"; echo made > "$2";;
esac
exit ${FAILS:-0}
"""


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOLDFAST_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def module(tmp_path: Path) -> Path:
    folder = tmp_path / "module"
    folder.mkdir()
    (folder / "go.mod").write_text(
        "module m\n\ngo 1.26.0\n\nrequire (\n\tk8s.io/x v1.2.3\n\tother v4.5.6-rc.1 // indirect\n)\n"
    )
    (folder / "go.sum").write_text("")
    return folder


def _go(tmp_path: Path, **env: str) -> Go:
    script = tmp_path / "go"
    script.write_text(GO)
    script.chmod(0o755)
    source = tmp_path / "source" / "chart"
    source.mkdir(parents=True)
    (source / "values.yaml").write_text("a: 1\n")
    (source / "values.yaml").chmod(0o444)
    source.chmod(0o555)
    environ = {"PATH": "/usr/bin:/bin", "MODULE": str(tmp_path / "source"), "CALLS": str(tmp_path / "calls"), **env}
    return Go(script, "1.26.0", "path", environ, None)


def test_a_build_makes_each_program_and_keeps_the_files(tmp_path: Path, module: Path) -> None:
    said: list[str] = []
    what = GoBuild(
        "two programs", module, {"p": "k8s.io/x/p", "q": "k8s.io/x/q"}, "-s", "1 minute", {"share/c": ("m", "chart")}
    )
    folder = tmp_path / "made"
    gobuild.build(what, _go(tmp_path), folder, tmp_path / "log", said.append)
    assert sorted(path.name for path in (folder / "bin").iterdir()) == ["p", "q"]
    assert (folder / "share" / "c" / "values.yaml").read_text() == "a: 1\n"
    calls = (tmp_path / "calls").read_text().splitlines()
    assert [call.split()[-1] for call in calls] == ["k8s.io/x/p", "k8s.io/x/q"]
    assert all("-trimpath -ldflags -s" in call for call in calls)
    assert "two programs" in said[0]
    assert "1 minute" in said[0]
    for path in folder.rglob("*"):  # Go's module cache is read-only; what was copied can be deleted
        assert path.stat().st_mode & 0o200, path


def test_a_failed_build_names_the_way_out(tmp_path: Path, module: Path) -> None:
    what = GoBuild("a program", module, {"p": "k8s.io/x/p"}, "", "1 minute")
    with pytest.raises(planes.ToolError, match="GOPROXY"):
        gobuild.build(what, _go(tmp_path, FAILS="3"), tmp_path / "made", tmp_path / "log", lambda line: None)


@pytest.mark.parametrize(
    ("name", "version"), [("k8s.io/x", "1.2.3"), ("other", "4.5.6-rc.1")], ids=["plain", "candidate"]
)
def test_versions_are_go_mods(module: Path, name: str, version: str) -> None:
    assert gobuild.required(module, name) == version


def test_a_recipe_changes_with_what_it_depends_on(module: Path) -> None:
    before = GoBuild("", module, {"p": "x"}, "-s", "").recipe()
    assert GoBuild("", module, {"p": "x"}, "-s -w", "").recipe() != before
    assert GoBuild("", module, {"p": "y"}, "-s", "").recipe() != before
    assert GoBuild("", module, {"p": "x"}, "-s", "", {"share/c": ("m", "chart")}).recipe() != before
    assert GoBuild("other words", module, {"p": "x"}, "-s", "9 minutes").recipe() == before
    (module / "main.go").write_text("package main\n")
    assert GoBuild("", module, {"p": "x"}, "-s", "").recipe() != before


def test_the_recipes_are_readable() -> None:
    versions = {recipe.name: recipe.version for recipe in planes.RECIPES}
    assert versions["kubernetes"].startswith("1.")
    assert all(gobuild.go_minimum(recipe.build.module).startswith("1.") for recipe in planes.RECIPES)
    assert len({recipe.entry().key for recipe in planes.RECIPES}) == 3


def test_nothing_is_found_in_an_empty_cache() -> None:
    assert planes.find() is None
    assert planes.provider() is None
    assert planes.missing() == list(planes.RECIPES)


def test_what_is_there_is_found_and_not_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    for recipe in planes.RECIPES[:2]:
        recipe.entry().path.mkdir(parents=True)
    assert [recipe.name for recipe in planes.missing()] == ["pulumi-resource-kubernetes"]
    found = planes.find()
    assert found
    assert found.program("kube-apiserver") == planes.RECIPES[0].entry().path / "bin" / "kube-apiserver"
    assert found.program("kuberay") == planes.RECIPES[1].entry().path / "bin" / "kuberay"
    assert set(found.versions) == {"kubernetes", "etcd", "kueue", "kuberay"}
    made: list[str] = []
    monkeypatch.setattr(gobuild, "build", lambda what, go, folder, log, progress: made.append(what.what))
    planes.ensure(lambda line: None)
    assert made == ["the Pulumi Kubernetes provider"]
    assert planes.missing() == []


def test_the_command_says_what_is_missing() -> None:
    command = [sys.executable, "-m", "holdfast.planes", "find"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stdout.count("missing") == 4


def test_the_doctor_names_them_and_what_brings_them() -> None:
    planes.RECIPES[1].entry().path.mkdir(parents=True)
    found = {tool.name: tool for tool in doctor.tools()}
    assert found["kuberay"].version == planes.RECIPES[1].version
    assert found["kubernetes"].version is None
    assert "make planes" in found["kubernetes"].way_out
    assert not found["kubernetes"].needed  # scenario A does without
