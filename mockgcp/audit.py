"""The audit log: every call through the seam, who made it, on what, and how it ended."""

from __future__ import annotations

import fnmatch
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class AuditEntry:
    """One call. `code` is the HTTP status (200 when it worked)."""

    time: str
    method: str
    principal: str
    params: Mapping[str, Any]
    request: Any
    code: int
    message: str = ""


class AuditLog:
    def __init__(self) -> None:
        self._entries: list[AuditEntry] = []

    def append(self, entry: AuditEntry) -> None:
        self._entries.append(entry)

    def clear(self) -> None:
        self._entries.clear()

    def entries(self, method: str = "*", *, ok: bool | None = None) -> list[AuditEntry]:
        """The calls whose method id matches the shell pattern, oldest first; `ok` keeps the worked or the refused."""
        return [
            e for e in self._entries if fnmatch.fnmatchcase(e.method, method) and (ok is None or (e.code < 400) == ok)
        ]
