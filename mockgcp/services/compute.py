"""Compute Engine v1: what every part shares (links, operations in its own form), projects, regions and zones.

Networks are in compute_networks.py, their rules in compute_firewalls.py, routers and NATs in compute_routers.py.
Deliberately not done: filters and orders of lists, aggregated lists, IPv6, auto mode, routes, instances. What is sent
of them is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from infra import catalog
from mockgcp.errors import HTTP_STATUS, ApiError, already_exists, invalid
from mockgcp.operations import Operation
from mockgcp.paging import PARAMS, page
from mockgcp.service import Call, Service
from mockgcp.services import iam
from mockgcp.state import State

service = Service("compute", host="compute.googleapis.com")

# Entries of a page, at most and when the call does not say (maxResults in the discovery document).
_PAGE = 500


def link(state: State, path: str) -> str:
    """The full link of a resource, as Compute Engine answers it."""
    return f"https://www.{state.universe.api_domain}/compute/v1/{path}"


def path_of(call: Call, reference: str) -> str:
    """The full name behind a reference: a full link, projects/P/..., or what follows that in the call's project.

    Raises:
        ApiError: PERMISSION_DENIED for a project that is not there.
    """
    path = reference.partition("/compute/v1/")[2] or reference.removeprefix("/")
    if not path.startswith("projects/"):
        return f"{project_name(call)}/{path}"
    _, project, *rest = path.split("/")
    return "/".join((call.cloud.project(project).name, *rest))


def project_name(call: Call) -> str:
    return call.cloud.project(call.params["project"]).name


def region_name(call: Call) -> str:
    return f"{project_name(call)}/regions/{call.params['region']}"


def found(call: Call, kind: str, name: str) -> dict[str, Any]:
    """The resource of that full name.

    Raises:
        ApiError: NOT_FOUND in the API's words.
    """
    resource = call.cloud.table(f"compute.{kind}").get(name)
    if resource is None:
        raise _missing(name)
    return resource


def _missing(name: str) -> ApiError:
    return ApiError("NOT_FOUND", f"The resource '{name}' was not found", reason="notFound")


def referenced(call: Call, kind: str, field: str, reference: str) -> str:
    """The full name of a resource that a body refers to.

    Raises:
        ApiError: INVALID_ARGUMENT when it is not there.
    """
    name = path_of(call, reference)
    if name not in call.cloud.table(f"compute.{kind}"):
        raise bad(field, reference, f"The referenced {kind} resource cannot be found.")
    return name


def bad(field: str, value: Any, why: str) -> ApiError:
    """A refused field, in the API's form."""
    return invalid(f"Invalid value for field 'resource.{field}': '{value}'. {why}", (f"resource.{field}", "invalid"))


def unimplemented(message: str) -> ApiError:
    return ApiError("UNIMPLEMENTED", message)


def in_use(kind: str, name: str, user: str) -> ApiError:
    message = f"The {kind} resource '{name}' is already being used by '{user}'"
    return ApiError("FAILED_PRECONDITION", message, reason="resourceInUseByAnotherResource")


def check_free(call: Call, kind: str, name: str) -> None:
    if name in call.cloud.table(f"compute.{kind}"):
        error = already_exists(f"The resource '{name}' already exists")
        error.reason = "alreadyExists"
        raise error


def check_name(call: Call) -> None:
    """The name in the body of an insert."""
    if problem := catalog.compute_name_problem(call.body.get("name", "")):
        raise bad("name", call.body.get("name", ""), problem.message)


def check_region(call: Call) -> None:
    """The region that the path names, and that the body names the same."""
    region = call.params["region"]
    if problem := catalog.compute_region_problem(region, call.cloud.universe):
        raise invalid(f"Invalid value for field 'region': '{region}'. Unknown region: {problem.message}")
    given = call.body.get("region", region)
    # The last segment counts: the provider sends projects/P/global/regions/R, which the API takes.
    if given.rpartition("/")[2] != region:
        raise bad("region", given, f"It must be the region of the request's path, {region}.")


def check_known(call: Call, body: Mapping[str, Any], known: Iterable[str], where: str = "") -> None:
    """Refuses the fields of a body that the emulator does not have, rather than to ignore them."""
    for name in sorted(body.keys() - set(known)):
        raise unimplemented(f"mockgcp does not emulate {where}{name} of {call.method.id}; it ignores nothing")


def check_same(stored: Mapping[str, Any], sent: Mapping[str, Any], fixed: Iterable[str]) -> None:
    """Refuses to change what was decided when the resource was made. A link counts by its last segment."""
    for name in fixed:
        before, after = stored.get(name), sent.get(name)
        if isinstance(after, str) and isinstance(before, str):
            before, after = before.rpartition("/")[2], after.rpartition("/")[2]
        if after is not None and after != before:
            raise bad(
                name, sent[name], f"The field cannot change once the resource is made; it is '{stored.get(name)}'."
            )


def own(call: Call, kind: str, name: str) -> dict[str, Any]:
    """What the server adds to a new resource."""
    return {
        "kind": f"compute#{kind}",
        "id": str(call.cloud.random.randrange(10**18, 10**19)),
        "creationTimestamp": call.cloud.clock.timestamp(),
        "selfLink": link(call.cloud, name),
    }


def listed(call: Call, kind: str, under: str) -> Mapping[str, Any]:
    """A page of the resources below `under`."""
    table = call.cloud.table(f"compute.{kind}")
    return shown(call, kind, [resource for name, resource in sorted(table.items()) if name.startswith(f"{under}/")])


def shown(call: Call, kind: str, entries: list[dict[str, Any]]) -> Mapping[str, Any]:
    items, more = page(call, entries, default=_PAGE, most=_PAGE)
    path = call.method.path.removeprefix("compute/v1/").format_map(call.params)
    return {"kind": f"compute#{kind}List", "id": path, "selfLink": link(call.cloud, path), "items": items, **more}


# -- operations ----------------------------------------------------------------------------------------------------


def start(call: Call, target: str, apply: Callable[[], Mapping[str, Any]], check: Callable[[], object]) -> Operation:
    """The operation that changes `target` by `apply`, whose value is the resource.

    `check` refuses the call, and later the operation, if others meanwhile made it impossible; what only `apply` refuses
    fails the operation alone.
    """
    check()
    id_ = call.cloud.uid()
    scope = region_name(call) if "region" in call.params else f"{project_name(call)}/global"
    name = f"{scope}/operations/operation-{id_}"
    now = call.cloud.clock.timestamp()
    region = {"region": link(call.cloud, scope)} if "region" in call.params else {}
    metadata = {
        "kind": "compute#operation",
        "id": str(call.cloud.random.randrange(10**18, 10**19)),
        "name": name.rpartition("/")[2],
        "operationType": call.method.id.rpartition(".")[2],
        "targetLink": link(call.cloud, target),
        "user": call.principal.partition(":")[2],
        "insertTime": now,
        "startTime": now,
        "selfLink": link(call.cloud, name),
        **region,
    }

    def step() -> Mapping[str, Any]:
        metadata["endTime"] = call.cloud.clock.timestamp()
        check()
        return apply()

    return call.cloud.operations.run(Operation(name, metadata, form=_form), (call.duration_s, step))


def _form(operation: Operation) -> dict[str, Any]:
    """As a compute#operation."""
    state = {"status": "DONE", "progress": 100} if operation.done else {"status": "RUNNING", "progress": 0}
    shown_ = {**operation.metadata, **state}
    if error := operation.error:
        code = _CODES.get(error.reason) or error.status
        shown_["error"] = {"errors": [{"code": code, "message": error.message}]}
        shown_["httpErrorStatusCode"] = HTTP_STATUS[error.status]
        shown_["httpErrorMessage"] = error.status.replace("_", " ")
    return shown_


# The codes of an operation's errors where they are not the status.
_CODES = {
    "alreadyExists": "RESOURCE_ALREADY_EXISTS",
    "notFound": "RESOURCE_NOT_FOUND",
    "resourceInUseByAnotherResource": "RESOURCE_IN_USE_BY_ANOTHER_RESOURCE",
}


def _operation_name(call: Call) -> str:
    scope = region_name(call) if "region" in call.params else f"{project_name(call)}/global"
    return f"{scope}/operations/{call.params['operation']}"


def _operation(call: Call) -> Mapping[str, Any]:
    """`wait` answers at once as well: it promises no more than an answer within two minutes, done or not."""
    name = _operation_name(call)
    operation = call.cloud.operations.get(name)
    if operation is None:
        raise _missing(name)
    return operation.to_dict()


for _scope in ("global", "region"):
    for _verb in ("get", "wait"):
        service.method(
            f"compute.{_scope}Operations.{_verb}",
            permission=f"compute.{_scope}Operations.get",
            on=_operation_name,
            wakes=False,
        )(_operation)


# -- projects, regions, zones --------------------------------------------------------------------------------------


@service.method("compute.projects.get", permission="compute.projects.get", on=project_name)
def get_project(call: Call) -> Mapping[str, Any]:
    project = call.cloud.project(call.params["project"])
    return {
        "kind": "compute#project",
        "id": str(project.number),
        "name": project.id,
        "selfLink": link(call.cloud, project.name),
        "defaultServiceAccount": iam.default_account(call.cloud, project) or "",
        "defaultNetworkTier": "PREMIUM",
    }


def _region(call: Call, region: str, zones: Iterable[str]) -> dict[str, Any]:
    path = f"{project_name(call)}/regions/{region}"
    links = [link(call.cloud, f"{project_name(call)}/zones/{zone}") for zone in zones]
    return {
        "kind": "compute#region",
        "name": region,
        "status": "UP",
        "zones": links,
        "selfLink": link(call.cloud, path),
    }


def _zone(call: Call, region: str, zone: str) -> dict[str, Any]:
    return {
        "kind": "compute#zone",
        "name": zone,
        "status": "UP",
        "region": link(call.cloud, f"{project_name(call)}/regions/{region}"),
        "selfLink": link(call.cloud, f"{project_name(call)}/zones/{zone}"),
    }


@service.method("compute.regions.list", permission="compute.regions.list", on=project_name, reads=PARAMS)
def list_regions(call: Call) -> Mapping[str, Any]:
    zones = catalog.compute_zones(call.cloud.universe)
    return shown(call, "region", [_region(call, region, of_it) for region, of_it in zones.items()])


@service.method("compute.regions.get", permission="compute.regions.get", on=project_name)
def get_region(call: Call) -> Mapping[str, Any]:
    zones = catalog.compute_zones(call.cloud.universe).get(call.params["region"])
    if zones is None:
        raise _missing(region_name(call))
    return _region(call, call.params["region"], zones)


def _zones(call: Call) -> list[dict[str, Any]]:
    zones = catalog.compute_zones(call.cloud.universe)
    return [_zone(call, region, zone) for region, of_it in zones.items() for zone in of_it]


@service.method("compute.zones.list", permission="compute.zones.list", on=project_name, reads=PARAMS)
def list_zones(call: Call) -> Mapping[str, Any]:
    return shown(call, "zone", _zones(call))


@service.method("compute.zones.get", permission="compute.zones.get", on=project_name)
def get_zone(call: Call) -> Mapping[str, Any]:
    wanted = call.params["zone"]
    for zone in _zones(call):
        if zone["name"] == wanted:
            return zone
    raise _missing(f"{project_name(call)}/zones/{wanted}")


def require(call: Call, permission: str, resource: str) -> None:
    """A second permission, on another resource than the method's own.

    Raises:
        ApiError: PERMISSION_DENIED.
    """
    if not call.cloud.allowed(call.principal, permission, resource):
        raise ApiError(
            "PERMISSION_DENIED",
            f"Required '{permission}' permission for '{resource}'",
            reason="IAM_PERMISSION_DENIED",
        )
