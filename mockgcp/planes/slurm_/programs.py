"""The programs that a cluster runs. Whoever starts the plane brings them; mockgcp downloads nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Programs:
    """A folder with `usr` and `etc` of Debian's packages, unpacked. `versions` by package."""

    folder: Path
    versions: Mapping[str, str]

    @property
    def release(self) -> tuple[int, int]:
        """Of Slurm: (22, 5) is 22.05."""
        major, minor = self.versions["slurmctld"].partition("-")[0].split(".")[:2]
        return int(major), int(minor)

    def has_plugin(self, name: str) -> bool:
        """Whether there is a plugin such as `priority/multifactor`."""
        return any(self.folder.glob(f"usr/lib/*/slurm*/{name.replace('/', '_', 1)}.so"))
