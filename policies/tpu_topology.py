"""A TPU pool whose machine type, topology and number of nodes do not go together."""

from infra import catalog
from policies import gke
from policies.props import UNKNOWN, mapping, whole
from policies.rule import Props, Rule

_SOURCE = catalog.fact("tpu", "topologies").source


def check(props: Props) -> list[str]:
    """One message for a topology that the machine cannot have, else for each number of nodes that is no whole slice."""
    machine, topology = gke.machine(props), mapping(props.get("placementPolicy")).get("tpuTopology")
    if machine is None or topology in (None, "", UNKNOWN):
        return []
    if problem := catalog.tpu_slice_problem(machine.name, str(topology)):
        return [f"placementPolicy.tpuTopology: {problem.message}"]
    hosts = catalog.tpu_slice(machine.name, str(topology)).hosts
    if hosts == 1:
        return []
    scaling = gke.autoscaling(props)
    counts = (
        {f"autoscaling.{field}": scaling.get(field) for field in ("maxNodeCount", "totalMaxNodeCount")}
        if scaling
        else {field: props.get(field) for field in ("initialNodeCount", "nodeCount")}
    )
    return [
        f"{field}: {count} nodes; topology {topology} of {machine.name} is one slice of {hosts} nodes, a pool holds "
        f"one slice, and GKE refuses another number ({_SOURCE}). Set {hosts}"
        for field, count in ((field, whole(value)) for field, value in counts.items())
        if count and count != hosts
    ]


RULE = Rule(
    name="tpu-topology",
    severity="mandatory",
    summary="A TPU pool's topology is one of its machine type, and its nodes are one whole slice.",
    source=_SOURCE,
    way_out="Choose a topology that the message names, and as many nodes as it has hosts.",
    checks={gke.POOL: check},
)
