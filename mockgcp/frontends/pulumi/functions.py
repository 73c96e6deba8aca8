"""The provider functions (invokes) that programs use."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from mockgcp.frontends.pulumi.resource import Props, Session


@dataclass(frozen=True)
class Function:
    """A provider function: the arguments it takes, and what answers it."""

    arguments: tuple[str, ...]
    call: Callable[[Session, Props], Mapping[str, Any]]


def _get_project(session: Session, args: Props) -> Mapping[str, Any]:
    wanted = args.get("projectId") or session.project
    found = session.call("cloudresourcemanager.projects.get", {"projectId": wanted})
    return {
        "id": f"projects/{found['projectId']}",
        "projectId": found["projectId"],
        "number": found["projectNumber"],
        "name": found["name"],
    }


def _get_iam_policy(session: Session, args: Props) -> Mapping[str, Any]:
    project = args.get("project") or session.project
    body = {"options": {"requestedPolicyVersion": 3}}
    found = session.call("cloudresourcemanager.projects.getIamPolicy", {"resource": project}, body)
    policy = {key: value for key, value in found.items() if key in ("bindings", "auditConfigs")}
    return {"id": project, "project": project, "etag": found.get("etag", ""), "policyData": json.dumps(policy)}


FUNCTIONS: Mapping[str, Function] = {
    "gcp:organizations/getProject:getProject": Function(("projectId",), _get_project),
    "gcp:projects/getIamPolicy:getIamPolicy": Function(("project",), _get_iam_policy),
}
