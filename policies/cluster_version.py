"""A cluster that is too old for what runs on it, or whose version nobody keeps up."""

from infra import catalog
from policies import gke
from policies.props import UNKNOWN, mapping
from policies.rule import Props, Rule

_FACT = catalog.fact("gke", "cluster_version_min")
_SOURCE = "https://docs.cloud.google.com/kubernetes-engine/docs/concepts/release-channels"


def check(props: Props) -> list[str]:
    """One message for a lowest version that is too low, or if there is neither a version nor a release channel."""
    version, channel = props.get("minMasterVersion"), props.get("releaseChannel")
    if UNKNOWN in (version, channel):
        return []
    if version:
        problem = catalog.cluster_version_problem(str(version))
        return [f"minMasterVersion: {problem.message}"] if problem else []
    if mapping(channel).get("channel") in (*catalog.fact("gke", "release_channels").value, UNKNOWN):
        return []
    return [
        f"neither releaseChannel nor minMasterVersion is set: nothing says which version the cluster gets, or who "
        f"keeps it supported ({_SOURCE}). Set a channel, and minMasterVersion {_FACT.value} or newer"
    ]


RULE = Rule(
    name="cluster-version",
    severity="mandatory",
    summary=f"A cluster is in a release channel, or has a version from {_FACT.value}.",
    source=_SOURCE,
    way_out=f"Set releaseChannel.channel, and minMasterVersion to {_FACT.value} or newer.",
    checks={gke.CLUSTER: check},
)
