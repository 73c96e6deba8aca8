"""A training cluster's properties as the rules on them read them."""

from collections.abc import Mapping, Sequence
from typing import Any

from infra import catalog
from policies.props import UNKNOWN, items, mapping
from policies.rule import Props

CLUSTER: str = catalog.fact("slurm", "provider").value["token"]
SPEC = "orchestratorSpec.slurmSpec"
"""Where Slurm's settings are, for messages."""
SCRIPTS = ("prologBashScripts", "epilogBashScripts")


def spec(props: Props) -> Mapping[str, Any]:
    """Slurm's settings."""
    return mapping(mapping(props.get("orchestratorSpec")).get("slurmSpec"))


def config(props: Props) -> Mapping[str, str]:
    """The cluster's keys of slurm.conf, without those whose values are not known yet."""
    return {key: str(value) for key, value in mapping(spec(props).get("config")).items() if value != UNKNOWN}


def pools(props: Props) -> Sequence[Mapping[str, Any]]:
    """The node pools."""
    return [mapping(each) for each in items(props.get("nodePools"))]


def in_dev(props: Props) -> bool:
    """Whether the label `environment` says that the cluster is one of dev, or is not known yet."""
    labels = props.get("labels")
    return labels == UNKNOWN or mapping(labels).get("environment") in ("dev", UNKNOWN)
