"""The project's trainer under Ray Train's JaxTrainer: one process a host, and one run over all of them.

    python trainer.py --workers 4 --chips 4 --topology 4x4 --accelerator TPU-V6E    on a TPU slice
    python trainer.py --workers 2                                                   on CPUs, to try it

Both take the same path. Ray Train finds the hosts, a whole slice where there are chips. The worker on each of them runs
`python -m workloads.trainer` and tells it which of how many it is; JAX's processes meet by the trainer's own means, so
Ray's are off. What the trainer promises elsewhere holds here: its variables (the driver's, for all of them), its folder
in the mounted bucket, its exit codes: the driver leaves with process 0's.

A process that dies ends the others; Ray Train starts all of them anew, at most `--retries` times, and they resume. None
outlives its worker: it gets SIGTERM, and often SIGKILL from Ray before it has saved. Sure is only the last checkpoint.
The package is the image's, or else lies beside this file, a file a module (programs.py).
"""

import argparse
import contextlib
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

# What the trainer reads, beside the variables of JAX.
SETTINGS = ("HOLDFAST_", "CHECKPOINT_DIR", "CLOUD_RUN_")
# The trainer, which hears when the Ray worker that started it is no more. On Linux alone: elsewhere it would train on.
CHILD = """
import ctypes, os, runpy, signal, sys
parent = int(sys.argv.pop(1))
if sys.platform == "linux":
    ctypes.CDLL(None).prctl(1, signal.SIGTERM)  # PR_SET_PDEATHSIG
if os.getppid() == parent:
    runpy.run_module("workloads.trainer", run_name="__main__", alter_sys=True)
"""


def train(config: dict[str, Any]) -> None:
    """One worker's part: the trainer's process to its end. Another exit code than 0 is an error to Ray, as it is."""
    import ray.train
    import ray.util
    from ray.train.collective import broadcast_from_rank_zero

    context = ray.train.get_context()
    address = f"{ray.util.get_node_ip_address()}:{free_port()}"
    environ = {
        **os.environ,
        **config["settings"],
        "HOLDFAST_COORDINATOR": broadcast_from_rank_zero(address),
        "HOLDFAST_PROCESS_ID": str(context.get_world_rank()),
        "HOLDFAST_PROCESS_COUNT": str(context.get_world_size()),
    }
    with shipped(Path(config["folder"])) as paths:
        environ["PYTHONPATH"] = os.pathsep.join([*paths, *filter(None, [environ.get("PYTHONPATH")])])
        code = subprocess.run([sys.executable, "-c", CHILD, str(os.getpid())], env=environ, check=False).returncode
    if code:
        raise SystemExit(code if code > 0 else 128 - code)


@contextlib.contextmanager
def shipped(folder: Path) -> Iterator[list[str]]:
    """Where to import the package from, if it is in that folder, such as workloads/trainer/data.py in
    `workloads.trainer.data.py`."""
    files = sorted(folder.glob("workloads.*.py"))
    with tempfile.TemporaryDirectory(prefix="trainer-") as root:
        for file in files:
            module = Path(root, *file.name.removesuffix(".py").split(".")).with_suffix(".py")
            module.parent.mkdir(parents=True, exist_ok=True)
            module.write_bytes(file.read_bytes())
        yield [root] if files else []


def free_port() -> int:
    """A port that nobody has now."""
    with socket.socket() as free:
        free.bind(("", 0))
        return int(free.getsockname()[1])


def main(arguments: list[str] | None = None) -> int:
    """Trains, and returns the trainer's exit code; 1 when Ray could not run it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workers", type=int, required=True, help="workers, one a host")
    parser.add_argument("--chips", type=int, default=0, help="TPU chips a worker, 0 for CPUs")
    parser.add_argument("--topology", help="the slice's topology")
    parser.add_argument("--accelerator", help="what Ray calls the TPU")
    parser.add_argument("--retries", type=int, default=3, help="restarts of all processes after one has died")
    given = parser.parse_args(arguments)
    os.environ.setdefault("RAY_DEDUP_LOGS", "0")  # it would leave out what it takes for repetitions
    from ray.train import FailureConfig, RunConfig, ScalingConfig
    from ray.train.v2.api.exceptions import TrainingFailedError, WorkerGroupError
    from ray.train.v2.jax import JaxConfig, JaxTrainer

    scaling = ScalingConfig(num_workers=given.workers)
    if given.chips:
        scaling = ScalingConfig(
            use_tpu=True,
            num_workers=given.workers,
            topology=given.topology,
            accelerator_type=given.accelerator,
            resources_per_worker={"TPU": given.chips},
        )
    settings = {name: value for name, value in os.environ.items() if name.startswith(SETTINGS)}
    if run := settings.get("HOLDFAST_RUN_ID"):  # a RayJob's name, usually
        settings.setdefault("CLOUD_RUN_JOB", run)
    trainer = JaxTrainer(
        train,
        train_loop_config={"settings": settings, "folder": str(Path(__file__).resolve().parent)},
        jax_config=JaxConfig(use_tpu=False),
        scaling_config=scaling,
        run_config=RunConfig(failure_config=FailureConfig(max_failures=given.retries)),
    )
    try:
        trainer.fit()
    except WorkerGroupError as error:
        print(error, file=sys.stderr, flush=True)
        _, first = min(error.worker_failures.items())
        return first.code if isinstance(first, SystemExit) and isinstance(first.code, int) else 1
    except TrainingFailedError as error:
        print(error, file=sys.stderr, flush=True)
        return 1
    print("Training Complete!", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
