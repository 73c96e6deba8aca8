"""Checkpoints with Orbax: one folder a step, complete or ignored.

A save is committed by a marker file written last, not by renaming a folder, Orbax's default on what looks like a local
disk: in a mounted bucket without hierarchical namespace a folder's rename is not atomic, or refused.
One process of a run reads and writes, so there is no barrier at which another could wait for one that failed.
"""

import contextlib
import dataclasses
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np
import orbax.checkpoint as ocp  # type: ignore[import-untyped]
from orbax.checkpoint.checkpoint_managers import preservation_policy  # type: ignore[import-untyped]

from workloads.trainer.config import ConfigError
from workloads.trainer.digest import digest
from workloads.trainer.folder import COMMIT
from workloads.trainer.step import State

KEEP = 3
VERSION = 1
_ALONE = {"active_processes": {0}, "barrier_sync_key_prefix": "process-0"}


class NoReadableCheckpoint(Exception):
    """There are checkpoints, and none can be read."""


@dataclasses.dataclass(frozen=True)
class Progress:
    """What a checkpoint knows beside the arrays."""

    step: int  # completed steps
    loss: float  # of the last one
    productive_seconds: float  # time in the steps that led here; a step lost in a kill does not count
    run: dict[str, int | float]  # Config.run


def open_manager(directory: Path) -> Any:
    """Orbax's manager of an existing folder of checkpoints."""
    alone = ocp.options.MultiprocessingOptions(**_ALONE)
    return ocp.CheckpointManager(
        directory,
        item_handlers={
            "state": ocp.StandardCheckpointHandler(multiprocessing_options=alone),
            "progress": ocp.JsonCheckpointHandler(multiprocessing_options=alone),
        },
        options=ocp.CheckpointManagerOptions(
            preservation_policy=preservation_policy.LatestN(KEEP),
            atomicity_options=ocp.options.AtomicityOptions(mode=ocp.options.AtomicityMode.COMMIT_FILE),
            create=False,
            multiprocessing_options=alone,
            # Orbax does that in the background, where it would meet the next save of the same step: _remove_incomplete.
            cleanup_tmp_directories=False,
            enable_async_checkpointing=False,
            lightweight_initialize=True,  # a damaged checkpoint's metadata must not stop us here
        ),
    )


def save(directory: Path, state: Any, progress: Progress) -> str:
    """Saves and commits, then deletes all but the latest three; returns the digest of the state.

    state: arrays on the host. Raises whatever Orbax or the file system raised; then the earlier checkpoints are as they
    were, and what there is of this one is removed if that is possible, and ignored if not.
    """
    fingerprint = digest(state)
    content = {"v": VERSION, "digest": fingerprint, **dataclasses.asdict(progress)}
    args = ocp.args.Composite(state=ocp.args.StandardSave(state), progress=ocp.args.JsonSave(content))
    directory.mkdir(parents=True, exist_ok=True)
    target = directory / str(progress.step)
    _remove_incomplete(target)
    # A manager a save, which costs 3 ms: none has to be trusted after a failure.
    try:
        with open_manager(directory) as manager:
            if progress.step not in manager.all_steps():  # else an earlier try failed after its commit
                manager.save(progress.step, args=args, force=True)
    except Exception:
        with contextlib.suppress(OSError):
            _remove_incomplete(target)  # the disk may be full
        raise
    return fingerprint


def _remove_incomplete(checkpoint: Path) -> None:
    """Removes what is not complete, which is ignored otherwise. Raises OSError."""
    if checkpoint.is_dir() and not (checkpoint / COMMIT).exists():
        shutil.rmtree(checkpoint)


def restore_latest(
    directory: Path, template: State, run: dict[str, int | float], on_damaged: Callable[[int, str], None]
) -> tuple[State, Progress] | None:
    """The newest checkpoint that can be read and has the digest it was saved with; None when there is none at all.

    The arrays are on the host. What killed saves left behind is removed.

    template: the state's shapes and dtypes (jax.eval_shape).
    on_damaged: called with (step, reason) for each checkpoint passed over. Once a good one is found they are set aside.
    Raises ConfigError when the checkpoint belongs to a run with other values than `run`, NoReadableCheckpoint when
    all are damaged, and what a failing mount or device raised, which says nothing about the checkpoint: a retry reads
    it again. None of these changes any complete checkpoint.
    """
    directory.mkdir(parents=True, exist_ok=True)
    for path in directory.iterdir():
        with contextlib.suppress(OSError):  # it is ignored as well as gone
            _remove_incomplete(path)
    with open_manager(directory) as manager:
        return _newest_good(manager, template, run, on_damaged)


def _newest_good(
    manager: Any, template: State, run: dict[str, int | float], on_damaged: Callable[[int, str], None]
) -> tuple[State, Progress] | None:
    damaged: list[int] = []
    for step in sorted(manager.all_steps(), reverse=True):
        try:
            restored = _restore(manager, step, template, run)
        except ConfigError:
            raise
        except Exception as error:  # Orbax, TensorStore and JSON each have their own ways to say that a file is broken
            if not _is_damage(error):
                raise
            damaged.append(step)
            on_damaged(step, f"{type(error).__name__}: {error}"[:1000])
        else:
            _set_aside(Path(manager.directory), damaged)
            return restored
    if damaged:
        raise NoReadableCheckpoint(
            f"none of the checkpoints {damaged} in {manager.directory} can be read, and starting over "
            "would lose the run; nothing was changed. "
            "Restore the files (the bucket's soft delete may have them) or remove the folder"
        )
    return None


# How TensorStore's messages begin when it could not read, rather than not make sense of what it read.
_UNREACHABLE = (
    *("ABORTED", "CANCELLED", "DEADLINE_EXCEEDED", "INTERNAL", "PERMISSION_DENIED"),
    *("RESOURCE_EXHAUSTED", "UNAUTHENTICATED", "UNAVAILABLE", "UNKNOWN"),
)


def _is_damage(error: Exception) -> bool:
    """Whether the error is about what is stored (a file that is missing, too), not about reading it here and now."""
    if isinstance(error, FileNotFoundError):
        return True
    if isinstance(error, OSError | MemoryError | jax.errors.JaxRuntimeError):
        return False
    return not str(error).startswith(_UNREACHABLE)


def _restore(manager: Any, step: int, template: State, run: dict[str, int | float]) -> tuple[State, Progress]:
    content = manager.restore(step, args=ocp.args.Composite(progress=ocp.args.JsonRestore())).progress
    version, fingerprint = content.pop("v"), content.pop("digest")
    if version != VERSION:
        raise ConfigError(
            f"checkpoint {step} in {manager.directory} has version {version}, this trainer reads {VERSION}"
        )
    progress = Progress(**content)
    if progress.step != step:  # the digest covers the arrays only
        raise ValueError(f"it says that it is of step {progress.step}")
    _refuse_another_run(manager.directory, progress.run, run)
    state: State = jax.tree.map(np.asarray, restore_state(manager, step, template))
    if digest(state) != fingerprint:
        raise ValueError(f"the restored state's digest is not {fingerprint}, with which it was saved")
    return state, progress


def restore_state(manager: Any, step: int, template: Any) -> Any:
    """The arrays of one checkpoint in the structure of `template` (leaves have shape and dtype), on one device."""
    device = jax.sharding.SingleDeviceSharding(jax.local_devices()[0])
    struct: Any = jax.ShapeDtypeStruct
    target = jax.tree.map(lambda leaf: struct(leaf.shape, leaf.dtype, sharding=device), template)
    return manager.restore(step, args=ocp.args.Composite(state=ocp.args.StandardRestore(target))).state


def _refuse_another_run(directory: Any, saved: dict[str, int | float], now: dict[str, int | float]) -> None:
    names = sorted(name for name in saved | now if saved.get(name) != now.get(name))
    changed = [f"{name}: {saved.get(name)} -> {now.get(name)}" for name in names]
    if changed:
        raise ConfigError(
            f"the checkpoints in {directory} belong to a run with other values ({', '.join(changed)}), "
            "so resuming would train neither run; nothing was changed. "
            "Set the old values again, or use another HOLDFAST_RUN_ID"
        )


def _set_aside(directory: Path, steps: list[int]) -> None:
    """Moves damaged checkpoints away: the run can save these steps again, and somebody can look at them."""
    for step in steps:
        target = directory.parent / "damaged" / f"{step}-{time.time_ns()}"
        target.parent.mkdir(exist_ok=True)
        (directory / str(step)).rename(target)
