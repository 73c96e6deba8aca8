"""Kubernetes Engine: what it refuses of clusters and node pools. Values come from infra/catalog.

A rule's source is beside it; where a message is not as somebody was seen to get it, its words are unchecked.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from infra import catalog
from mockgcp.errors import ApiError, invalid
from mockgcp.state import State

Body = Mapping[str, Any]
# A tree of REST names; None: with all that is below.
Known = Mapping[str, "Known | None"]

NODE_CONFIG: Known = {
    "accelerators": None,
    "diskSizeGb": None,
    "diskType": None,
    "flexStart": None,
    "gcfsConfig": None,
    "gvnic": None,
    "imageType": None,
    "kubeletConfig": None,
    "labels": None,
    "linuxNodeConfig": None,
    "loggingConfig": None,
    "machineType": None,
    "maxRunDuration": None,
    "metadata": None,
    "oauthScopes": None,
    "preemptible": None,
    "reservationAffinity": None,
    "resourceLabels": None,
    "serviceAccount": None,
    "shieldedInstanceConfig": None,
    "spot": None,
    "tags": None,
    "taints": None,
    "workloadMetadataConfig": None,
}
POOL: Known = {
    "autoscaling": {
        "enabled": None,
        "locationPolicy": None,
        "maxNodeCount": None,
        "minNodeCount": None,
        "totalMaxNodeCount": None,
        "totalMinNodeCount": None,
    },
    "config": NODE_CONFIG,
    "initialNodeCount": None,
    "locations": None,
    "management": {"autoRepair": None, "autoUpgrade": None},
    "maxPodsConstraint": None,
    "name": None,
    "networkConfig": {"enablePrivateNodes": None},
    "placementPolicy": {"tpuTopology": None, "type": None},
    "queuedProvisioning": None,
    "upgradeSettings": None,
    "version": None,
}
CLUSTER: Known = {
    "addonsConfig": {
        "configConnectorConfig": None,
        "dnsCacheConfig": None,
        "gcePersistentDiskCsiDriverConfig": None,
        "gcpFilestoreCsiDriverConfig": None,
        "gcsFuseCsiDriverConfig": None,
        "highScaleCheckpointingConfig": None,
        "horizontalPodAutoscaling": None,
        "httpLoadBalancing": None,
        "networkPolicyConfig": None,
        "rayOperatorConfig": None,
    },
    "controlPlaneEndpointsConfig": None,
    "costManagementConfig": None,
    "description": None,
    "initialClusterVersion": None,
    "initialNodeCount": None,
    "ipAllocationPolicy": {
        "clusterIpv4CidrBlock": None,
        "clusterSecondaryRangeName": None,
        "servicesIpv4CidrBlock": None,
        "servicesSecondaryRangeName": None,
        "stackType": None,
        "useIpAliases": None,
    },
    "locations": None,
    "loggingConfig": None,
    "loggingService": None,
    "maintenancePolicy": None,
    "monitoringConfig": None,
    "monitoringService": None,
    "name": None,
    "network": None,
    "networkConfig": {"datapathProvider": None, "defaultEnablePrivateNodes": None, "enableIntraNodeVisibility": None},
    "nodeConfig": NODE_CONFIG,
    "nodePoolDefaults": None,
    "privateClusterConfig": {"masterIpv4CidrBlock": None},
    "releaseChannel": None,
    "resourceLabels": None,
    "securityPostureConfig": None,
    "shieldedNodes": None,
    "subnetwork": None,
    "verticalPodAutoscaling": None,
    "workloadIdentityConfig": {"workloadPool": None},
}

# hashicorp/terraform-google-modules/terraform-google-kubernetes-engine/pull/682
_UPGRADE_OFF = "Auto_upgrade cannot be false when release_channel {} is set."


@dataclass(frozen=True)
class Place:
    """Where a pool is to be: its zones, and its cluster's version and release channel (empty: not known yet, none)."""

    zones: tuple[str, ...]
    version: str = ""
    channel: str = ""


def zones_of(state: State, location: str) -> tuple[str, ...]:
    """The zone that a location is, or the first three of the region; empty for a location that there is not."""
    known = catalog.compute_zones(state.universe)
    if location in known:
        return known[location][:3]
    return (location,) if location in known.get(location.rpartition("-")[0], ()) else ()


def says_nothing(value: Any) -> bool:
    """Whether a value is what its absence means: false, 0, empty, or an object of such."""
    if isinstance(value, Mapping):
        return all(says_nothing(each) for each in value.values())
    return value in (None, False, 0, "", "0", [])


def unknown(body: Body, known: Known, where: str = "") -> Iterator[str]:
    """The fields of a body that say something and are not emulated, by their paths."""
    for name, value in body.items():
        below = known.get(name)
        if name not in known:
            if not says_nothing(value):
                yield f"{where}{name}"
        elif below is not None and isinstance(value, Mapping):
            yield from unknown(value, below, f"{where}{name}.")


def check_known(body: Body, known: Known, method: str) -> None:
    for path in unknown(body, known):
        raise ApiError("UNIMPLEMENTED", f"mockgcp does not emulate {path} of {method}; it ignores nothing")


def refused(field: str, why: str) -> ApiError:
    return invalid(why, (field, "invalid"))


# -- clusters ------------------------------------------------------------------------------------------------------


def check_cluster(state: State, project: str, location: str, cluster: Body) -> None:
    """What a new cluster is refused for, whatever else there is.

    Raises:
        ApiError: INVALID_ARGUMENT, or UNIMPLEMENTED.
    """
    check_known(cluster, CLUSTER, "container.projects.locations.clusters.create")
    if problem := catalog.cluster_name_problem(cluster.get("name", "")):
        raise refused("cluster.name", f"Invalid cluster name: {problem.message}")
    zones = tuple(cluster.get("locations", ())) or zones_of(state, location)
    check_location(state, location)
    version = check_version(cluster.get("initialClusterVersion", ""))
    if not cluster.get("initialNodeCount"):
        # The provider's documentation of initialNodeCount; the words are unchecked.
        raise refused("cluster.initialNodeCount", "Cluster.initial_node_count must be greater than zero.")
    if not cluster.get("ipAllocationPolicy", {}).get("useIpAliases", True):
        raise ApiError("UNIMPLEMENTED", "mockgcp has VPC-native clusters only: set ipAllocationPolicy.useIpAliases")
    check_workload_pool(state, project, cluster.get("workloadIdentityConfig", {}))
    check_maintenance(cluster.get("maintenancePolicy", {}))
    channel = cluster.get("releaseChannel", {}).get("channel", "")
    pool = {"config": cluster.get("nodeConfig", {}), "initialNodeCount": cluster["initialNodeCount"]}
    check_pool(state, pool, Place(zones, version, channel), "cluster.nodeConfig")


def check_location(state: State, location: str) -> None:
    if not zones_of(state, location):
        known = catalog.compute_zones(state.universe)
        near = known.get(location.rpartition("-")[0]) or tuple(known)
        # As the API says of a location; the words are unchecked.
        raise refused("parent", f'Location "{location}" does not exist. There are {", ".join(near)}.')


def check_version(wanted: str) -> str:
    """The full version that a wanted one stands for."""
    found = catalog.gke_version(wanted)
    if found is None:
        known = catalog.fact("gke_nodes", "versions")
        # The first sentence as in github.com/hashicorp/terraform-provider-google/issues/5071, unchecked.
        why = f'Master version "{wanted}" is unsupported. There are {", ".join(known.value.values())} ({known.source}).'
        raise refused("cluster.initialClusterVersion", why)
    return found


def check_workload_pool(state: State, project: str, config: Body) -> None:
    """docs.cloud.google.com/kubernetes-engine/docs/concepts/workload-identity; the words are unchecked."""
    given = config.get("workloadPool")
    wanted = catalog.workload_pool(project, state.universe) if given else ""
    if given and given != wanted:
        why = f"Currently, the only supported identity namespace for workload identity is {wanted}, not {given}."
        raise refused("cluster.workloadIdentityConfig.workloadPool", why)


def check_maintenance(policy: Body) -> None:
    """An exclusion without an end, or that ends before it begins; the words are unchecked.

    Deliberately not checked: how long one may be, and what a window has to leave.
    """
    for name, window in policy.get("window", {}).get("maintenanceExclusions", {}).items():
        support = window.get("maintenanceExclusionOptions", {}).get("endTimeBehavior") == "UNTIL_END_OF_SUPPORT"
        if not support and window.get("endTime", "") <= window.get("startTime", ""):
            why = f"Maintenance exclusion {name} ends at {window.get('endTime') or 'no time'}, before it starts."
            raise refused("maintenancePolicy.window.maintenanceExclusions", why)


# -- node pools ----------------------------------------------------------------------------------------------------


def check_pool(state: State, pool: Body, place: Place, where: str = "nodePool.config") -> None:
    """What a node pool is refused for, whatever else there is. `where` names its configuration.

    Raises:
        ApiError: INVALID_ARGUMENT in GKE's words as far as they are known, or UNIMPLEMENTED.
    """
    check_known(pool, POOL, "container.projects.locations.clusters.nodePools.create")
    if "name" in pool and (problem := catalog.node_pool_name_problem(pool["name"])):
        raise refused("nodePool.name", f"Invalid node pool name: {problem.message}")
    for field, why in _problems(state, pool, place):
        raise refused(field.replace("nodePool.config", where), why)


def machine_of(config: Body) -> catalog.Machine | None:
    """The machine type of a node configuration; None for one that the catalog does not have."""
    return catalog.machines().get(config.get("machineType") or catalog.node_defaults()["machineType"])


def slice_of(pool: Body) -> catalog.TpuSlice | None:
    """The TPU slice of a pool; None without TPUs. Without a topology each host is a slice."""
    machine = machine_of(pool.get("config", {}))
    if machine is None or not machine.chips:
        return None
    shapes = [catalog.tpu_slice(machine.name, each) for each in catalog.tpu_topologies(machine.name)]
    wanted = pool.get("placementPolicy", {}).get("tpuTopology") or shapes[0].topology
    return next((each for each in shapes if each.topology == wanted), None)


def _problems(state: State, pool: Body, place: Place) -> Iterator[tuple[str, str]]:
    """Each refused field, and why."""
    config, scaling = pool.get("config", {}), pool.get("autoscaling", {})
    yield from _machine(state, config, pool, place)
    yield from _autoscaling(scaling, pool)
    if config.get("flexStart"):
        yield from _flex_start(config, pool, place)
    if pool.get("queuedProvisioning", {}).get("enabled"):
        yield from _queued(config, scaling, pool)
    yield from _placement(pool, place)
    management = pool.get("management", {})
    if place.channel not in ("", "UNSPECIFIED") and management and not management.get("autoUpgrade"):
        yield "nodePool.management.autoUpgrade", _UPGRADE_OFF.format(place.channel)
    if config.get("spot") and config.get("preemptible"):
        yield "nodePool.config.spot", "Only one of spot and preemptible may be set."


def _machine(state: State, config: Body, pool: Body, place: Place) -> Iterator[tuple[str, str]]:
    name = config.get("machineType") or catalog.node_defaults()["machineType"]
    # The form of github.com/keras-team/kinetic/issues/305.
    found = 'Invalid machine type "{}" in zone "{}": GCE_NOT_FOUND: {}'
    flex = bool(config.get("flexStart"))
    for zone in place.zones:
        problem = catalog.machine_problem(name) or catalog.tpu_zone_problem(
            name, zone, flex_start=flex, universe=state.universe
        )
        if problem:
            yield "nodePool.config.machineType", found.format(name, zone, problem.message)
    machine = machine_of(config)
    for accelerator in config.get("accelerators", ()):
        kind, count = accelerator.get("acceleratorType"), int(accelerator.get("acceleratorCount", 0))
        if machine and (kind, count) != (machine.gpu, machine.gpus):
            has = f"{machine.gpus} {machine.gpu}" if machine.gpus else "no GPU"
            yield "nodePool.config.accelerators", f"Machine type {name} has {has}, not {count} {kind}."


def _autoscaling(scaling: Body, pool: Body) -> Iterator[tuple[str, str]]:
    """NodePoolAutoscaling in the discovery document; the words are unchecked."""
    if not scaling.get("enabled"):
        return
    least, most = scaling.get("minNodeCount", 0), scaling.get("maxNodeCount", 0)
    total_least, total_most = scaling.get("totalMinNodeCount", 0), scaling.get("totalMaxNodeCount", 0)
    if (least or most) and (total_least or total_most):
        why = "min_node_count and max_node_count are mutually exclusive with the total_min and total_max counts."
        yield "nodePool.autoscaling", why
    elif not (most or total_most):
        yield "nodePool.autoscaling.maxNodeCount", "Autoscaling.max_node_count must be greater than zero."
    elif least > most or total_least > total_most:
        yield "nodePool.autoscaling.minNodeCount", "Autoscaling.min_node_count must not exceed the maximum."
    elif most and pool.get("initialNodeCount", 0) > most:
        yield "nodePool.initialNodeCount", f"initial_node_count must not exceed max_node_count, {most}."


def _flex_start(config: Body, pool: Body, place: Place) -> Iterator[tuple[str, str]]:
    """docs.cloud.google.com/kubernetes-engine/docs/concepts/dws and, from `spot` on, Cluster Toolkit's
    modules/compute/gke-node-pool/main.tf. The words are unchecked."""
    machine, field = machine_of(config), "nodePool.config.flexStart"
    tpu = bool(machine and machine.chips)
    if place.version and (problem := catalog.flex_start_version_problem(place.version, tpu=tpu)):
        yield field, f"Flex start is not supported: {problem.message}."
    if problem := catalog.run_duration_problem(config.get("maxRunDuration", "1s")):
        yield "nodePool.config.maxRunDuration", f"Invalid max_run_duration: {problem.message}."
    if config.get("spot") or config.get("preemptible"):
        yield field, "Flex start nodes cannot be spot or preemptible ones."
    yield from _no_reservation(config, field, "Flex start")
    if not pool.get("autoscaling", {}).get("enabled") or _least(pool) or pool.get("initialNodeCount"):
        yield field, "Flex start node pools need autoscaling from 0 nodes, and an initial_node_count of 0."
    # They are upgraded by short-lived upgrades alone. gcloud sends maxSurge without a strategy, which is taken.
    strategy = pool.get("upgradeSettings", {}).get("strategy", "SHORT_LIVED")
    if strategy not in ("SHORT_LIVED", "NODE_POOL_UPDATE_STRATEGY_UNSPECIFIED"):
        yield "nodePool.upgradeSettings.strategy", f"Upgrade strategy {strategy} is not supported with flex start."


def _least(pool: Body) -> int:
    scaling = pool.get("autoscaling", {})
    least: int = scaling.get("minNodeCount", 0) or scaling.get("totalMinNodeCount", 0)
    return least


def _no_reservation(config: Body, field: str, what: str) -> Iterator[tuple[str, str]]:
    consumed = config.get("reservationAffinity", {}).get("consumeReservationType", "NO_RESERVATION")
    if consumed not in ("NO_RESERVATION", "UNSPECIFIED"):
        yield field, f"{what} takes no reservation: consume_reservation_type must be NO_RESERVATION, not {consumed}."


def _queued(config: Body, scaling: Body, pool: Body) -> Iterator[tuple[str, str]]:
    """github.com/GoogleCloudPlatform/k8s-config-connector/pull/11085, recorded on the real API; spot, reservation and
    placement from Cluster Toolkit. The words are unchecked."""
    field, machine = "nodePool.queuedProvisioning", machine_of(config)
    if not scaling.get("enabled"):
        yield field, "Queued provisioning needs autoscaling to be enabled."
    if _least(pool):
        yield field, f"Queued provisioning needs a minimum node count of 0, not {_least(pool)}."
    if pool.get("initialNodeCount"):
        yield field, f"Queued provisioning needs an initial_node_count of 0, not {pool['initialNodeCount']}."
    if config.get("spot") or config.get("preemptible"):
        yield field, "Queued provisioning is not supported with spot or preemptible nodes."
    yield from _no_reservation(config, field, "Queued provisioning")
    tpu = bool(machine and machine.chips)
    if tpu and not config.get("flexStart"):
        # Scenario B's tutorial has both flags, on v6e. github.com/AI-Hypercomputer/xpk/pull/900 (2025-12) saw a 400 of
        # both together: "Flex start node pools don't support TPUs with queued provisioning." That is not emulated.
        yield field, "Queued provisioning of TPUs needs flex start: set config.flex_start too."
    if not tpu and pool.get("placementPolicy", {}).get("type") == "COMPACT":
        yield "nodePool.placementPolicy", "Compact placement with queued provisioning is supported for TPUs only."


def _placement(pool: Body, place: Place) -> Iterator[tuple[str, str]]:
    config, policy = pool.get("config", {}), pool.get("placementPolicy", {})
    if policy.get("type") == "COMPACT":
        # Cluster Toolkit, modules/compute/gke-node-pool/main.tf; the words are unchecked.
        if len(place.zones) > 1:
            yield "nodePool.placementPolicy", f"Compact placement needs one zone, not {', '.join(place.zones)}."
        if pool.get("upgradeSettings", {}).get("strategy") == "BLUE_GREEN":
            yield "nodePool.upgradeSettings.strategy", "Blue-green upgrades are not supported with compact placement."
    topology = policy.get("tpuTopology")
    machine = machine_of(config)
    if machine is None:
        return
    if topology and (problem := catalog.tpu_slice_problem(machine.name, topology)):
        yield "nodePool.placementPolicy.tpuTopology", f"Invalid TPU topology: {problem.message}."
        return
    slice_ = slice_of(pool)
    if slice_ is None or slice_.hosts == 1:
        return
    scaling = pool.get("autoscaling", {})
    # The words of github.com/vllm-project/ci-infra/pull/545, which has them of the maximum a zone.
    size = "{} node count {} is not a valid size of TPU pod slice with topology " + slice_.topology
    need = f": it has {slice_.hosts} hosts of {machine.name}, counted a zone."
    counts = (
        (("Maximum", scaling.get("maxNodeCount", 0), False), ("Minimum", scaling.get("minNodeCount", 0), True))
        if scaling.get("enabled")
        else (("Initial", pool.get("initialNodeCount", 0), True),)
    )
    for name, count, may_be_none in counts:
        if count != slice_.hosts and not (may_be_none and count == 0):
            yield "nodePool.autoscaling", size.format(name, count) + need
