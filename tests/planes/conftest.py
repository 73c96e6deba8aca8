"""Clusters for the tests of the plane; skipped, with the reason, where they cannot run."""

from __future__ import annotations

import functools
import time
from collections.abc import Iterator

import planes_scenario
import pytest
from planes_rig import CLUSTER, Stage, install_kueue, started, until

from holdfast import planes
from mockgcp.planes.k8s import addresses
from mockgcp.planes.k8s.programs import Programs
from mockgcp.planes.k8s.ray import ScriptedJobs


@pytest.fixture(scope="session")
def programs() -> Programs:
    can = addresses.availability()
    if not can.usable:
        pytest.skip(f"{can.why}; {can.how}")
    if planes.missing():
        missing = ", ".join(recipe.name for recipe in planes.missing())
        pytest.skip(f"not built: {missing}; {planes.COMMAND} builds them")
    found = planes.find()
    assert found
    return found


@pytest.fixture(scope="module")
def stage(programs: Programs, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """A cluster for the tests of a module."""
    folder, jobs = tmp_path_factory.mktemp("plane"), ScriptedJobs()
    with started(programs, folder, jobs) as plane:
        began = time.monotonic()
        made = plane.create(CLUSTER, planes_scenario.pools())
        stage = Stage(plane, made, made.api(), jobs, {"control plane": time.monotonic() - began})
        began = time.monotonic()
        install_kueue(stage, programs, folder / "provider")
        stage.seconds["kueue"] = time.monotonic() - began
        for thing in planes_scenario.QUEUES:
            until(functools.partial(stage.api.apply, thing))
        yield stage
        stage.api.close()
