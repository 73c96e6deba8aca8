"""A training cluster that the service refuses, or whose Slurm would not start."""

from typing import Any

from infra import catalog
from policies import slurm
from policies.props import UNKNOWN
from policies.rule import Props, Rule


def check(props: Props) -> list[str]:
    """One message for each thing that is refused: of pools (how nodes come, how long flex-start nodes run, the login
    pool's fixed size, reservations), of partitions, and of keys of slurm.conf."""
    if not slurm.spec(props) or UNKNOWN in (props.get("nodePools"), slurm.spec(props).get("partitions")):
        return []
    region = props.get("region")
    problems = catalog.training_cluster_problems(
        _known(props), region=region if isinstance(region, str) and region != UNKNOWN else None
    )
    return [f"{each.field}: {each.message}" for each in problems]


def _known(value: Any) -> Any:
    """The value without keys of slurm.conf that are not known yet; other unknown values are no text."""
    if isinstance(value, dict):
        return {
            key: {k: v for k, v in each.items() if v != UNKNOWN}
            if key == "config" and isinstance(each, dict)
            else _known(each)
            for key, each in value.items()
        }
    if isinstance(value, list | tuple):
        return [_known(each) for each in value]
    return object() if value == UNKNOWN else value


RULE = Rule(
    name="slurm-cluster",
    severity="mandatory",
    summary="A training cluster's pools, partitions and slurm.conf are what the service and its Slurm take.",
    source=catalog.fact("slurm", "part_id_pattern").source,
    way_out="Change what the message names.",
    checks={slurm.CLUSTER: check},
)
