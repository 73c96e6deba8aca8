"""Agent Platform v1beta1: training clusters (modelDevelopmentClusters) with Slurm, and how they change.

No discovery document has them: schemas/aiplatform.v1beta1.json stands in. What they may be is the catalog's
`training_cluster_problems`. It is stricter than the service in one thing: the service takes settings that are legal
each and stop Slurm together, and then reports success over a cluster whose commands fail (create-cluster's warning).
Deliberately not done: GKE as the orchestrator, Managed Lustre and its export, allow-lists, capacity.
"""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from infra import catalog
from mockgcp import masks
from mockgcp.errors import ApiError, already_exists, invalid
from mockgcp.operations import Operation
from mockgcp.paging import PARAMS, page
from mockgcp.service import Call
from mockgcp.services import aiplatform_needs as needs
from mockgcp.services.aiplatform import (
    CLUSTER,
    EVENTS,
    METHODS,
    NODES,
    RESOURCE,
    cluster,
    named,
    numbered,
    parent,
    require_state,
    service,
    start,
)
from mockgcp.state import State
from mockgcp.training_clusters import Event, Node

_SLURM = "orchestratorSpec.slurmSpec"
# Beside the catalog's: what only the provider's resource says (labels, display name), and the two superseded objects.
_CHANGEABLE: tuple[str, ...] = (
    *catalog.fact("slurm", "updatable").value,
    *("displayName", "labels", f"{_SLURM}.accounting", f"{_SLURM}.scheduling"),
)
# Of a pool, and of a cluster, what is for good; the provider's resource says so.
_FIXED_OF_POOL = ("machineSpec", "provisioningModel", "confidentialInstanceConfig")
_FIXED = ("network", "runtimeSpec", f"{_SLURM}.homeDirectoryStorage")
# They follow from the machine type.
_FOLLOWS = frozenset({"acceleratorType", "acceleratorCount"})
_MACHINE = frozenset({"machineType", "reservationAffinity"}) | _FOLLOWS


# -- rules ---------------------------------------------------------------------------------------------------------


def _check_create(call: Call) -> None:
    if problem := catalog.training_cluster_id_problem(call.params.get("modelDevelopmentClusterId", "")):
        raise invalid(f"{problem.field}: {problem.message}", (problem.field, "malformed"))
    region = call.params["parent"].split("/")[3]
    if problem := catalog.compute_region_problem(region, call.cloud.universe):
        raise invalid(f"location: {problem.message}", ("parent", "unknown location"))
    _check(call.cloud, region, call.body)


def _check(state: State, region: str, body: Mapping[str, Any]) -> None:
    for what in _unemulated(body):
        raise ApiError("UNIMPLEMENTED", f"mockgcp does not emulate {what} of a training cluster; it ignores nothing")
    problems = catalog.training_cluster_problems(body, region=region, universe=state.universe)
    if problems:
        raise invalid("; ".join(f"{p.field}: {p.message}" for p in problems), *((p.field, p.message) for p in problems))
    for path, labels in _labels(body):
        for problem in catalog.label_problems(labels):
            raise invalid(f"{path}: {problem.message}", (path, "malformed"))


def _unemulated(body: Mapping[str, Any]) -> Iterator[str]:
    if body.get("orchestratorSpec", {}).get("gkeSpec"):
        yield "orchestratorSpec.gkeSpec"
    if body.get("lustreExportConfig"):
        yield "lustreExportConfig"
    for index, pool in enumerate(body.get("nodePools", [])):
        for name in sorted(pool.get("machineSpec", {}).keys() - _MACHINE):
            yield f"nodePools[{index}].machineSpec.{name}"


def _labels(body: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, str]]]:
    yield "labels", body.get("labels", {})
    for index, pool in enumerate(body.get("nodePools", [])):
        yield f"nodePools[{index}].labels", pool.get("labels", {})


# -- what the server makes of it -----------------------------------------------------------------------------------


def _filled(pool: Mapping[str, Any]) -> dict[str, Any]:
    """A pool with the defaults that the provider's resource and DiskSpec in the discovery document name."""
    gpu = catalog.gpu_machines().get(pool["machineSpec"]["machineType"])
    disk, flex = catalog.fact("slurm", "boot_disk_default").value, catalog.fact("slurm", "flex_start_s").value
    given = pool.get("provisioningModel", "PROVISIONING_MODEL_UNSPECIFIED")
    unset = "RESERVATION" if gpu else "ON_DEMAND"
    model = unset if given == "PROVISIONING_MODEL_UNSPECIFIED" else given
    lasts = pool.get("flexStartMaxDuration", f"{flex['default']}s")
    return {
        **{key: value for key, value in pool.items() if key != "effectiveFlexStartMaxDuration"},
        "provisioningModel": model,
        "scalingSpec": {"minNodeCount": 0, "maxNodeCount": 0, **pool.get("scalingSpec", {})},
        "bootDisk": {
            "bootDiskType": disk["hyperdisk_type"] if gpu and gpu.hyperdisk else disk["type"],
            "bootDiskSizeGb": disk["size_gb"],
            **pool.get("bootDisk", {}),
        },
        **({"effectiveFlexStartMaxDuration": lasts} if model == "FLEX_START" else {}),
    }


def _for_plane(stored: Mapping[str, Any]) -> dict[str, Any]:
    """The cluster as a plane is given it: a copy, with the partition that is the default where none is named."""
    given = copy.deepcopy(dict(stored))
    slurm = given["orchestratorSpec"]["slurmSpec"]
    slurm["defaultPartitionId"] = slurm.get("defaultPartitionId") or slurm["partitions"][0]["id"]
    return given


def login_pool(stored: Mapping[str, Any]) -> str:
    """The id of the pool that people log in to."""
    id_: str = stored["orchestratorSpec"]["slurmSpec"]["loginNodePoolId"]
    return id_


def follow(state: State, name: str, node_state: str) -> None:
    """Brings the nodes that no plane has in line with the pools: login nodes, and the static ones where no plane is."""
    stored, now, table = state.table(CLUSTER)[name], state.clock.timestamp(), state.table(NODES)
    wanted = {
        f"{name}/nodes/{name.rpartition('/')[2]}-{pool['id']}-{index}": pool["id"]
        for pool in stored["nodePools"]
        if state.training_clusters is None or pool["id"] == login_pool(stored)
        for index in range(pool["scalingSpec"]["minNodeCount"])
    }
    for gone in [each for each in table if each.startswith(f"{name}/nodes/") and each not in wanted]:
        del table[gone]
    for full, pool_id in wanted.items():
        old = table.get(full)
        if old is None or old["state"] != node_state:
            created = old["created"] if old else now
            table[full] = {"pool_id": pool_id, "state": node_state, "created": created, "changed": now}


def nodes(state: State, name: str) -> list[Node]:
    """The nodes of a cluster: the plane's, and those that it does not have."""
    own = [
        Node(full.rpartition("/")[2], **row)
        for full, row in state.table(NODES).items()
        if full.startswith(f"{name}/nodes/")
    ]
    plane = state.training_clusters
    found = {node.name: node for node in (*own, *(plane.status(name).nodes if plane else ()))}
    return list(found.values())


def _events(state: State, name: str) -> Sequence[Event]:
    """What happened, the newest last: a plane tells of all its nodes."""
    plane = state.training_clusters
    events: Iterable[Event] = plane.status(name).events if plane else state.table(EVENTS).get(name, {"all": ()})["all"]
    return list(events)[-catalog.fact("training_clusters", "events_max").value :]


def record(state: State, name: str, kind: str, message: str) -> None:
    """Keeps what happened to a node of a cluster that no plane runs."""
    row = state.table(EVENTS).setdefault(name, {"all": []})
    row["all"].append(Event(kind, message, state.clock.timestamp()))


def shown(state: State, name: str) -> dict[str, Any]:
    """A cluster as the API answers it."""
    stored = state.table(CLUSTER)[name]
    login = login_pool(stored)
    status = [
        {
            "nodeState": node.state,
            "nodePoolId": node.pool_id,
            "nodePoolType": f"NODE_POOL_TYPE_{'LOGIN' if node.pool_id == login else 'COMPUTE'}",
            "instanceName": node.name,
            "instanceId": str(int(hashlib.sha256(f"{name}/{node.name}/{node.created}".encode()).hexdigest()[:15], 16)),
            "createTime": node.created,
            "lastUpdateTime": node.changed,
        }
        for node in nodes(state, name)
    ]
    events = [{"eventType": e.type, "eventMessage": e.message, "eventTime": e.time} for e in _events(state, name)]
    return {
        **stored,
        "name": numbered(state, name),
        "clusterStatus": {**stored["clusterStatus"], "nodesStatus": status},
        **({"clusterEvents": events} if events else {}),
    }


# -- methods -------------------------------------------------------------------------------------------------------


@service.method(
    f"{METHODS}.create",
    permission="aiplatform.modelDevelopmentClusters.create",
    on=parent,
    rules=_check_create,
    reads=("modelDevelopmentClusterId",),
    answers=RESOURCE,
)
def create(call: Call) -> Operation:
    state, name = call.cloud, f"{parent(call)}/modelDevelopmentClusters/{call.params['modelDevelopmentClusterId']}"
    if name in state.table(CLUSTER):
        raise already_exists(f"The ModelDevelopmentCluster {name!r} already exists.")
    subnetwork = needs.subnetwork(call, name.split("/")[3], call.body["network"])
    needs.check(call, call.body)
    now, plane = state.clock.timestamp(), state.training_clusters
    stored = state.table(CLUSTER)[name] = {
        **copy.deepcopy(call.body),
        "name": name,
        "network": {"subnetwork": subnetwork, **call.body["network"]},
        "nodePools": [_filled(pool) for pool in call.body["nodePools"]],
        "clusterStatus": {"state": "PROVISIONING"},
        "createTime": now,
        "updateTime": now,
    }
    follow(state, name, "PREPARING")
    given = _for_plane(stored)

    def ready() -> Mapping[str, Any]:
        stored["clusterStatus"] = {"state": "RUNNING"}
        stored["startTime"] = stored["updateTime"] = state.clock.timestamp()
        follow(state, name, "RUNNING")
        return shown(state, name)

    def failed(error: ApiError) -> None:
        stored["clusterStatus"] = {"state": "ERROR", "detail": error.message, "error": error.to_status()}
        follow(state, name, "ERROR")

    return start(
        call,
        name,
        "CreateModelDevelopmentCluster",
        ready,
        progress="Create Model Development Cluster request received, provisioning...",
        check=lambda: needs.check_agent(state, name, stored),
        aside=None if plane is None else lambda: plane.create(name, given),
        failed=failed,
    )


@service.method(f"{METHODS}.get", permission="aiplatform.modelDevelopmentClusters.get", on=named, wakes=False)
def get(call: Call) -> Mapping[str, Any]:
    cluster(call)
    return shown(call.cloud, named(call))


@service.method(
    f"{METHODS}.list", permission="aiplatform.modelDevelopmentClusters.list", on=parent, reads=PARAMS, wakes=False
)
def list_(call: Call) -> Mapping[str, Any]:
    under = f"{parent(call)}/modelDevelopmentClusters/"
    found, more = page(call, [name for name in sorted(call.cloud.table(CLUSTER)) if name.startswith(under)])
    return {"modelDevelopmentClusters": [shown(call.cloud, name) for name in found], **more}


def _mask(call: Call) -> list[str]:
    """What a patch names: the fields of its mask, or without one those of its body that may change."""
    named_ = masks.paths(call.params.get("updateMask", ""))
    return named_ or [path for path in _CHANGEABLE if _at(call.body, path) is not None]


def _at(body: Mapping[str, Any], path: str) -> Any:
    found: Any = body
    for step in path.split("."):
        found = found.get(step) if isinstance(found, Mapping) else None
    return found


def _check_patch(call: Call) -> None:
    mask = _mask(call)
    wrong = [path for path in mask if path not in _CHANGEABLE]
    if wrong or not mask:
        why = f"updateMask {','.join(wrong)!r}: name what changes, of {', '.join(_CHANGEABLE)}"
        raise invalid(why, ("updateMask", "unsupported"))


@service.method(
    f"{METHODS}.patch",
    permission="aiplatform.modelDevelopmentClusters.update",
    on=named,
    rules=_check_patch,
    reads=("updateMask", "updateMode"),
    answers=RESOURCE,
)
def patch(call: Call) -> Operation:
    """Lists and maps are replaced whole. `updateMode` decides of the service's own scripts, which are none here."""
    state, name, stored, plane = call.cloud, named(call), cluster(call), call.cloud.training_clusters
    require_state(stored, "RUNNING")
    if not call.params.get("updateMask"):
        _require_same(stored, call.body)
    changed = masks.merged(stored, call.body, _mask(call))
    _check(state, name.split("/")[3], changed)
    changed["nodePools"] = [_filled(pool) for pool in changed["nodePools"]]
    _require_same_pools(stored, changed)
    needs.check(call, changed)
    given = _for_plane(changed)
    stored["clusterStatus"] = {"state": "UPDATING"}

    def done() -> Mapping[str, Any]:
        stored.clear()
        stored.update(changed, clusterStatus={"state": "RUNNING"}, updateTime=state.clock.timestamp())
        follow(state, name, "RUNNING")
        return shown(state, name)

    return start(
        call,
        name,
        "UpdateModelDevelopmentCluster",
        done,
        check=lambda: needs.check_agent(state, name, changed),
        aside=None if plane is None else lambda: plane.update(name, given),
        failed=lambda error: stored.update(clusterStatus={"state": "RUNNING", "detail": error.message}),
    )


def _require_same(stored: Mapping[str, Any], sent: Mapping[str, Any]) -> None:
    for path in _FIXED:
        before, after = _at(stored, path), _at(sent, path)
        if isinstance(before, Mapping) and isinstance(after, Mapping):
            after = {**before, **after}
        if after not in (None, before):
            raise _immutable(path, before)


def _require_same_pools(stored: Mapping[str, Any], changed: Mapping[str, Any]) -> None:
    before = {pool["id"]: pool for pool in stored["nodePools"]}
    for index, pool in enumerate(changed["nodePools"]):
        for field in _FIXED_OF_POOL:
            old, new = (_decided(each.get(field)) for each in (before.get(pool["id"], pool), pool))
            if old != new:
                raise _immutable(f"nodePools[{index}].{field}", old)


def _decided(value: Any) -> Any:
    """A field of a pool without what follows from the machine type."""
    return {k: v for k, v in value.items() if k not in _FOLLOWS} if isinstance(value, Mapping) else value


def _immutable(path: str, value: Any) -> ApiError:
    return invalid(f"{path} cannot change on a cluster that is made; it is {value!r}", (path, "immutable"))


@service.method(
    f"{METHODS}.delete",
    permission="aiplatform.modelDevelopmentClusters.delete",
    on=named,
    answers="GoogleProtobufEmpty",
)
def delete(call: Call) -> Operation:
    state, name, stored, plane = call.cloud, named(call), cluster(call), call.cloud.training_clusters
    require_state(stored, "RUNNING", "ERROR")
    stored["clusterStatus"] = {"state": "STOPPING"}

    def gone() -> Mapping[str, Any]:
        del state.table(CLUSTER)[name]
        state.table(EVENTS).pop(name, None)
        for node in [each for each in state.table(NODES) if each.startswith(f"{name}/nodes/")]:
            del state.table(NODES)[node]
        return {}

    return start(
        call,
        name,
        "Delete",
        gone,
        aside=None if plane is None else lambda: plane.delete(name),
        failed=lambda error: stored.update(clusterStatus={"state": "ERROR", "detail": error.message}),
    )
