"""Kubernetes Engine v1beta1, which the provider asks for: what every part shares, operations in the API's own form.

Clusters are in container_clusters.py, node pools in container_pools.py, what is refused in container_rules.py, what a
node is in container_nodes.py.
Deliberately not done: Autopilot, node pools within a cluster's body, the older methods by project and zone, upgrades
that take their time node by node. What is sent of them is refused.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from infra import catalog
from mockgcp.errors import ApiError, failed_precondition, invalid, not_found
from mockgcp.operations import Aside, Operation, Step
from mockgcp.service import Call, Service
from mockgcp.services import container_rules as rules
from mockgcp.state import State

# Operations are kept in a table of their own, since they are listed, and since one keeps others from its cluster.
service = Service("container", host="container.googleapis.com", records=("container.operation",))

_METHODS = "container.projects.locations."


def canonical(call: Call, name: str) -> str:
    """A full name with the project's id where a number was given."""
    parts = name.split("/")
    return "/".join([parts[0], call.cloud.project(parts[1]).id, *parts[2:]])


def parent(call: Call) -> str:
    return canonical(call, call.params["parent"])


def named(call: Call) -> str:
    return canonical(call, call.params["name"])


def cluster_name(call: Call) -> str:
    """The full name of the cluster that a call is about, or whose pool it is about."""
    name: str = call.params.get("name") or call.params["parent"]
    return "/".join(canonical(call, name).split("/")[:6])


def cluster(call: Call) -> dict[str, Any]:
    """The stored cluster.

    Raises:
        ApiError: NOT_FOUND.
    """
    found = call.cloud.table("container.cluster").get(cluster_name(call))
    if found is None:
        raise not_found(f"Not found: {cluster_name(call)}.")
    return found


def link(state: State, name: str) -> str:
    """The full link of a resource, as the API answers it."""
    return f"https://container.{state.universe.api_domain}/v1beta1/{name}"


def check_body(call: Call, *fields: str) -> None:
    """Refuses the fields of a body but `fields`; the older ones that say where are taken when they say the same."""
    name = call.params.get("name") or call.params["parent"]
    places = dict(zip(name.split("/")[::2], name.split("/")[1::2], strict=False))
    same = {
        "projectId": places.get("projects"),
        "zone": places.get("locations"),
        "clusterId": places.get("clusters"),
        "nodePoolId": places.get("nodePools"),
        "name": name,
        "parent": name,
    }
    for field, value in call.body.items():
        if field in fields or rules.says_nothing(value) or same.get(field) == value:
            continue
        if field in same:
            raise invalid(f"{field} is {value!r}, but the request's path says {same[field]!r}.", (field, "conflict"))
        raise ApiError("UNIMPLEMENTED", f"mockgcp does not emulate {field} of {call.method.id}; it ignores nothing")


def pools(state: State, name: str) -> dict[str, dict[str, Any]]:
    """The node pools of a cluster by full name."""
    return {k: pool for k, pool in state.table("container.nodePool").items() if k.startswith(f"{name}/nodePools/")}


# -- operations ----------------------------------------------------------------------------------------------------


def start(
    call: Call,
    kind: str,
    doing: str,
    target: str,
    apply: Callable[[], Mapping[str, Any]],
    undo: Callable[[], object] = lambda: None,
    aside: Callable[[], object] | None = None,
) -> Operation:
    """The operation of type `kind` on `target`, whose response is what `apply` answers; the API itself has none.

    `doing` says it in the refusal of another one meanwhile; `undo` is for one that is cancelled or fails. `aside` takes
    real time before `apply`, and other calls go on meanwhile; it fails by RuntimeError.

    Raises:
        ApiError: FAILED_PRECONDITION, while another operation of the cluster is running.
    """
    of_cluster = "/".join(target.split("/")[:6])
    require_idle(call, of_cluster)
    location = target.split("/")[3]
    name = f"{'/'.join(target.split('/')[:4])}/operations/operation-{call.cloud.uid()}"
    now = call.cloud.clock.timestamp()
    metadata = {
        "name": name.rpartition("/")[2],
        "operationType": kind,
        "location": location,
        "zone": location,
        "selfLink": link(call.cloud, name),
        "targetLink": link(call.cloud, target),
        "startTime": now,
        "status": "RUNNING",
    }

    def end(failure: ApiError | None = None) -> Mapping[str, Any]:
        metadata["endTime"] = call.cloud.clock.timestamp()
        if metadata["status"] == "ABORTING":
            failure = ApiError("CANCELLED", f"Operation {metadata['name']} was cancelled.")
        if failure is not None:
            undo()
            raise failure
        return copy.deepcopy(dict(apply()))

    def work() -> Step:
        assert aside is not None
        try:
            aside()
        except RuntimeError as error:
            failure = ApiError("INTERNAL", str(error))
            return lambda: end(failure)
        return end

    def step() -> Mapping[str, Any] | Aside:
        return end() if aside is None or metadata["status"] == "ABORTING" else Aside(work)

    operation = Operation(name, metadata, form=_form)
    call.cloud.table("container.operation")[name] = {"operation": operation, "cluster": of_cluster, "doing": doing}
    return call.cloud.operations.run(operation, (call.duration_s, step))


def require_idle(call: Call, name: str) -> None:
    """The words of github.com/hashicorp/terraform-provider-google/issues/10366; newer ones are in
    github.com/rancher/gke-operator/pull/509."""
    for kept in call.cloud.table("container.operation").values():
        if kept["cluster"] == name and not kept["operation"].done:
            id_, of = kept["operation"].metadata["name"], name.rpartition("/")[2]
            raise failed_precondition(
                f"Operation {id_} is currently {kept['doing']} cluster {of}. Please wait and try again once it is done."
            )


def _form(operation: Operation) -> dict[str, Any]:
    """As the API's own Operation."""
    shown = dict(operation.metadata)
    if operation.done:
        shown["status"] = "DONE"
    if operation.error is not None:
        shown |= {"error": operation.error.to_status(), "statusMessage": operation.error.message}
    return shown


def _operation(call: Call) -> Operation:
    kept = call.cloud.table("container.operation").get(named(call))
    if kept is None:
        raise not_found(f"Not found: {named(call)}.")
    found: Operation = kept["operation"]
    return found


@service.method(f"{_METHODS}operations.get", permission="container.operations.get", on=named, wakes=False)
def get_operation(call: Call) -> Mapping[str, Any]:
    return _operation(call).to_dict()


@service.method(f"{_METHODS}operations.list", permission="container.operations.list", on=parent, wakes=False)
def list_operations(call: Call) -> Mapping[str, Any]:
    kept = under(call, "container.operation", "operations")
    return {"operations": [each["operation"].to_dict() for each in kept.values()]}


# The permission is unchecked: the page of roles has get and list of operations alone.
@service.method(f"{_METHODS}operations.cancel", permission="container.clusters.update", on=named)
def cancel_operation(call: Call) -> Mapping[str, Any]:
    """It ends, undone, when it would have ended. What the API cancels of which kind is unchecked."""
    operation = _operation(call)
    if operation.done:
        raise failed_precondition(f"Operation {operation.metadata['name']} is done and cannot be cancelled.")
    operation.metadata["status"] = "ABORTING"
    return {}


def under(call: Call, kind: str, collection: str) -> dict[str, dict[str, Any]]:
    """The resources of a collection in the call's location, by full name; `-` there means any."""
    _, project, _, location = parent(call).split("/")
    found = {}
    for name, each in call.cloud.table(kind).items():
        _, its_project, _, its_location, its_collection, *_ = name.split("/")
        if (its_project, its_collection) == (project, collection) and location in ("-", its_location):
            found[name] = each
    return found


# -- versions ---------------------------------------------------------------------------------------------------------


def _versions() -> Iterator[str]:
    known: Mapping[str, str] = catalog.fact("gke_nodes", "versions").value
    yield from sorted(known.values(), key=catalog.gke_version_order, reverse=True)


@service.method(f"{_METHODS}getServerConfig", permission="container.clusters.list", on=named, wakes=False)
def get_server_config(call: Call) -> Mapping[str, Any]:
    rules.check_location(call.cloud, named(call).split("/")[3])
    versions, default = list(_versions()), catalog.gke_version()
    channels = catalog.fact("gke", "release_channels").value
    return {
        "channels": [{"channel": each, "defaultVersion": default, "validVersions": versions} for each in channels],
        "defaultClusterVersion": default,
        "defaultImageType": catalog.node_defaults()["imageType"],
        "validMasterVersions": versions,
        "validNodeVersions": versions,
    }
