"""A home directory in another zone than the nodes that have it mounted."""

from policies import slurm
from policies.props import UNKNOWN
from policies.rule import Props, Rule

_SOURCE = "https://docs.cloud.google.com/filestore/docs/service-tiers"


def check(props: Props) -> list[str]:
    """One message if /home is in a zone, or a region, that some pool's nodes are not in."""
    home = slurm.spec(props).get("homeDirectoryStorage")
    parts = str(home).split("/")
    if home == UNKNOWN or len(parts) != 6:
        return []
    zones = {str(pool["zone"]) for pool in slurm.pools(props) if pool.get("zone") not in (None, UNKNOWN)}
    # A regional instance's location begins its zones' names.
    apart = sorted(zone for zone in zones if zone != parts[3] and zone.rpartition("-")[0] != parts[3])
    if not apart:
        return []
    return [
        f"{slurm.SPEC}.homeDirectoryStorage is in {parts[3]}, and nodes are in {', '.join(apart)}: every file crosses "
        f"zones, and an outage of either stops all jobs ({_SOURCE}). Use an instance in the nodes' zone, or a regional "
        "one"
    ]


RULE = Rule(
    name="slurm-home-zone",
    severity="advisory",
    summary="The home directory of a training cluster is where its nodes are.",
    source=_SOURCE,
    way_out="Use an instance in the nodes' zone, or a regional one.",
    checks={slurm.CLUSTER: check},
)
