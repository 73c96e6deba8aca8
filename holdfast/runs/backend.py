"""What the operator's verbs need of a service that runs jobs, and the records it answers with.

The verbs and their display know no service. The backends are `cloud_run.py`, `gke.py` and `slurm.py`.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, Protocol, TypeVar, runtime_checkable

RUN_ID = "HOLDFAST_RUN_ID"
"""The trainer's variable that names its checkpoint folder within the job's; the job's name without it."""

State = Literal["pending", "running", "succeeded", "failed", "cancelled"]


@dataclass(frozen=True)
class Task:
    """One task of a run. `retries`: how many of `max_retries` are used."""

    index: int
    state: State
    retries: int = 0
    max_retries: int = 0

    @property
    def retries_used_up(self) -> bool:
        return self.state == "failed" and self.retries >= self.max_retries


@dataclass(frozen=True)
class Run:
    """One execution of a job.

    `resource`: its full name at the service; `run_id`: whose checkpoints it goes on from; `message`: how it ended;
    `doing`: what it does or waits for, in a sentence; `facts`: what else there is to know of it now, by what it is.
    """

    name: str
    resource: str
    state: State
    run_id: str
    created: datetime
    task_count: int
    ended: datetime | None = None
    retries: int = 0
    tasks: tuple[Task, ...] = ()
    message: str = ""
    doing: str = ""
    facts: tuple[tuple[str, str], ...] = ()

    @property
    def active(self) -> bool:
        return self.state in ("pending", "running")


@dataclass(frozen=True)
class Order:
    """What an execution is to have other than its job. None and absent: as the job has it; `timeout_s` in seconds."""

    env: Mapping[str, str] = field(default_factory=dict)
    tasks: int | None = None
    timeout_s: float | None = None


@dataclass(frozen=True)
class LogLine:
    """One line of a run's log.

    `source`: the application's own, or the platform's. `payload`: the line's object, empty for plain text; `entry`: as
    the service gave it.
    """

    time: datetime
    severity: str
    source: Literal["task", "platform"]
    task: int | None
    attempt: int | None
    message: str
    payload: Mapping[str, Any]
    entry: Mapping[str, Any]

    @property
    def event(self) -> str:
        """The trainer's name for it (docs/decisions/0004-trainer-contract.md); empty for any other line."""
        return str(self.payload.get("event", "")) if self.source == "task" else ""

    @property
    def preemption(self) -> bool:
        """Whether the platform says here that it takes the instance away."""
        return self.source == "platform" and self.payload.get("reason") == "INSTANCE_PREEMPTED"


@dataclass(frozen=True)
class Selection:
    """Which lines of a run's log. `severity`: at least; without `every_step` steps older than minutes are left out."""

    task: int | None = None
    severity: str | None = None
    since: datetime | None = None
    every_step: bool = True


class Log(Protocol):
    """A run's log, read on from where it was left."""

    def read(self) -> list[LogLine]:
        """The lines that were not read before, oldest first, as far as one look goes.

        Raises:
            CloudError: the log cannot be read now; the next call goes on where this one failed.
        """
        ...


class Backend(Protocol):
    """One job at one service. Every method raises CloudError for what the service refuses."""

    @property
    def verb(self) -> str:
        """The service as `holdfast submit` names it."""
        ...

    @property
    def stack(self) -> str:
        """The stack whose job it is; empty where that is no stack's file."""
        ...

    def runs(self, most: int | None = None) -> list[Run]:
        """The newest runs, or all, newest first, without their tasks."""
        ...

    def run(self, name: str) -> Run:
        """A run as it is now, with its tasks. OperatorError: there is none of that name."""
        ...

    def log(self, run: Run, selection: Selection) -> Log:
        """Its log."""
        ...

    def last_step(self, run: Run) -> int | None:
        """The last completed step its log tells of; None: of none."""
        ...

    def cancel(self, run: Run) -> None:
        """Asks for its end: SIGTERM to every task, and no retry."""
        ...

    def cancel_says(self) -> str:
        """What that does, for whoever is about to."""
        ...

    def again(self, run: Run) -> str:
        """How to go on with a run that is over: a command, and what it does."""
        ...

    def link(self, run: Run) -> str:
        """Its page in the console."""
        ...


OrderT = TypeVar("OrderT", contravariant=True)


class Submits(Backend, Protocol[OrderT]):
    """A backend that starts runs, each as an order of its own kind says."""

    def run_id(self, order: OrderT) -> str:
        """The run id that such a run would have. OperatorError: there can be no such run."""
        ...

    def submit(self, order: OrderT) -> Run:
        """Starts a run."""
        ...


@runtime_checkable
class Resubmits(Protocol):
    """A backend whose jobs are kept when they are over, and are run again by their names."""

    def resubmit(self, run: Run) -> Run:
        """Runs one that is over once more, from its checkpoints. OperatorError: it is not over."""
        ...

    def delete(self, run: Run) -> None:
        """Removes it, over or not; its checkpoints stay."""
        ...


def command(backend: Backend, *words: str) -> str:
    """A command of `holdfast` as it is to be typed for this job."""
    return shlex.join(["holdfast", *words, *(["--stack", backend.stack] if backend.stack else [])])
