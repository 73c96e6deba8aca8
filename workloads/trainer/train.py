"""The training loop: resume, step, save, leave when asked to."""

import dataclasses
import functools
import math
import threading
import time
from typing import Any

import jax

from workloads.trainer import checkpoint, result
from workloads.trainer import step as stepping
from workloads.trainer.checkpoint import Progress
from workloads.trainer.config import EXIT_DONE, EXIT_PREEMPTED, Config, ConfigError
from workloads.trainer.digest import digest
from workloads.trainer.events import EventLog
from workloads.trainer.step import State


def run(config: Config, log: EventLog, stop: threading.Event) -> int:
    """Trains until `config.steps` steps are complete or `stop` is set; returns the exit code.

    Raises ConfigError when the checkpoints belong to another or a longer run, NoReadableCheckpoint when all are
    damaged, FloatingPointError when the loss is not finite.
    """
    if stop.is_set():
        return EXIT_PREEMPTED
    with checkpoint.open_manager(config.task_dir / checkpoint.FOLDER) as manager:
        state, progress = _begin(config, log, manager)
        if progress.step < config.steps:
            if stop.is_set():
                return EXIT_PREEMPTED
            state, progress = _train(config, log, stop, manager, state, progress)
    if progress.step < config.steps:
        return EXIT_PREEMPTED
    _finish(config, log, state, progress)
    return EXIT_DONE


def _begin(config: Config, log: EventLog, manager: Any) -> tuple[State, Progress]:
    """The state to go on from: the newest good checkpoint's, else a fresh one."""

    def on_damaged(step: int, reason: str) -> None:
        message = f"checkpoint at step {step} is damaged, falling back to the one before"
        log.emit("fallback", message, "WARNING", step=step, reason=reason)

    began = time.monotonic()
    init = functools.partial(stepping.init, config)
    restored = checkpoint.restore_latest(manager, jax.eval_shape(init), config.run, on_damaged)
    if restored is None:
        return init(), Progress(step=0, loss=math.nan, productive_seconds=0.0, run=config.run)
    state, progress = restored
    log.emit(
        "resumed",
        f"resumed from step {progress.step}",
        from_step=progress.step,
        seconds=time.monotonic() - began,
        productive_seconds=progress.productive_seconds,
        digest=digest(state),
    )
    if progress.step > config.steps:
        raise ConfigError(
            f"HOLDFAST_STEPS={config.steps}, but {manager.directory} already holds step {progress.step}, "
            f"and a run cannot go back; set at least {progress.step}, or use another job name"
        )
    return state, progress


def _train(
    config: Config, log: EventLog, stop: threading.Event, manager: Any, state: State, progress: Progress
) -> tuple[State, Progress]:
    """Steps until done or stopped; what it returns is saved."""
    advance = stepping.compile(config, state)
    saved_step = progress.step
    while progress.step < config.steps and not stop.is_set():
        began = time.monotonic()
        state, loss = advance(state, stepping.batch(config, progress.step))
        progress = _completed(progress, float(loss), config, stop, began)
        log.emit(
            "step",
            f"completed step {progress.step} of {config.steps}, loss {progress.loss:.4f}",
            step=progress.step,
            loss=progress.loss,
            seconds=time.monotonic() - began,
        )
        if progress.step % config.checkpoint_every == 0:
            _save(log, manager, state, progress)
            saved_step = progress.step
    if progress.step != saved_step:
        _save(log, manager, state, progress)
    return state, progress


def _completed(progress: Progress, loss: float, config: Config, stop: threading.Event, began: float) -> Progress:
    """Waits out the minimum time of a step, unless stopped, and counts the step."""
    step = progress.step + 1
    if not math.isfinite(loss):
        raise FloatingPointError(
            f"the loss of step {step} is {loss}, which no later step would mend, so it was not saved; "
            "lower HOLDFAST_LEARNING_RATE and use another job name"
        )
    stop.wait(max(0.0, began + config.step_seconds_min - time.monotonic()))
    seconds = progress.productive_seconds + time.monotonic() - began
    return dataclasses.replace(progress, step=step, loss=loss, productive_seconds=seconds)


def _save(log: EventLog, manager: Any, state: State, progress: Progress) -> None:
    began = time.monotonic()
    fingerprint = checkpoint.save(manager, state, progress)
    seconds = time.monotonic() - began
    log.emit(
        "saved", f"saved checkpoint at step {progress.step}", step=progress.step, seconds=seconds, digest=fingerprint
    )


def _finish(config: Config, log: EventLog, state: State, progress: Progress) -> None:
    fingerprint = digest(state["params"])
    result.write(
        config.task_dir / result.FILE,
        {
            "v": result.VERSION,
            "job": config.job,
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
