"""A ClusterQueue whose flavors do not all give out the same resources, which Kueue's webhook refuses."""

from policies import kueue
from policies.props import UNKNOWN, items
from policies.rule import Props, Rule

_SOURCE = "https://kueue.sigs.k8s.io/docs/concepts/cluster_queue/"


def check(props: Props) -> list[str]:
    """One message for each flavor that leaves out a covered resource, has another, or another order."""
    found = []
    for where, group in kueue.groups(props):
        covered = [str(each) for each in items(group.get("coveredResources"))]
        for index, flavor in enumerate(items(group.get("flavors"))):
            have = [resource for resource, _ in kueue.quotas(flavor if flavor != UNKNOWN else {})]
            if UNKNOWN in (group.get("coveredResources"), flavor, *covered, *have) or have == covered:
                continue
            found.append(
                f"{where}.flavors[{index}].resources: {', '.join(have) or 'none'}; Kueue refuses a flavor that does "
                f"not name the covered resources, {', '.join(covered) or 'none'}, all and in this order ({_SOURCE}). "
                "Write them so, with 0 for what the flavor has not"
            )
    return found


RULE = Rule(
    name="queue-flavor-resources",
    severity="mandatory",
    summary="Every flavor of a ClusterQueue names every covered resource, in one order.",
    source=_SOURCE,
    way_out="Give each flavor a quota of each covered resource, in the order of coveredResources.",
    checks=dict.fromkeys(kueue.QUEUE, check),
)
