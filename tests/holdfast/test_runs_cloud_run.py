"""Runs on the emulated cloud, with real small tasks in real time."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from runs_rig import JOB, PROJECT, REGION, STACK, Rig

from holdfast.errors import OperatorError
from holdfast.gcp.api import CloudError
from holdfast.runs import cloud_run, verbs
from holdfast.runs.backend import Order, Run, Selection
from mockgcp.errors import ApiError
from mockgcp.faults import Fault
from mockgcp.planes.maintenance import AtSteps


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    rig = Rig(tmp_path)
    yield rig
    rig.stop()


def submit(rig: Rig, **order: Any) -> tuple[Run, list[str]]:
    said: list[str] = []
    return verbs.submit(rig.backend, Order(**order), said.append), said


def unavailable() -> ApiError:
    return ApiError("UNAVAILABLE", "The service is currently unavailable.")


# -- submit and follow ---------------------------------------------------------------------------------------------


def test_a_preempted_run_is_followed_through_its_retry(rig: Rig) -> None:
    rig.make_job({"HOLD": "3"})
    rig.start(AtSteps((3,)))
    run, said = submit(rig)
    assert (run.state, run.task_count, run.run_id, said) == ("pending", 1, JOB, [])
    run, lines, tracker = rig.follow(run)
    assert (run.state, [task.retries for task in run.tasks], run.retries) == ("succeeded", [1], 1)
    preempted = [line for line in lines if line.preemption]
    assert [(line.source, line.task, line.attempt) for line in preempted] == [("platform", 0, 0)]
    assert [line.event for line in lines if line.attempt == 1][:2] == ["start", "resumed"]
    assert [line.time for line in lines] == sorted(line.time for line in lines)
    progress = tracker.of(0)
    assert (progress.step, progress.steps_total, progress.saved, progress.preemptions) == (6, 6, 6, 1)
    assert verbs.verdict(run, lambda task: None) == [f"{run.name} succeeded: 1 task(s), 1 retries"]


def test_retries_used_up_are_said_and_the_next_run_resumes(rig: Rig) -> None:
    rig.make_job({"FAIL": "3"}, max_retries=1)
    rig.start()
    failed, _, tracker = rig.follow(submit(rig)[0])
    assert (failed.state, [task.retries_used_up for task in failed.tasks]) == ("failed", [True])
    told = verbs.verdict(failed, lambda task: tracker.of(task).saved)
    assert told[1:] == ["task 0: retries used up: 1 of 1; the checkpoint is at step 2"]
    assert rig.backend.again(failed) == f"`holdfast submit cloud-run --stack {STACK}` resumes from the checkpoints"
    again, said = submit(rig, env={"FAIL": "none"})
    assert said == [f"{failed.name} of the same run id '{JOB}' failed: this one resumes from its latest checkpoint"]
    run, lines, _ = rig.follow(again)
    assert run.state == "succeeded"
    assert [line.payload["from_step"] for line in lines if line.event == "resumed"] == [2]
    _, said = submit(rig)
    assert "the trainer finds it done" in said[0]


def test_the_way_on_orders_what_the_run_had_and_shows_no_secret(rig: Rig) -> None:
    """Without its run id it would go on from other checkpoints, and with fewer steps the trainer refuses them."""
    rig.make_job({"TOKEN": "old"}, tasks=3)
    mine = {"HOLDFAST_RUN_ID": "two words", "HOLDFAST_STEPS": "9", "TOKEN": "s3cret"}
    run, _ = submit(rig, env=mine, tasks=2, timeout_s=90.0)
    again = rig.backend.again(run).split("`")[1]
    words = "--set 'HOLDFAST_RUN_ID=two words' --set HOLDFAST_STEPS=9 --tasks 2 --timeout 90s"
    assert again == f"holdfast submit cloud-run {words} --stack {STACK}"


def test_an_active_run_is_found_behind_however_many_others(rig: Rig) -> None:
    rig.make_job()
    first, _ = submit(rig)
    for number in range(25):
        rig.backend.submit(Order({"HOLDFAST_RUN_ID": f"other-{number}"}))
    with pytest.raises(OperatorError, match=f"{first.name} is pending"):
        submit(rig)


def test_a_second_run_of_a_run_id_is_refused_while_one_is_active(rig: Rig) -> None:
    rig.make_job()
    first, _ = submit(rig)
    with pytest.raises(
        OperatorError,
        match=f"{first.name} is pending on run id '{JOB}'.*cancel {first.name} --stack {STACK}`.*HOLDFAST_RUN_ID=",
    ):
        submit(rig)
    other, _ = submit(rig, env={"HOLDFAST_RUN_ID": "other"})
    assert other.run_id == "other"
    with pytest.raises(OperatorError, match=other.name):
        submit(rig, env={"HOLDFAST_RUN_ID": "other"})
    assert [run.name for run in rig.backend.runs(5)] == [other.name, first.name]


def test_overrides_reach_the_run(rig: Rig) -> None:
    rig.make_job({"KEPT": "1"})
    run, _ = submit(rig, env={"HOLDFAST_STEPS": "9"}, tasks=3, timeout_s=90.0)
    execution = rig.api.call("run.projects.locations.jobs.executions.get", {"name": run.resource})
    env = {item["name"]: item["value"] for item in execution["template"]["containers"][0]["env"]}
    assert (env["KEPT"], env["HOLDFAST_STEPS"], execution["template"]["timeout"]) == ("1", "9", "90s")
    assert [task.index for task in run.tasks] == [0, 1, 2]


def test_a_cancelled_run_saves_and_is_not_retried(rig: Rig) -> None:
    rig.make_job({"HOLD": "3"})
    rig.start()
    run, _ = submit(rig)
    rig.logged("step")
    rig.until(lambda: rig.backend.last_step(run) == 3, "step 3")
    rig.backend.cancel(run)
    run, lines, tracker = rig.follow(rig.backend.run(run.name))
    assert (run.state, run.tasks[0].retries, tracker.of(0).saved) == ("cancelled", 0, 3)
    told = verbs.verdict(run, lambda task: tracker.of(task).saved)
    assert told[1] == "task 0: the checkpoint is at step 3"
    assert {line.attempt for line in lines} == {0}


def test_a_submit_whose_answer_is_lost_says_that_it_may_have_started(rig: Rig) -> None:
    rig.make_job()
    rig.cloud.faults.inject(Fault("run.projects.locations.jobs.run", unavailable(), effect="after"))
    with pytest.raises(OperatorError, match="Whether the run has started is not known"):
        submit(rig)
    assert len(rig.backend.runs(5)) == 1


def test_following_outlives_passing_errors_and_ends_at_others(rig: Rig) -> None:
    rig.make_job()
    rig.start()
    run, _ = submit(rig)
    rig.cloud.faults.inject(Fault("logging.entries.list", unavailable(), times=2))
    said: list[str] = []
    ended, lines, _ = rig.follow(run, say=said.append)
    assert (ended.state, len(said)) == ("succeeded", 2)
    assert [line.payload["step"] for line in lines if line.event == "step"] == [1, 2, 3, 4, 5, 6]
    rig.cloud.faults.inject(Fault("logging.entries.list", ApiError("PERMISSION_DENIED", "no"), times=None))
    with pytest.raises(CloudError, match="PERMISSION_DENIED"):
        rig.follow(run)


def test_what_is_not_there_is_named(rig: Rig) -> None:
    with pytest.raises(OperatorError, match=r"there is no job .* `pulumi up` makes it"):
        submit(rig)
    rig.make_job()
    with pytest.raises(OperatorError, match=f"has not been run yet: `holdfast submit cloud-run --stack {STACK}`"):
        verbs.latest(rig.backend, None)
    with pytest.raises(OperatorError, match=f"{JOB} has no execution nothing; `holdfast runs --stack {STACK}`"):
        verbs.latest(rig.backend, "nothing")


# -- the log -------------------------------------------------------------------------------------------------------


def write(rig: Rig, run: Run, *lines: tuple[float, dict[str, Any]], task: int = 0, severity: str = "INFO") -> None:
    """Entries at so many seconds after the run was made."""
    rig.api.call(
        "logging.entries.write",
        {},
        {
            "logName": f"projects/{PROJECT}/logs/run.googleapis.com%2Fstdout",
            "resource": {
                "type": "cloud_run_job",
                "labels": {"project_id": PROJECT, "location": REGION, "job_name": JOB},
            },
            "labels": {
                "run.googleapis.com/execution_name": run.name,
                "run.googleapis.com/task_index": str(task),
                "run.googleapis.com/task_attempt": "0",
            },
            "entries": [
                {
                    "timestamp": (run.created + timedelta(seconds=at)).isoformat(),
                    "severity": severity,
                    "jsonPayload": payload,
                }
                for at, payload in lines
            ],
        },
    )


def step(number: int) -> dict[str, Any]:
    return {"event": "step", "step": number, "message": str(number)}


def messages(lines: list[Any]) -> list[str]:
    return [line.message for line in lines]


def test_each_entry_is_read_once_and_late_ones_too(rig: Rig) -> None:
    rig.make_job()
    run, _ = submit(rig)
    log = rig.backend.log(run, Selection())
    assert log.read() == []
    write(rig, run, (1, step(1)), (50, step(3)))
    assert messages(log.read()) == ["1", "3"]
    write(rig, run, (40, step(2)))
    assert messages(log.read()) == ["2"]
    write(rig, run, (200, step(4)))
    assert messages(log.read()) == ["4"]
    write(rig, run, (100, step(0)), (201, step(5)))  # later than a look goes back
    assert messages(log.read()) == ["5"]


def test_a_look_is_bounded_and_the_next_goes_on(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cloud_run, "_PAGE", 2)
    monkeypatch.setattr(cloud_run, "_LOOK", 4)
    rig.make_job()
    run, _ = submit(rig)
    write(rig, run, *((n, step(n)) for n in range(10)))
    log = rig.backend.log(run, Selection())
    looks = [messages(log.read()) for _ in range(4)]
    assert looks == [["0", "1", "2", "3"], ["4", "5", "6", "7"], ["8", "9"], []]


def test_a_selection_narrows_the_log(rig: Rig) -> None:
    rig.make_job()
    run, _ = submit(rig)
    write(rig, run, (1, step(1)), (2, {"message": "saved", "event": "saved"}), (3, {"message": "plain"}))
    write(rig, run, (400, step(9)), task=1)
    write(rig, run, (500, {"message": "bad"}), severity="ERROR")

    def read(**selection: Any) -> list[str]:
        return messages(rig.backend.log(run, Selection(**selection)).read())

    assert read() == ["1", "saved", "plain", "9", "bad"]
    assert read(every_step=False) == ["saved", "plain", "9", "bad"]
    assert read(task=1) == ["9"]
    assert read(severity="WARNING") == ["bad"]
    assert read(since=run.created + timedelta(seconds=100)) == ["9", "bad"]
    assert rig.backend.last_step(run) == 9


def test_another_run_of_the_job_has_its_own_log(rig: Rig) -> None:
    rig.make_job()
    first, _ = submit(rig)
    second, _ = submit(rig, env={"HOLDFAST_RUN_ID": "two"})
    write(rig, first, (1, step(1)))
    assert rig.backend.log(second, Selection()).read() == []
    assert rig.backend.last_step(second) is None
