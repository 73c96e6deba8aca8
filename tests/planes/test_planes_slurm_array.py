"""Many queued tasks over the deaths of nodes: none is lost. `N=1000` in the environment: 1,000 over 50."""

from __future__ import annotations

import itertools
import os
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from slurm_rig import NAME, Slurm, started, until

from holdfast.planes import slurm as recipe

pytestmark = pytest.mark.planes

TASKS = int(os.environ.get("N", "200"))
DEATHS = TASKS // 20 if TASKS >= 1000 else 5
NODES = ("flexvm-a3u-0", "flexvm-a3u-1")
SCRIPT = "echo $SLURM_ARRAY_TASK_ID >>/home/ada/began; sleep 0.3; echo $SLURM_ARRAY_TASK_ID >>/home/ada/done"
LIMIT_S = 120 + TASKS * 0.6


def numbers(slurm: Slurm, file: str) -> list[int]:
    path = slurm.home / "ada" / file
    return [int(line) for line in path.read_text().split()] if path.exists() else []


def test_queued_tasks_survive_the_deaths_of_nodes(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    can, programs = recipe.availability(), recipe.find()
    if not can.usable or programs is None:
        pytest.skip(f"{can.why}; {can.how}")
    with started(programs, tmp_path) as slurm:
        began, deaths = time.monotonic(), 0
        job = slurm.submit(SCRIPT, f"--array=0-{TASKS - 1}%12", "-n1", "-o", "/dev/null", "--requeue")
        for number, node in zip(range(1, DEATHS + 1), itertools.cycle(NODES), strict=False):
            until(partial(is_done, slurm, number * TASKS // (DEATHS + 1)), timeout_s=LIMIT_S)
            until(partial(is_running, slurm, node))
            slurm.cluster.nodes.expire(node)
            deaths += 1
        until(lambda: not slurm.ask("squeue", "-h", "-j", job), lambda: slurm.ask("squeue"), LIMIT_S)
        seconds = time.monotonic() - began
        assert set(numbers(slurm, "done")) == set(range(TASKS))
        rows = ("sacct", "-nXP", "-j", job, "-o", "jobid,state")
        until(
            lambda: Counter(line.split("|")[1] for line in slurm.ask(*rows).splitlines()) == {"COMPLETED": TASKS},
            lambda: slurm.ask(*rows)[-500:],
        )
        gone = [each for each in slurm.plane.status(NAME).events if each.message.endswith("maximum duration is over")]
        assert len(gone) == deaths == DEATHS
        again = len(numbers(slurm, "began")) - TASKS
        assert again > 0  # some were killed
        rate = f"{TASKS} tasks over {deaths} deaths in {seconds:.0f} s: {TASKS / seconds:.1f} a second, {again} again"
        record_property("rate", rate)
        print(rate)


def is_done(slurm: Slurm, tasks: int) -> bool:
    return len(set(numbers(slurm, "done"))) >= tasks


def is_running(slurm: Slurm, node: str) -> bool:
    return any(each.name == node and each.state == "RUNNING" for each in slurm.plane.status(NAME).nodes)
