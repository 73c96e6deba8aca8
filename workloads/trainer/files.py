"""Small JSON files that other processes read."""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any


def replace(path: Path, content: Mapping[str, Any]) -> None:
    """Replaces the file in one go: a reader, and a retry after a kill, sees the old one or the new one."""
    temporary = path.with_name(f".{path.name}.tmp")
    with temporary.open("w", encoding="utf-8") as file:
        json.dump(content, file, indent=2)
        file.write("\n")
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, path)


def read(path: Path, version: int) -> dict[str, Any] | None:
    """The content; None when there is no file, or none of this version. Raises OSError when it cannot be read."""
    try:
        content = json.loads(path.read_bytes())
    except (FileNotFoundError, ValueError):
        return None
    return content if isinstance(content, dict) and content.get("v") == version else None
