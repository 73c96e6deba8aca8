"""result.json: what a finished task leaves for those who look at it without JAX."""

from pathlib import Path
from typing import Any, TypedDict

from workloads.trainer import files

FILE = "result.json"
VERSION = 1


class Result(TypedDict):
    """The file's content; `run` is the configuration that determines the weights."""

    v: int
    job: str
    run_id: str
    task_index: int
    steps_total: int
    step: int
    loss: float
    digest: str  # over the parameters
    productive_seconds: float
    run: dict[str, int | float]


def write(path: Path, result: Result) -> None:
    """Replaces the file in one go. Raises OSError."""
    files.replace(path, result)


def read(path: Path) -> dict[str, Any] | None:
    """The result, or None when there is none that can be read: then the checkpoints tell."""
    try:
        return files.read(path, VERSION, Result.__annotations__.keys())
    except OSError:
        return None
