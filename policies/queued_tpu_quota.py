"""A quota on queued TPU chips above the pool, with which each job waits with a request of its own."""

from collections.abc import Sequence

from policies import gke, kueue
from policies.rule import Rule, StackResource

_SOURCE = "https://kueue.sigs.k8s.io/docs/concepts/admission_check/provisioning_request/"


def check(resources: Sequence[StackResource]) -> list[tuple[str, str]]:
    """One message for each queued flavor that gives out more than its pool can hold at once."""
    return [
        (
            urn,
            f"{where}: {above}: the jobs beyond it wait with a ProvisioningRequest each, in nobody's order, in place "
            f"of Kueue's queue ({_SOURCE}). Lower it, unless that is what you want",
        )
        for urn, where, pool, chips in kueue.tpu_flavors(resources)
        if gke.is_queued(pool) and (above := kueue.above_pool(pool, chips))
    ]


RULE = Rule(
    name="queued-tpu-quota",
    severity="advisory",
    summary="A queue gives out no more queued chips than their pool can hold at once.",
    source=_SOURCE,
    way_out="Set the quota to the pool's maximum nodes times the chips of one.",
    stack_check=check,
    stack_types=kueue.STACK_TYPES,
)
