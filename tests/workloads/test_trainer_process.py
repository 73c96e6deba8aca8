"""The trainer killed in every way that we know of: whatever happens, the end is that of the undisturbed run."""

import json
import random
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest
from trainer_process import EVERY, PATIENCE, STEPS, Trainer, event, of, until

from workloads.trainer.compare import compare
from workloads.trainer.events import read_events

pytestmark = pytest.mark.jax


def leave(process: subprocess.Popen[str]) -> int:
    """Reads what is left of the output, so that the process cannot block on it, and waits for the end."""
    process.communicate(timeout=PATIENCE)
    return process.returncode


def assert_as_undisturbed(trainer: Trainer, reference: Path) -> None:
    comparison = compare(trainer.task_dir, reference)
    assert comparison["bit_exact"], comparison
    assert comparison["step_a"] == STEPS
    ours, theirs = (json.loads((task / "result.json").read_text()) for task in (trainer.task_dir, reference))
    assert {**ours, "productive_seconds": 0} == {**theirs, "productive_seconds": 0}


def test_sigterm_in_a_step_saves_at_its_end_and_loses_nothing(trainer: Trainer, reference: Path) -> None:
    process = trainer.start(HOLDFAST_STEP_SECONDS_MIN="30", HOLDFAST_GRACE_SECONDS=str(PATIENCE))
    event(process, lambda each: each["event"] == "compiled")
    time.sleep(0.5)  # in the first step's wait
    process.send_signal(signal.SIGTERM)
    process.send_signal(signal.SIGTERM)
    assert leave(process) == 143, trainer.errors()
    first = read_events(trainer.task_dir / "events.jsonl")
    reached = of(first, "step", "step")
    assert of(first, "saved", "step") == reached == [1]
    assert of(first, "sigterm", "message") == ["SIGTERM received"]
    assert (first[-1]["event"], first[-1]["code"]) == ("exit", 143)
    assert first[-1]["message"] == "preempted; step 1 is saved, and a retry resumes from it"

    code, second = trainer.run(CLOUD_RUN_TASK_ATTEMPT="1")
    assert code == 0, trainer.errors()
    assert of(second, "resumed", "from_step") == reached
    assert reached + of(second, "step", "step") == list(range(1, STEPS + 1))
    assert_as_undisturbed(trainer, reference)


def test_sigkill_and_sigterm_in_saves_and_anywhere(trainer: Trainer, reference: Path) -> None:
    def saving(step: int) -> bool:
        folder = trainer.task_dir / "checkpoints" / str(step)
        return folder.exists() and not (folder / "commit_success.txt").exists()

    first = trainer.start_holding_save(EVERY)
    until(lambda: saving(EVERY) or first.poll() is not None)
    first.kill()
    assert leave(first) == -signal.SIGKILL, trainer.errors()

    second = trainer.start_holding_save(2 * EVERY, CLOUD_RUN_TASK_ATTEMPT="1", HOLDFAST_GRACE_SECONDS=str(PATIENCE))
    until(lambda: saving(2 * EVERY) or second.poll() is not None)
    second.send_signal(signal.SIGTERM)
    event(second, lambda each: each["event"] == "sigterm")
    trainer.release.touch()
    assert leave(second) == 143, trainer.errors()

    third = trainer.start(CLOUD_RUN_TASK_ATTEMPT="2", HOLDFAST_STEP_SECONDS_MIN="0.1")
    event(third, lambda each: each["event"] == "step")
    time.sleep(random.Random(7).uniform(0, 0.3))
    third.kill()
    assert leave(third) in (-signal.SIGKILL, 0)

    code, last = trainer.run(CLOUD_RUN_TASK_ATTEMPT="3")
    assert code == 0, trainer.errors()
    events = read_events(trainer.task_dir / "events.jsonl")
    assert set(of(events, "step", "step")) == set(range(1, STEPS + 1))
    digests: dict[int, set[str]] = {}
    for each in events:
        if each["event"] in ("saved", "resumed"):
            digests.setdefault(each["step" if "step" in each else "from_step"], set()).add(each["digest"])
    assert all(len(seen) == 1 for seen in digests.values())
    assert last[-1]["code"] == 0
    assert_as_undisturbed(trainer, reference)


@pytest.mark.parametrize("grace", [PATIENCE, 0.8])
def test_sigterm_during_the_imports(trainer: Trainer, grace: float) -> None:
    process = trainer.start(HOLDFAST_GRACE_SECONDS=str(grace))
    event(process, lambda each: each["event"] == "start")
    process.send_signal(signal.SIGTERM)
    assert leave(process) == 143, trainer.errors()
    events = read_events(trainer.task_dir / "events.jsonl")
    assert [each["event"] for each in events] == ["start", "sigterm", "exit"]
    assert ("without a last save" in events[-1]["message"]) == (grace < 1)
    assert "no checkpoint is saved yet, so a retry starts from step 0" in events[-1]["message"]


def test_sigterm_during_a_restart_tells_which_step_is_saved(finished: Trainer) -> None:
    """And whatever fails after it is part of the preemption: mounts and peers are taken away as well."""
    (finished.task_dir / "result.json").unlink()
    arrays = finished.task_dir / "checkpoints" / str(STEPS) / "state" / "d"
    process = finished.start_holding(f"{STEPS}/progress/metadata", HOLDFAST_GRACE_SECONDS=str(PATIENCE))
    event(process, lambda each: each["event"] == "imported")
    process.send_signal(signal.SIGTERM)
    event(process, lambda each: each["event"] == "sigterm")
    shutil.rmtree(arrays)
    arrays.symlink_to(arrays)  # whoever opens a file in it is told ELOOP
    finished.release.touch()
    assert leave(process) == 143, finished.errors()
    last = read_events(finished.task_dir / "events.jsonl")[-1]
    assert (last["event"], last["message"]) == (
        "exit",
        f"preempted; step {STEPS} is saved, and a retry resumes from it",
    )
    assert "symbolic links" in finished.errors()


def test_evaluations_are_told_and_change_nothing(trainer: Trainer, reference: Path) -> None:
    code, events = trainer.run(HOLDFAST_EVAL_EVERY="5", HOLDFAST_EVAL_BATCHES="2")
    assert code == 0, trainer.errors()
    phases = [each["event"] for each in events if each["event"] not in ("step", "saved")]
    assert phases == ["start", "imported", "fresh", "compiled", "eval", "eval", "done", "exit"]
    assert of(events, "eval", "step") == [5, 10]
    assert len({*of(events, "eval", "loss"), *of(events, "step", "loss")}) == 2 + STEPS
    assert_as_undisturbed(trainer, reference)


def test_sigterm_when_all_is_done_is_too_late_to_matter(finished: Trainer, reference: Path) -> None:
    (finished.task_dir / "result.json").unlink()
    process = finished.start()
    event(process, lambda each: each["event"] == "resumed")
    process.send_signal(signal.SIGTERM)
    assert leave(process) == 0, finished.errors()
    assert_as_undisturbed(finished, reference)


def test_a_truncated_newest_checkpoint_costs_only_its_steps(finished: Trainer, reference: Path) -> None:
    (finished.task_dir / "result.json").unlink()
    for path in (finished.task_dir / "checkpoints" / str(STEPS) / "state").rglob("d/*"):
        path.write_bytes(path.read_bytes()[:10])
    code, events = finished.run()
    assert code == 0, finished.errors()
    assert of(events, "fallback", "step") == [STEPS]
    assert of(events, "resumed", "from_step") == [STEPS - EVERY]
    assert [path.name.split("-")[0] for path in (finished.task_dir / "damaged").iterdir()] == [str(STEPS)]
    assert_as_undisturbed(finished, reference)


def test_a_mount_that_fails_once_costs_an_attempt_and_no_checkpoint(finished: Trainer, reference: Path) -> None:
    (finished.task_dir / "result.json").unlink()
    folder = finished.task_dir / "checkpoints" / str(STEPS) / "state" / "d"
    kept = folder.with_name("kept")
    folder.rename(kept)
    folder.symlink_to(folder)  # whoever opens a file in it is told ELOOP
    code, events = finished.run()
    assert (code, of(events, "fallback", "step")) == (1, []), finished.errors()
    assert not (finished.task_dir / "damaged").exists()

    folder.unlink()
    kept.rename(folder)
    code, events = finished.run(CLOUD_RUN_TASK_ATTEMPT="1")
    assert (code, of(events, "resumed", "from_step")) == (0, [STEPS]), finished.errors()
    assert_as_undisturbed(finished, reference)


def test_another_seed_is_refused_and_nothing_is_lost(finished: Trainer, reference: Path) -> None:
    code, events = finished.run(HOLDFAST_SEED="8", HOLDFAST_STEPS="20")
    assert code == 2, finished.errors()
    assert "seed: 7 -> 8" in events[-1]["message"]
    assert_as_undisturbed(finished, reference)


def test_a_rerun_after_the_end_changes_nothing(finished: Trainer, reference: Path) -> None:
    code, events = finished.run()
    assert code == 0, finished.errors()
    assert [each["event"] for each in events] == ["start", "done", "exit"]
    assert finished.errors() == ""
    assert not (finished.task_dir / "lease.json").exists()
    assert_as_undisturbed(finished, reference)


def test_a_run_can_be_prolonged_but_not_go_back(finished: Trainer) -> None:
    code, events = finished.run(HOLDFAST_STEPS=str(STEPS + 1))
    assert (code, of(events, "step", "step")) == (0, [STEPS + 1]), finished.errors()
    code, events = finished.run(HOLDFAST_STEPS="3")
    assert code == 2
    assert f"already holds step {STEPS + 1}" in events[-1]["message"]
    assert of(events, "resumed", "from_step") == []


def test_bad_configuration_is_told_as_an_event(trainer: Trainer) -> None:
    code, events = trainer.run(HOLDFAST_STPES="3")
    assert (code, len(events)) == (2, 1)
    assert (events[0]["event"], events[0]["severity"], events[0]["code"]) == ("exit", "ERROR", 2)
    assert "did you mean HOLDFAST_STEPS?" in events[0]["message"]
    assert not trainer.task_dir.exists()


def test_a_folder_that_cannot_be_written_is_told_with_the_way_out(trainer: Trainer) -> None:
    (trainer.root / "checkpoints").write_text("not a folder")
    code, events = trainer.run()
    assert (code, [each["event"] for each in events]) == (1, ["start", "exit"]), trainer.errors()
    for words in (str(trainer.task_dir), "Not a directory", "mount option uid"):
        assert words in events[-1]["message"]


def test_help_prints_the_contract(trainer: Trainer) -> None:
    process = trainer.command("-m", "workloads.trainer", "--help")
    out, _ = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0
    assert "HOLDFAST_CHECKPOINT_EVERY" in out
