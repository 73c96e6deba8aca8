"""The trainer in a rehearsal: what its image runs here, and the comparison with an undisturbed run."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from holdfast.errors import OperatorError
from mockgcp.planes.cloud_run import LocalImage

# Compiles several times faster on a CPU. Both runs use the same: other flags give other bits.
_XLA_FLAGS = "--xla_backend_optimization_level=0 --xla_cpu_use_fusion_emitters=false"
# What paces the disturbed run alone, and has no part in the weights.
_PACE = "HOLDFAST_STEP_SECONDS_MIN"


def image(state: Path) -> LocalImage:
    """The trainer's image as this machine runs it: the same package on the CPU, its compilation cache in `state`."""
    return LocalImage(
        entrypoint=(sys.executable, "-m", "workloads.trainer"),
        env={
            "JAX_PLATFORMS": "cpu",
            "XLA_FLAGS": _XLA_FLAGS,
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


def compare_with_undisturbed(task_dir: Path, env: Mapping[str, Any], folder: Path, image: LocalImage) -> dict[str, Any]:
    """Trains once more with the same settings, undisturbed, below `folder`, and compares both final checkpoints.

    Returns what `workloads.trainer.compare` says: bit_exact, leaves, differing, step_a, step_b; or error.

    Raises:
        OperatorError: the undisturbed run failed.
    """
    plain = {key: str(value) for key, value in env.items() if key != _PACE}
    done = _python(image, folder, "workloads.trainer", env={**plain, "CHECKPOINT_DIR": str(folder)})
    if done.returncode != 0:
        raise OperatorError(f"the undisturbed run failed with exit code {done.returncode}:\n{done.stderr.strip()}")
    compared = _python(image, folder, "workloads.trainer.compare", str(task_dir), str(folder / "local" / "0"))
    found: dict[str, Any] = json.loads(compared.stdout.splitlines()[-1])
    return found


def _python(
    image: LocalImage, folder: Path, module: str, *args: str, env: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    folder.mkdir(parents=True, exist_ok=True)
    whole = {"PATH": os.environ.get("PATH", os.defpath), "HOME": str(folder), **image.env, **(env or {})}
    command = [sys.executable, "-m", module, *args]
    return subprocess.run(command, env=whole, cwd=folder, capture_output=True, text=True, check=False)
