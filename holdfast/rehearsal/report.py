"""What a rehearsal reports: a header that all share, the scenario's figures, and stories with their evidence."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field


class Story(BaseModel):
    """One thing that was to be shown. `held` follows from `evidence`, which is raw: requests, log lines, records."""

    model_config = ConfigDict(frozen=True)

    name: str
    held: bool
    evidence: dict[str, Any]


class TimeOverride(BaseModel):
    """A time that a rehearsal shortens: what the platform has, and what the rehearsal took instead."""

    model_config = ConfigDict(frozen=True)

    name: str
    platform: str
    rehearsal: str


class Report(BaseModel):
    """The header of every rehearsal. `phases` are seconds by name, in order; -1 changes: the second up never ran."""

    scenario: str
    seed: int
    engine: str = Field(description="where the Pulumi engine came from: path, cache or built")
    engine_version: str
    time_overrides: list[TimeOverride] = []
    phases: dict[str, float] = {}
    stories: list[Story] = []
    leftover_resources: list[str] = []
    leftover_processes: list[str] = []
    resources_created: int = 0
    second_up_changes: int = -1
    policy_violations: int = 0
    error: str = Field(default="", description="what ended the rehearsal early, empty when nothing did")

    @property
    def passed(self) -> bool:
        """Whether it came to its end, every story held and nothing was left over."""
        left_over = self.leftover_resources or self.leftover_processes
        return not self.error and bool(self.stories) and all(s.held for s in self.stories) and not left_over

    def write(self, path: Path) -> None:
        """Writes the report as JSON."""
        path.write_text(self.model_dump_json(indent=2) + "\n", encoding="utf-8")


class CloudRunReport(Report):
    """Scenario A's figures.

    `goodput`: the share of the execution's time that went into steps that count. `price_per_hour`: at list prices, of
    all tasks together; None when the catalog does not know it.
    """

    image: str = ""
    price_per_hour: float | None = None
    currency: str = ""
    attempts: int = 0
    preemptions: int = 0
    steps_total: int = 0
    steps_repeated: int = 0
    bit_exact: bool = False
    goodput: float = 0.0


@contextmanager
def phase(phases: dict[str, float], name: str) -> Iterator[None]:
    """Adds the block's wall-clock seconds to the phase."""
    began = time.monotonic()
    try:
        yield
    finally:
        phases[name] = round(phases.get(name, 0.0) + time.monotonic() - began, 2)
