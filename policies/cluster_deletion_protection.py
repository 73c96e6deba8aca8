"""A cluster that one wrong command could delete, with all that runs on it."""

from policies import gke
from policies.props import UNKNOWN, is_off, mapping
from policies.rule import Props, Rule

_SOURCE = "https://www.pulumi.com/registry/packages/gcp/api-docs/container/cluster/"
_MAY_GO = ("dev",)


def check(props: Props) -> list[str]:
    """One message if a cluster's protection is off. Its label `environment` says whether it is one of dev."""
    labels, protection = props.get("resourceLabels"), props.get("deletionProtection", True)
    environment = mapping(labels).get("environment")
    if labels == UNKNOWN or environment in (*_MAY_GO, UNKNOWN) or protection == UNKNOWN or not is_off(protection):
        return []
    where = f"in environment {environment}" if environment else "and no label `environment` says that it is dev's"
    return [
        f"deletionProtection is off, {where}: a replacement, or a destroy, ends every running job ({_SOURCE}). Leave "
        "it on, and turn it off in an `up` of its own when the cluster is to go"
    ]


RULE = Rule(
    name="cluster-deletion-protection",
    severity="mandatory",
    summary="A cluster outside dev refuses to be deleted.",
    source=_SOURCE,
    way_out="Leave deletionProtection out, which turns it on.",
    checks={gke.CLUSTER: check},
)
