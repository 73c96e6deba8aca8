"""Kubernetes Engine: what a pool's nodes are, and the instance groups that say how many.

`node_template` is what a Kubernetes plane makes nodes from; it touches no state.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from infra import catalog
from mockgcp.errors import ApiError
from mockgcp.service import Call
from mockgcp.services import compute
from mockgcp.services.container_rules import machine_of, slice_of
from mockgcp.state import State

_LABEL = "cloud.google.com/"
_EFFECTS = {"NO_SCHEDULE": "NoSchedule", "PREFER_NO_SCHEDULE": "PreferNoSchedule", "NO_EXECUTE": "NoExecute"}
# What a pool of flex-start or queued nodes upgrades by, and any other: NodePool.upgradeSettings as pools show it.
_SHORT_LIVED = {"strategy": "SHORT_LIVED"}
_SURGE = {"maxSurge": 1, "strategy": "SURGE"}


@dataclass(frozen=True)
class NodeTemplate:
    """What every node of a pool is born with, in Kubernetes' words; the zone and the name are each node's own.

    `gang`: how many of them come and go together (a multi-host slice); 1: each by itself.
    """

    labels: Mapping[str, str]
    taints: tuple[Mapping[str, str], ...]
    allocatable: Mapping[str, str]
    gang: int


def node_template(pool: Mapping[str, Any]) -> NodeTemplate:
    """What the nodes of a stored pool are.

    Labels and taints: docs.cloud.google.com/kubernetes-engine/docs/how-to/tpus, .../how-to/provisioningrequest,
    .../how-to/node-taints and .../concepts/workload-identity. Those of the machine, the disk and the operating system
    are as GKE's nodes show them, unchecked.

    Raises:
        ValueError: a machine type that the catalog does not have; the API refuses such a pool.
    """
    config, slice_, machine = pool["config"], slice_of(pool), machine_of(pool["config"])
    if machine is None:
        raise ValueError(f"pool {pool['name']} has a machine type that the catalog does not have")
    labels = {
        **config.get("labels", {}),
        "kubernetes.io/arch": "amd64",
        "kubernetes.io/os": "linux",
        "node.kubernetes.io/instance-type": machine.name,
        f"{_LABEL}gke-boot-disk": config.get("diskType", ""),
        f"{_LABEL}gke-container-runtime": "containerd",
        f"{_LABEL}gke-os-distribution": "cos",
        f"{_LABEL}machine-family": machine.name.partition("-")[0],
        catalog.node_label("pool"): pool["name"],
    }
    spare = catalog.allocatable(machine.vcpu, machine.memory_gib, int(pool["maxPodsConstraint"]["maxPodsPerNode"]))
    allocatable = {"cpu": f"{spare.cpu_m}m", "memory": f"{spare.memory_mib}Mi", "pods": str(spare.pods)}
    if slice_ is not None:
        labels[catalog.node_label("tpu_accelerator")] = slice_.node_label
        labels[catalog.node_label("tpu_topology")] = slice_.topology
        labels[f"{_LABEL}gke-accelerator-count"] = str(machine.chips)
        allocatable["google.com/tpu"] = str(machine.chips)
    if machine.gpus:
        labels[f"{_LABEL}gke-accelerator"] = machine.gpu
        labels[f"{_LABEL}gke-accelerator-count"] = str(machine.gpus)
        allocatable["nvidia.com/gpu"] = str(machine.gpus)
    if pool.get("queuedProvisioning", {}).get("enabled"):
        labels[f"{_LABEL}gke-queued"] = "true"
    for name in ("flexStart", "spot"):
        if config.get(name):
            labels[f"{_LABEL}gke-{name.lower().replace('start', '-start')}"] = "true"
    if config.get("workloadMetadataConfig", {}).get("mode") == "GKE_METADATA":
        labels["iam.gke.io/gke-metadata-server-enabled"] = "true"
    tainted = tuple(map(_taint, config.get("taints", ())))
    return NodeTemplate(labels, tainted, allocatable, slice_.hosts if slice_ else 1)


def _taint(taint: Mapping[str, str]) -> dict[str, str]:
    return {"key": taint["key"], "value": taint.get("value", ""), "effect": _EFFECTS[taint["effect"]]}


def taints(pool: Mapping[str, Any]) -> list[dict[str, str]]:
    """A pool's taints by REST names: the program's, and those that GKE adds for TPUs, GPUs and queued nodes."""
    config, machine = pool["config"], machine_of(pool["config"])
    keys = catalog.fact("gke", "taints").value
    own = {
        keys["tpu"]: "present" if machine and machine.chips else "",
        "nvidia.com/gpu": "present" if machine and machine.gpus else "",
        keys["queued"]: "true" if pool.get("queuedProvisioning", {}).get("enabled") else "",
    }
    added = [{"key": key, "value": value, "effect": "NO_SCHEDULE"} for key, value in own.items() if value]
    given = [dict(taint) for taint in config.get("taints", ()) if not own.get(taint["key"])]
    return [*given, *added]


def upgrade_defaults(pool: Mapping[str, Any]) -> dict[str, Any]:
    """concepts/node-pool-upgrade-strategies: surge upgrades, short-lived ones for flex-start nodes."""
    short = pool["config"].get("flexStart") or pool.get("queuedProvisioning", {}).get("enabled")
    return dict(_SHORT_LIVED if short else _SURGE)


# -- instance groups -----------------------------------------------------------------------------------------------


def make_groups(state: State, pool: str, zones: Iterable[str], size: int) -> list[str]:
    """Makes the managed instance groups of a new pool, `size` nodes each, and answers their links."""
    _, project, _, _, _, cluster, _, name = pool.split("/")
    table, links = state.table("compute.instanceGroupManager"), []
    for zone in zones:
        # As in github.com/hashicorp/terraform-provider-google/issues/10366: gke-CLUSTER-POOL-HASH-grp, at most 63.
        hash_ = hashlib.sha256(f"{pool}/{zone}".encode()).hexdigest()[:8]
        group = f"gke-{cluster[:20]}-{name[:20]}-{hash_}-grp"
        full = f"projects/{project}/zones/{zone}/instanceGroupManagers/{group}"
        links.append(compute.link(state, full))
        table[full] = {
            "kind": "compute#instanceGroupManager",
            "instanceGroup": compute.link(state, full.replace("instanceGroupManagers", "instanceGroups")),
            "name": group,
            "selfLink": compute.link(state, full),
            "targetSize": size,
            "zone": compute.link(state, f"projects/{project}/zones/{zone}"),
        }
    return links


def _group(state: State, link: str) -> dict[str, Any]:
    return state.table("compute.instanceGroupManager")[link.partition("/compute/v1/")[2]]


def size(state: State, link: str) -> int:
    """How many nodes an instance group has, or is growing or shrinking to."""
    count: int = _group(state, link)["targetSize"]
    return count


def resize(state: State, pool: Mapping[str, Any], count: int) -> None:
    """Sets the size of each of a pool's instance groups: what the autoscaler and setSize do."""
    for link in pool["instanceGroupUrls"]:
        _group(state, link)["targetSize"] = count


def follow(state: State, cluster: str) -> None:
    """Has the groups of a cluster be as large as its control plane has nodes, where one runs: its autoscaler decides.

    The nodes of a pool are all in its first zone there.
    """
    sizes = state.control_planes.sizes(cluster) if state.control_planes else {}
    for name, pool in state.table("container.nodePool").items():
        of, _, short = name.partition("/nodePools/")
        if of == cluster and short in sizes:
            first, *others = pool["instanceGroupUrls"]
            _group(state, first)["targetSize"] = sizes[short]
            for link in others:
                _group(state, link)["targetSize"] = 0


def drop_groups(state: State, pool: Mapping[str, Any]) -> None:
    for link in pool["instanceGroupUrls"]:
        del state.table("compute.instanceGroupManager")[link.partition("/compute/v1/")[2]]


def _group_name(call: Call) -> str:
    zone, group = call.params["zone"], call.params["instanceGroupManager"]
    return f"{compute.project_name(call)}/zones/{zone}/instanceGroupManagers/{group}"


@compute.service.method(
    "compute.instanceGroupManagers.get",
    permission="compute.instanceGroupManagers.get",
    on=_group_name,
    wakes=False,
)
def get_group(call: Call) -> Mapping[str, Any]:
    found = call.cloud.table("compute.instanceGroupManager").get(_group_name(call))
    for cluster in list(call.cloud.table("container.cluster")):
        follow(call.cloud, cluster)
    if found is None:
        raise ApiError("NOT_FOUND", f"The resource '{_group_name(call)}' was not found", reason="notFound")
    return found
