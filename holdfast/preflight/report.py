"""What a preflight found."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, Field

Status = Literal["ok", "warn", "failed", "unknown"]
"""unknown: could not look, which is not the same as looked and found none (ok or failed)."""


class Finding(BaseModel):
    """What one look found. `do`: the way out, or how to be able to look; empty when there is nothing to do."""

    status: Status
    found: str
    do: str = ""
    figures: dict[str, Any] = Field(default_factory=dict)


class Check(Finding):
    """A finding by the name of its check."""

    name: str


class PreflightReport(BaseModel):
    """All checks of a stack, in order; project and region are empty when its file could not be read."""

    stack: str
    project: str = ""
    region: str = ""
    universe: str = ""
    principal: str = ""
    checks: list[Check] = Field(default_factory=list)
    skipped: list[str] = Field(default_factory=list)

    @property
    def exit_code(self) -> int:
        """0: every check is ok or warns; 1: one failed; 3: none failed, but one could not look."""
        statuses = {check.status for check in self.checks}
        return 1 if "failed" in statuses else 3 if "unknown" in statuses else 0

    def status(self, name: str) -> Status | None:
        """A check's status; None when it was skipped or is none of this stack's."""
        return next((check.status for check in self.checks if check.name == name), None)
