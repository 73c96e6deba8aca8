"""Cloud Resource Manager v1: projects (seeded, not made through the API) and their IAM policies."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mockgcp.service import Call, Service
from mockgcp.services.standard import serve_policies

service = Service("cloudresourcemanager", host="cloudresourcemanager.googleapis.com")


def _project(call: Call) -> str:
    return call.cloud.project(call.params.get("projectId") or call.params["resource"]).name


@service.method("cloudresourcemanager.projects.get", permission="resourcemanager.projects.get", on=_project)
def get(call: Call) -> Mapping[str, Any]:
    project = call.cloud.project(call.params["projectId"])
    return {
        "projectId": project.id,
        "projectNumber": str(project.number),
        "name": project.id,
        "lifecycleState": "ACTIVE",
    }


serve_policies(
    service, "cloudresourcemanager.projects", "resourcemanager.projects", on=_project, there=_project, reads=()
)
