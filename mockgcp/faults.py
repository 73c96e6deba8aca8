"""Faults on demand: the calls that fail, how often, and whether the work was done before the answer got lost.

They strike clients only: what the planes ask of the services as the platform always works.
"""

from __future__ import annotations

import fnmatch
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from mockgcp.errors import ApiError


@dataclass
class Fault:
    """Fails calls whose method id matches `method` (shell pattern, e.g. `run.*.jobs.create`).

    `effect="before"` refuses the call; `effect="after"` does the work and loses the answer, which is what tests
    idempotence. `times` counts the failures left (None: for ever), `after` the matching calls let through first.
    """

    method: str
    error: ApiError
    times: int | None = 1
    after: int = 0
    probability: float = 1.0
    effect: Literal["before", "after"] = "before"
    when: Callable[[Mapping[str, Any]], bool] | None = None


class Faults:
    """The injected faults of one cloud."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._faults: list[Fault] = []

    def inject(self, fault: Fault) -> Fault:
        self._faults.append(fault)
        return fault

    def clear(self) -> None:
        self._faults.clear()

    def strike(self, method_id: str, params: Mapping[str, Any]) -> Fault | None:
        """The fault that hits this call, if any; counts it down."""
        for fault in self._faults:
            if fault.times == 0 or not fnmatch.fnmatchcase(method_id, fault.method):
                continue
            if fault.when is not None and not fault.when(params):
                continue
            if fault.after > 0:
                fault.after -= 1
                continue
            if self._rng.random() >= fault.probability:
                continue
            if fault.times is not None:
                fault.times -= 1
            return fault
        return None
