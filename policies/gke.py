"""A GKE node pool's and a cluster's properties as the rules on them read them."""

from collections.abc import Mapping
from typing import Any

from infra import catalog
from policies.props import UNKNOWN, is_off, is_on, items, mapping, whole
from policies.rule import Props

CLUSTER = "gcp:container/cluster:Cluster"
POOL = "gcp:container/nodePool:NodePool"
TOOLKIT = "https://github.com/GoogleCloudPlatform/cluster-toolkit/blob/main/modules/compute/gke-node-pool/main.tf"
"""What Google's own toolkit makes of a node pool, for rules that no page has."""


def node(props: Props) -> Mapping[str, Any]:
    """What the nodes of a pool, or of a cluster's default pool, are."""
    return mapping(props.get("nodeConfig"))


def machine(props: Props) -> catalog.Machine | None:
    """The machine type of a pool; None for one that the catalog does not have, or that is not known yet."""
    return catalog.machines().get(str(node(props).get("machineType")))


def tpu_slice(props: Props) -> catalog.TpuSlice | None:
    """The TPU slice of a pool; None without a topology, and for one that there is not."""
    of, topology = machine(props), mapping(props.get("placementPolicy")).get("tpuTopology")
    if of is None or topology not in catalog.tpu_topologies(of.name):
        return None
    return catalog.tpu_slice(of.name, topology)


def is_flex_start(props: Props) -> bool:
    """Whether a pool is known to have flex-start nodes."""
    return is_on(node(props).get("flexStart"))


def is_queued(props: Props) -> bool:
    """Whether a pool is known to get its nodes by queued provisioning."""
    return is_on(mapping(props.get("queuedProvisioning")).get("enabled"))


def is_not_queued(props: Props) -> bool:
    """Whether a pool is known to get its nodes otherwise."""
    block = props.get("queuedProvisioning")
    return block != UNKNOWN and is_off(mapping(block).get("enabled"))


def autoscaling(props: Props) -> Mapping[str, Any] | None:
    """How a pool scales: empty for one that does not, None for what is not known yet."""
    block = props.get("autoscaling")
    return None if block == UNKNOWN else mapping(block)


def most_nodes(props: Props) -> int | None:
    """The most nodes that a pool with autoscaling can have, in all its zones; None for what is not known."""
    scaling = autoscaling(props) or {}
    if total := whole(scaling.get("totalMaxNodeCount")):
        return total
    if not (each := whole(scaling.get("maxNodeCount"))):
        return None
    return each * (len(items(props.get("nodeLocations"))) or 1)
