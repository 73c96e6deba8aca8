"""Filestore v1: instances with one share on a VPC network.

Deliberately not done: private service access, Private Service Connect, replicas, backups, snapshots, encryption keys,
directory services, configured performance. What is sent of them is refused. No server answers at an address.
"""

from __future__ import annotations

import copy
import ipaddress
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from infra import catalog
from mockgcp import masks
from mockgcp.errors import ApiError, already_exists, failed_precondition, invalid, not_found
from mockgcp.operations import Operation
from mockgcp.paging import PARAMS, page
from mockgcp.service import Call, Service, canonical
from mockgcp.services.standard import serve_operations
from mockgcp.state import State

service = Service("file", host="file.googleapis.com")

_INSTANCES = "file.projects.locations.instances"
_KIND = "file.instance"
_NOT_EMULATED = ("directoryServices", "kmsKeyName", "performanceConfig", "replication", "tags")
# updateMask of instances.patch in the discovery document, but for what is not emulated.
_CHANGEABLE = ("deletionProtectionEnabled", "deletionProtectionReason", "description", "fileShares", "labels")


def _parent(call: Call) -> str:
    return canonical(call, call.params["parent"])


def _named(call: Call) -> str:
    return canonical(call, call.params["name"])


def _instance(call: Call) -> dict[str, Any]:
    found = call.cloud.table(_KIND).get(_named(call))
    if found is None:
        raise not_found(f"Resource '{_named(call)}' was not found")
    return found


def network_of(state: State, project: str, reference: str) -> str:
    """The full name of a network that an instance of the project refers to by its name or its full name."""
    path = reference.partition("/compute/v1/")[2] or reference
    if not path.startswith("projects/"):
        return f"projects/{project}/global/networks/{path}"
    return "/".join(["projects", state.project(path.split("/")[1]).id, *path.split("/")[2:]])


# -- rules ---------------------------------------------------------------------------------------------------------


def _check_create(call: Call) -> None:
    location = call.params["parent"].split("/")[3]
    known, id_ = catalog.fact("filestore", "instance_id_pattern"), call.params.get("instanceId", "")
    if not re.fullmatch(known.value, id_):
        raise invalid(f"instanceId {id_!r} does not match {known.value} ({known.source})", ("instanceId", "malformed"))
    _check(call.body, location, call.cloud)
    networks = call.body.get("networks", [])
    if len(networks) != 1:
        raise invalid(f"networks: an instance has exactly one, got {len(networks)}", ("networks", "required"))
    [network] = networks
    if not network.get("network"):
        raise invalid("networks[0].network: the VPC network is required", ("networks[0].network", "required"))
    mode = network.get("connectMode", "DIRECT_PEERING")
    if mode != "DIRECT_PEERING":
        raise _unimplemented(f"connectMode {mode}: it has DIRECT_PEERING alone")
    if network.get("modes", ["MODE_IPV4"]) != ["MODE_IPV4"]:
        # NetworkConfig.modes in the discovery document: MODE_IPV6 is for Private Service Connect.
        raise _unimplemented(f"modes {network['modes']}: it has MODE_IPV4 alone")


def _check(body: Mapping[str, Any], location: str, state: State, old: Mapping[str, Any] | None = None) -> None:
    """What of an instance is refused, whichever others there are. `old`: what it was, for a change."""
    for key in _NOT_EMULATED:
        if body.get(key):
            raise _unimplemented(f"{key} of an instance")
    shares = body.get("fileShares", [])
    if len(shares) != 1:
        raise invalid(f"fileShares: an instance has exactly one, got {len(shares)}", ("fileShares", "required"))
    [share] = shares
    if share.get("sourceBackup") or share.get("sourceBackupdrBackup"):
        raise _unimplemented("shares from backups")
    if "capacityGb" not in share:
        raise invalid("fileShares[0].capacityGb is required", ("fileShares[0].capacityGb", "required"))
    networks = body.get("networks", []) if old is None else []
    problems = catalog.filestore_problems(
        tier=body.get("tier", ""),
        location=location,
        capacity_gib=int(share["capacityGb"]),
        share_name=share.get("name", ""),
        protocol=body.get("protocol", "NFS_V3"),
        reserved_range=networks[0].get("reservedIpRange", "") if networks else "",
        old_capacity_gib=int(old["fileShares"][0]["capacityGb"]) if old else None,
        universe=state.universe,
    )
    problems += catalog.filestore_export_problems(share.get("nfsExportOptions", []))
    problems += catalog.label_problems(body.get("labels", {}))
    longest = catalog.fact("filestore", "description_max")
    if len(body.get("description", "")) > longest.value:
        problems.append(catalog.Problem("description", f"more than {longest.value} characters ({longest.source})"))
    if problems:
        violations = [(_FIELDS.get(p.field, p.field), p.message) for p in problems]
        raise invalid("; ".join(f"{field}: {message}" for field, message in violations), *violations)


# The fields of the body that the catalog's rules speak of.
_FIELDS = {
    "capacity_gib": "fileShares[0].capacityGb",
    "export_options": "fileShares[0].nfsExportOptions",
    "reserved_range": "networks[0].reservedIpRange",
    "share_name": "fileShares[0].name",
}


def _unimplemented(what: str) -> ApiError:
    return ApiError("UNIMPLEMENTED", f"mockgcp does not emulate {what} of Filestore; it ignores nothing")


# -- methods -------------------------------------------------------------------------------------------------------


@service.method(
    f"{_INSTANCES}.create",
    permission="file.instances.create",
    on=_parent,
    rules=_check_create,
    reads=("instanceId",),
    answers="Instance",
)
def create(call: Call) -> Operation:
    name, body = f"{_parent(call)}/instances/{call.params['instanceId']}", call.body
    if name in call.cloud.table(_KIND):
        raise already_exists(f"Resource '{name}' already exists")
    tier = catalog.filestore_tier(body["tier"])
    assert tier is not None
    [network] = body["networks"]
    full = network_of(call.cloud, name.split("/")[1], network["network"])
    if full not in call.cloud.table("compute.network"):
        why = f"network '{full}' does not exist"  # words unchecked
        raise invalid(f"networks[0].network: {why}", ("networks[0].network", "not found"))
    range_ = _range(call, full, tier.range_prefix, network.get("reservedIpRange", ""))
    low, high, step = tier.band(int(body["fileShares"][0]["capacityGb"])) or tier.bands[0]
    stored = {
        **copy.deepcopy(body),
        "name": name,
        "capacityStepSizeGb": str(step),
        "createTime": call.cloud.clock.timestamp(),
        "customPerformanceSupported": False,
        "etag": _etag(call),
        "maxCapacityGb": str(high),
        "minCapacityGb": str(low),
        "networks": [
            {
                **network,
                "connectMode": "DIRECT_PEERING",
                # Of the range, the first address that a host can have is the gateway's.
                "ipAddresses": [str(ipaddress.IPv4Network(range_)[2])],
                "modes": ["MODE_IPV4"],
                "reservedIpRange": range_,
            }
        ],
        "protocol": body.get("protocol", "NFS_V3"),
        "state": "CREATING",
    }
    call.cloud.table(_KIND)[name] = stored

    def ready() -> Mapping[str, Any]:
        stored["state"] = "READY"
        return dict(stored)

    return _start(call, name, "create", ready)


def _etag(call: Call) -> str:
    return f"{call.cloud.random.getrandbits(32):08x}"


def _range(call: Call, network: str, prefix: int, wanted: str) -> str:
    """The range of an instance's addresses: the one that is wanted, or the first that the network does not use.

    Raises:
        ApiError: INVALID_ARGUMENT for one that is in use; RESOURCE_EXHAUSTED where none is left. Words unchecked.
    """
    taken = list(_taken(call.cloud, network))
    if wanted:
        if other := catalog.overlapping(wanted, taken):
            raise invalid(
                f"networks[0].reservedIpRange: {wanted} overlaps {other}, which '{network}' uses",
                ("networks[0].reservedIpRange", "in use"),
            )
        return wanted
    pool = ipaddress.IPv4Network(catalog.fact("filestore", "range_pool").value)
    free = (str(each) for each in pool.subnets(new_prefix=prefix) if not catalog.overlapping(str(each), taken))
    found = next(free, None)
    if found is None:
        raise ApiError("RESOURCE_EXHAUSTED", f"'{network}' has no free range of size /{prefix} left")
    return found


def _taken(state: State, network: str) -> Iterator[str]:
    for subnet in state.table("compute.subnetwork").values():
        if subnet["network"].endswith(network):
            yield subnet["ipCidrRange"]
            yield from (each["ipCidrRange"] for each in subnet.get("secondaryIpRanges", []))
    for name, instance in state.table(_KIND).items():
        [there] = instance["networks"]
        if network_of(state, name.split("/")[1], there["network"]) == network:
            yield there["reservedIpRange"]


def _start(call: Call, name: str, verb: str, done: Callable[[], Mapping[str, Any]]) -> Operation:
    """The operation that takes `verb` to the instance; `done` answers its response."""
    metadata = {
        "@type": "type.googleapis.com/google.cloud.common.OperationMetadata",
        "apiVersion": "v1",
        "createTime": call.cloud.clock.timestamp(),
        "target": name,
        "verb": verb,
    }

    def step() -> Mapping[str, Any]:
        metadata["endTime"] = call.cloud.clock.timestamp()
        return done()

    location = "/".join(name.split("/")[:4])
    operation = Operation(f"{location}/operations/operation-{call.cloud.uid()}", metadata)
    return call.cloud.operations.run(operation, (call.duration_s, step))


@service.method(f"{_INSTANCES}.get", permission="file.instances.get", on=_named, wakes=False)
def get(call: Call) -> Mapping[str, Any]:
    return _instance(call)


@service.method(f"{_INSTANCES}.list", permission="file.instances.list", on=_parent, reads=PARAMS, wakes=False)
def list_(call: Call) -> Mapping[str, Any]:
    _, project, _, location = _parent(call).split("/")
    there = []
    for name, each in sorted(call.cloud.table(_KIND).items()):
        _, its_project, _, its_location, *_ = name.split("/")
        if its_project == project and location in ("-", its_location):
            there.append(each)
    found, more = page(call, there)
    return {"instances": found, **more}


def _check_patch(call: Call) -> None:
    mask = masks.paths(call.params.get("updateMask", ""))
    if not mask or any(path not in _CHANGEABLE for path in mask):
        why = f"updateMask {','.join(mask)!r}: name what changes, of {', '.join(_CHANGEABLE)}"
        raise invalid(why, ("updateMask", "unsupported"))


@service.method(
    f"{_INSTANCES}.patch",
    permission="file.instances.update",
    on=_named,
    rules=_check_patch,
    reads=("updateMask",),
    answers="Instance",
)
def patch(call: Call) -> Operation:
    stored, name = _instance(call), _named(call)
    _require_ready(stored)
    changed = masks.merged(stored, call.body, masks.paths(call.params["updateMask"]))
    _check(changed, name.split("/")[3], call.cloud, old=stored)
    if changed["fileShares"][0]["name"] != stored["fileShares"][0]["name"]:
        why = f"fileShares[0].name: the share's name is for good; it is {stored['fileShares'][0]['name']!r}"
        raise invalid(why, ("fileShares[0].name", "immutable"))
    stored["state"] = "REPAIRING"  # Instance.state in the discovery document: work is being done on it

    def done() -> Mapping[str, Any]:
        stored.clear()
        stored.update(changed, state="READY", etag=_etag(call))
        return dict(stored)

    return _start(call, name, "update", done)


def _require_ready(stored: Mapping[str, Any]) -> None:
    if stored["state"] != "READY":
        # Words unchecked.
        raise failed_precondition(f"Instance '{stored['name']}' is {stored['state']}; try again once it is READY.")


@service.method(
    f"{_INSTANCES}.delete", permission="file.instances.delete", on=_named, reads=("force",), answers="Empty"
)
def delete(call: Call) -> Operation:
    """`force` is for instances with snapshots, of which there are none."""
    stored, name = _instance(call), _named(call)
    _require_ready(stored)
    if stored.get("deletionProtectionEnabled"):
        why = stored.get("deletionProtectionReason") or "no reason given"
        raise failed_precondition(f"Instance '{name}' is protected against deletion ({why}): turn that off first.")
    stored["state"] = "DELETING"

    def gone() -> Mapping[str, Any]:
        call.cloud.table(_KIND).pop(name, None)
        return {}

    return _start(call, name, "delete", gone)


serve_operations(service, "file.projects.locations.operations", "file.operations.get", on=_named)
