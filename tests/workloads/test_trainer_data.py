import numpy as np
import pytest

from workloads.trainer import data

pytestmark = pytest.mark.jax


def test_a_function_of_seed_and_step() -> None:
    def batch(seed: int, step: int) -> np.ndarray:
        return data.batch(seed, step, batch_size=4, length=9, vocabulary=32)

    again = batch(7, 1000)
    assert again.shape == (4, 9)
    assert again.dtype == np.int32
    assert 0 <= again.min() <= again.max() < 32
    np.testing.assert_array_equal(batch(7, 1000), again)
    assert (batch(7, 1001) != again).any()
    assert (batch(8, 1000) != again).any()


def test_the_stream_is_this_one_for_ever() -> None:
    """A resume under a newer NumPy must go on with the same data."""
    assert data.raw(7, 3, 2).tolist() == [8893702929424106994, 13357943582879616415]
    tokens_BxT = data.batch(7, 3, batch_size=2, length=5, vocabulary=32)
    assert tokens_BxT.tolist() == [[18, 21, 24, 27, 30], [31, 0, 1, 2, 3]]


def test_evaluations_have_streams_that_no_step_reaches() -> None:
    last_step, evaluations = 2**31 - 1, 2**31 * 2**31
    assert last_step < data.EVAL_STREAM
    assert data.EVAL_STREAM + evaluations < data.INIT_STREAM


def test_each_row_counts_in_one_stride() -> None:
    tokens_BxT = data.batch(0, 5, batch_size=64, length=9, vocabulary=32)
    strides = np.diff(tokens_BxT, axis=1) % 32
    assert (strides == strides[:, :1]).all()
    assert set(strides[:, 0].tolist()) == set(range(1, 8))
