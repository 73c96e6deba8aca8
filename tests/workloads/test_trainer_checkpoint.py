"""Checkpoints by themselves: commit, retention, damage, refusal, comparison."""

import errno
import json
import shutil
import time
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from workloads.trainer import checkpoint, compare
from workloads.trainer.checkpoint import NoReadableCheckpoint, Progress
from workloads.trainer.config import ConfigError
from workloads.trainer.digest import digest
from workloads.trainer.folder import CHECKPOINTS, COMMIT, newest_checkpoint

pytestmark = [
    pytest.mark.jax,
    # After a failed restore TensorStore calls back into the event loop that Orbax has closed by then.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

RUN: dict[str, int | float] = {"seed": 7}


def state(value: float) -> Any:
    return {"params": {"w": jnp.full((3, 5), value)}, "opt_state": [jnp.int32(value), {"mu": jnp.full((3, 5), -value)}]}


def save(task: Path, *steps: int) -> Path:
    for step in steps:
        progress = Progress(step=step, loss=0.1 * step, productive_seconds=step, run=RUN)
        checkpoint.save(task / CHECKPOINTS, jax.tree.map(np.asarray, state(step)), progress)
    return task


def restore(task: Path, run: dict[str, int | float] = RUN) -> tuple[Any, list[int]]:
    damaged: list[int] = []
    template = jax.eval_shape(lambda: state(0))
    found = checkpoint.restore_latest(task / CHECKPOINTS, template, run, lambda step, _: damaged.append(step))
    return found, damaged


def files(task: Path) -> dict[str, int]:
    return {str(path.relative_to(task)): path.stat().st_size for path in task.rglob("*") if path.is_file()}


def truncate_arrays(task: Path, step: int) -> None:
    paths = [path for path in (task / CHECKPOINTS / str(step) / "state").rglob("d/*") if path.is_file()]
    assert paths
    for path in paths:
        path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def flip(task: Path, step: int, change: dict[str, Any]) -> None:
    path = task / CHECKPOINTS / str(step) / "progress" / "metadata"
    path.write_text(json.dumps(json.loads(path.read_text()) | change))


def flip_digest(task: Path, step: int) -> None:
    flip(task, step, {"digest": "sha256:0"})


def flip_step(task: Path, step: int) -> None:
    flip(task, step, {"step": step + 8})


def empty_progress(task: Path, step: int) -> None:
    (task / CHECKPOINTS / str(step) / "progress" / "metadata").write_bytes(b"")


def test_the_latest_three_stay_and_the_newest_comes_back_bit_for_bit(tmp_path: Path) -> None:
    save(tmp_path, 1, 2, 3, 4)
    assert sorted(path.name for path in (tmp_path / CHECKPOINTS).iterdir()) == ["2", "3", "4"]
    (restored, progress), damaged = restore(tmp_path)
    assert digest(restored) == digest(state(4))
    assert jax.tree.structure(restored) == jax.tree.structure(state(4))
    assert progress == Progress(step=4, loss=0.4, productive_seconds=4, run=RUN)
    assert damaged == []


def test_nothing_to_resume_from(tmp_path: Path) -> None:
    assert restore(tmp_path) == (None, [])


def test_a_save_that_was_killed_is_ignored_removed_and_can_be_repeated(tmp_path: Path) -> None:
    save(tmp_path, 1, 2)
    (tmp_path / CHECKPOINTS / "2" / COMMIT).unlink()
    (tmp_path / CHECKPOINTS / "3.orbax-checkpoint-tmp").mkdir()
    (_, progress), damaged = restore(tmp_path)
    assert (progress.step, damaged) == (1, [])
    save(tmp_path, 2)
    assert sorted(path.name for path in (tmp_path / CHECKPOINTS).iterdir() if path.name.isdigit()) == ["1", "2"]
    assert restore(tmp_path)[0][1].step == 2


def test_what_a_killed_save_left_is_gone_before_its_step_is_saved_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a slow mount, too: a removal that went on behind our back would take the new files with the old ones."""
    save(tmp_path, 1, 2)
    (tmp_path / CHECKPOINTS / "2" / COMMIT).unlink()
    rmtree = shutil.rmtree

    def slowly(*args: Any, **options: Any) -> None:
        time.sleep(0.3)
        rmtree(*args, **options)

    monkeypatch.setattr(shutil, "rmtree", slowly)
    restore(tmp_path)
    assert [path.name for path in (tmp_path / CHECKPOINTS).iterdir()] == ["1"]
    save(tmp_path, 2)
    assert newest_checkpoint(tmp_path) == 2


def test_a_save_removes_what_a_failed_one_left(tmp_path: Path) -> None:
    save(tmp_path, 1, 2)
    (tmp_path / CHECKPOINTS / "2" / COMMIT).unlink()
    assert newest_checkpoint(tmp_path) == 1
    save(tmp_path, 2)
    (restored, _), damaged = restore(tmp_path)
    assert (digest(restored), damaged) == (digest(state(2)), [])


@pytest.mark.parametrize("damage", [truncate_arrays, flip_digest, flip_step, empty_progress])
def test_damage_falls_back_to_the_one_before_and_sets_the_damaged_aside(tmp_path: Path, damage: Any) -> None:
    save(tmp_path, 1, 2, 3)
    damage(tmp_path, 3)
    damage(tmp_path, 2)
    (restored, progress), damaged = restore(tmp_path)
    assert (progress.step, damaged) == (1, [3, 2])
    assert digest(restored) == digest(state(1))
    assert sorted(path.name.split("-")[0] for path in (tmp_path / "damaged").iterdir()) == ["2", "3"]
    save(tmp_path, 2, 3)
    assert restore(tmp_path)[0][1].step == 3


def test_all_damaged_is_an_error_that_changes_nothing(tmp_path: Path) -> None:
    save(tmp_path, 1, 2)
    truncate_arrays(tmp_path, 1)
    truncate_arrays(tmp_path, 2)
    before = files(tmp_path)
    with pytest.raises(NoReadableCheckpoint, match="soft delete"):
        restore(tmp_path)
    assert files(tmp_path) == before


@pytest.mark.parametrize(
    "failure",
    [
        OSError(errno.EIO, "Input/output error"),
        PermissionError(errno.EACCES, "Permission denied"),
        MemoryError(),
        jax.errors.JaxRuntimeError("RESOURCE_EXHAUSTED: Out of memory allocating 16 bytes."),
        ValueError('UNKNOWN: Error opening "zarr" driver: Failed to open: "d/0": Input/output error'),
        ValueError('UNAVAILABLE: Error reading "params.w/.zarray"'),
    ],
    ids=lambda failure: f"{type(failure).__name__}-{str(failure)[:11]}",
)
def test_a_failure_of_the_machine_or_the_mount_condemns_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failure: Exception
) -> None:
    save(tmp_path, 1, 2)
    before = files(tmp_path)

    def fail(*_: Any) -> None:
        raise failure

    with monkeypatch.context() as patch:
        patch.setattr(checkpoint, "restore_state", fail)
        with pytest.raises(type(failure)):
            restore(tmp_path)
    assert files(tmp_path) == before
    (_, progress), damaged = restore(tmp_path)
    assert (progress.step, damaged) == (2, [])


def test_another_runs_checkpoints_are_refused(tmp_path: Path) -> None:
    save(tmp_path, 1)
    before = files(tmp_path)
    with pytest.raises(ConfigError, match="seed: 7 -> 8") as caught:
        restore(tmp_path, {"seed": 8})
    assert "HOLDFAST_RUN_ID" in str(caught.value)
    assert files(tmp_path) == before


def test_compare_looks_at_the_arrays_themselves(tmp_path: Path, monkeypatch: Any, capsys: Any) -> None:
    one, same, other = save(tmp_path / "one", 1, 2), save(tmp_path / "same", 2), save(tmp_path / "other", 1)
    paths = ["['opt_state'][0]", "['opt_state'][1]['mu']", "['params']['w']"]

    def run(a: Path, b: Path) -> tuple[int, dict[str, Any]]:
        monkeypatch.setattr("sys.argv", ["compare", str(a), str(b)])
        code = compare.main()
        return code, json.loads(capsys.readouterr().out)

    assert run(one, same) == (0, {"bit_exact": True, "leaves": 3, "differing": [], "step_a": 2, "step_b": 2})
    assert run(one, other) == (1, {"bit_exact": False, "leaves": 3, "differing": paths, "step_a": 2, "step_b": 1})
    code, printed = run(one, tmp_path / "none")
    assert code == 2
    assert "does not exist" in printed["error"]
