"""What a rehearsal reports: a header that all share, the scenario's figures, and stories with their evidence."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field


class Story(BaseModel):
    """One thing that was to be shown. `held` follows from `evidence`, which is raw: requests, log lines, records.

    A story of a failure says in `outcome` what the evidence shows, in `expected` what it should, and in `advice` what
    whoever runs the cluster does about it. `seconds`: how long it took, where stories are played side by side; else the
    report's phases say it.
    """

    model_config = ConfigDict(frozen=True)

    name: str
    held: bool
    evidence: dict[str, Any]
    outcome: str = ""
    expected: str = ""
    advice: str = ""
    seconds: float = 0.0


def judged(
    name: str, evidence: dict[str, Any], checks: Mapping[str, bool], seen: Iterable[str], expected: str, advice: str
) -> Story:
    """The story that holds when all of `checks` do; what it says is `seen`, and which of them do not."""
    missing = ", ".join(what for what, held in checks.items() if not held)
    outcome = "; ".join([*seen, *([f"NOT seen: {missing}"] if missing else [])])
    return Story(name=name, held=not missing, evidence=evidence, outcome=outcome, expected=expected, advice=advice)


class TimeOverride(BaseModel):
    """A time that a rehearsal shortens: what the platform has, and what the rehearsal took instead."""

    model_config = ConfigDict(frozen=True)

    name: str
    platform: str
    rehearsal: str


class Report(BaseModel):
    """The header of every rehearsal. `phases` are seconds by name, in order; -1 changes: the second up never ran.

    `price_per_hour`: at list prices, of all that is deployed; None when the catalog does not know it.
    """

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
    price_per_hour: float | None = None
    currency: str = ""
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

    `goodput`: the share of the execution's time that went into steps that count.
    """

    image: str = ""
    attempts: int = 0
    preemptions: int = 0
    steps_total: int = 0
    steps_repeated: int = 0
    bit_exact: bool = False
    goodput: float = 0.0


class JobFigures(BaseModel):
    """How a job was let in. `admitted`: when, in RFC 3339, empty for never. `waited_for`: empty for nothing."""

    name: str
    flavor: str
    admitted: str
    waited_for: str


class RequestFigures(BaseModel):
    """A ProvisioningRequest: its class, how many nodes it was for, and the condition that it ended with."""

    model_config = ConfigDict(populate_by_name=True, serialize_by_alias=True)

    class_: str = Field(alias="class")
    count: int
    state: str


class FlavorFigures(BaseModel):
    """Whether a flavor's TPU quota is what its pool can hold, in chips."""

    flavor: str
    quota: int
    pool: int

    @property
    def consistent(self) -> bool:
        return self.quota == self.pool


class GkeTpuReport(Report):
    """Scenario B's figures.

    `plane_versions`: of Kubernetes, Kueue and KubeRay, as they ran. `not_shown`: why none of them did, so that the
    admission flow was not shown, and the way out; empty where they ran.
    """

    plane_versions: dict[str, str] = {}
    not_shown: str = ""
    jobs: list[JobFigures] = []
    provisioning_requests: list[RequestFigures] = []
    consistency: list[FlavorFigures] = []


class SlurmReport(Report):
    """Scenario C's figures.

    `slurm_version`: of the scheduler that ran. `not_shown`: why none did, and the way out; empty where one did.
    `restarts`: how often the training job began again.
    """

    slurm_version: str = ""
    not_shown: str = ""
    bit_exact: bool = False
    restarts: int = 0


@contextmanager
def phase(phases: dict[str, float], name: str) -> Iterator[None]:
    """Adds the block's wall-clock seconds to the phase."""
    began = time.monotonic()
    try:
        yield
    finally:
        phases[name] = round(phases.get(name, 0.0) + time.monotonic() - began, 2)
