"""How long the emulated cloud takes over its long-running operations, in seconds of its clock.

Nominal values for a reader's sense of scale, not Google's figures. A rehearsal shortens them from its declared list.
"""

from __future__ import annotations

from collections.abc import Mapping

NOMINAL: Mapping[str, float] = {
    "serviceusage.services.enable": 15.0,
    "serviceusage.services.disable": 10.0,
    "run.projects.locations.jobs.create": 8.0,
    "run.projects.locations.jobs.patch": 5.0,
    "run.projects.locations.jobs.delete": 4.0,
    "run.projects.locations.jobs.executions.cancel": 2.0,
    "run.projects.locations.jobs.executions.delete": 2.0,
}
