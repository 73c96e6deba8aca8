"""A cluster's node pools as Slurm sees them: names of nodes, their size, how long they live."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from infra.catalog.units import parse_duration_s

Json = Mapping[str, Any]

# Memory in GB and GPUs of whole machine types; vCPUs. https://docs.cloud.google.com/compute/docs/gpus, read
# 2026-11-29, unchecked. It decides no admission: Slurm believes what slurm.conf says (config_overrides).
_GPU_MACHINES = {
    "a3-highgpu-8g": (208, 1872, 8),
    "a3-megagpu-8g": (208, 1872, 8),
    "a3-ultragpu-8g": (224, 2952, 8),
    "a4-highgpu-8g": (224, 3968, 8),
    "a4x-highgpu-4g": (140, 884, 4),
}
_CPU_MACHINE = re.compile(r"[a-z0-9]+-(standard|highmem|highcpu)-(\d+)")
_GB_A_CPU = {"standard": 4, "highmem": 8, "highcpu": 1}
# What the guest's system keeps for itself.
_USABLE = 0.95


@dataclass(frozen=True)
class Shape:
    cpus: int
    memory_mb: int
    gpus: int


def shape(machine_type: str) -> Shape:
    """Raises RuntimeError: the type is not known here."""
    if found := _GPU_MACHINES.get(machine_type):
        cpus, memory_gb, gpus = found
    elif match := _CPU_MACHINE.fullmatch(machine_type):
        cpus, gpus = int(match[2]), 0
        memory_gb = cpus * _GB_A_CPU[match[1]]
    else:
        raise RuntimeError(
            f"machine type {machine_type!r} is not known to the Slurm plane; known: {', '.join(_GPU_MACHINES)}, n2-*"
        )
    return Shape(cpus, int(memory_gb * 1000 * _USABLE), gpus)


@dataclass(frozen=True)
class Pool:
    """`minimum` nodes are always there (static); those up to `maximum` come when a job waits (dynamic).

    `life_s`: None when its nodes do not expire. `template`: what a change of makes nodes be made anew.
    """

    id: str
    shape: Shape
    minimum: int
    maximum: int
    life_s: float | None
    template: str

    @classmethod
    def of(cls, stored: Json) -> Pool:
        """The pool as the API stores it."""
        scaling, life = stored.get("scalingSpec", {}), None
        if stored.get("provisioningModel") == "FLEX_START":
            told = stored.get("effectiveFlexStartMaxDuration") or stored.get("flexStartMaxDuration") or "604800s"
            life = parse_duration_s(told)
        parts = ("startupScript", "nodeImage", "zone")
        return cls(
            stored["id"],
            shape(stored["machineSpec"]["machineType"]),
            int(scaling.get("minNodeCount", 0)),
            int(scaling.get("maxNodeCount", 0)),
            life,
            repr([stored.get(part) for part in parts]),
        )

    def nodes(self, cluster: str) -> list[Node]:
        """CLUSTER-POOL-INDEX, static ones first."""
        return [Node(f"{cluster}-{self.id}-{index}", self, index >= self.minimum) for index in range(self.maximum)]


@dataclass(frozen=True)
class Node:
    name: str
    pool: Pool
    dynamic: bool


def login_pool(cluster: Json) -> str:
    return str(cluster["orchestratorSpec"]["slurmSpec"]["loginNodePoolId"])


def pools(cluster: Json) -> list[Pool]:
    return [Pool.of(each) for each in cluster["nodePools"]]


def compute_nodes(name: str, cluster: Json) -> list[Node]:
    """Every node that Slurm knows, there or not."""
    login = login_pool(cluster)
    return [node for pool in pools(cluster) if pool.id != login for node in pool.nodes(name)]


def login_nodes(name: str, cluster: Json) -> list[Node]:
    login = login_pool(cluster)
    return [node for pool in pools(cluster) if pool.id == login for node in pool.nodes(name)]
