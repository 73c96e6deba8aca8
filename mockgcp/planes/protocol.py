"""What every plane is: a part of the emulated cloud that runs real processes, and can be asked, started and stopped.

A plane reads and reports through `Cloud.call` as the principal PLATFORM, keeps its files below `state_dir`, records
every process it starts before it can be lost, and takes its time from the cloud's clock.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from mockgcp.clock import Clock
from mockgcp.planes.processes import ProcessLedger


@dataclass(frozen=True)
class Availability:
    """Whether a plane can run here. If not: `why`, and `how` to get what is missing. `versions` by component."""

    usable: bool
    why: str = ""
    how: str = ""
    versions: Mapping[str, str] = field(default_factory=dict)


class Plane(Protocol):
    """One data plane."""

    @property
    def name(self) -> str:
        """As reports and errors call it: cloud-run, kubernetes, slurm."""

    @property
    def state_dir(self) -> Path:
        """Where it keeps its files; nothing is written outside."""

    @property
    def clock(self) -> Clock:
        """The cloud's own."""

    @property
    def processes(self) -> ProcessLedger:
        """Every process it started and which of them are alive."""

    def availability(self) -> Availability:
        """Looks, cheaply and without starting anything, whether it can run here."""

    def start(self) -> None:
        """Takes up its work. Raises RuntimeError, with the way out, when it is not available."""

    def stop(self) -> None:
        """Ends its work and every process it started; calling it again is fine."""
