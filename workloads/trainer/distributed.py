"""Several processes that train one run: one program over all their devices, and process 0 alone with the folder.

Data parallel: every device has the whole state and its block of the global batch, which does not depend on how many
there are. Every decision that the next collective depends on is taken together.
"""

import contextlib
import threading
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import numpy.typing as npt
from jax.experimental import multihost_utils
from jax.sharding import Mesh, NamedSharding

from workloads.trainer.config import Config

_HEARTBEAT_S = 20  # how long a peer may be silent; JAX's default is 100
_START_S = 300  # until all processes must be there
_AXIS = "data"
_spec: Any = jax.sharding.PartitionSpec


def join(config: Config) -> None:
    """Connects the processes, if there are several. Raises what JAX raises when they are not all there in time.

    A process whose peer dies later fails in its next collective, or is aborted (134) after the heartbeat time-out.
    """
    if config.process_count == 1:
        return
    update: Any = jax.config.update
    update("jax_enable_preemption_service", False)  # it would take SIGTERM over
    jax.distributed.initialize(
        config.coordinator,
        config.process_count,
        config.process_id,
        cluster_detection_method="deactivate",  # the configuration says it all
        initialization_timeout=_START_S + int(config.lease_seconds),  # process 0 may have to wait for its lease
        heartbeat_timeout_seconds=_HEARTBEAT_S,
    )


def leave() -> None:
    """Waits for the others, so that none is torn away before it has heard how the run ended."""
    if jax.process_count() > 1:
        with contextlib.suppress(jax.errors.JaxRuntimeError):  # a peer that is gone already
            shutdown: Any = jax.distributed.shutdown
            shutdown()


def mesh() -> Mesh:
    """All devices of all processes in a row."""
    return Mesh(np.array(jax.devices()), (_AXIS,))


def replicate(mesh: Mesh, tree: Any) -> Any:
    """The arrays on every device of the mesh; each process gives the same ones."""
    return _place(tree, NamedSharding(mesh, _spec()))


def share_out(mesh: Mesh, batch: npt.NDArray[Any]) -> jax.Array:
    """The global batch, each device with its block of rows."""
    array: jax.Array = _place(batch, NamedSharding(mesh, _spec(_AXIS)))
    return array


def _place(tree: Any, sharding: NamedSharding) -> Any:
    def place(leaf: Any) -> jax.Array:
        host = np.asarray(leaf)
        return jax.make_array_from_callback(host.shape, sharding, lambda index: host[index])

    return jax.tree.map(place, tree)


def agreed(stop: threading.Event) -> bool:
    """Whether any process has been asked to stop. All of them must ask this at the same place."""
    if jax.process_count() == 1:
        return stop.is_set()
    return bool(multihost_utils.process_allgather(np.int32(stop.is_set())).any())


def from_first(make: Callable[[], Any], template: Any) -> Any:
    """What process 0 makes, in all processes, bit for bit. template: the shapes and dtypes of the arrays."""
    if jax.process_count() == 1:
        return make()
    tree = make() if jax.process_index() == 0 else jax.tree.map(lambda leaf: np.zeros(leaf.shape, leaf.dtype), template)
    # As bytes: the sum that is a broadcast inside would turn -0.0 into 0.0.
    flat = multihost_utils.broadcast_one_to_all(jax.tree.map(lambda leaf: np.frombuffer(_bytes(leaf), np.uint8), tree))
    return jax.tree.map(lambda data, leaf: np.frombuffer(data, leaf.dtype).reshape(leaf.shape), flat, template)


def _bytes(leaf: Any) -> bytes:
    return np.asarray(leaf).tobytes()
