"""Kueue's objects as the rules on them read them; each is a Kubernetes custom resource, by the type's token."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from infra import catalog
from policies import gke
from policies.props import items, mapping, whole
from policies.rule import Props, StackResource

TPU = str(catalog.kueue()["resources"][-1])
_GROUP = str(catalog.kueue()["api_version"]).partition("/")[0]


def tokens(kind: str) -> tuple[str, ...]:
    """A kind's types, in each API version that Kueue serves."""
    return tuple(f"kubernetes:{_GROUP}/{version}:{kind}" for version in ("v1beta1", "v1beta2"))


QUEUE, FLAVOR, CHECK = tokens("ClusterQueue"), tokens("ResourceFlavor"), tokens("AdmissionCheck")
STACK_TYPES = (gke.POOL, *QUEUE, *FLAVOR, *CHECK)


def spec(props: Props) -> Mapping[str, Any]:
    """What an object is to be."""
    return mapping(props.get("spec"))


def name(props: Props) -> str:
    """An object's own name."""
    return str(mapping(props.get("metadata")).get("name"))


def groups(queue: Props) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Each resource group of a ClusterQueue, and where it is."""
    for index, group in enumerate(items(spec(queue).get("resourceGroups"))):
        yield f"spec.resourceGroups[{index}]", mapping(group)


def flavors(queue: Props) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Each flavor of a ClusterQueue, in order, and where it is."""
    for where, group in groups(queue):
        for index, flavor in enumerate(items(group.get("flavors"))):
            yield f"{where}.flavors[{index}]", mapping(flavor)


def quotas(flavor: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """A flavor's resources and their nominal quotas, in order."""
    resources = map(mapping, items(flavor.get("resources")))
    return [(str(each.get("name")), each.get("nominalQuota")) for each in resources]


def pools_of_flavors(resources: Sequence[StackResource]) -> dict[str, Props]:
    """The node pool of the same stack behind each flavor, by the flavor's name; a flavor without one is missing."""
    pools = {str(each.props.get("name")): each.props for each in resources if each.type == gke.POOL}
    found = {}
    for each in resources:
        if each.type in FLAVOR:
            pool = pools.get(str(mapping(spec(each.props).get("nodeLabels")).get(catalog.node_label("pool"))))
            if pool is not None:
                found[name(each.props)] = pool
    return found


def tpu_flavors(resources: Sequence[StackResource]) -> Iterator[tuple[str, str, Props, int]]:
    """Each flavor of each queue that gives out TPU chips of a pool of the same stack.

    Yields the queue's URN, where in it the quota is, the pool, and the chips; what is not known yet is left out.
    """
    behind = pools_of_flavors(resources)
    for queue in resources:
        for where, flavor in flavors(queue.props) if queue.type in QUEUE else ():
            pool, chips = behind.get(str(flavor.get("name"))), whole(dict(quotas(flavor)).get(TPU))
            if pool is not None and chips:
                yield queue.urn, f"{where} ({flavor.get('name')}), {TPU}", pool, chips


def above_pool(pool: Props, chips: int) -> str:
    """What is to be said of a quota that is above what its pool can hold; empty when it is not."""
    machine, nodes = gke.machine(pool), gke.most_nodes(pool)
    if machine is None or nodes is None or chips <= nodes * machine.chips:
        return ""
    return (
        f"{chips} chips, and pool {pool.get('name')} can hold {nodes * machine.chips} ({nodes} nodes of {machine.name})"
    )
