"""Kubernetes Engine v1beta1: node pools."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import Any

from infra import catalog
from mockgcp.errors import ApiError, already_exists, not_found, permission_denied
from mockgcp.operations import Operation
from mockgcp.service import Call
from mockgcp.services import container_nodes, iam
from mockgcp.services import container_rules as rules
from mockgcp.services.container import (
    check_body,
    cluster,
    cluster_name,
    link,
    named,
    parent,
    pools,
    service,
    start,
)

_METHODS = "container.projects.locations.clusters.nodePools."


# -- what a pool is ---------------------------------------------------------------------------------------------------


def require_account(call: Call, config: Mapping[str, Any]) -> None:
    """Refuses nodes of a service account that is not there, or that the caller may not use.

    Raises:
        ApiError: PERMISSION_DENIED, in the API's words as users quote them; they are unchecked.
    """
    email = config.get("serviceAccount", "default")
    if email == "default":
        return
    try:
        iam.require_act_as(call, email)
    except ApiError as error:
        raise permission_denied(
            f'The user does not have access to service account "{email}" (or it may not exist): {error.message} Ask a '
            "project owner to grant you the iam.serviceAccountUser role on the service account."
        ) from error


def with_node_defaults(stored: Mapping[str, Any], config: Mapping[str, Any]) -> dict[str, Any]:
    """A node configuration with what the server fills in; in the cluster's words where it has a say."""
    defaults = copy.deepcopy(dict(catalog.node_defaults()))
    machine = catalog.machines().get(config.get("machineType", ""))
    if machine is not None and machine.generation == "v6e":
        defaults["diskType"] = catalog.fact("gke_nodes", "disk_type_v6e").value
    of_cluster = stored.get("nodePoolDefaults", {}).get("nodeConfigDefaults", {})
    if streaming := of_cluster.get("gcfsConfig"):
        defaults["gcfsConfig"] = streaming
    if stored.get("workloadIdentityConfig", {}).get("workloadPool"):
        # concepts/workload-identity: new pools of such a cluster have the metadata server.
        defaults["workloadMetadataConfig"] = {"mode": "GKE_METADATA"}
    if machine is not None and machine.gpus:
        defaults["accelerators"] = [{"acceleratorType": machine.gpu, "acceleratorCount": str(machine.gpus)}]
    made = {**defaults, **copy.deepcopy(dict(config))}
    made["loggingConfig"] = {
        "variantConfig": {"variant": "DEFAULT", **made.get("loggingConfig", {}).get("variantConfig", {})}
    }
    return made


def put_pool(call: Call, name: str, stored: Mapping[str, Any], pool: Mapping[str, Any]) -> dict[str, Any]:
    """Stores a new pool with its defaults, and makes its instance groups, one a zone."""
    zones = list(pool.get("locations", ())) or stored["locations"]
    made = {
        "initialNodeCount": 0,
        "management": {"autoRepair": True, "autoUpgrade": True},
        "maxPodsConstraint": stored["defaultMaxPodsConstraint"],
        "upgradeSettings": container_nodes.upgrade_defaults(pool),
        "version": stored["currentMasterVersion"],
        **pool,
        "networkConfig": {
            "enablePrivateNodes": stored["privateClusterConfig"]["enablePrivateNodes"],
            "podIpv4CidrBlock": stored.get("clusterIpv4Cidr", ""),
            "podRange": stored["ipAllocationPolicy"].get("clusterSecondaryRangeName", ""),
            **pool.get("networkConfig", {}),
        },
        "etag": call.cloud.uid(),
        "instanceGroupUrls": container_nodes.make_groups(call.cloud, name, zones, pool.get("initialNodeCount", 0)),
        "locations": zones,
        "podIpv4CidrSize": 24,
        "selfLink": link(call.cloud, name),
        "status": "PROVISIONING",
    }
    made["config"]["taints"] = container_nodes.taints(made)
    call.cloud.table("container.nodePool")[name] = made
    return made


def drop(call: Call, name: str) -> None:
    """Takes a cluster, or a pool, with all that is below it out of the tables, and a pool's nodes away."""
    of, _, pool = name.partition("/nodePools/")
    if pool and call.cloud.control_planes is not None:
        call.cloud.control_planes.drop_pool(of, pool)
    for key in [key for key in call.cloud.table("container.nodePool") if f"{key}/".startswith(f"{name}/")]:
        container_nodes.drop_groups(call.cloud, call.cloud.table("container.nodePool").pop(key))
    call.cloud.table("container.cluster").pop(name, None)


def _put_nodes(call: Call, name: str, count: int | None = None) -> None:
    """Tells the control plane, where one runs, what a stored pool is now; `count`: how many nodes it is to have."""
    if call.cloud.control_planes is not None:
        pool = copy.deepcopy(call.cloud.table("container.nodePool")[name])
        call.cloud.control_planes.put_pool(name.partition("/nodePools/")[0], pool, count)


def change_pool(
    call: Call,
    name: str,
    changes: Mapping[str, Any],
    kind: str,
    answer: Callable[[], Mapping[str, Any]],
    nodes: int | None = None,
) -> Operation:
    """The operation that sets fields of a pool, by dotted paths, where the changed pool is one that there may be.

    `nodes`: how many it is to have afterwards, a zone.

    Raises:
        ApiError: NOT_FOUND, INVALID_ARGUMENT, or FAILED_PRECONDITION while the cluster is busy.
    """
    pool = call.cloud.table("container.nodePool").get(name)
    if pool is None:
        raise not_found(f"Not found: {name}.")
    after = copy.deepcopy(pool)
    for path, value in changes.items():
        *above, last = path.split(".")
        target = after
        for step in above:
            target = target.setdefault(step, {})
        target[last] = copy.deepcopy(value)
    after["config"]["taints"] = container_nodes.taints(after)
    sent = {key: after[key] for key in rules.POOL if key in after and key not in ("initialNodeCount", "networkConfig")}
    rules.check_pool(call.cloud, sent, place(cluster(call), after))

    def done() -> Mapping[str, Any]:
        pool.update(after, status="RUNNING", etag=call.cloud.uid())
        if nodes is not None:
            container_nodes.resize(call.cloud, pool, nodes)
        _put_nodes(call, name, nodes)
        return answer()

    operation = start(call, kind, "operating on", name, done, lambda: pool.update(status="RUNNING"))
    pool["status"] = "RECONCILING"
    return operation


def place(stored: Mapping[str, Any], pool: Mapping[str, Any]) -> rules.Place:
    """Where a pool of a stored cluster is, or is to be."""
    channel = stored["releaseChannel"].get("channel", "")
    version = pool.get("version") or stored["currentMasterVersion"]
    return rules.Place(tuple(pool.get("locations", ())) or tuple(stored["locations"]), version, channel)


# -- methods ----------------------------------------------------------------------------------------------------------


def _pool(call: Call) -> dict[str, Any]:
    found = call.cloud.table("container.nodePool").get(named(call))
    if found is None:
        raise not_found(f"Not found: {named(call)}.")
    return found


def _shown(call: Call) -> dict[str, Any]:
    return copy.deepcopy(_pool(call))


def _check_create(call: Call) -> None:
    """What the cluster decides is asked where it is there: a dry run may come before it."""
    check_body(call, "nodePool")
    pool, location = call.body.get("nodePool", {}), parent(call).split("/")[3]
    stored = call.cloud.table("container.cluster").get(cluster_name(call))
    rules.check_location(call.cloud, location)
    zones = tuple(pool.get("locations", ())) or rules.zones_of(call.cloud, location)
    rules.check_pool(call.cloud, {"name": "", **pool}, place(stored, pool) if stored else rules.Place(zones))


def _version(stored: Mapping[str, Any], wanted: str) -> str:
    """The full version of a pool's nodes: by default the control plane's, which it never exceeds.

    Raises:
        ApiError: INVALID_ARGUMENT (docs.cloud.google.com/kubernetes-engine/docs/concepts/versions; words unchecked).
    """
    most = stored["currentMasterVersion"]
    version = most if wanted in ("", "-") or most.startswith(f"{wanted}.") else rules.check_version(wanted)
    if catalog.gke_version_order(version) > catalog.gke_version_order(most):
        why = f"Node version {version} must not be newer than the control plane's, {most}."
        raise rules.refused("nodePool.version", why)
    return version


@service.method(
    f"{_METHODS}create", permission="container.clusters.update", on=parent, rules=_check_create, answers="NodePool"
)
def create(call: Call) -> Operation:
    stored, pool = cluster(call), dict(call.body["nodePool"])
    name = f"{parent(call)}/nodePools/{pool['name']}"
    if name in call.cloud.table("container.nodePool"):
        raise already_exists(f"Already exists: {name}.")
    require_account(call, pool.get("config", {}))
    pool["version"] = _version(stored, pool.get("version", ""))
    pool["config"] = with_node_defaults(stored, pool.get("config", {}))

    def done() -> Mapping[str, Any]:
        made = call.cloud.table("container.nodePool")[name]
        made["status"] = "RUNNING"
        _put_nodes(call, name)
        return made

    doing = "creating a node pool for"
    operation = start(call, "CREATE_NODE_POOL", doing, name, done, lambda: drop(call, name))
    put_pool(call, name, stored, pool)
    return operation


@service.method(f"{_METHODS}get", permission="container.clusters.get", on=named, wakes=False)
def get(call: Call) -> Mapping[str, Any]:
    return _shown(call)


@service.method(f"{_METHODS}list", permission="container.clusters.get", on=parent, wakes=False)
def list_(call: Call) -> Mapping[str, Any]:
    cluster(call)
    return {"nodePools": list(pools(call.cloud, cluster_name(call)).values())}


@service.method(f"{_METHODS}delete", permission="container.clusters.update", on=named, answers="NodePool")
def delete(call: Call) -> Operation:
    name, pool = named(call), _pool(call)

    def gone() -> Mapping[str, Any]:
        drop(call, name)
        return {}

    doing = "deleting a node pool for"
    operation = start(call, "DELETE_NODE_POOL", doing, name, gone, lambda: pool.update(status="RUNNING"))
    pool["status"] = "STOPPING"
    return operation


# Where each field of an UpdateNodePoolRequest goes. Those in an object of their own are wrapped once more in it.
_UPDATES = {
    "diskSizeGb": "config.diskSizeGb",
    "diskType": "config.diskType",
    "gcfsConfig": "config.gcfsConfig",
    "gvnic": "config.gvnic",
    "imageType": "config.imageType",
    "kubeletConfig": "config.kubeletConfig",
    "labels": "config.labels",
    "linuxNodeConfig": "config.linuxNodeConfig",
    "locations": "locations",
    "loggingConfig": "config.loggingConfig",
    "machineType": "config.machineType",
    "nodeVersion": "version",
    "resourceLabels": "config.resourceLabels",
    "tags": "config.tags",
    "taints": "config.taints",
    "upgradeSettings": "upgradeSettings",
    "workloadMetadataConfig": "config.workloadMetadataConfig",
}
_WRAPPED = ("labels", "resourceLabels", "tags", "taints")


def _check_update(call: Call) -> None:
    check_body(call, *_UPDATES)
    if not call.body.keys() & _UPDATES.keys():
        raise rules.refused("update", f"Must specify a field to update, one of {', '.join(_UPDATES)}.")
    if version := call.body.get("nodeVersion"):
        rules.check_version(version)


@service.method(
    f"{_METHODS}update", permission="container.clusters.update", on=named, rules=_check_update, answers="NodePool"
)
def update(call: Call) -> Operation:
    changes = {path: call.body[name] for name, path in _UPDATES.items() if name in call.body}
    for name in _WRAPPED:
        if name in call.body:
            changes[_UPDATES[name]] = call.body[name].get(name, {} if name.lower().endswith("labels") else [])
    if "version" in changes:
        changes["version"] = _version(cluster(call), changes["version"])
    if "locations" in changes and changes["locations"] != _pool(call)["locations"]:
        raise ApiError("UNIMPLEMENTED", "mockgcp does not move a node pool's zones; make another pool")
    return change_pool(call, named(call), changes, "UPDATE_CLUSTER", lambda: _shown(call))


@service.method(
    f"{_METHODS}setAutoscaling",
    permission="container.clusters.update",
    on=named,
    rules=lambda call: check_body(call, "autoscaling"),
    answers="NodePool",
)
def set_autoscaling(call: Call) -> Operation:
    changes = {"autoscaling": call.body.get("autoscaling", {})}
    return change_pool(call, named(call), changes, "UPDATE_CLUSTER", lambda: _shown(call))


@service.method(
    f"{_METHODS}setManagement",
    permission="container.clusters.update",
    on=named,
    rules=lambda call: check_body(call, "management"),
    answers="NodePool",
)
def set_management(call: Call) -> Operation:
    changes = {"management": call.body.get("management", {})}
    return change_pool(call, named(call), changes, "SET_NODE_POOL_MANAGEMENT", lambda: _shown(call))


@service.method(
    f"{_METHODS}setSize",
    permission="container.clusters.update",
    on=named,
    rules=lambda call: check_body(call, "nodeCount"),
    answers="NodePool",
)
def set_size(call: Call) -> Operation:
    """Nodes a zone. A slice is there whole or not at all (github.com/AI-Hypercomputer/xpk/issues/751)."""
    pool, count = _pool(call), call.body.get("nodeCount", 0)
    slice_ = rules.slice_of(pool)
    if count < 0 or (slice_ is not None and slice_.hosts > 1 and count not in (0, slice_.hosts)):
        gang = f" for a slice of {slice_.hosts} hosts" if slice_ else ""
        raise rules.refused("nodeCount", f"Requested invalid target size '{count}'{gang}.")
    return change_pool(call, named(call), {}, "SET_NODE_POOL_SIZE", lambda: _shown(call), count)
