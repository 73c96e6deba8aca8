"""result.json: what a finished task leaves for those who look at it without JAX."""

import json
import os
from pathlib import Path
from typing import Any, TypedDict

FILE = "result.json"
VERSION = 1


class Result(TypedDict):
    """The file's content; `run` is the configuration that determines the weights."""

    v: int
    job: str
    task_index: int
    steps_total: int
    step: int
    loss: float
    digest: str  # over the parameters
    productive_seconds: float
    run: dict[str, int | float]


def write(path: Path, result: Result) -> None:
    """Replaces the file in one go: a reader, and a retry after a kill, sees the old one or the new one."""
    temporary = path.with_name(f".{path.name}.tmp")
    with temporary.open("w", encoding="utf-8") as file:
        json.dump(result, file, indent=2)
        file.write("\n")
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, path)


def read(path: Path) -> dict[str, Any] | None:
    """The result, or None when there is none that can be read: then the checkpoints tell."""
    try:
        result = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return result if isinstance(result, dict) and result.get("v") == VERSION else None
