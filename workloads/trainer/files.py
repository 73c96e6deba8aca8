"""Small JSON files that other processes read."""

import contextlib
import json
import os
import secrets
from collections.abc import Mapping, Set
from pathlib import Path
from typing import Any


def replace(path: Path, content: Mapping[str, Any]) -> None:
    """Replaces the file in one go: a reader, and a retry after a kill, sees the old one or the new one.

    Raises OSError with the file's name.
    """
    # A name of its own: two writers that share one would write into each other's file.
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    try:
        with temporary.open("w", encoding="utf-8") as file:
            json.dump(content, file, indent=2)
            file.write("\n")
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except OSError as error:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise OSError(error.errno, error.strerror, str(path)) from error


def read(path: Path, version: int, keys: Set[str]) -> dict[str, Any] | None:
    """The content; None when there is no file, or none of this version with these keys. Raises OSError."""
    try:
        content = json.loads(path.read_bytes())
    except (FileNotFoundError, ValueError):
        return None
    whole = isinstance(content, dict) and content.get("v") == version and content.keys() >= keys
    return content if whole else None
