"""A flex-start pool whose running slices GKE would take apart."""

from policies import gke
from policies.props import UNKNOWN, is_off, mapping
from policies.rule import Props, Rule


def check(props: Props) -> list[str]:
    """One message if nodes of a flex-start pool are repaired, which is the provider's default."""
    management = props.get("management")
    repair = mapping(management).get("autoRepair", True)
    if not (gke.is_flex_start(props) or gke.is_queued(props)) or UNKNOWN in (management, repair) or is_off(repair):
        return []
    return [
        "management.autoRepair is on: a repair takes a node from a running slice, whose capacity was granted once, and "
        f"the job queues for it again, where a restart from its checkpoint would do ({gke.TOOLKIT}). Set it to false"
    ]


RULE = Rule(
    name="flex-start-auto-repair",
    severity="advisory",
    summary="GKE does not repair flex-start nodes.",
    source=gke.TOOLKIT,
    way_out="Set management.autoRepair to false.",
    checks={gke.POOL: check},
)
