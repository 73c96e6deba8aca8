"""The stories of scenario C on a cluster with real Slurm: some side by side, each judged by its record alone."""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass

from holdfast.errors import OperatorError
from holdfast.rehearsal import slurm_record
from holdfast.rehearsal import slurm_stories_changes as changes
from holdfast.rehearsal import slurm_stories_health as health
from holdfast.rehearsal import slurm_stories_sharing as sharing
from holdfast.rehearsal import slurm_stories_training as training
from holdfast.rehearsal.report import SlurmReport, Story, phase
from holdfast.rehearsal.slurm_record import Record
from holdfast.rehearsal.slurm_scene import Scene, Take, take

DYNAMIC = "DYNAMIC"
"""Stands for the pool of the stack's default partition."""
SHARED = "share"


@dataclass(frozen=True)
class Script:
    """A story: how it is played, on which pools, what its record means, and whether it needs somebody who can train.

    `also`: another story that the same record tells.
    """

    name: str
    play: Callable[[Take], None]
    judge: Callable[[Record], Story]
    pools: Sequence[str] = ()
    real: bool = False
    also: Callable[[Record], Story] | None = None


# One column after another is played side by side: no two of them use the same nodes.
COLUMNS: Sequence[Sequence[Script]] = (
    (
        Script("expired-node", training.expired_node, training.expired_node_story, (DYNAMIC,), real=True),
        Script("idle-node", training.idle_node, training.idle_node_story, (DYNAMIC,)),
    ),
    (
        Script("preemption", sharing.preemption, sharing.preemption_story, (SHARED,)),
        Script("exclusive", sharing.exclusive, sharing.exclusive_story, (SHARED,)),
        Script("fair-share", sharing.fair_share, sharing.fair_share_story, (SHARED,)),
    ),
    (
        Script(
            "prolog-failure",
            health.prolog_failure,
            health.prolog_failure_story,
            (health.POOL,),
            also=health.prologs_in_order_story,
        ),
        Script("epilog-failure", health.epilog_failure, health.epilog_failure_story, (health.POOL,)),
        Script("repair", health.repair, health.repair_story, (health.POOL,)),
    ),
    (
        Script("access", sharing.access, sharing.access_story),
        Script("static-node-again", changes.static_again, changes.static_again_story, (changes.POOL,)),
        Script("running-update", changes.running_update, changes.running_update_story, (changes.POOL,)),
        Script("static-pool-resized", changes.resized, changes.resized_story, (changes.POOL,)),
    ),
)
USAGE = Script("usage", changes.usage, changes.usage_story)


def run(scene: Scene, report: SlurmReport, columns: Sequence[Sequence[Script]] = COLUMNS) -> None:
    """Plays the stories and adds each to the report, with what it says of the training.

    A story that gets stuck does not hold; what comes after it goes on.

    Raises:
        OperatorError: something other than a story went wrong, and the stories so far are in the report.
    """
    with phase(report.phases, "stories"), ThreadPoolExecutor(len(columns)) as side_by_side:
        played = [side_by_side.submit(_column, scene, report, column) for column in columns]
        try:
            wait(played)
        except BaseException:  # interrupted: what is waited for, or runs, is ended
            scene.over.set()
            scene.frame.pulumi.processes.kill()
            raise
    failed = [error for each in played if (error := each.exception()) is not None]
    if failed:
        raise OperatorError("\n".join(_said(error) for error in failed))
    with phase(report.phases, "usage"):
        _tell(scene, report, USAGE)


def _said(error: BaseException) -> str:
    return str(error) if isinstance(error, OperatorError) else "".join(traceback.format_exception(error))


def _column(scene: Scene, report: SlurmReport, scripts: Sequence[Script]) -> None:
    for script in scripts:
        if scene.over.is_set():
            return
        if script.real and not scene.real:
            scene.say(f"{script.name}: left out, since nothing here can train")
        else:
            _tell(scene, report, script)


def _tell(scene: Scene, report: SlurmReport, script: Script) -> None:
    began = time.monotonic()
    scene.say(f"{script.name}:")
    pools = [_dynamic(scene) if pool == DYNAMIC else pool for pool in script.pools]
    with take(scene, pools) as now:
        try:
            script.play(now)
        except OperatorError as error:
            scene.say(f"  {script.name}: {error}")
    if scene.over.is_set():
        return
    record, seconds = now.record, round(time.monotonic() - began, 1)
    for judge in (script.judge, script.also):
        if judge is not None:
            story = judge(record).model_copy(update={"seconds": seconds})
            report.stories.append(story)
            held = "as expected" if story.held else "NOT as expected"
            scene.say(f"{story.name}: {held} ({seconds:.0f} s): {story.outcome}")
            scene.say(f"  what to do: {story.advice}")
    if script.play is training.expired_node:
        report.bit_exact = training.bit_exact(record)
        report.restarts = slurm_record.restarts(record, training.JOB)


def _dynamic(scene: Scene) -> str:
    default = scene.config.get("holdfast:defaultPartition")
    partitions = scene.config["holdfast:partitions"]
    found = next((each for each in partitions if each["id"] == default), partitions[0])
    return str(found["pools"][0])
