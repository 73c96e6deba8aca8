"""A flex-start pool as GKE refuses it, or as no job's nodes would ever come to it."""

from collections.abc import Iterator

from infra import catalog
from policies import gke
from policies.props import UNKNOWN, is_off, is_on, mapping, whole
from policies.rule import Props, Rule

_DWS = catalog.fact("gke", "flex_start_max_s").source
_RECORDED = "https://github.com/GoogleCloudPlatform/k8s-config-connector/pull/11085"
_BOTH = "https://github.com/AI-Hypercomputer/xpk/pull/900"


def check(props: Props) -> list[str]:
    """One message for each thing that such a pool cannot have. Other pools are left alone."""
    if not (gke.is_flex_start(props) or gke.is_queued(props)):
        return []
    return [*_both(props), *_size(props), *_capacity(props), *_duration(props)]


def _both(props: Props) -> Iterator[str]:
    """GPUs may have one without the other."""
    machine = gke.machine(props)
    if machine is None or not machine.chips:
        return
    if gke.node(props).get("flexStart") != UNKNOWN and not gke.is_flex_start(props):
        yield (
            f"nodeConfig.flexStart is not on: GKE refuses queued provisioning of TPUs without flex-start ({_BOTH}). "
            "Set it to true"
        )
    if gke.is_not_queued(props):
        yield (
            "queuedProvisioning.enabled is not on: Kueue asks for the nodes of a whole slice in one request, which "
            f"only a queued pool answers ({_BOTH}). Set it to true"
        )


def _size(props: Props) -> Iterator[str]:
    scaling = gke.autoscaling(props)
    if scaling is None:
        return
    if not scaling:
        yield f"autoscaling is not set: the nodes come with a request, and go with it ({_RECORDED}). Set a maximum"
    unasked = f"that no request asked for, which GKE refuses ({_RECORDED}). Set 0"
    for field in ("minNodeCount", "totalMinNodeCount"):
        if least := whole(scaling.get(field)):
            yield f"autoscaling.{field}: {least} nodes {unasked}"
    for field in ("initialNodeCount", "nodeCount"):
        if count := whole(props.get(field)):
            yield f"{field}: {count} nodes {unasked}"


def _capacity(props: Props) -> Iterator[str]:
    node = gke.node(props)
    for field in ("spot", "preemptible"):
        if is_on(node.get(field)):
            yield f"nodeConfig.{field}: flex-start is a way of its own to get capacity ({gke.TOOLKIT}). Leave it out"
    consumed = mapping(node.get("reservationAffinity")).get("consumeReservationType")
    if not is_off(consumed) and consumed not in ("NO_RESERVATION", "UNSPECIFIED", UNKNOWN):
        yield (
            f"nodeConfig.reservationAffinity.consumeReservationType: {consumed}; flex-start takes no reservation "
            f"({gke.TOOLKIT}). Set NO_RESERVATION"
        )
    strategy = mapping(props.get("upgradeSettings")).get("strategy")
    if strategy not in (None, "SHORT_LIVED", UNKNOWN):
        yield (
            f"upgradeSettings.strategy: {strategy}; flex-start nodes have short-lived upgrades alone ({_DWS}). Leave "
            "upgradeSettings out"
        )


def _duration(props: Props) -> Iterator[str]:
    duration = gke.node(props).get("maxRunDuration")
    if is_off(duration) or duration == UNKNOWN:
        return
    if problem := catalog.run_duration_problem(str(duration)):
        yield f"nodeConfig.maxRunDuration: {problem.message}"


RULE = Rule(
    name="flex-start-pool",
    severity="mandatory",
    summary="A flex-start pool scales from 0 nodes, takes no other kind of capacity, and runs 7 days at most.",
    source=_DWS,
    way_out="Set autoscaling from 0, initialNodeCount 0, NO_RESERVATION, and for TPUs both flags.",
    checks={gke.POOL: check},
)
