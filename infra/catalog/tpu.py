"""Machines of node pools, TPU topologies and where TPUs are. Sources: tpu.yaml, and gke.yaml for other machines.

What a slice consists of, its hosts and chips, follows from machine type and topology.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType

from infra.catalog.facts import Universe, fact
from infra.catalog.facts import universe as universe_of
from infra.catalog.rules import Problem


@dataclass(frozen=True)
class Machine:
    """A node's machine type: CPUs, memory in GiB, and its TPU chips or GPUs (0 for none)."""

    name: str
    vcpu: float
    memory_gib: float
    generation: str = ""
    chips: int = 0
    gpu: str = ""
    gpus: int = 0


@dataclass(frozen=True)
class TpuSlice:
    """A TPU slice: a machine type, and how its chips are arranged."""

    machine: Machine
    topology: str

    @property
    def chips(self) -> int:
        """Chips of the whole slice."""
        return math.prod(int(side) for side in self.topology.split("x"))

    @property
    def hosts(self) -> int:
        """Nodes that the slice consists of."""
        return self.chips // self.machine.chips

    @property
    def node_label(self) -> str:
        """What GKE's label for the accelerator says on its nodes."""
        return str(fact("tpu", "generations").value[self.machine.generation]["node_label"])

    @property
    def ray_accelerator(self) -> str:
        """What Ray calls the accelerator."""
        return str(fact("tpu", "generations").value[self.machine.generation]["ray"])


@cache
def machines() -> Mapping[str, Machine]:
    """Every machine type that a node pool may have, by its name."""
    known = {**fact("gke", "machines").value, **fact("tpu", "machines").value}
    return MappingProxyType({name: Machine(name, **each) for name, each in known.items()})


def tpu_topologies(machine: str) -> tuple[str, ...]:
    """The topologies that TPU machine type `machine` can have; none for another machine."""
    return tuple(fact("tpu", "topologies").value.get(machine, ()))


def tpu_slice(machine: str, topology: str) -> TpuSlice:
    """That slice. ValueError, as `tpu_slice_problem` says it, for one that there is not."""
    problem = tpu_slice_problem(machine, topology)
    if problem is not None:
        raise ValueError(problem.message)
    return TpuSlice(machines()[machine], topology)


def machine_problem(machine: str) -> Problem | None:
    """A machine type that the catalog does not have."""
    if machine in machines():
        return None
    message = (
        f"machine type {machine!r} is not in the catalog; known: {', '.join(machines())}. Choose one of these, or add "
        "it, with its source, to infra/catalog/tpu.yaml or gke.yaml"
    )
    return Problem("machine", message)


def tpu_slice_problem(machine: str, topology: str | None) -> Problem | None:
    """A topology that no TPU has, that this machine type cannot have, or that is missing or superfluous."""
    unknown = machine_problem(machine)
    if unknown is not None:
        return unknown
    source, possible = fact("tpu", "topologies").source, tpu_topologies(machine)
    if not possible:
        if topology is None:
            return None
        return Problem("topology", f"{topology!r}, but {machine} has no TPU ({source}). Leave the topology out")
    if topology in possible:
        return None
    others = [other for other, shapes in fact("tpu", "topologies").value.items() if topology in shapes]
    what = "no topology" if topology is None else f"{topology!r}{'' if others else ', which is no TPU topology'}"
    hint = f", or machine type {' or '.join(others)}" if others else ""
    message = f"{what}; {machine} can have {', '.join(possible)} ({source}). Choose one of these{hint}"
    return Problem("topology", message)


def tpu_zone_problem(machine: str, zone: str, *, flex_start: bool, universe: Universe | None = None) -> Problem | None:
    """A zone that has no such TPU, or has it on demand only.

    None for a machine without TPUs, and in a universe whose zones are not known.
    """
    known = machines().get(machine)
    domain = (universe or universe_of()).domain
    key = "flex_start_zones" if flex_start else "zones"
    zones = fact("tpu", key).value.get(domain, {}).get(known.generation) if known and known.chips else None
    if known is None or zones is None or zone in zones:
        return None
    message = (
        f"{zone} has no TPU {known.generation}{' by flex-start' if flex_start else ''} ({fact('tpu', key).source}). "
        f"Choose one of {', '.join(zones)}"
    )
    return Problem("zone", message)
