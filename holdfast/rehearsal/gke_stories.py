"""The stories of scenario B on a cluster with real Kueue: played one by one, each judged by its record alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from holdfast.rehearsal import gke_stories_admission as admission
from holdfast.rehearsal import gke_stories_capacity as capacity
from holdfast.rehearsal import gke_stories_training as training
from holdfast.rehearsal import ray_training
from holdfast.rehearsal.gke_record import Record
from holdfast.rehearsal.gke_scene import OverdueError, Scene, Take, take
from holdfast.rehearsal.report import GkeTpuReport, Story, TimeOverride, phase
from mockgcp.planes.cloud_run import Launch
from mockgcp.planes.k8s.api import Object
from mockgcp.planes.k8s.ray_processes import ProcessJobs


@dataclass(frozen=True)
class Script:
    """A story: how it is played, what its record means, and whether it needs jobs that really run."""

    name: str
    play: Callable[[Take], None]
    judge: Callable[[Record], Story]
    real: bool = False


STORIES: Sequence[Script] = (
    Script("two-jobs", admission.two_jobs, admission.two_jobs_story),
    Script("stock-out", capacity.stock_out, capacity.stock_out_story),
    Script("booking-expired", capacity.booking_expired, capacity.booking_expired_story),
    Script("capacity-revoked", capacity.capacity_revoked, capacity.capacity_revoked_story),
    Script("no-machine", capacity.no_machine, capacity.no_machine_story),
    Script("too-large", capacity.too_large, capacity.too_large_story),
    Script("expired-slice", training.expired_slice, training.expired_slice_story, real=True),
)
REALLY_RUN = (*admission.JOBS, training.JOB)
"""The names of the jobs that really run, where they can; all others are scripted."""


@contextmanager
def real_jobs(state: Path, bucket: Callable[[str], Path]) -> Iterator[ProcessJobs]:
    """Jobs of which those of `REALLY_RUN` are processes; `bucket`: where a bucket's objects lie, by its name."""
    with ray_training.local_programs(state) as run:

        def chosen(job: Object, launch: Launch) -> tuple[Sequence[str], Mapping[str, str]] | None:
            return run(job, launch) if job["metadata"]["name"] in REALLY_RUN else None

        jobs = ProcessJobs(state / "ray", chosen, bucket)
        try:
            yield jobs
        finally:
            jobs.stop()


def overrides() -> list[TimeOverride]:
    """The times that stories bring to their end."""
    return [
        TimeOverride(name="maxRunDuration of flex-start nodes", platform="7 days", rehearsal="when a story ends it"),
        TimeOverride(name="provisioned nodes are held for pods", platform="600 s", rehearsal="until a story ends it"),
        TimeOverride(name="idle TPU nodes are taken away", platform="600 s", rehearsal="at the end of each story"),
    ]


def run(scene: Scene, report: GkeTpuReport, stories: Sequence[Script] = STORIES) -> None:
    """Plays the stories and adds each to the report, with what it says of the two jobs.

    A story that gets stuck does not hold; the next one begins on a clean cluster.

    Raises:
        OperatorError: the cluster refuses what a story does, or cannot be cleaned up.
    """
    for script in stories:
        if script.real and not scene.real:
            scene.say(f"{script.name}: left out, since nothing here can train")
            continue
        record = _played(scene, report, script)
        story = script.judge(record)
        report.stories.append(story)
        scene.say(f"{script.name}: {'as expected' if story.held else 'NOT as expected'}: {story.outcome}")
        scene.say(f"  what to do: {story.advice}")
        if script.play is admission.two_jobs:
            report.jobs, report.provisioning_requests = admission.figures(record)


def _played(scene: Scene, report: GkeTpuReport, script: Script) -> Record:
    scene.say(f"{script.name}:")
    with phase(report.phases, script.name), take(scene) as now:
        try:
            script.play(now)
        except OverdueError as error:
            scene.say(f"  {error}")
    return now.recorder.record
