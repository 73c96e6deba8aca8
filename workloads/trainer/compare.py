"""`python -m workloads.trainer.compare DIR_A DIR_B`: are two tasks' final checkpoints equal bit for bit?

Compares the arrays themselves, parameters and optimizer state, and trusts neither result.json nor the stored digests.
Prints one line of JSON: {"bit_exact", "leaves", "differing", "step_a", "step_b"}, or {"error"}.
Exit codes: 0 equal, 1 different, 2 could not compare.
"""

import argparse
import json
import sys
from pathlib import Path
from typing import TypedDict

import numpy as np

from workloads.trainer import checkpoint
from workloads.trainer.digest import leaves
from workloads.trainer.folder import CHECKPOINTS


class Comparison(TypedDict):
    """`leaves`: how many were compared; `differing`: the paths of those that differ or that one side lacks."""

    bit_exact: bool
    leaves: int
    differing: list[str]
    step_a: int
    step_b: int


def compare(task_a: Path, task_b: Path) -> Comparison:
    """Compares the newest checkpoints of two task folders (CHECKPOINT_DIR/<job>/<run id>/<task index>).

    Raises FileNotFoundError when a folder has no checkpoint, and whatever Orbax raises when it cannot be read.
    """
    (step_a, a), (step_b, b) = _newest(task_a), _newest(task_b)
    paths = sorted(a.keys() | b.keys())
    differing = [path for path in paths if path not in a or path not in b or not _same(a[path], b[path])]
    exact = not differing and step_a == step_b
    return {"bit_exact": exact, "leaves": len(paths), "differing": differing, "step_a": step_a, "step_b": step_b}


def _same(a: np.ndarray, b: np.ndarray) -> bool:
    """Equal as bytes: a NaN equals itself, and 0.0 differs from -0.0."""
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()


def _newest(task_dir: Path) -> tuple[int, dict[str, np.ndarray]]:
    directory = (task_dir / CHECKPOINTS).absolute()
    if not directory.is_dir():
        raise FileNotFoundError(
            f"{directory} does not exist; give a task's folder, CHECKPOINT_DIR/<job>/<run id>/<task index>"
        )
    with checkpoint.open_manager(directory) as manager:
        step = manager.latest_step()
        if step is None:
            raise FileNotFoundError(f"{directory} holds no complete checkpoint; let the task run first")
        state = checkpoint.restore_state(manager, step, manager.item_metadata(step).state.tree)
    return step, leaves(state)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m workloads.trainer.compare", description=__doc__)
    parser.add_argument("dir_a", type=Path)
    parser.add_argument("dir_b", type=Path)
    args = parser.parse_args()
    try:
        comparison = compare(args.dir_a, args.dir_b)
    except Exception as error:
        print(json.dumps({"error": f"{type(error).__name__}: {error}"}))
        return 2
    print(json.dumps(comparison))
    return 0 if comparison["bit_exact"] else 1


if __name__ == "__main__":
    sys.exit(main())
