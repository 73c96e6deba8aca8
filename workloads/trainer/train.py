"""The training loop: resume, step, evaluate, save, leave when asked to."""

import dataclasses
import functools
import math
import threading
import time
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh

from workloads.trainer import attempt as attempts
from workloads.trainer import distributed
from workloads.trainer import step as stepping
from workloads.trainer.attempt import Attempt
from workloads.trainer.checkpoint import Progress
from workloads.trainer.config import Config, ConfigError
from workloads.trainer.step import State


def run(attempt: Attempt) -> int:
    """Trains until `config.steps` steps are complete or `stop` is set; returns the exit code, one for all processes.

    Raises ConfigError when the checkpoints belong to another or a longer run, NoReadableCheckpoint when all are
    damaged, FloatingPointError when the loss is not finite, AnotherWriter when the lease was lost before the start.
    """
    config = attempt.config
    distributed.join(config)
    mesh = distributed.mesh()
    if config.batch_size % mesh.size:
        raise ConfigError(
            f"HOLDFAST_BATCH_SIZE={config.batch_size} cannot be split over {mesh.size} devices; make it a multiple"
        )
    state, progress = _begin(attempt, mesh)
    saved = True
    if progress.step < config.steps and not distributed.agreed(attempt.stop):
        state, progress, saved = _train(attempt, mesh, state, progress)
    code = distributed.from_first(lambda: np.int32(attempts.end(attempt, state, progress, saved)), np.int32(0))
    distributed.leave()
    return int(code)


def _begin(attempt: Attempt, mesh: Mesh) -> tuple[State, Progress]:
    """The state to go on from, on all devices: the newest good checkpoint's, else a fresh one."""
    progress = Progress(step=0, loss=math.nan, productive_seconds=0.0, run=attempt.config.run)
    init = functools.partial(stepping.init, attempt.config)
    template = {"state": jax.eval_shape(init), "step": np.int32(0)}

    def load() -> dict[str, Any]:
        nonlocal progress
        restored = attempts.restore(attempt, template["state"])
        state, progress = restored or (init(), progress)
        return {"state": state, "step": np.int32(progress.step)}

    loaded = distributed.from_first(load, template)
    return distributed.replicate(mesh, loaded["state"]), dataclasses.replace(progress, step=int(loaded["step"]))


def _train(attempt: Attempt, mesh: Mesh, state: State, progress: Progress) -> tuple[State, Progress, bool]:
    """Steps until done or stopped; also returns whether the last step is saved."""
    config, log, stop = attempt.config, attempt.log, attempt.stop
    began = time.monotonic()
    share_out = functools.partial(distributed.share_out, mesh)
    advance = stepping.compile(config, state, share_out(stepping.batch(config, 0)))
    evaluate = None
    if config.eval_every:
        evaluate = stepping.compile_evaluation(state, share_out(stepping.held_out(config, 0)))
    seconds = time.monotonic() - began
    log.emit("compiled", f"compiled in {seconds:.1f} s", seconds=seconds)
    saved_step = progress.step
    while progress.step < config.steps and not distributed.agreed(stop):
        began = time.monotonic()
        state, loss = advance(state, share_out(stepping.batch(config, progress.step)))
        progress = _completed(progress, float(loss), config, stop, began)
        log.emit(
            "step",
            f"completed step {progress.step} of {config.steps}, loss {progress.loss:.4f}",
            step=progress.step,
            loss=progress.loss,
            seconds=time.monotonic() - began,
        )
        if evaluate and progress.step % config.eval_every == 0:
            _evaluate(attempt, evaluate, share_out, state, progress.step)
        due = progress.step % config.checkpoint_every == 0 and progress.step < config.steps
        if due and attempts.save(attempt, state, progress):
            saved_step = progress.step
    saved = (
        progress.step == saved_step
        or attempts.save(attempt, state, progress)
        or attempts.save(attempt, state, progress)
    )
    return state, progress, saved


def _completed(progress: Progress, loss: float, config: Config, stop: threading.Event, began: float) -> Progress:
    """Waits out the minimum time of a step, unless stopped, and counts the step."""
    step = progress.step + 1
    if not math.isfinite(loss):
        raise FloatingPointError(
            f"the loss of step {step} is {loss}, which no later step would mend, so it was not saved; "
            "lower HOLDFAST_LEARNING_RATE and use another HOLDFAST_RUN_ID"
        )
    stop.wait(max(0.0, began + config.step_seconds_min - time.monotonic()))
    seconds = progress.productive_seconds + time.monotonic() - began
    return dataclasses.replace(progress, step=step, loss=loss, productive_seconds=seconds)


def _evaluate(attempt: Attempt, evaluate: Any, share_out: Callable[..., jax.Array], state: State, step: int) -> None:
    """The mean loss over held-out batches, a function of the weights and of how many evaluations the run had by then.

    One that SIGTERM cuts short is not repeated: it has no part in the weights.
    """
    config = attempt.config
    began = time.monotonic()
    first = step // config.eval_every * config.eval_batches
    losses = []
    for index in range(first, first + config.eval_batches):
        if distributed.agreed(attempt.stop):
            return
        losses.append(float(evaluate(state["params"], share_out(stepping.held_out(config, index)))))
    loss = sum(losses) / len(losses)
    if not math.isfinite(loss):
        attempt.log.emit("eval", f"evaluation at step {step}: the loss is {loss}", "WARNING", step=step)
        return
    message = f"evaluation at step {step}, loss {loss:.4f}"
    attempt.log.emit("eval", message, step=step, loss=loss, seconds=time.monotonic() - began)
