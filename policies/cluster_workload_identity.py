"""A cluster whose pods would all be the node they run on."""

from policies import gke
from policies.props import UNKNOWN, is_on, mapping
from policies.rule import Props, Rule

_SOURCE = "https://docs.cloud.google.com/kubernetes-engine/docs/how-to/workload-identity"


def check_cluster(props: Props) -> list[str]:
    """One message if a cluster has no identity pool; an Autopilot cluster always has it."""
    block = props.get("workloadIdentityConfig")
    if is_on(props.get("enableAutopilot")) or block == UNKNOWN or mapping(block).get("workloadPool"):
        return check_nodes(props)
    return [
        "workloadIdentityConfig.workloadPool is not set: every pod then acts as its node's service account "
        f"({_SOURCE}). Set it to PROJECT.svc.id.goog, and give each workload an account of its own"
    ]


def check_nodes(props: Props) -> list[str]:
    """One message if the nodes show pods their own credentials nevertheless."""
    if mapping(gke.node(props).get("workloadMetadataConfig")).get("mode") != "GCE_METADATA":
        return []
    return [
        "nodeConfig.workloadMetadataConfig.mode: GCE_METADATA shows the node's own credentials to every pod "
        f"({_SOURCE}). Set GKE_METADATA"
    ]


RULE = Rule(
    name="cluster-workload-identity",
    severity="mandatory",
    summary="Pods have identities of their own, by workload identity.",
    source=_SOURCE,
    way_out="Set workloadIdentityConfig.workloadPool, and GKE_METADATA on the nodes.",
    checks={gke.CLUSTER: check_cluster, gke.POOL: check_nodes},
)
