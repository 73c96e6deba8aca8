"""A file system that refuses to be written: from outside, by the limit on a file's size, which binds root as well."""

import resource
import signal
import subprocess
from pathlib import Path

import pytest
from trainer_process import EVERY, PATIENCE, STEPS, Trainer, event, of

from workloads.trainer.compare import compare
from workloads.trainer.events import read_events
from workloads.trainer.folder import COMMIT

pytestmark = pytest.mark.jax

TOO_SMALL = 20_000  # bytes: no checkpoint's arrays fit, the event log and the lease do
SLOW = {"HOLDFAST_STEP_SECONDS_MIN": "0.1"}


def limit(process: subprocess.Popen[str], size: int) -> None:
    resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))


def after(process: subprocess.Popen[str], name: str, step: int) -> None:
    event(process, lambda each: each["event"] == name and each["step"] == step)


def checkpoints(trainer: Trainer) -> set[str]:
    """The complete ones: what a failed save could not remove is ignored."""
    return {path.name for path in (trainer.task_dir / "checkpoints").iterdir() if (path / COMMIT).exists()}


def test_a_save_that_fails_costs_no_training_and_the_next_one_works(trainer: Trainer, reference: Path) -> None:
    process = trainer.start(**SLOW)
    after(process, "saved", EVERY)
    limit(process, TOO_SMALL)
    after(process, "save_failed", 2 * EVERY)
    assert checkpoints(trainer) == {str(EVERY)}
    limit(process, resource.RLIM_INFINITY)
    assert process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, trainer.errors()
    events = read_events(trainer.task_dir / "events.jsonl")
    assert of(events, "saved", "step") == [EVERY, STEPS]
    assert [each["severity"] for each in events if each["event"] == "save_failed"] == ["ERROR"]
    assert "File too large" in of(events, "save_failed", "reason")[0]
    assert compare(trainer.task_dir, reference)["bit_exact"]


def test_a_last_save_is_tried_twice_then_it_is_an_error_and_a_retry_resumes(trainer: Trainer, reference: Path) -> None:
    process = trainer.start(**SLOW)
    after(process, "saved", EVERY)
    limit(process, TOO_SMALL)
    assert process.communicate(timeout=PATIENCE)
    assert process.returncode == 1, trainer.errors()
    events = read_events(trainer.task_dir / "events.jsonl")
    assert of(events, "save_failed", "step") == [2 * EVERY, STEPS, STEPS]
    assert events[-1]["message"] == f"the last save failed twice; step {EVERY} is saved, and a retry resumes from it"
    assert not (trainer.task_dir / "result.json").exists()
    assert checkpoints(trainer) == {str(EVERY)}

    code, events = trainer.run(CLOUD_RUN_TASK_ATTEMPT="1")
    assert (code, of(events, "resumed", "from_step")) == (0, [EVERY]), trainer.errors()
    assert compare(trainer.task_dir, reference)["bit_exact"]


def test_at_sigterm_too_and_it_is_still_a_preemption(trainer: Trainer) -> None:
    process = trainer.start(**SLOW)
    after(process, "saved", EVERY)
    limit(process, TOO_SMALL)
    after(process, "step", EVERY + 1)
    process.send_signal(signal.SIGTERM)
    out, _ = process.communicate(timeout=PATIENCE)
    assert process.returncode == 143, trainer.errors()
    assert out.count('"save_failed"') == 2
    assert checkpoints(trainer) == {str(EVERY)}
