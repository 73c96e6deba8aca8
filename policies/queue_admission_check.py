"""Jobs that wait for ever: a check on the wrong flavors of a queue, or on none."""

from collections.abc import Iterator, Sequence

from infra import catalog
from policies import gke, kueue
from policies.props import UNKNOWN, items, mapping
from policies.rule import Props, Rule, StackResource

_SOURCE = "https://kueue.sigs.k8s.io/docs/concepts/admission_check/"


def check(resources: Sequence[StackResource]) -> list[tuple[str, str]]:
    """One message for each flavor that a queue's check names and the queue has not, and for each that is amiss.

    Amiss: a queued pool's flavor without a check that makes ProvisioningRequests, and another pool's with one. Only
    pools and checks of the same stack are judged so.
    """
    pools = kueue.pools_of_flavors(resources)
    provisioning = {
        kueue.name(each.props)
        for each in resources
        if each.type in kueue.CHECK
        and kueue.spec(each.props).get("controllerName") == catalog.kueue()["provisioning_controller"]
    }
    checks = {kueue.name(each.props) for each in resources if each.type in kueue.CHECK}
    found = []
    for queue in resources:
        if queue.type not in kueue.QUEUE:
            continue
        bound = _bound(queue.props)
        if bound is None:
            continue
        has = [str(flavor.get("name")) for _, flavor in kueue.flavors(queue.props)]
        found += [(queue.urn, message) for message in _missing(bound, has)]
        # A check that another stack makes may be one of requests.
        elsewhere = bool(bound.keys() - checks)
        found += [
            (queue.urn, message)
            for flavor in has
            if flavor in pools
            for message in _amiss(
                flavor, pools[flavor], any(flavor in bound[each] for each in provisioning & bound.keys()), elsewhere
            )
        ]
    return found


def _bound(queue: Props) -> dict[str, list[str]] | None:
    """The flavors that each check of a queue is for; None while that is not known."""
    spec, every = kueue.spec(queue), [str(flavor.get("name")) for _, flavor in kueue.flavors(queue)]
    strategy = spec.get("admissionChecksStrategy")
    if UNKNOWN in (strategy, spec.get("admissionChecks"), *every):
        return None
    # v1beta1's plain list is for every flavor, as is a check without onFlavors.
    found = {str(each): every for each in items(spec.get("admissionChecks"))}
    for each in map(mapping, items(mapping(strategy).get("admissionChecks"))):
        flavors = each.get("onFlavors")
        if flavors == UNKNOWN or UNKNOWN in items(flavors):
            return None
        found[str(each.get("name"))] = [str(flavor) for flavor in items(flavors)] or every
    return found


def _missing(bound: dict[str, list[str]], has: list[str]) -> Iterator[str]:
    for name, flavors in bound.items():
        for flavor in flavors:
            if flavor not in has:
                yield (
                    f"spec.admissionChecksStrategy: check {name} is for flavor {flavor}, and the queue has "
                    f"{', '.join(has) or 'none'} ({_SOURCE}). Name one of these"
                )


def _amiss(flavor: str, pool: Props, requested: bool, elsewhere: bool) -> Iterator[str]:
    if gke.is_queued(pool) and not requested and not elsewhere:
        yield (
            f"spec.admissionChecksStrategy: no check makes ProvisioningRequests for flavor {flavor}, whose pool "
            f"{pool.get('name')} gets nodes for a request alone: jobs would be admitted and never run ({_SOURCE}). Add "
            f"one, with controller {catalog.kueue()['provisioning_controller']}, on that flavor"
        )
    if gke.is_not_queued(pool) and requested:
        yield (
            f"spec.admissionChecksStrategy: flavor {flavor} has a check that makes ProvisioningRequests, which its "
            f"pool {pool.get('name')} does not answer: jobs would wait for ever ({_SOURCE}). Name the queued flavors "
            "alone in onFlavors"
        )


RULE = Rule(
    name="queue-admission-check",
    severity="mandatory",
    summary="A queue's checks are for flavors that it has, and ProvisioningRequests for the queued ones alone.",
    source=_SOURCE,
    way_out="List the queued flavors, and no others, in the check's onFlavors.",
    stack_check=check,
    stack_types=kueue.STACK_TYPES,
)
