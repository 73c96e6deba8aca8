"""What the model computes, and that equal means equal bit for bit."""

import threading
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from workloads.trainer import model, train
from workloads.trainer.checkpoint import Progress
from workloads.trainer.config import Config
from workloads.trainer.digest import digest, leaves

pytestmark = pytest.mark.jax

CONFIG = Config(
    checkpoint_dir=Path("/unused"),
    batch_size=2,
    sequence_length=8,
    vocabulary=32,
    model_dim=16,
    layers=2,
    heads=2,
    seed=7,
)


def test_weights_are_a_function_of_the_seed_with_the_variance_of_their_fan_in() -> None:
    params = model.init(CONFIG)
    assert digest(params) == digest(model.init(CONFIG))
    assert digest(params) != digest(model.init(Config(checkpoint_dir=Path("/unused"), **CONFIG.run | {"seed": 8})))
    up = np.asarray(params["blocks"]["up_NxDxF"])
    assert up.dtype == np.float32
    assert up.var() == pytest.approx(1 / 16, rel=0.1)
    assert up.mean() == pytest.approx(0, abs=0.02)


def test_a_token_sees_no_later_one() -> None:
    params = model.init(CONFIG)
    tokens_BxL = jnp.arange(16).reshape(2, 8)
    one = model.logits(params, tokens_BxL)
    other = model.logits(params, tokens_BxL.at[:, 5].set(31))
    np.testing.assert_array_equal(one[:, :5], other[:, :5])
    assert (np.asarray(one[:, 5:]) != np.asarray(other[:, 5:])).any(axis=-1).all()


@pytest.mark.parametrize(
    "other",
    [
        {"a": jnp.array([1.0, -0.0]), "b": jnp.int32(1)},
        {"a": jnp.array([1.0, 1e-45]), "b": jnp.int32(1)},
        {"a": jnp.array([[1.0, 0.0]]), "b": jnp.int32(1)},
        {"a": jnp.array([1.0, 0.0]), "b": jnp.float32(1)},
        {"a": jnp.array([1.0, 0.0]), "c": jnp.int32(1)},
    ],
)
def test_the_digest_sees_every_bit_shape_type_and_name(other: dict[str, jax.Array]) -> None:
    tree = {"a": jnp.array([1.0, 0.0]), "b": jnp.int32(1)}
    assert digest(tree) == digest(dict(reversed(tree.items())))
    assert digest(tree) != digest(other)
    assert list(leaves(tree)) == ["['a']", "['b']"]


def test_a_loss_that_is_not_finite_ends_the_run() -> None:
    progress = Progress(step=4, loss=1.0, productive_seconds=0.0, run=CONFIG.run)
    with pytest.raises(FloatingPointError, match=r"step 5 is nan.*HOLDFAST_LEARNING_RATE"):
        train._completed(progress, float("nan"), CONFIG, threading.Event(), 0.0)
