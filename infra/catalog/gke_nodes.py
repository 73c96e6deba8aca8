"""What of a GKE node pods can have, what a node has by default, and cluster versions. Sources: gke_nodes.yaml."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from infra.catalog.facts import fact

_FILE = "gke_nodes"


@dataclass(frozen=True)
class Allocatable:
    """What of a node pods can have: thousandths of a vCPU, MiB of memory, and their number."""

    cpu_m: int
    memory_mib: int
    pods: int


def allocatable(vcpu: float, memory_gib: float, max_pods: int | None = None) -> Allocatable:
    """What of a machine pods can have. A real node has a little less: firmware and kernel take theirs first."""
    cpu = vcpu - _reserved("reserved_cpu", vcpu)
    memory = memory_gib - _reserved("reserved_memory", memory_gib)
    evicted_mib: int = fact(_FILE, "eviction_threshold_mib").value
    pods: int = max_pods or fact(_FILE, "max_pods_default").value
    return Allocatable(int(1000 * cpu), int(1024 * memory) - evicted_mib, pods)


def _reserved(name: str, total: float) -> float:
    """The part of `total` that the steps of a fact keep."""
    kept, start = 0.0, 0.0
    steps: Sequence[tuple[float | None, float]] = fact(_FILE, name).value
    for end, part in steps:
        upto = total if end is None else min(total, end)
        kept += max(0.0, upto - start) * part
        start = upto
    return kept


def node_defaults() -> Mapping[str, Any]:
    """What a node's configuration is where it says nothing, by REST names."""
    defaults: Mapping[str, Any] = fact(_FILE, "node_defaults").value
    return defaults


def gke_version(wanted: str = "") -> str | None:
    """The full version that a cluster gets for "", "latest", "1.34", "1.34.9" or a full one; None: not to be had."""
    known: Mapping[str, str] = fact(_FILE, "versions").value
    if wanted in ("", "-"):
        return known[fact(_FILE, "version_default").value]
    if wanted == "latest":
        return known[max(known, key=gke_version_order)]
    if wanted in known:
        return known[wanted]
    minor = ".".join(wanted.split(".")[:2])
    if minor not in known or not re.fullmatch(r"1\.\d+\.\d+(-gke\.\d+)?", wanted):
        return None
    if "-gke." in wanted:  # any patch of a minor version that is there: the catalog does not list them all
        return wanted
    full = known[minor]
    return full if full.startswith(f"{wanted}-") else None


def gke_version_order(version: str) -> tuple[int, ...]:
    """What versions are compared by: 1.33.0-gke.1712000 is (1, 33, 0, 1712000)."""
    return tuple(int(number) for number in re.findall(r"\d+", version))
