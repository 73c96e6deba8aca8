"""Compute Engine: which machine types a zone has. The catalog's only, and TPUs where the catalog says that they are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from infra import catalog
from mockgcp.errors import not_found
from mockgcp.service import Call
from mockgcp.services.compute import link, project_name, service


@service.method("compute.machineTypes.get", permission="compute.machineTypes.get", on=project_name)
def get(call: Call) -> Mapping[str, Any]:
    zone, name = call.params["zone"], call.params["machineType"]
    path = f"{project_name(call)}/zones/{zone}/machineTypes/{name}"
    zones = catalog.compute_zones(call.cloud.universe).get(zone.rpartition("-")[0], ())
    machine = catalog.machines().get(name)
    missing = machine is None or catalog.tpu_zone_problem(name, zone, flex_start=False, universe=call.cloud.universe)
    if machine is None or missing or zone not in zones:
        raise not_found(f"The resource '{path}' was not found")
    return {
        "kind": "compute#machineType",
        "name": name,
        "zone": zone,
        "guestCpus": int(machine.vcpu),
        "memoryMb": int(machine.memory_gib * 1024),
        "selfLink": link(call.cloud, path),
    }
