"""A small decoder-only transformer: pure functions over a pytree of float32 parameters.

Shapes are in the names: B batch, L sequence, V vocabulary, D width, H heads, K width of a head, F hidden, N blocks.
The blocks are stacked along N and run by a scan: compilation does not grow with the depth, a checkpoint has few files.
"""

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from workloads.trainer import data
from workloads.trainer.config import Config

Params = dict[str, Any]


def init(config: Config) -> Params:
    """Fresh parameters, a function of the seed and the sizes; weights are uniform with variance 1/fan-in."""
    V, L, D, N, H = config.vocabulary, config.sequence_length, config.model_dim, config.layers, config.heads
    K, F = D // H, 4 * D
    words = data.raw(config.seed, data.INIT_STREAM, V * D + L * D + N * (4 * D * D + 2 * D * F))
    used = 0

    def uniform(shape: tuple[int, ...], fan_in: int) -> jax.Array:
        nonlocal used
        count = math.prod(shape)
        unit = (words[used : used + count] >> np.uint64(40)).astype(np.float32) / 2**23 - 1  # 24 bits, in [-1, 1)
        used += count
        return jnp.asarray((unit * math.sqrt(3 / fan_in)).astype(np.float32).reshape(shape))

    return {
        "embed_VxD": uniform((V, D), D),
        "position_LxD": uniform((L, D), D),
        "blocks": {
            "norm1_NxD": jnp.ones((N, D)),
            "qkv_NxDx3xHxK": uniform((N, D, 3, H, K), D),
            "out_NxHxKxD": uniform((N, H, K, D), D),
            "norm2_NxD": jnp.ones((N, D)),
            "up_NxDxF": uniform((N, D, F), D),
            "down_NxFxD": uniform((N, F, D), F),
        },
        "norm_D": jnp.ones((D,)),
    }


def _norm(x_BxLxD: jax.Array, scale_D: jax.Array) -> jax.Array:
    power_BxLx1 = jnp.mean(x_BxLxD**2, axis=-1, keepdims=True)
    return x_BxLxD * jax.lax.rsqrt(power_BxLx1 + 1e-6) * scale_D


def _block(x_BxLxD: jax.Array, block: Params) -> tuple[jax.Array, None]:
    h_BxLxD = _norm(x_BxLxD, block["norm1_NxD"])
    q_BxLxHxK, k_BxLxHxK, v_BxLxHxK = jnp.einsum("bld,dthk->tblhk", h_BxLxD, block["qkv_NxDx3xHxK"])
    mixed_BxLxHxK = jax.nn.dot_product_attention(q_BxLxHxK, k_BxLxHxK, v_BxLxHxK, is_causal=True)
    x_BxLxD = x_BxLxD + jnp.einsum("blhk,hkd->bld", mixed_BxLxHxK, block["out_NxHxKxD"])
    h_BxLxD = _norm(x_BxLxD, block["norm2_NxD"])
    return x_BxLxD + jax.nn.gelu(h_BxLxD @ block["up_NxDxF"]) @ block["down_NxFxD"], None


def logits(params: Params, tokens_BxL: jax.Array) -> jax.Array:
    """logits_BxLxV: at each place the scores of the token that comes next."""
    x_BxLxD = params["embed_VxD"][tokens_BxL] + params["position_LxD"]
    x_BxLxD, _ = jax.lax.scan(_block, x_BxLxD, params["blocks"])
    logits_BxLxV: jax.Array = _norm(x_BxLxD, params["norm_D"]) @ params["embed_VxD"].T
    return logits_BxLxV
