"""An expired slice under the project's trainer: killed without a word, resubmitted, and the same to the last bit."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from holdfast.rehearsal import gke_record, ray_training, training
from holdfast.rehearsal.gke_record import Record
from holdfast.rehearsal.gke_scene import Take
from holdfast.rehearsal.gke_stories_capacity import expire, hold, was_given_up, workloads
from holdfast.rehearsal.gke_stories_verdict import DWS, story
from holdfast.rehearsal.report import Story
from holdfast.runs.gke_job import JobOrder
from mockgcp.planes.k8s.ray_processes import ProcessJobs
from workloads.trainer.events import read_events

JOB = "expiring"
STEPS = 20
_STEP_S = 0.2
SETTINGS: Mapping[str, str] = {**training.settings(0, STEPS, _STEP_S), **ray_training.SETTINGS}


def expired_slice(take: Take) -> None:
    scene = take.scene
    if scene.bucket is None or scene.state is None or not isinstance(scene.jobs, ProcessJobs):
        raise ValueError("this story needs jobs that really run, with a bucket and a folder")
    folder = scene.bucket / JOB / JOB / "0"
    hold(take)
    scene.submit(JobOrder(name=JOB, program="trainer", env=SETTINGS))
    take.until(lambda record: _beyond_a_checkpoint(folder), f"{JOB} trains, and has a checkpoint behind it")
    expire(take, JOB)
    scene.resubmit(JOB)
    take.until(
        lambda record: len(workloads(record, JOB)) == 2 and gke_record.result(record, JOB) in ("SUCCEEDED", "FAILED"),
        f"{JOB} is over",
    )
    found = take.recorder.record.training
    found["events"] = _events(folder)
    if gke_record.result(take.recorder.record, JOB) == "SUCCEEDED":
        scene.say("  an undisturbed run of the same seed, and the final checkpoints compared bit for bit")
        found["compared"] = training.compare_with_undisturbed(
            [folder],
            SETTINGS,
            scene.state / "undisturbed",
            training.image(scene.state),
            scene.jobs.processes,
            ray_training.WORKERS,
        )


def expired_slice_story(record: Record) -> Story:
    events = record.training.get("events", [])
    last = max((number for number, each in enumerate(events) if each["event"] == "start"), default=0)
    first, second = events[:last], events[last:]
    steps = {each["step"] for each in events if each["event"] == "step"}
    compared = record.training.get("compared", [])
    checks = {
        "the slice was revoked, and a second one provisioned": gke_record.requests(record, JOB)
        == [["Accepted", "Provisioned", "CapacityRevoked"], ["Accepted", "Provisioned"]],
        "deactivated, then resubmitted": was_given_up(record, JOB)
        and len(workloads(record, JOB)) == 2
        and gke_record.flavors(record, JOB)[-1:] == [DWS],
        "killed without a word": bool(first) and not {"sigterm", "exit", "done"} & {each["event"] for each in first},
        "resumed from the last checkpoint": training.resumed_from_the_last(first, second),
        "every step done": steps == set(range(1, STEPS + 1)),
        "it succeeded": gke_record.result(record, JOB) == "SUCCEEDED",
        "bit for bit as an undisturbed run": bool(compared) and all(each.get("bit_exact") is True for each in compared),
    }
    return story(
        "expired-slice",
        record,
        [JOB],
        checks,
        "the slice's end kills the workers without a signal; resubmitted, the trainer finds its folder by its run id, "
        "resumes from its last checkpoint, and its final weights are those of an undisturbed run",
        "`holdfast resubmit`; the steps since the last checkpoint are done twice, so choose HOLDFAST_CHECKPOINT_EVERY "
        "by what they cost",
    )


def _events(folder: Path) -> list[dict[str, Any]]:
    return [dict(each) for each in read_events(folder / "events.jsonl")]


def _beyond_a_checkpoint(folder: Path) -> bool:
    events = [each["event"] for each in _events(folder)]
    return "saved" in events and "step" in events[events.index("saved") :]
