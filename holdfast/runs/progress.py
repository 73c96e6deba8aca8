"""How far each task of a run is, from its log: the trainer's events and the platform's preemption lines."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from datetime import datetime

from holdfast.runs.backend import LogLine

# Steps that a rate is taken from: enough to even out a save, few enough to notice a slow down.
_WINDOW = 30


@dataclass
class Progress:
    """One task. `step`: completed steps, `saved`: of the newest checkpoint; None while the log has said nothing."""

    task: int
    attempt: int = 0
    step: int | None = None
    steps_total: int | None = None
    saved: int | None = None
    loss: float | None = None
    preemptions: int = 0
    doing: str = ""
    _pace: deque[tuple[datetime, int]] = field(default_factory=lambda: deque(maxlen=_WINDOW))

    @property
    def steps_per_s(self) -> float | None:
        """The latest steps of this attempt a second; None before there are two of them."""
        if len(self._pace) < 2:
            return None
        (began, first), (ended, last) = self._pace[0], self._pace[-1]
        seconds = (ended - began).total_seconds()
        return (last - first) / seconds if seconds > 0 and last > first else None

    @property
    def left_s(self) -> float | None:
        """Seconds to the end at that rate; None where it cannot be told."""
        if self.steps_total is None or self.step is None or self.steps_per_s is None:
            return None
        return max(0, self.steps_total - self.step) / self.steps_per_s

    def take(self, line: LogLine) -> None:
        """Learns from a line of this task. What comes late from an earlier attempt only counts."""
        self.preemptions += line.preemption
        attempt = line.attempt or 0
        if attempt < self.attempt:
            return
        if attempt > self.attempt:
            self.attempt, self.doing = attempt, ""
            self._pace.clear()
        event, said = line.event, line.payload
        if not event:
            return
        self.doing = event
        self.steps_total = said.get("steps_total", self.steps_total)
        self.loss = said.get("loss", self.loss) if event == "step" else self.loss
        if event in ("step", "saved", "resumed", "done"):
            self.step = said.get("step", said.get("from_step", self.step))
        if event in ("saved", "resumed", "done"):
            self.saved = self.step
        if event == "step" and self.step is not None:
            self._pace.append((line.time, self.step))


class Tracker:
    """All tasks of a run."""

    def __init__(self) -> None:
        self._tasks: dict[int, Progress] = {}

    def of(self, task: int) -> Progress:
        return self._tasks.setdefault(task, Progress(task))

    def take(self, line: LogLine) -> None:
        if line.task is not None:
            self.of(line.task).take(line)
