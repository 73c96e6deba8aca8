"""Stages for the tests on the real engine. They find it with holdfast.engine.find(), as the command does."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from pulumi_rig import Rig, rig


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
