"""Service Usage v1: which APIs a project has enabled. Every other service asks for its own here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from infra import catalog
from mockgcp.errors import failed_precondition, invalid, not_found
from mockgcp.operations import Operation
from mockgcp.paging import PARAMS, page
from mockgcp.service import Call, Service
from mockgcp.services.standard import serve_operations

service = Service("serviceusage", host=None)


def _project(call: Call) -> str:
    parts = (call.params.get("parent") or call.params["name"]).split("/")
    return call.cloud.project(parts[1]).name


def _known(call: Call, names: Sequence[str]) -> Sequence[str]:
    for name in names:
        if name not in catalog.services().known:
            raise not_found(
                f"Not found or permission denied for service(s): {name}. mockgcp knows: "
                f"{', '.join(sorted(catalog.services().known))}."
            )
    return names


def _show(call: Call, name: str) -> dict[str, Any]:
    project = call.cloud.project(_project(call).removeprefix("projects/"))
    return {
        "name": f"projects/{project.number}/services/{name}",
        "parent": f"projects/{project.number}",
        "config": {"name": name},
        "state": "ENABLED" if name in project.services else "DISABLED",
    }


@service.method("serviceusage.services.get", permission="serviceusage.services.get", on=_project)
def get(call: Call) -> Mapping[str, Any]:
    return _show(call, _known(call, [call.params["name"].split("/")[3]])[0])


@service.method(
    "serviceusage.services.list", permission="serviceusage.services.list", on=_project, reads=("filter", *PARAMS)
)
def list_(call: Call) -> Mapping[str, Any]:
    wanted = call.params.get("filter", "")
    if wanted not in ("", "state:ENABLED", "state:DISABLED"):
        raise invalid(f"Invalid filter {wanted!r}: state:ENABLED or state:DISABLED", ("filter", "malformed"))
    shown = [_show(call, name) for name in sorted(catalog.services().known)]
    found = [s for s in shown if not wanted or s["state"] == wanted.removeprefix("state:")]
    # 50 and 200: pageSize in the discovery document.
    services, more = page(call, found, default=50, most=200)
    return {"services": services, **more}


def _enable(call: Call, names: Sequence[str], seconds: float) -> Operation:
    project = call.cloud.project(_project(call).removeprefix("projects/"))

    def done() -> Mapping[str, Any]:
        project.services.update(names)
        shown = [_show(call, name) for name in names]
        return {"service": shown[0]} if call.method.id == "serviceusage.services.enable" else {"services": shown}

    operation = Operation(f"operations/acf.{call.cloud.uid()}")
    return call.cloud.operations.run(operation, (0.0 if project.services.issuperset(names) else seconds, done))


@service.method(
    "serviceusage.services.enable",
    permission="serviceusage.services.enable",
    on=_project,
    answers="EnableServiceResponse",
)
def enable(call: Call) -> Operation:
    return _enable(call, _known(call, [call.params["name"].split("/")[3]]), call.duration_s)


@service.method(
    "serviceusage.services.batchEnable",
    permission="serviceusage.services.enable",
    on=_project,
    answers="BatchEnableServicesResponse",
)
def batch_enable(call: Call) -> Operation:
    names = call.body.get("serviceIds", [])
    most = catalog.services().batch_enable_max
    if not 1 <= len(names) <= most:
        raise invalid(f"serviceIds takes 1 to {most} services, got {len(names)}", ("serviceIds", "size"))
    return _enable(call, _known(call, names), call.cloud.durations["serviceusage.services.enable"])


@service.method(
    "serviceusage.services.disable",
    permission="serviceusage.services.disable",
    on=_project,
    answers="DisableServiceResponse",
)
def disable(call: Call) -> Operation:
    name = _known(call, [call.params["name"].split("/")[3]])[0]
    project = call.cloud.project(_project(call).removeprefix("projects/"))
    if name not in project.services:
        raise failed_precondition(f"Service {name} is not enabled in project {project.id}.")

    def done() -> Mapping[str, Any]:
        project.services.discard(name)
        return {"service": _show(call, name)}

    return call.cloud.operations.run(Operation(f"operations/acf.{call.cloud.uid()}"), (call.duration_s, done))


serve_operations(service, "serviceusage.operations", None, on=lambda call: str(call.params["name"]))
