"""One attempt and its task's folder: what it restores, what it saves, how it ends, each told in the log."""

import dataclasses
import threading
import time
from pathlib import Path

import jax
import numpy as np

from workloads.trainer import checkpoint, result
from workloads.trainer.checkpoint import Progress
from workloads.trainer.config import EXIT_ANOTHER_WRITER, EXIT_DONE, EXIT_ERROR, EXIT_PREEMPTED, Config, ConfigError
from workloads.trainer.digest import digest
from workloads.trainer.events import EventLog
from workloads.trainer.folder import CHECKPOINTS, Outlook
from workloads.trainer.lease import AnotherWriter, Lease
from workloads.trainer.step import State


@dataclasses.dataclass(frozen=True)
class Attempt:
    """What one attempt works with. `lease` is process 0's; the others have a claim to nothing and write nothing.

    `stop`: set by SIGTERM, and when the lease is lost. `outlook`: what the last line says of a retry.
    """

    config: Config
    log: EventLog
    stop: threading.Event
    lease: Lease
    outlook: Outlook

    @property
    def checkpoints(self) -> Path:
        return self.config.task_dir / CHECKPOINTS

    @property
    def writes(self) -> bool:
        return self.config.process_id == 0


def restore(attempt: Attempt, template: State) -> tuple[State, Progress] | None:
    """The newest good checkpoint's state, on the host; None when there is no checkpoint yet."""
    config, log = attempt.config, attempt.log

    def on_damaged(step: int, reason: str) -> None:
        message = f"checkpoint at step {step} is damaged, falling back to the one before"
        log.emit("fallback", message, "WARNING", step=step, reason=reason)

    began = time.monotonic()
    attempt.lease.renew()
    restored = checkpoint.restore_latest(attempt.checkpoints, template, config.run, on_damaged)
    attempt.outlook.saved(restored and restored[1].step)
    if restored is None:
        message = "no checkpoint yet: starts from step 0"
        log.emit("fresh", message, from_step=0, seconds=time.monotonic() - began)
        return None
    state, progress = restored
    if progress.step > config.steps:
        raise ConfigError(
            f"HOLDFAST_STEPS={config.steps}, but {attempt.checkpoints} already holds step {progress.step}, "
            f"and a run cannot go back; set at least {progress.step}, or use another HOLDFAST_RUN_ID"
        )
    log.emit(
        "resumed",
        f"resumed from step {progress.step}",
        from_step=progress.step,
        seconds=time.monotonic() - began,
        productive_seconds=progress.productive_seconds,
        digest=digest(state),
    )
    return state, progress


def save(attempt: Attempt, state: State, progress: Progress) -> bool:
    """Process 0 saves, the others take it as done. A failure is told of and costs the checkpoint, not the training."""
    if not attempt.writes:
        return True
    log, step = attempt.log, progress.step
    began = time.monotonic()
    try:
        attempt.lease.renew()
        fingerprint = checkpoint.save(attempt.checkpoints, jax.tree.map(np.asarray, state), progress)
    except AnotherWriter:
        return False
    except Exception as error:  # Orbax, TensorStore and the file system each have their own
        message = f"checkpoint at step {step} could not be saved; {attempt.outlook.text}"
        reason = f"{type(error).__name__}: {error}"[:1000]
        log.emit("save_failed", message, "ERROR", step=step, seconds=time.monotonic() - began, reason=reason)
        return False
    seconds = time.monotonic() - began
    attempt.outlook.saved(step)
    log.emit("saved", f"saved checkpoint at step {step}", step=step, seconds=seconds, digest=fingerprint)
    return True


def end(attempt: Attempt, state: State, progress: Progress, saved: bool) -> int:
    """Process 0 decides how the attempt ended, and writes the result if it is the end of the run."""
    if attempt.lease.lost.is_set():
        return EXIT_ANOTHER_WRITER
    if progress.step < attempt.config.steps:
        return EXIT_PREEMPTED
    if not saved:
        return EXIT_ERROR
    try:
        attempt.lease.renew()
    except AnotherWriter:
        return EXIT_ANOTHER_WRITER
    _finish(attempt.config, attempt.log, state, progress)
    return EXIT_DONE


def _finish(config: Config, log: EventLog, state: State, progress: Progress) -> None:
    fingerprint = digest(state["params"])
    result.write(
        config.task_dir / result.FILE,
        {
            "v": result.VERSION,
            "job": config.job,
            "run_id": config.run_name,
            "task_index": config.task_index,
            "steps_total": config.steps,
            "step": progress.step,
            "loss": progress.loss,
            "digest": fingerprint,
            "productive_seconds": progress.productive_seconds,
            "run": progress.run,
        },
    )
    log.emit(
        "done",
        f"done: {progress.step} steps, loss {progress.loss:.4f}",
        step=progress.step,
        steps_total=config.steps,
        loss=progress.loss,
        productive_seconds=progress.productive_seconds,
        digest=fingerprint,
    )
