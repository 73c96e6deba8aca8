"""A quota on TPU chips that the pool behind it can never hold, or of which no slice uses the whole."""

from collections.abc import Sequence

from policies import gke, kueue
from policies.rule import Rule, StackResource

_SOURCE = "https://github.com/kubernetes-sigs/kueue/issues/5129"


def check(resources: Sequence[StackResource]) -> list[tuple[str, str]]:
    """One message for each quota that is above an on-demand pool, or no whole number of any pool's slices.

    A queued pool's is `queued-tpu-quota`'s: there the jobs wait, with a request each, and hold nothing that runs.
    """
    found = []
    for urn, where, pool, chips in kueue.tpu_flavors(resources):
        slice_, above = gke.tpu_slice(pool), kueue.above_pool(pool, chips)
        if above and gke.is_not_queued(pool):
            message = (
                f"{where}: {above}: Kueue would admit jobs whose pods never get a node, and hold the quota ({_SOURCE}"
                "). Lower it, or enlarge the pool"
            )
            found.append((urn, message))
        elif slice_ is not None and chips % slice_.chips:
            fitting = chips // slice_.chips * slice_.chips or slice_.chips
            message = (
                f"{where}: {chips} is no whole number of slices of {slice_.chips} chips (topology {slice_.topology} of "
                f"{slice_.machine.name}), so the rest serves nobody. Set {fitting}"
            )
            found.append((urn, message))
    return found


RULE = Rule(
    name="queue-tpu-quota",
    severity="mandatory",
    summary="A queue gives out whole slices, and no more chips than the pool behind the flavor can hold.",
    source=_SOURCE,
    way_out="Set the quota to the pool's maximum nodes times the chips of one.",
    stack_check=check,
    stack_types=kueue.STACK_TYPES,
)
