"""What a node pool consists of: nodes, chips and hosts follow from machine type and topology, as quotas do."""

from dataclasses import dataclass

from infra import catalog
from infra.catalog import Machine, Problem, TpuSlice, Universe

ON_DEMAND = "on-demand"
FLEX_START = "flex-start"


@dataclass(frozen=True)
class PoolShape:
    """A node pool, as far as its size goes. Whoever reads more than `problems` of it has seen that there are none."""

    name: str
    """The pool's name, at most 40 characters."""
    machine: str
    """The machine type of its nodes, one of the catalog's."""
    topology: str | None = None
    """How a TPU slice's chips are arranged, such as 4x4; None for a machine without TPUs."""
    slices: int = 1
    """The most slices that it holds at once: 1 if a slice has several hosts, else its nodes, each a slice (or a GPU
    node) of its own."""
    provisioning: str = ON_DEMAND
    """on-demand, or flex-start: nodes that are queued for and run up to seven days."""

    @property
    def tpu(self) -> TpuSlice | None:
        """The TPU slice, None for a machine without TPUs."""
        return None if self.topology is None else catalog.tpu_slice(self.machine, self.topology)

    @property
    def node(self) -> Machine:
        """What one of its nodes has."""
        return catalog.machines()[self.machine]

    @property
    def hosts(self) -> int:
        """Nodes a slice."""
        return 1 if self.tpu is None else self.tpu.hosts

    @property
    def max_nodes(self) -> int:
        """The most nodes that it holds at once, in its one zone."""
        return self.hosts * self.slices

    @property
    def chips(self) -> int:
        """The most TPU chips that it holds at once."""
        return self.max_nodes * self.node.chips

    @property
    def queued(self) -> bool:
        """Whether its nodes come by queued provisioning."""
        return self.provisioning == FLEX_START

    def problems(self, zone: str, version: str | None = None, universe: Universe | None = None) -> list[Problem]:
        """What GKE refuses of the pool in `zone`, on a cluster of `version` (None leaves that out)."""
        shape = catalog.tpu_slice_problem(self.machine, self.topology)
        found = [catalog.node_pool_name_problem(self.name), shape]
        if shape is None:
            flex = self.queued
            found += [catalog.tpu_zone_problem(self.machine, zone, flex_start=flex, universe=universe), self._slices()]
            if flex and version is not None:
                found.append(catalog.flex_start_version_problem(version, tpu=self.node.chips > 0))
            if flex and not (self.node.chips or self.node.gpus):
                found.append(Problem("provisioning", f"flex-start is for accelerators; {self.machine} has none"))
        if self.provisioning not in (ON_DEMAND, FLEX_START):
            choice = f"Choose {ON_DEMAND} or {FLEX_START}"
            found.append(Problem("provisioning", f"{self.provisioning!r} is no way to provision nodes here. {choice}"))
        return [each for each in found if each is not None]

    def _slices(self) -> Problem | None:
        source = catalog.fact("tpu", "topologies").source
        if self.slices < 1:
            return Problem("slices", f"{self.slices}; a pool holds at least 1 slice")
        if self.hosts > 1 and self.slices > 1:
            message = (
                f"{self.slices} slices; a pool of {self.machine} with topology {self.topology} is one slice of "
                f"{self.hosts} nodes ({source}). Set 1, and make a pool for each further slice"
            )
            return Problem("slices", message)
        return None
