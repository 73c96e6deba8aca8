"""Cloud Resource Manager v1: projects (seeded, not made through the API) and their IAM policies."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mockgcp.service import Call, Service

service = Service("cloudresourcemanager", host=None)


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


@service.method(
    "cloudresourcemanager.projects.getIamPolicy", permission="resourcemanager.projects.getIamPolicy", on=_project
)
def get_iam_policy(call: Call) -> Mapping[str, Any]:
    return call.cloud.policies.get(_project(call))


@service.method(
    "cloudresourcemanager.projects.setIamPolicy", permission="resourcemanager.projects.setIamPolicy", on=_project
)
def set_iam_policy(call: Call) -> Mapping[str, Any]:
    return call.cloud.policies.set(_project(call), call.body.get("policy", {}))


@service.method("cloudresourcemanager.projects.testIamPermissions", on=_project)
def test_iam_permissions(call: Call) -> Mapping[str, Any]:
    asked = call.body.get("permissions", [])
    return {"permissions": [p for p in asked if call.cloud.allowed(call.principal, p, _project(call))]}
