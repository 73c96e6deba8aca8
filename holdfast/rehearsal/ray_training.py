"""Scenario B's programs in a rehearsal: what a RayJob runs as on this machine, in its pods' place.

It is the program that was applied, with its own arguments, on a real Ray cluster of this machine (workloads.ray.local),
one a job: two workers on CPUs in place of a slice's hosts and chips, and the emulated bucket's folder for the mount.
"""

from __future__ import annotations

import argparse
import itertools
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from holdfast.rehearsal import training
from holdfast.rehearsal.report import TimeOverride
from mockgcp.planes.cloud_run import Launch
from mockgcp.planes.k8s.api import Object
from mockgcp.planes.k8s.ray_processes import Run

WORKERS = 2
_PROGRAMS = ("linear_regression.py", "trainer.py")
_LEASE_S = 5
SETTINGS = {"HOLDFAST_LEASE_SECONDS": str(_LEASE_S)}
"""The trainer's variables for a rehearsal: who is killed without a word keeps the next one waiting for so long."""


@contextmanager
def local_programs(state: Path) -> Iterator[Run]:
    """How `ProcessJobs` runs the project's own programs; others are scripted. JAX's compilation cache is in `state`."""
    image = training.image(state)
    # Ray's sockets have a path of 107 bytes at most, so they are not below `state`; a killed Ray leaves them.
    with tempfile.TemporaryDirectory(prefix="ray-", ignore_cleanup_errors=True) as sockets:
        numbers = itertools.count(1)

        def run(job: Object, launch: Launch) -> tuple[Sequence[str], Mapping[str, str]] | None:
            command = local_command(launch.command)
            if command is None:
                return None
            own = replace(image, env={**image.env, "RAY_TMPDIR": f"{sockets}/{next(numbers)}"})
            return own.process(replace(launch, command=command))

        yield run


def local_command(entrypoint: Sequence[str]) -> list[str] | None:
    """What stands in for a RayJob's entrypoint: `WORKERS` workers, and CPUs; None for programs that are not ours."""
    if len(entrypoint) < 2 or entrypoint[0] != "python" or Path(entrypoint[1]).name not in _PROGRAMS:
        return None
    slice_ = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    for option in ("--workers", "--chips", "--topology", "--accelerator"):
        slice_.add_argument(option)
    _, rest = slice_.parse_known_args(entrypoint[2:])
    ray = [sys.executable, "-m", "workloads.ray.local", "--cpus", str(WORKERS)]
    return [*ray, entrypoint[1], "--workers", str(WORKERS), *rest]


def overrides() -> list[TimeOverride]:
    """What a report says of it, beside the times of the others."""
    return [
        TimeOverride(
            name="a job's workers",
            platform="one a host, with its TPU chips",
            rehearsal=f"{WORKERS} processes on CPUs, a Ray cluster of this machine a job",
        ),
        TimeOverride(name="a killed writer's lease of its folder", platform="180 s", rehearsal=f"{_LEASE_S} s"),
    ]
