"""Kubernetes Engine v1beta1: clusters, and how they change."""

from __future__ import annotations

import base64
import copy
import functools
import ipaddress
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from infra import catalog
from mockgcp.errors import ApiError, already_exists, failed_precondition
from mockgcp.operations import Operation
from mockgcp.service import Call
from mockgcp.services import container_nodes
from mockgcp.services import container_rules as rules
from mockgcp.services.container import (
    canonical,
    check_body,
    cluster,
    cluster_name,
    link,
    named,
    parent,
    pools,
    service,
    start,
    under,
)
from mockgcp.services.container_pools import change_pool, drop, put_pool, require_account, with_node_defaults
from mockgcp.state import State

_METHODS = "container.projects.locations."
_IP_DEFAULTS = {"stackType": "IPV4", "useIpAliases": True}
_DEFAULT_POOL: str = catalog.fact("gke", "default_pool_name").value


def shown(state: State, name: str) -> dict[str, Any]:
    """A cluster as the API answers it, with its pools and what it says of the first one."""
    container_nodes.follow(state, name)
    stored, its = state.table("container.cluster")[name], list(pools(state, name).values())
    first = {"nodeConfig": its[0]["config"], "currentNodeVersion": its[0]["version"]} if its else {}
    groups = [url for pool in its for url in pool["instanceGroupUrls"]]
    count = sum(container_nodes.size(state, url) for url in groups)
    return copy.deepcopy({**stored, **first, "nodePools": its, "instanceGroupUrls": groups, "currentNodeCount": count})


def _check_create(call: Call) -> None:
    check_body(call, "cluster")
    _, project, _, location = parent(call).split("/")
    rules.check_cluster(call.cloud, project, location, call.body.get("cluster", {}))


@service.method(
    f"{_METHODS}clusters.create",
    permission="container.clusters.create",
    on=parent,
    rules=_check_create,
    answers="Cluster",
)
def create(call: Call) -> Operation:
    sent = call.body["cluster"]
    name = f"{parent(call)}/clusters/{sent['name']}"
    table = call.cloud.table("container.cluster")
    if name in table:
        raise already_exists(f"Already exists: {name}.")
    require_account(call, sent.get("nodeConfig", {}))
    stored = _with_defaults(call, name, sent)
    planes, made = call.cloud.control_planes, list[dict[str, Any]]()

    def undo() -> None:
        if planes is not None:
            planes.delete(name)
        drop(call, name)

    bring_up = None if planes is None else lambda: planes.create(name, made)
    operation = start(call, "CREATE_CLUSTER", "creating", name, lambda: _ready(call.cloud, name), undo, bring_up)
    table[name] = stored
    config = with_node_defaults(stored, sent.get("nodeConfig", {}))
    pool = {"name": _DEFAULT_POOL, "config": config, "initialNodeCount": sent["initialNodeCount"]}
    # A copy, since it is read without the lock.
    made.append(copy.deepcopy(put_pool(call, f"{name}/nodePools/{_DEFAULT_POOL}", stored, pool)))
    return operation


def _ready(state: State, name: str) -> Mapping[str, Any]:
    stored = state.table("container.cluster")[name]
    _settle_endpoints(state, name, stored)
    stored["status"] = "RUNNING"
    for pool in pools(state, name).values():
        pool["status"] = "RUNNING"
    return shown(state, name)


def _with_defaults(call: Call, name: str, sent: Mapping[str, Any]) -> dict[str, Any]:
    """The body as the server stores it. What it adds is as clusters show it; see also the discovery document."""
    state, (_, project, _, location) = call.cloud, parent(call).split("/")
    version = rules.check_version(sent.get("initialClusterVersion", ""))
    result = copy.deepcopy({key: value for key, value in sent.items() if key != "nodeConfig"})
    network, subnetwork, ranges = _network(call, project, location, sent)
    uid = state.uid().replace("-", "")
    endpoints = result.get("controlPlaneEndpointsConfig", {})
    by_ip = {"enabled": True, "enablePublicEndpoint": True, **endpoints.get("ipEndpointsConfig", {})}
    dns = f"gke-{uid[:12]}.{location.rpartition('-')[0] or location}.gke.{state.universe.api_domain}"
    by_dns = {**endpoints.get("dnsEndpointConfig", {}), "endpoint": dns}
    ca = base64.b64encode(b"mockgcp: no control plane runs behind this cluster").decode()
    result |= {
        "addonsConfig": {
            "gcePersistentDiskCsiDriverConfig": {"enabled": True},
            "networkPolicyConfig": {"disabled": True},
            **result.get("addonsConfig", {}),
        },
        "clusterIpv4Cidr": ranges["clusterIpv4CidrBlock"],
        "controlPlaneEndpointsConfig": {"ipEndpointsConfig": by_ip, "dnsEndpointConfig": by_dns},
        "createTime": state.clock.timestamp(),
        "currentMasterVersion": version,
        "databaseEncryption": {"state": "DECRYPTED"},
        "defaultMaxPodsConstraint": {"maxPodsPerNode": str(catalog.fact("gke_nodes", "max_pods_default").value)},
        "id": uid,
        "initialClusterVersion": version,
        "ipAllocationPolicy": {
            "stackType": "IPV4",
            "useIpAliases": True,
            **result.get("ipAllocationPolicy", {}),
            **ranges,
        },
        "labelFingerprint": uid[:8],
        "location": location,
        "locations": list(sent.get("locations", ())) or list(rules.zones_of(state, location)),
        "loggingService": result.get("loggingService", f"logging.{state.universe.api_domain}/kubernetes"),
        "masterAuth": {"clusterCaCertificate": ca},
        "monitoringService": result.get("monitoringService", f"monitoring.{state.universe.api_domain}/kubernetes"),
        "network": network.rpartition("/")[2],
        "networkConfig": {**result.get("networkConfig", {}), "network": network, "subnetwork": subnetwork},
        "privateClusterConfig": result.get("privateClusterConfig", {}),
        # A cluster that names neither channel nor version is in the regular one (concepts/release-channels).
        "releaseChannel": result.get("releaseChannel")
        or {"channel": "UNSPECIFIED" if sent.get("initialClusterVersion") else "REGULAR"},
        "selfLink": link(state, name),
        "servicesIpv4Cidr": ranges["servicesIpv4CidrBlock"],
        "shieldedNodes": result.get("shieldedNodes", {"enabled": True}),
        "status": "PROVISIONING",
        "subnetwork": subnetwork.rpartition("/")[2],
        "zone": location,
    }
    if of_nodes := result.get("nodePoolDefaults", {}).get("nodeConfigDefaults"):
        variant = of_nodes.get("loggingConfig", {}).get("variantConfig", {})
        of_nodes["loggingConfig"] = {"variantConfig": {"variant": "DEFAULT", **variant}}
    _settle_endpoints(state, name, result)
    return result


def _settle_endpoints(state: State, name: str, stored: dict[str, Any]) -> None:
    """Makes a cluster's addresses agree with what of it is open, and with the control plane that runs behind them.

    What a cluster that is reached by its DNS name alone has for an endpoint is unchecked. No name leads to what runs.
    """
    plane = state.control_planes.cluster(name) if state.control_planes else None
    if plane is not None:
        stored["masterAuth"]["clusterCaCertificate"] = plane.ca_certificate
    by_ip, number = stored["controlPlaneEndpointsConfig"]["ipEndpointsConfig"], int(stored["id"][:4], 16)
    # 192.0.2.0/24 is nobody's (RFC 5737).
    addresses = {"privateEndpoint": f"10.127.{number >> 8}.{number & 255}", "publicEndpoint": f"192.0.2.{number & 255}"}
    opened = {"privateEndpoint": by_ip["enabled"], "publicEndpoint": by_ip["enabled"] and by_ip["enablePublicEndpoint"]}
    if plane is not None:
        addresses = dict.fromkeys(addresses, plane.endpoint)
    for kind, address in addresses.items():
        by_ip[kind] = address if opened[kind] else ""
    stored["endpoint"] = by_ip["publicEndpoint"] or by_ip["privateEndpoint"]
    stored["privateClusterConfig"] |= {
        "enablePrivateNodes": stored["networkConfig"].get("defaultEnablePrivateNodes", False),
        "enablePrivateEndpoint": not by_ip["enablePublicEndpoint"],
        **{kind: by_ip[kind] for kind in addresses},
    }


def _network(call: Call, project: str, location: str, sent: Mapping[str, Any]) -> tuple[str, str, dict[str, str]]:
    """The full names of a cluster's network and subnet, and the CIDR blocks of the secondary ranges that it names.

    Raises:
        ApiError: INVALID_ARGUMENT for one that is not there; words of the first unchecked, of the others too.
    """
    state = call.cloud
    region = location if location in catalog.compute_zones(state.universe) else location.rpartition("-")[0]
    network = _full(call, sent.get("network", "default"), f"projects/{project}/global/networks")
    short = network.rpartition("/")[2]
    if network not in state.table("compute.network"):
        raise rules.refused("cluster.network", f'Project "{project}" has no network named "{short}".')
    folder = f"projects/{project}/regions/{region}/subnetworks"
    subnetwork = _full(call, sent.get("subnetwork") or short, folder)
    subnet = state.table("compute.subnetwork").get(subnetwork)
    if subnet is None or not subnet["network"].endswith(network):
        why = f'Network "{short}" has no subnetwork "{subnetwork}" in region {region}.'
        raise rules.refused("cluster.subnetwork", why)
    policy, blocks = sent.get("ipAllocationPolicy", {}), {}
    there = {each["rangeName"]: each["ipCidrRange"] for each in subnet.get("secondaryIpRanges", [])}
    taken = list(_taken(call, network))
    for kind, what in (("cluster", "Pod"), ("services", "Services")):
        range_ = policy.get(f"{kind}SecondaryRangeName")
        if range_ and range_ not in there:
            why = f'{what} secondary range "{range_}" does not exist in subnetwork "{subnetwork}".'
            raise rules.refused(f"cluster.ipAllocationPolicy.{kind}SecondaryRangeName", why)
        field = f"{kind}Ipv4CidrBlock"
        blocks[field] = there[range_] if range_ else _block(kind, policy.get(field, ""), taken)
        taken.append(blocks[field])
    return network, subnetwork, blocks


def _taken(call: Call, network: str) -> Iterator[str]:
    """The ranges of the network that subnets and other clusters have."""
    for subnet in call.cloud.table("compute.subnetwork").values():
        if subnet["network"].endswith(network):
            yield subnet["ipCidrRange"]
            yield from (each["ipCidrRange"] for each in subnet.get("secondaryIpRanges", []))
    for each in call.cloud.table("container.cluster").values():
        if each["networkConfig"]["network"] == network:
            yield from (each["clusterIpv4Cidr"], each["servicesIpv4Cidr"])


def _block(kind: str, wanted: str, taken: Sequence[str]) -> str:
    """The range of pods or services: the one that is wanted, or the first free one of its size (/17, or "").

    Deliberately not done: the secondary range that GKE adds to the subnet for it.

    Raises:
        ApiError: INVALID_ARGUMENT for a range that is none or is taken, or where there is none left; words unchecked.
    """
    field = f"cluster.ipAllocationPolicy.{kind}Ipv4CidrBlock"
    size = wanted or f"/{catalog.fact('gke_nodes', 'range_prefix_default').value[kind]}"
    try:
        if not size.startswith("/"):
            if other := catalog.overlapping(size, taken):
                raise rules.refused(field, f"Range {size} overlaps {other}, which is in use in the network.")
            return size
        pool = ipaddress.IPv4Network(catalog.fact("gke_nodes", "range_pool").value)
        found = (
            str(each) for each in pool.subnets(new_prefix=int(size[1:])) if not catalog.overlapping(str(each), taken)
        )
        block = next(found, None)
    except ValueError as error:
        raise rules.refused(field, f"Invalid range {wanted}: {error}.") from error
    if block is None:
        raise rules.refused(field, f"There is no range of size {size} left in {pool}.")
    return block


def _full(call: Call, reference: str, folder: str) -> str:
    path = reference.partition("/compute/v1/")[2] or reference
    return canonical(call, path) if path.startswith("projects/") else f"{folder}/{path}"


@service.method(f"{_METHODS}clusters.get", permission="container.clusters.get", on=named, wakes=False)
def get(call: Call) -> Mapping[str, Any]:
    cluster(call)
    return shown(call.cloud, cluster_name(call))


@service.method(f"{_METHODS}clusters.list", permission="container.clusters.list", on=parent, wakes=False)
def list_(call: Call) -> Mapping[str, Any]:
    found = under(call, "container.cluster", "clusters")
    return {"clusters": [shown(call.cloud, name) for name in found]}


@service.method(f"{_METHODS}clusters.delete", permission="container.clusters.delete", on=named, answers="Cluster")
def delete(call: Call) -> Operation:
    name, stored = cluster_name(call), cluster(call)

    def gone() -> Mapping[str, Any]:
        drop(call, name)
        return {}

    planes = call.cloud.control_planes
    take_down = None if planes is None else lambda: planes.delete(name)
    back = functools.partial(stored.update, status="RUNNING")
    operation = start(call, "DELETE_CLUSTER", "deleting", name, gone, back, take_down)
    stored["status"] = "STOPPING"
    return operation


# -- changes -------------------------------------------------------------------------------------------------------

# The field of the cluster that each wanted one becomes.
_DESIRED = {
    "desiredAddonsConfig": "addonsConfig",
    "desiredCostManagementConfig": "costManagementConfig",
    "desiredControlPlaneEndpointsConfig": "controlPlaneEndpointsConfig",
    "desiredDefaultEnablePrivateNodes": "networkConfig.defaultEnablePrivateNodes",
    "desiredLocations": "locations",
    "desiredLoggingConfig": "loggingConfig",
    "desiredLoggingService": "loggingService",
    "desiredMonitoringConfig": "monitoringConfig",
    "desiredMonitoringService": "monitoringService",
    "desiredReleaseChannel": "releaseChannel",
    "desiredSecurityPostureConfig": "securityPostureConfig",
    "desiredShieldedNodes": "shieldedNodes",
    "desiredVerticalPodAutoscaling": "verticalPodAutoscaling",
    "desiredWorkloadIdentityConfig": "workloadIdentityConfig",
    "desiredGcfsConfig": "nodePoolDefaults.nodeConfigDefaults.gcfsConfig",
}
_OF_POOLS = ("desiredNodePoolId", "desiredNodePoolAutoscaling")


def _check_update(call: Call) -> None:
    check_body(call, "update")
    update = call.body.get("update", {})
    for name in update:
        if name not in (*_DESIRED, *_OF_POOLS, "desiredMasterVersion"):
            raise ApiError("UNIMPLEMENTED", f"mockgcp does not emulate update.{name} of {call.method.id} yet")
    # The discovery document: exactly one update with each request. A pool's id says only which one.
    if len(update.keys() - {"desiredNodePoolId"}) != 1:
        raise rules.refused("update", f"Must specify exactly one field to update, not {sorted(update) or 'none'}.")
    project = cluster_name(call).split("/")[1]
    rules.check_workload_pool(call.cloud, project, update.get("desiredWorkloadIdentityConfig", {}))
    rules.check_known(update.get("desiredAddonsConfig", {}), rules.CLUSTER["addonsConfig"] or {}, call.method.id)
    if "desiredMasterVersion" in update:
        rules.check_version(update["desiredMasterVersion"])


@service.method(
    f"{_METHODS}clusters.update",
    permission="container.clusters.update",
    on=named,
    rules=_check_update,
    answers="Cluster",
)
def update(call: Call) -> Operation:
    stored, wanted = cluster(call), call.body["update"]
    if "desiredNodePoolAutoscaling" in wanted:
        scaled = f"{cluster_name(call)}/nodePools/{wanted.get('desiredNodePoolId', _DEFAULT_POOL)}"
        change = {"autoscaling": wanted["desiredNodePoolAutoscaling"]}
        return change_pool(call, scaled, change, "UPDATE_CLUSTER", lambda: shown(call.cloud, cluster_name(call)))
    if "desiredMasterVersion" in wanted:
        version = rules.check_version(wanted["desiredMasterVersion"])
        if catalog.gke_version_order(version) < catalog.gke_version_order(stored["currentMasterVersion"]):
            # how-to/upgrading-a-cluster: a control plane goes down by patch versions only, which is not emulated.
            raise rules.refused("update.desiredMasterVersion", f"Master cannot be downgraded to {version}.")
        return changed(call, "UPGRADE_MASTER", "upgrading", {"currentMasterVersion": version})
    [(name, value)] = wanted.items()
    path = _DESIRED[name]
    if name == "desiredAddonsConfig":
        value = {**stored[path], **value}
    elif name == "desiredControlPlaneEndpointsConfig":  # its fields are optional ones, here and below
        value = {**stored[path], **{way: {**stored[path].get(way, {}), **open_} for way, open_ in value.items()}}
    return changed(call, "UPDATE_CLUSTER", "updating", {path: value})


def changed(call: Call, kind: str, doing: str, changes: Mapping[str, Any]) -> Operation:
    """The operation that sets fields of the cluster, by dotted paths, and makes all that follows from them agree."""
    name, stored = cluster_name(call), cluster(call)

    def done() -> Mapping[str, Any]:
        for path, value in changes.items():
            *above, last = path.split(".")
            target = stored
            for step in above:
                target = target.setdefault(step, {})
            target[last] = copy.deepcopy(value)
        _settle_endpoints(call.cloud, name, stored)
        stored["status"] = "RUNNING"
        return shown(call.cloud, name)

    operation = start(call, kind, doing, name, done, lambda: stored.update(status="RUNNING"))
    stored["status"] = "RECONCILING"
    return operation


def _check_fields(*fields: str) -> Callable[[Call], None]:
    return lambda call: check_body(call, *fields)


@service.method(
    f"{_METHODS}clusters.setResourceLabels",
    permission="container.clusters.update",
    on=named,
    rules=_check_fields("resourceLabels", "labelFingerprint"),
    answers="Cluster",
)
def set_resource_labels(call: Call) -> Operation:
    sent, stored = call.body.get("labelFingerprint"), cluster(call)
    if sent != stored["labelFingerprint"]:
        # SetLabelsRequest in the discovery document; the words are unchecked.
        raise failed_precondition("Labels could not be set due to fingerprint mismatch.")
    changes = {"resourceLabels": call.body.get("resourceLabels", {}), "labelFingerprint": call.cloud.uid()[:8]}
    return changed(call, "SET_LABELS", "updating", changes)


def _check_policy(call: Call) -> None:
    check_body(call, "maintenancePolicy")
    rules.check_maintenance(call.body.get("maintenancePolicy", {}))


@service.method(
    f"{_METHODS}clusters.setMaintenancePolicy",
    permission="container.clusters.update",
    on=named,
    rules=_check_policy,
    answers="Cluster",
)
def set_maintenance_policy(call: Call) -> Operation:
    changes = {"maintenancePolicy": call.body.get("maintenancePolicy", {})}
    return changed(call, "SET_MAINTENANCE_POLICY", "updating", changes)
