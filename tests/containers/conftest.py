"""Tests that build the trainer's image and run it: `make image-test`. They are no part of `make test`, for they take
minutes, and need root, buildah and debootstrap."""

from __future__ import annotations

from pathlib import Path

import pytest


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if "container" in str(config.getoption("markexpr")):
        return
    mine = [item for item in items if Path(__file__).parent in item.path.parents]
    config.hook.pytest_deselected(items=mine)
    items[:] = [item for item in items if item not in mine]
