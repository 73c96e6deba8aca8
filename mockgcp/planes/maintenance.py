"""When the platform takes an instance away: at a training step, at a time, or as a seed decides."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Protocol


@dataclass(frozen=True)
class TaskView:
    """What the platform's side sees of a running task attempt.

    `elapsed_s` counts from the start of the task's first attempt; `step` is the newest integer `step` field of its
    structured log.
    """

    execution: str
    index: int
    attempt: int
    elapsed_s: float
    step: int | None


class Maintenance(Protocol):
    """Asked again and again while an attempt runs; true once for each event that strikes."""

    def strikes(self, task: TaskView) -> bool: ...


class NoMaintenance:
    def strikes(self, task: TaskView) -> bool:
        return False


@dataclass
class AtSteps:
    """One event each time the task has reached the next of `steps`."""

    steps: tuple[int, ...]
    _next: dict[tuple[str, int], int] = field(default_factory=dict)

    def strikes(self, task: TaskView) -> bool:
        key = (task.execution, task.index)
        struck = self._next.get(key, 0)
        if task.step is None or struck >= len(self.steps) or task.step < self.steps[struck]:
            return False
        self._next[key] = struck + 1
        return True


@dataclass
class AtTimes:
    """One event at each of `seconds` after the task's first attempt began, whatever it is doing then."""

    seconds: tuple[float, ...]
    _next: dict[tuple[str, int], int] = field(default_factory=dict)

    def strikes(self, task: TaskView) -> bool:
        key = (task.execution, task.index)
        struck = self._next.get(key, 0)
        if struck >= len(self.seconds) or task.elapsed_s < self.seconds[struck]:
            return False
        self._next[key] = struck + 1
        return True


# The last steps are left alone: a task that is done before SIGTERM reaches it was not preempted.
_LEFT_ALONE = 3


def seeded_steps(seed: int, count: int, steps: int) -> tuple[int, ...]:
    """`count` different steps, sorted, at which a seed has maintenance strike a job of `steps` steps.

    Raises:
        ValueError: the job has too few steps for that.
    """
    places = range(1, steps - _LEFT_ALONE)
    if count > len(places):
        raise ValueError(f"{count} preemptions need at least {count + _LEFT_ALONE + 1} steps, the job has {steps}")
    return tuple(sorted(random.Random(seed).sample(places, count)))
