"""When the platform takes an instance away: at a training step, at a time, or as a seed decides."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass
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
    """Asked again and again while an attempt runs; told of each event that met the task alive, which is then over."""

    def strikes(self, task: TaskView) -> bool:
        """Whether an event strikes the task now. Asking changes nothing."""

    def struck(self, task: TaskView) -> None:
        """The event has reached the task's process: it does not strike this task again."""


class NoMaintenance:
    def strikes(self, task: TaskView) -> bool:
        return False

    def struck(self, task: TaskView) -> None:
        pass


class _Counted:
    """Counts the events that each task has met."""

    def __init__(self) -> None:
        self._met: Counter[tuple[str, int]] = Counter()

    def met(self, task: TaskView) -> int:
        return self._met[task.execution, task.index]

    def struck(self, task: TaskView) -> None:
        self._met[task.execution, task.index] += 1


class AtSteps(_Counted):
    """One event each time the task has reached the next of `steps`."""

    def __init__(self, steps: tuple[int, ...]) -> None:
        super().__init__()
        self.steps = steps

    def strikes(self, task: TaskView) -> bool:
        met = self.met(task)
        return task.step is not None and met < len(self.steps) and task.step >= self.steps[met]


class AtTimes(_Counted):
    """One event at each of `seconds` after the task's first attempt began, whatever it is doing then."""

    def __init__(self, seconds: tuple[float, ...]) -> None:
        super().__init__()
        self.seconds = seconds

    def strikes(self, task: TaskView) -> bool:
        met = self.met(task)
        return met < len(self.seconds) and task.elapsed_s >= self.seconds[met]


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
