"""One emulated training cluster: a real Slurm with its accounting, a login node, and nodes that come and go."""

from __future__ import annotations

import shutil
import subprocess
import threading
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from mockgcp.clock import Clock
from mockgcp.planes.processes import ProcessLedger
from mockgcp.planes.slurm_ import pools
from mockgcp.planes.slurm_.addresses import Addresses
from mockgcp.planes.slurm_.conf import controller, render
from mockgcp.planes.slurm_.daemons import Controller
from mockgcp.planes.slurm_.machine import Machines
from mockgcp.planes.slurm_.nodes import Nodes
from mockgcp.planes.slurm_.programs import Programs
from mockgcp.planes.slurm_.times import Times
from mockgcp.training_clusters import Node, Status

_LOOK_S = 0.1
_JOIN_S = 60.0


class Cluster:
    """Runs from `start` to `stop`.

    `nodes` may be told to expire or to fail. `notices`: what the configuration asks for and this Slurm lacks.
    `defects` are tracebacks of what went wrong in the stand-ins: none, unless this module is wrong.
    """

    def __init__(
        self,
        name: str,
        stored: Mapping[str, Any],
        *,
        programs: Programs,
        folder: Path,
        processes: ProcessLedger,
        clock: Clock,
        times: Times,
        keep: Sequence[Path] = (),
    ) -> None:
        """`stored`: the cluster as the API has it. Raises RuntimeError: it cannot be; nothing is started yet."""
        self.name, self._programs, self._times = name, programs, times
        self._addresses = Addresses(folder)
        try:
            self._stored, self._conf = stored, render(name, stored, programs, self._addresses, times)
        except BaseException:
            self._addresses.close()
            raise
        shutil.rmtree(folder, ignore_errors=True)  # of a plane that was killed
        self.machines = Machines(folder, programs, processes, keep)
        self.controller = Controller(name, self.machines)
        self.nodes = Nodes(self.machines, self.controller, clock, times)
        self.defects: list[str] = []
        self._since = clock.timestamp()
        self._changing = threading.Lock()
        self._stopping = threading.Event()
        self._loop = threading.Thread(target=self._run, name=f"slurm-{name}", daemon=True)

    @property
    def home(self) -> Path:
        """The folder that is /home on all machines."""
        return self.machines.home

    @property
    def release(self) -> str:
        """Slurm's, such as 22.05.8."""
        return self._programs.versions["slurmctld"].partition("-")[0]

    @property
    def notices(self) -> tuple[str, ...]:
        return self._conf.notices

    def start(self) -> None:
        """Brings it up; returns when slurmctld answers and the static nodes are being made. Raises RuntimeError."""
        for each in pools.login_nodes(self.name, self._stored):
            self._addresses.node(each.name)
        self.machines.set_hosts(self._addresses.hosts(controller(self.name)))
        self.controller.start(self._conf)
        self.nodes.put(pools.compute_nodes(self.name, self._stored))
        self.nodes.step()
        self._loop.start()

    def update(self, stored: Mapping[str, Any]) -> None:
        """Makes it what `stored` says. Jobs go on, but for those on nodes that are to be no more: these are requeued.

        Raises:
            RuntimeError: it cannot be, and goes on as it was.
        """
        with self._changing:
            conf = render(self.name, stored, self._programs, self._addresses, self._times)
            self.controller.check(conf)
            self.machines.set_hosts(self._addresses.hosts(controller(self.name)))
            nodes = pools.compute_nodes(self.name, stored)
            with self.nodes.lock:  # who speaks to Slurm meanwhile would not be heard
                self.nodes.drop(set(self.nodes.names) - {each.name for each in nodes})
                try:
                    self.controller.change(conf, self._conf)
                except RuntimeError:
                    self.nodes.put(pools.compute_nodes(self.name, self._stored))
                    raise
                self._stored, self._conf = stored, conf
                self.nodes.put(nodes)

    def status(self) -> Status:
        logins = pools.login_nodes(self.name, self._stored)
        there = [Node(each.name, each.pool.id, "RUNNING", self._since, self._since) for each in logins]
        return Status([*there, *self.nodes.there()], self.nodes.events)

    def run(self, argv: Sequence[str], *, user: str = "root", **options: Any) -> subprocess.CompletedProcess[str]:
        """Runs a command on the first login node; the options are those of `Machines.run`."""
        if user not in self.machines.users:
            self.machines.users.get(user)
            self.controller.notice_user(user)
        return self.machines.run(pools.login_nodes(self.name, self._stored)[0].name, argv, user=user, **options)

    def stop(self) -> None:
        """Ends all of it at once."""
        self._stopping.set()
        self.machines.close()
        if self._loop.ident is not None:
            self._loop.join(_JOIN_S)
        self._addresses.close()

    def _run(self) -> None:
        while not self._stopping.wait(_LOOK_S):
            try:
                self.nodes.step()
            except Exception:
                if not self._stopping.is_set():
                    self.defects.append(traceback.format_exc())
