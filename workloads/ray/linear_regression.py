"""A linear regression by Ray Train's JaxTrainer over all chips of a job: the smallest job that needs a whole slice.

    python linear_regression.py --workers 4 --chips 4 --topology 4x4 --accelerator TPU-V6E    on a TPU slice
    python linear_regression.py --workers 2                                                   on CPUs, to try it

Both take the same path, but for one thing: Ray joins JAX's processes on TPUs alone, so on CPUs the workers do it.
"""

import argparse
import socket
from typing import Any

EXAMPLES = 1024
FEATURES = 8
REPORT_EVERY = 10


def train(config: dict[str, Any]) -> None:
    """One worker's part; runs in each worker. Every tenth epoch the loss over all of them is reported."""
    import jax
    import jax.numpy as jnp
    import numpy as np
    import ray.train
    from jax.sharding import Mesh, NamedSharding

    # Without types of their own.
    update: Any = jax.config.update
    part: Any = jax.sharding.PartitionSpec
    whole: Any = jax.make_array_from_process_local_data
    context = ray.train.get_context()
    rank, workers = context.get_world_rank(), context.get_world_size()
    if config["coordinator"]:
        update("jax_cpu_collectives_implementation", "gloo")
        jax.distributed.initialize(config["coordinator"], workers, rank)
    # The whole data from one seed, of which each worker keeps its rows.
    random = np.random.default_rng(config["seed"])
    inputs = random.normal(size=(EXAMPLES, FEATURES)).astype(np.float32)
    answers = inputs @ random.normal(size=FEATURES).astype(np.float32) + 3.0
    rows = NamedSharding(Mesh(np.array(jax.devices()), ("rows",)), part("rows"))
    mine = slice(rank * EXAMPLES // workers, (rank + 1) * EXAMPLES // workers)
    x = whole(rows, inputs[mine], inputs.shape)
    y = whole(rows, answers[mine], answers.shape)

    def loss(weights: Any, x: Any, y: Any) -> Any:
        return jnp.mean((x @ weights[0] + weights[1] - y) ** 2)

    @jax.jit
    def step(weights: Any, x: Any, y: Any) -> Any:
        value, gradient = jax.value_and_grad(loss)(weights, x, y)
        return jax.tree.map(lambda w, g: w - config["rate"] * g, weights, gradient), value

    weights: Any = (jnp.zeros(FEATURES), jnp.zeros(()))
    for epoch in range(1, config["epochs"] + 1):
        weights, value = step(weights, x, y)
        if epoch % REPORT_EVERY == 0:
            found = {"epoch": epoch, "loss": float(value), "devices": jax.device_count()}
            if rank == 0:
                print(found, flush=True)
            ray.train.report(found)


def main(arguments: list[str] | None = None) -> None:
    """Runs the training and says so when it is complete; an error of a worker is raised here, and ends the job."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workers", type=int, required=True, help="workers, one a host")
    parser.add_argument("--chips", type=int, default=0, help="TPU chips a worker, 0 for CPUs")
    parser.add_argument("--topology", help="the slice's topology")
    parser.add_argument("--accelerator", help="what Ray calls the TPU")
    parser.add_argument("--epochs", type=int, default=50)
    parser.add_argument("--rate", type=float, default=0.05, help="the learning rate")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args(arguments)
    from ray.train import ScalingConfig
    from ray.train.v2.jax import JaxTrainer

    scaling = ScalingConfig(num_workers=given.workers)
    if given.chips:
        scaling = ScalingConfig(
            use_tpu=True,
            num_workers=given.workers,
            topology=given.topology,
            accelerator_type=given.accelerator,
            resources_per_worker={"TPU": given.chips},
        )
    settings = {"epochs": given.epochs, "rate": given.rate, "seed": given.seed}
    settings["coordinator"] = "" if given.chips else _loopback()
    JaxTrainer(train, train_loop_config=settings, scaling_config=scaling).fit()
    print("Training Complete!", flush=True)


def _loopback() -> str:
    """Where workers on this one machine meet."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{free.getsockname()[1]}"


if __name__ == "__main__":
    main()
