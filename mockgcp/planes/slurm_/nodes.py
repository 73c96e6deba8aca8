"""A cluster's nodes: machines that come, expire, fail and come back, as the service makes and deletes them.

Static nodes are there from the start, and again whenever they are gone. Dynamic ones come when Slurm's ResumeProgram
asks for them and go by its SuspendProgram; when they expire, Slurm asks again only if a job waits.
"""

from __future__ import annotations

import re
import subprocess
import threading
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from mockgcp.clock import Clock
from mockgcp.planes.slurm_ import pools
from mockgcp.planes.slurm_.daemons import Controller
from mockgcp.planes.slurm_.machine import Machines
from mockgcp.planes.slurm_.times import Times
from mockgcp.training_clusters import Event, Node

_OBSERVE_S = 1.0
_EVENTS = 100  # that the API keeps
_FIELD = re.compile(r"(\w+)=(\S*)")
_REASON = re.compile(r" Reason=(.*?) \[")


@dataclass
class _Machine:
    """One that there is, or is being made (no process yet), or is gone and Slurm not yet told (`lost`).

    `due`: when the next step is, by the clock: booted, or told to Slurm. `ends`: when its maximum duration is over.
    """

    node: pools.Node
    created: str
    changed: str
    due: float
    state: Literal["PREPARING", "RUNNING", "UPDATING", "ERROR"] = "PREPARING"
    ends: float | None = None
    process: subprocess.Popen[bytes] | None = None
    lost: str = ""
    told: bool = False


@dataclass(frozen=True)
class SlurmNode:
    """A node as Slurm has it: flags of its state (IDLE, DRAIN, CLOUD, ...), and the reason."""

    state: frozenset[str]
    reason: str = ""


@dataclass
class Nodes:
    """`step` does what is due; it is called again and again, in one thread. The rest may be called from any."""

    machines: Machines
    controller: Controller
    clock: Clock
    times: Times
    events: list[Event] = field(default_factory=list)
    seen: Mapping[str, SlurmNode] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._nodes: dict[str, pools.Node] = {}
        self._there: dict[str, _Machine] = {}
        self._asked: set[str] = set()
        self._observed = -_OBSERVE_S
        self.lock = threading.RLock()

    @property
    def names(self) -> Collection[str]:
        """Of all that Slurm knows, there or not."""
        return self._nodes.keys()

    def put(self, nodes: Iterable[pools.Node]) -> None:
        """The nodes that Slurm knows from now on. Those whose pool's template is another are made anew."""
        with self.lock:
            before, self._nodes = self._nodes, {node.name: node for node in nodes}
            for name, node in self._nodes.items():
                if not node.dynamic:
                    self._asked.discard(name)
                if (machine := self._there.get(name)) is None:
                    continue
                machine.node = node
                if before[name].pool.template != node.pool.template:
                    self._lose(machine, "its pool's configuration changed", "VM_DELETION")

    def drop(self, names: Iterable[str]) -> None:
        """Takes nodes away for good; their jobs are requeued."""
        with self.lock:
            for name in names:
                if machine := self._there.pop(name, None):
                    self._end(machine)
                    machine.lost = "the node pool was made smaller"
                    self._tell_down(machine)
                    self._event("VM_DELETION", f"{name}: the node pool was made smaller")
                self._nodes.pop(name, None)
                self._asked.discard(name)

    def expire(self, name: str) -> None:
        """Ends a machine as its maximum duration does: at once, and nothing on it is told. Raises KeyError."""
        with self.lock:
            self._lose(self._there[name], "its maximum duration is over", "VM_DELETION")

    def fault(self, name: str, reason: str) -> None:
        """Takes a machine out for repair; Slurm is told at once. Raises RuntimeError: it does not run."""
        with self.lock:
            machine = self._there.get(name)
            if machine is None or machine.process is None:
                raise RuntimeError(f"node {name} is not there, or not RUNNING")
            self._lose(machine, reason, "VM_REPORT_AND_REPLACEMENT")
            machine.state = "UPDATING"
            self._tell_down(machine)
            machine.due = max(machine.due, self.clock.seconds() + self.times.repair_s)

    def there(self) -> list[Node]:
        machines = list(self._there.values())
        return [Node(each.node.name, each.node.pool.id, each.state, each.created, each.changed) for each in machines]

    def step(self) -> None:
        with self.lock:
            now = self.clock.seconds()
            for name in self._requests("suspend"):
                self._asked.discard(name)
                if (machine := self._there.get(name)) and not machine.lost:
                    self._end(self._there.pop(name))
                    self._event("VM_SLURM_POWER_DOWN", f"{name} was idle")
            self._asked |= {name for name in self._requests("resume") if name in self._nodes}
            for machine in list(self._there.values()):
                self._step_machine(machine, now)
            for name, node in self._nodes.items():
                if name not in self._there and (not node.dynamic or name in self._asked):
                    stamp = self.clock.timestamp()
                    self._there[name] = _Machine(node, stamp, stamp, now + self.times.boot_s)
            if now - self._observed >= _OBSERVE_S:
                self._observed = now
                self._observe()

    def _step_machine(self, machine: _Machine, now: float) -> None:
        if machine.lost:
            if now >= machine.due and not machine.told:
                self._tell_down(machine)
            elif now >= machine.due:
                if machine.node.dynamic:
                    self._update(machine.node.name, "POWER_DOWN")
                del self._there[machine.node.name]
        elif machine.process is None:
            if now >= machine.due:
                self._boot(machine, now)
        elif machine.process.poll() is not None:
            self._lose(machine, "the machine ended", "VM_DELETION")
        elif machine.ends is not None and now >= machine.ends:
            self._lose(machine, "its maximum duration is over", "VM_DELETION")

    def _boot(self, machine: _Machine, now: float) -> None:
        life = machine.node.pool.life_s
        if life is not None:
            machine.ends = now + (self.times.life_s or life)
        # -b: a machine that was just booted; its kernel's own boot was long ago, and Slurm would not believe it.
        machine.process = self.machines.start(machine.node.name, ["slurmd", "-D", "-b"])
        machine.state, machine.changed = "RUNNING", self.clock.timestamp()

    def _lose(self, machine: _Machine, why: str, event: str) -> None:
        if machine.lost:
            return
        self._end(machine)
        machine.lost, machine.process, machine.state = why, None, "ERROR"
        machine.due, machine.changed = self.clock.seconds() + self.times.notice_s, self.clock.timestamp()
        self._asked.discard(machine.node.name)
        self._event(event, f"{machine.node.name}: {why}")

    def _end(self, machine: _Machine) -> None:
        if machine.process is not None:
            self.machines.end(machine.process)

    def _tell_down(self, machine: _Machine) -> None:
        """Slurm requeues the jobs. What a machine was drained for is gone with it.

        A dynamic node stays DOWN for a while: slurmctld goes on telling it to end the job that it lost. A new machine
        of that name would hear it, and then refuse the same job.
        """
        self._update(machine.node.name, "DOWN", machine.lost)
        self._update(machine.node.name, "UNDRAIN")
        machine.told = True
        machine.due = self.clock.seconds() + (self.times.settle_s if machine.node.dynamic else 0.0)

    def _update(self, name: str, state: str, reason: str = "") -> None:
        why = [f"reason={reason}"] if reason else []
        self.controller.ask("scontrol", "update", f"nodename={name}", f"state={state}", *why)

    def _requests(self, what: str) -> list[str]:
        """The nodes that Slurm's program has named since the last look."""
        files = list((self.machines.folder / "controller" / what).iterdir())
        for file in files:
            file.unlink()
        return [file.name for file in files]

    def _observe(self) -> None:
        """Looks at Slurm's own view: what is new of it becomes events, and what gave up is tried again."""
        told = self.controller.ask("scontrol", "--oneliner", "show", "nodes")
        if told.returncode:
            return
        seen = {}
        for line in told.stdout.splitlines():
            fields, reason = dict(_FIELD.findall(line)), _REASON.search(line)
            seen[fields["NodeName"]] = SlurmNode(frozenset(fields["State"].split("+")), reason[1] if reason else "")
        for name, node in seen.items():
            if "DRAIN" in node.state and "DRAIN" not in self._state(name):
                for begin in ("Prolog", "Epilog"):
                    if node.reason.startswith(f"{begin} error"):
                        self._event(f"VM_{begin.upper()}_ERROR", f"{name}: {node.reason}")
                self._event("VM_SLURM_DRAIN", f"{name}: {node.reason}")
            if {"DOWN", "POWERED_DOWN"} <= node.state and name not in self._there:
                self._update(name, "RESUME")
        self.seen = seen

    def _state(self, name: str) -> frozenset[str]:
        before = self.seen.get(name)
        return before.state if before else frozenset()

    def _event(self, kind: str, message: str) -> None:
        self.events = [*self.events, Event(kind, message, self.clock.timestamp())][-_EVENTS:]
