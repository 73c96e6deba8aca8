"""Stages for the tests on the real engine. They find it with holdfast.engine.find(), as the command does."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pulumi_rig import Rig, rig
from rehearsal_rig import Start, processes_of

from holdfast import toolcache
from holdfast.rehearsal.sealed import REPOSITORY


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    """One that a module's tests share: each uses stacks or projects of its own."""
    with rig(tmp_path_factory.mktemp("cache")) as made:
        yield made


@pytest.fixture
def fresh(tmp_path: Path) -> Iterator[Rig]:
    """One of the test's own."""
    with rig(tmp_path / "cache") as made:
        yield made


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    """A cache with the engine that is there already, and nobody else's rehearsals."""
    own = tmp_path / "cache"
    own.mkdir()
    (own / "tools").symlink_to(toolcache.root() / "tools")
    return own


@pytest.fixture
def start(tmp_path: Path, cache: Path) -> Iterator[Start]:
    """Starts the command in a session of its own; whatever is left of it at the end is ended."""
    started: list[subprocess.Popen[str]] = []
    (tmp_path / "home").mkdir()

    def run(*args: str, cache: Path = cache) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-m", "holdfast.cli", "rehearse", *args],
            cwd=REPOSITORY,
            env={"PATH": os.environ["PATH"], "HOME": str(tmp_path / "home"), "HOLDFAST_CACHE": str(cache)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        started.append(process)
        return process

    yield run
    for process in started:
        process.kill()
        process.communicate()
    for left in processes_of(tmp_path):
        left.kill()
