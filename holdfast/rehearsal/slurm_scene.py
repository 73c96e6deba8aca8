"""Where the stories of scenario C play: a cluster with its Slurm, its operator, its users, and who provokes."""

from __future__ import annotations

import copy
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from holdfast.errors import OperatorError
from holdfast.rehearsal import slurm_record
from holdfast.rehearsal.frame import Frame
from holdfast.rehearsal.sealed import StackFile, write_stack
from holdfast.rehearsal.slurm_record import COLUMNS, Object, Record, Watcher
from holdfast.runs.slurm import Slurm
from mockgcp.planes.slurm import SlurmPlane
from mockgcp.planes.slurm_.cluster import Cluster

_LOOK_S = 0.1
_COMMAND_S = 60.0
_ACCOUNTED_S = 30.0
# What a command says while slurmctld begins anew with another configuration.
_AWAY = ("Unable to contact slurm controller", "Socket timed out", "Connection refused", "Zero Bytes were transmitted")
_OVER = frozenset({"COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL", "PREEMPTED", "OUT_OF_MEMORY"})
_EPOCH = {"SLURM_TIME_FORMAT": "%s"}
CHECKS = "/home/checks"
"""A folder where the rehearsal's prologs write down that they ran, and files make them, and the epilog, fail."""


class OverdueError(OperatorError):
    """What a story waits for has not come about."""


@dataclass(frozen=True)
class Scene:
    """The operator's backend, the emulated cluster, and the stack that it was made by.

    `limit_s`: the longest that anything is waited for. `real`: whether anybody here can train. `over`: nothing is
    waited for any more.
    """

    backend: Slurm
    plane: SlurmPlane
    frame: Frame
    stack: str
    watcher: Watcher
    seed: int = 0
    limit_s: float = 240.0
    real: bool = False
    over: threading.Event = field(default_factory=threading.Event)
    _updating: threading.Lock = field(default_factory=threading.Lock)

    @property
    def cluster(self) -> Cluster:
        return self.plane.cluster(self.backend.cluster)

    @property
    def home(self) -> Path:
        return self.cluster.home

    @property
    def config(self) -> dict[str, Any]:
        """The stack's configuration as it is now."""
        return self.frame.files[self.stack].config

    def nodes(self, pool: str) -> list[str]:
        """The names of a pool's nodes."""
        most = next(int(each["maxNodes"]) for each in self.config["holdfast:pools"] if each["id"] == pool)
        return [f"{self.backend.config.cluster_id}-{pool}-{index}" for index in range(most)]

    def say(self, line: str) -> None:
        self.frame.say(line)

    def run(self, *argv: str, user: str = "root", stdin: str = "") -> subprocess.CompletedProcess[str]:
        """A command on the login node, once slurmctld answers. OperatorError: it does not."""
        deadline = time.monotonic() + self.limit_s
        while True:
            try:
                done = self.plane.run(
                    self.backend.cluster, argv, user=user, stdin=stdin, env=_EPOCH, timeout_s=_COMMAND_S
                )
            except subprocess.TimeoutExpired:
                raise OverdueError(f"no answer within {_COMMAND_S:g} s: {' '.join(argv)}") from None
            except RuntimeError as error:  # the cluster is being deleted
                raise OperatorError(str(error)) from error
            if not any(each in done.stderr for each in _AWAY) or time.monotonic() > deadline:
                return done
            self.pause()

    def pause(self, seconds: float = _LOOK_S) -> None:
        """Lets time pass. OverdueError: the rehearsal was interrupted."""
        if self.over.wait(seconds):
            raise OverdueError("interrupted")

    def ask(self, *argv: str, user: str = "root", stdin: str = "") -> str:
        """What a command that must succeed prints. OperatorError: it fails."""
        done = self.run(*argv, user=user, stdin=stdin)
        if done.returncode:
            raise OperatorError(f"on the login node, {' '.join(argv)}: {done.stderr.strip() or done.stdout.strip()}")
        return done.stdout

    @contextmanager
    def steady(self) -> Iterator[None]:
        """Nobody else changes the cluster meanwhile. OverdueError: somebody does for too long, or as of `pause`."""
        deadline = time.monotonic() + self.limit_s
        while not self._updating.acquire(timeout=_LOOK_S):
            self.pause(0)
            if time.monotonic() > deadline:
                raise OverdueError(f"the cluster is changed for more than {self.limit_s:g} s")
        try:
            yield
        finally:
            self._updating.release()

    def update(self, told: str, change: Callable[[dict[str, Any]], None]) -> None:
        """Changes the stack's configuration and brings it up, as an operator does on a running cluster; one at a time.

        It waits until no job's nodes are being made: slurmctld looks every 30 s whether they are, and begins to count
        anew when it begins anew, as it does with each change.

        Raises:
            PulumiError: it failed.
        """
        with self.steady():
            deadline = time.monotonic() + self.limit_s
            while self.watcher.is_any("CONFIGURING") and time.monotonic() < deadline:
                self.pause()
            config = copy.deepcopy(self.config)
            change(config)
            self.config.clear()
            self.config.update(config)
            write_stack(self.frame.sealed, self.stack, StackFile(config))
            began = time.monotonic()
            done = self.frame.pulumi.operate("up", self.stack)
            counts = ", ".join(f"{count} {operation}" for operation, count in done.changes.items())
            self.say(f"  pulumi up, {told}: {counts} ({time.monotonic() - began:.1f} s)")


@dataclass
class Take:
    """A story that is being played. `record` is what was seen until now."""

    scene: Scene
    pools: Sequence[str]
    began: float = field(default_factory=time.time)
    ids: dict[str, str] = field(default_factory=dict)
    said: dict[str, str] = field(default_factory=dict)
    stack: Object = field(default_factory=dict)
    training: Object = field(default_factory=dict)
    rows: dict[str, list[Object]] = field(default_factory=dict)

    def submit(self, label: str, script: str, *options: str, user: str) -> str:
        """A batch job of a user's, as sbatch takes it; returns its id."""
        text = f"#!/bin/bash\n{script}\n"
        output = ("--output=/dev/null", "--requeue", "--open-mode=append")
        made = self.scene.ask("sbatch", "--parsable", *output, *options, user=user, stdin=text)
        self.ids[label] = made.strip()
        return self.ids[label]

    def tell(self, key: str, *argv: str, user: str = "root", stdin: str = "") -> str:
        """Keeps what a command says, its refusals included."""
        done = self.scene.run(*argv, user=user, stdin=stdin)
        self.said[key] = f"{done.stdout}{done.stderr}".strip()
        return self.said[key]

    def cancel(self, *labels: str) -> None:
        if ids := [self.ids[label] for label in labels if label in self.ids]:
            self.scene.run("scancel", *ids)

    @property
    def record(self) -> Record:
        watcher = self.scene.watcher
        prefixes = tuple(f"{self.scene.backend.config.cluster_id}-{pool}-" for pool in self.pools)
        events = self.scene.plane.status(self.scene.backend.cluster).events
        return Record(
            stack=self.stack,
            jobs={label: list(watcher.jobs.get(job, ())) for label, job in self.ids.items()},
            rows=self.rows,
            nodes={
                name: slurm_record.since(list(history), self.began)
                for name, history in list(watcher.nodes.items())
                if name.startswith(prefixes)
            },
            events=[
                {"type": each.type, "message": each.message, "time": each.time}
                for each in events
                if each.message.startswith(prefixes) and _epoch(each.time) >= self.began - 1
            ],
            said=self.said,
            training=self.training,
        )

    def until(self, what: Callable[[Record], object], told: str) -> None:
        """Looks until that is true of the record. Raises OverdueError."""
        began = time.monotonic()
        while not what(self.record):
            if time.monotonic() - began > self.scene.limit_s:
                raise OverdueError(f"not within {self.scene.limit_s:g} s: {told}")
            self.scene.pause()
        self.scene.say(f"  {time.monotonic() - began:5.1f} s  {told}")

    def until_state(self, label: str, *states: str) -> None:
        told = f"{label} (job {self.ids[label]}) is {' or '.join(states)}"
        self.until(lambda record: slurm_record.state(record, label) in states, told)

    def account(self) -> None:
        """Takes sacct's rows of all jobs, once those that are over are so there, too."""
        if not self.ids:
            return
        deadline = time.monotonic() + _ACCOUNTED_S
        while True:
            flags = ("--allocations", "--duplicates", "--parsable2", "--noheader")
            jobs = ",".join(self.ids.values())
            said = self.scene.ask("sacct", *flags, f"--format={','.join(COLUMNS)}", f"--jobs={jobs}")
            found = slurm_record.table(said, COLUMNS)
            self.rows = {label: [row for row in found if row["JobID"] == job] for label, job in self.ids.items()}
            record = self.record
            over = [label for label in self.ids if slurm_record.state(record, label) in _OVER]
            if all((slurm_record.ends(record, label) or [""])[-1] in _OVER for label in over):
                return
            if time.monotonic() > deadline:
                return  # the verdict misses the rows, and says so
            self.scene.pause()


def _epoch(stamp: str) -> float:
    return datetime.fromisoformat(stamp).timestamp()


@contextmanager
def take(scene: Scene, pools: Sequence[str]) -> Iterator[Take]:
    """A story's own record; its jobs that are not over at its end are cancelled."""
    now = Take(scene, pools)
    try:
        yield now
    finally:
        if not scene.over.is_set():
            now.account()
            now.cancel(*now.ids)
