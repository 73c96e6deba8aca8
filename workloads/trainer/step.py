"""The training state and the one function that advances it."""

from typing import Any, TypedDict

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt
import optax  # type: ignore[import-untyped]

from workloads.trainer import data, model
from workloads.trainer.config import Config

WARM_UP_STEPS = 10


class State(TypedDict):
    """Everything that a step reads and writes; with the number of completed steps it determines the rest of the run."""

    params: model.Params
    opt_state: Any


def _optimizer(config: Config) -> Any:
    # Constant after the warm-up, so that a run may be prolonged without having been another run from its start.
    schedule = optax.schedules.warmup_constant_schedule(0.0, config.learning_rate, WARM_UP_STEPS)
    return optax.adamw(schedule)


def init(config: Config) -> State:
    """The state before the first step, a function of the seed and the model's sizes."""
    params = model.init(config)
    return {"params": params, "opt_state": _optimizer(config).init(params)}


def batch(config: Config, step: int) -> npt.NDArray[np.int32]:
    """tokens_BxT for the step after `step` completed ones; T is L + 1: inputs and, one place on, targets."""
    return _batch(config, step)


def held_out(config: Config, index: int) -> npt.NDArray[np.int32]:
    """tokens_BxT of the evaluations' batch `index`, which no step sees."""
    return _batch(config, data.EVAL_STREAM + index)


def _batch(config: Config, stream: int) -> npt.NDArray[np.int32]:
    length = config.sequence_length + 1
    return data.batch(config.seed, stream, batch_size=config.batch_size, length=length, vocabulary=config.vocabulary)


def loss_of(params: model.Params, tokens_BxT: jax.Array) -> jax.Array:
    """The mean loss over all tokens of the batch."""
    logits_BxLxV = model.logits(params, tokens_BxT[:, :-1])
    losses_BxL = optax.softmax_cross_entropy_with_integer_labels(logits_BxLxV, tokens_BxT[:, 1:])
    return jnp.mean(losses_BxL)


def compile(config: Config, state: State, tokens_BxT: jax.Array) -> Any:
    """Compiles (state, tokens_BxT) -> (state, loss) ahead of time; a step reuses the given state's buffers.

    state, tokens_BxT: placed on the devices as those of every step will be.
    """
    optimizer = _optimizer(config)

    def advance(state: State, tokens_BxT: jax.Array) -> tuple[State, jax.Array]:
        loss, grads = jax.value_and_grad(loss_of)(state["params"], tokens_BxT)
        updates, opt_state = optimizer.update(grads, state["opt_state"], state["params"])
        return {"params": optax.apply_updates(state["params"], updates), "opt_state": opt_state}, loss

    same = jax.tree.map(lambda leaf: leaf.sharding, state)
    everywhere = same["params"]["norm_D"]
    step = jax.jit(advance, donate_argnums=0, out_shardings=(same, everywhere))
    return step.lower(state, tokens_BxT).compile()


def compile_evaluation(state: State, tokens_BxT: jax.Array) -> Any:
    """Compiles (params, tokens_BxT) -> loss, which changes nothing."""
    everywhere = state["params"]["norm_D"].sharding
    return jax.jit(loss_of, out_shardings=everywhere).lower(state["params"], tokens_BxT).compile()
