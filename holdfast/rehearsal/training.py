"""The trainer in a rehearsal: what its image runs here, and the comparison with an undisturbed run."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from holdfast.errors import OperatorError
from mockgcp.planes.cloud_run import LocalImage
from mockgcp.planes.processes import ProcessLedger
from workloads.ray.trainer import free_port

# Compiles several times faster on a CPU. Both runs use the same: other flags give other bits.
COMPILER = {"XLA_FLAGS": "--xla_backend_optimization_level=0 --xla_cpu_use_fusion_emitters=false"}
# What paces the disturbed run alone, and has no part in the weights.
_PACE = "HOLDFAST_STEP_SECONDS_MIN"


def image(state: Path) -> LocalImage:
    """The trainer's image as this machine runs it: the same package on the CPU, its compilation cache in `state`."""
    return LocalImage(
        entrypoint=(sys.executable, "-m", "workloads.trainer"),
        env={
            "JAX_PLATFORMS": "cpu",
            **COMPILER,
            "JAX_COMPILATION_CACHE_DIR": str(state / "jax-cache"),
            "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        },
    )


def settings(seed: int, steps: int, step_s: float) -> dict[str, str]:
    """The job's environment for a rehearsal: a run of `steps` steps that take at least `step_s` seconds each."""
    return {
        "HOLDFAST_SEED": str(seed),
        "HOLDFAST_STEPS": str(steps),
        "HOLDFAST_CHECKPOINT_EVERY": str(max(1, steps // 5)),
        _PACE: str(step_s),
    }


def resumed_from_the_last(first: Sequence[Mapping[str, Any]], second: Sequence[Mapping[str, Any]]) -> bool:
    """Whether the second attempt went on from the first one's last checkpoint, by the events of both.

    A kill may come after a checkpoint is whole and before it is told of: so it is the last that was told of, or a later
    one at a step that was done. Checkpoints are as many steps apart as the first is from the start.
    """
    saved = [each["step"] for each in first if each["event"] == "saved"]
    done = [each["step"] for each in first if each["event"] == "step"]
    resumed = [each["from_step"] for each in second if each["event"] == "resumed"]
    return bool(saved) and len(resumed) == 1 and resumed[0] in range(saved[-1], max([*saved, *done]) + 1, saved[0])


def compare_with_undisturbed(
    task_dirs: Sequence[Path],
    env: Mapping[str, Any],
    folder: Path,
    image: LocalImage,
    processes: ProcessLedger,
    count: int = 1,
) -> list[dict[str, Any]]:
    """Trains once more with the same settings, undisturbed, below `folder`, and compares each task's final checkpoint.

    It has `count` processes, as many as the disturbed run had: another number has other roundings. Every task of a job
    has the same seed, so one undisturbed run stands for all. Returns what `workloads.trainer.compare` says of each:
    bit_exact, leaves, differing, step_a, step_b; or error.

    Raises:
        OperatorError: the undisturbed run failed, or nothing could be compared.
    """
    folder.mkdir(parents=True, exist_ok=True)

    base = {"PATH": os.environ.get("PATH", os.defpath), "HOME": str(folder), **image.env}

    def python(module: str, *args: str, **variables: str) -> subprocess.CompletedProcess[str]:
        return processes.run([sys.executable, "-m", module, *args], env=base | variables, cwd=folder)

    def compare(task_dir: Path) -> dict[str, Any]:
        said = python("workloads.trainer.compare", str(task_dir), undisturbed)
        try:
            compared: dict[str, Any] = json.loads(said.stdout.splitlines()[-1])
        except (IndexError, ValueError):  # it says errors in JSON, unless it could not even start or was killed
            raise OperatorError(f"nothing was compared (exit code {said.returncode}):\n{_end_of(said)}") from None
        return compared

    plain = {key: str(value) for key, value in env.items() if key != _PACE} | {"CHECKPOINT_DIR": str(folder)}
    if count > 1:
        plain |= {"HOLDFAST_COORDINATOR": f"127.0.0.1:{free_port()}", "HOLDFAST_PROCESS_COUNT": str(count)}
        for number in range(1, count):  # they end with the first, one way or the other
            peer = base | plain | {"HOLDFAST_PROCESS_ID": str(number)}
            argv = [sys.executable, "-m", "workloads.trainer"]
            processes.spawn(argv, env=peer, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    done = python("workloads.trainer", **plain)
    if done.returncode != 0:
        raise OperatorError(f"the undisturbed run failed with exit code {done.returncode}:\n{_end_of(done)}")
    undisturbed = str(folder / "local" / str(env.get("HOLDFAST_RUN_ID", "local")) / "0")
    return [compare(task_dir) for task_dir in task_dirs]


def _end_of(process: subprocess.CompletedProcess[str]) -> str:
    """Its last words: the trainer's are on stdout, Python's on stderr."""
    return "\n".join([*process.stdout.splitlines()[-1:], *process.stderr.splitlines()[-10:]])
