"""Nodes of a training cluster that the Internet can address."""

from policies import slurm
from policies.props import is_on
from policies.rule import Props, Rule

_SOURCE = (
    "https://docs.cloud.google.com/gemini-enterprise-agent-platform/machine-learning/training/training-clusters/"
    "create-cluster"
)


def check(props: Props) -> list[str]:
    """One message for each pool with public addresses, outside dev."""
    if slurm.in_dev(props):
        return []
    return [
        f"nodePools[{index}].enablePublicIps is on: nodes are reached through Identity-Aware Proxy, and reach the "
        f"Internet by Cloud NAT ({_SOURCE}). Set it to false"
        for index, pool in enumerate(slurm.pools(props))
        if is_on(pool.get("enablePublicIps"))
    ]


RULE = Rule(
    name="slurm-public-ips",
    severity="mandatory",
    summary="Outside dev no node of a training cluster has a public address.",
    source=_SOURCE,
    way_out="Set enablePublicIps to false, with IAP for SSH and Cloud NAT in the network.",
    checks={slurm.CLUSTER: check},
)
