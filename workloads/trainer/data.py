"""Synthetic tokens that are a function of (seed, step): there is no iterator whose state could be lost.

Philox is counter-based and NumPy guarantees the raw stream of a bit generator, so a newer NumPy draws the same numbers.
On the host, because compiling JAX's generators for the CPU would take longer than a small rehearsal's whole training.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

# Streams that no step reaches: evaluations' from here on, and the weights'.
EVAL_STREAM = 2**63
INIT_STREAM = 2**64 - 1


def raw(seed: int, stream: int, count: int) -> npt.NDArray[np.uint64]:
    """`count` random 64-bit words, a function of (seed, stream)."""
    words: Any = np.random.Philox(key=np.array([seed, stream], np.uint64)).random_raw(count)
    return np.asarray(words, np.uint64)


def batch(seed: int, stream: int, *, batch_size: int, length: int, vocabulary: int) -> npt.NDArray[np.int32]:
    """tokens_BxT of a stream: each row counts from a random token in a random stride.

    stream: of a training step, the number of completed ones. The stride, 1 to 7, shows in the first two tokens, so the
    rest can be learnt. Counting is modulo the vocabulary.
    """
    start_Bx1, stride_Bx1 = raw(seed, stream, 2 * batch_size).reshape(2, batch_size, 1)
    tokens_BxT = start_Bx1 % vocabulary + (stride_Bx1 % 7 + 1) * np.arange(length, dtype=np.uint64)
    return (tokens_BxT % vocabulary).astype(np.int32)
