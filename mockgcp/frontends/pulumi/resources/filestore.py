"""gcp:filestore: instances."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pulumi_gcp as gcp

from mockgcp.errors import ApiError
from mockgcp.frontends.pulumi.resource import AutoName, Props, Request, ResourceType, Session, deleted_by, id_parts
from mockgcp.frontends.pulumi.resources.iam_member import located
from mockgcp.frontends.pulumi.resources.masked import mask
from mockgcp.frontends.pulumi.translate import Table

_FULL_NAME = "projects/{project}/locations/{location}/instances/{name}"
_NAME = {"name": _FULL_NAME}
_METHODS = "file.projects.locations.instances"
_CREATE = Request(f"{_METHODS}.create", {"parent": "projects/{project}/locations/{location}", "instanceId": "{name}"})
_GET = Request(f"{_METHODS}.get", _NAME)
# What an update may name beside the labels.
_UPDATABLE = {
    name: (name,) for name in ("deletionProtectionEnabled", "deletionProtectionReason", "description", "fileShares")
}
_NOT_EMULATED = ("directoryServices", "performanceConfig")

Body = Mapping[str, Any]


def _placed(session: Session, properties: Props) -> Props:
    """The older `zone` says where as `location` does."""
    return located(session, {**properties, "location": properties.get("location") or properties.get("zone")})


def _sent(body: Body) -> dict[str, Any]:
    """The body with the one share as the API has it: in a list."""
    return {**body, "fileShares": [body["fileShares"]]}


def _shown(rest: Body) -> dict[str, Any]:
    return {**rest, "fileShares": rest["fileShares"][0]}


def _create(session: Session, properties: Props, body: Body) -> Body:
    return _shown(session.call(_CREATE.method, _CREATE.fill(_placed(session, properties)), _sent(body)))


def _read(session: Session, properties: Props) -> Body | None:
    found = session.get(_GET.method, _GET.fill(_placed(session, properties)))
    return _shown(found) if found is not None else None


def _update(session: Session, old: Props, new: Props, body: Body) -> Body:
    for name in _NOT_EMULATED:
        if old.get(name) != new.get(name):
            raise ApiError("UNIMPLEMENTED", f"mockgcp does not change {name} of {INSTANCE.token}")
    # Of labels the outputs have the provider's own, too: they are named always, which changes nothing.
    changed = [*mask(_UPDATABLE, INSTANCE.computed, old, new), "labels"]
    params = {**_GET.fill(_placed(session, new)), "updateMask": ",".join(changed)}
    return _shown(session.call(f"{_METHODS}.patch", params, _sent(body)))


def _derive(session: Session, properties: Props, rest: Body) -> Props:
    _, project, _, location, _, name = rest["name"].split("/")
    return {"name": name, "project": project, "location": location}


INSTANCE = ResourceType(
    token="gcp:filestore/instance:Instance",
    resource=gcp.filestore.Instance,
    args=gcp.filestore.InstanceArgs,
    id=_FULL_NAME,
    import_id=id_parts(_FULL_NAME),
    create=_create,
    read=_read,
    update=_update,
    delete=deleted_by(Request(f"{_METHODS}.delete", _NAME)),
    auto_name=AutoName(),
    dry_run=lambda session, properties, body: session.validate(_CREATE, _placed(session, properties), _sent(body)),
    defaults={
        "desiredReplicaState": "READY",
        "fileShares.nfsExportOptions.accessMode": "READ_WRITE",
        "fileShares.nfsExportOptions.squashMode": "NO_ROOT_SQUASH",
        "initialReplication.role": "STANDBY",
        "networks.connectMode": "DIRECT_PEERING",
        "protocol": "NFS_V3",
    },
    replace_on=frozenset(
        {
            *("fileShares.name", "fileShares.sourceBackup", "fileShares.sourceBackupdrBackup", "initialReplication"),
            *("kmsKeyName", "location", "networks", "project", "protocol", "tags", "tier", "zone"),
        }
    ),
    computed=frozenset({"deletionPolicy", "location", "networks.reservedIpRange", "project", "zone"}),
    table=Table(
        names={"initialReplication": "replication"},
        local=frozenset({"deletionPolicy", "desiredReplicaState", "location", "name", "project", "zone"}),
    ),
    derive=_derive,
)
