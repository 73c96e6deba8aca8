"""A quota on memory without a unit, with which no job is ever admitted."""

from infra import catalog
from policies import kueue
from policies.props import UNKNOWN
from policies.rule import Props, Rule


def check(props: Props) -> list[str]:
    """One message for each memory quota that is a number of bytes, or no amount at all. Zero is none in any unit."""
    found = []
    for where, flavor in kueue.flavors(props):
        for resource, quota in kueue.quotas(flavor):
            if resource != "memory" or quota in (None, UNKNOWN) or str(quota) in ("0", "0.0"):
                continue
            try:
                catalog.memory_quota_gib(str(quota))
            except ValueError as error:
                found.append(f"{where} ({flavor.get('name')}), memory: {error}")
    return found


RULE = Rule(
    name="queue-memory-unit",
    severity="mandatory",
    summary="A quota on memory has its unit.",
    source="https://kubernetes.io/docs/reference/kubernetes-api/common-definitions/quantity/",
    way_out="Write the unit, such as 64Gi.",
    checks=dict.fromkeys(kueue.QUEUE, check),
)
