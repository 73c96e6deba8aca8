"""A trainer to run, and a finished run to compare with."""

import fcntl
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from trainer_process import LONG, Trainer

IMPORT_JAX = {
    "test_ray_local.py",
    *(
        f"test_trainer_{name}.py"
        for name in ("checkpoint", "data", "distributed", "kills", "model", "process", "storage")
    ),
}


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """With -m "not jax" these files are not even imported: JAX takes seconds, and may not be installed."""
    return True if config.option.markexpr == "not jax" and collection_path.name in IMPORT_JAX else None


@pytest.fixture(scope="session")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that all tests of a session share. Under xdist the workers' own folders lie side by side in one."""
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "trainer-shared"
    folder.mkdir(exist_ok=True)
    return folder


@pytest.fixture
def trainer(tmp_path: Path, shared: Path) -> Iterator[Trainer]:
    instance = Trainer(tmp_path, shared / "compiled")
    yield instance
    instance.close()


@pytest.fixture(scope="session")
def reference(shared: Path) -> Path:
    """The task folder of an undisturbed run; not to be changed."""
    return undisturbed(shared, "job")


@pytest.fixture(scope="session")
def long_reference(shared: Path) -> Path:
    """The same, of a run of LONG steps."""
    return undisturbed(shared, "long", HOLDFAST_STEPS=str(LONG))


def undisturbed(shared: Path, run_id: str, **variables: str) -> Path:
    """Whoever gets the lock first runs it for all."""
    instance = Trainer(shared, shared / "compiled", run_id)
    with (shared / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (instance.task_dir / "result.json").exists():
            try:
                code, _ = instance.run(**variables)
                assert code == 0, instance.errors()
            finally:
                instance.close()
    return instance.task_dir


@pytest.fixture
def finished(trainer: Trainer, reference: Path) -> Trainer:
    """A trainer whose task has just finished undisturbed."""
    shutil.copytree(reference, trainer.task_dir)
    return trainer
