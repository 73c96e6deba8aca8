"""gcp:projects: enabled APIs and project-level IAM members."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pulumi_gcp as gcp

from mockgcp.frontends.pulumi.resource import Props, Request, ResourceType, Session, id_parts
from mockgcp.frontends.pulumi.resources.iam_member import PolicyCalls, iam_member
from mockgcp.frontends.pulumi.translate import Table

_SERVICE = {"name": "projects/{project}/services/{service}"}


def _enable(session: Session, properties: Props, body: Mapping[str, Any]) -> Mapping[str, Any]:
    call = Request("serviceusage.services.enable", _SERVICE)
    session.call(call.method, call.fill(properties), {})
    return _read(session, properties) or {}


def _read(session: Session, properties: Props) -> Mapping[str, Any] | None:
    call = Request("serviceusage.services.get", _SERVICE)
    found = session.get(call.method, call.fill(properties))
    return found if found and found["state"] == "ENABLED" else None


def _disable(session: Session, properties: Props) -> None:
    # The provider leaves the API on unless it is told to turn it off.
    if properties.get("disableOnDestroy") and _read(session, properties):
        call = Request("serviceusage.services.disable", _SERVICE)
        body = {"disableDependentServices": bool(properties.get("disableDependentServices"))}
        session.call(call.method, call.fill(properties), body)


SERVICE = ResourceType(
    token="gcp:projects/service:Service",
    resource=gcp.projects.Service,
    args=gcp.projects.ServiceArgs,
    id="{project}/{service}",
    import_id=id_parts("{project}/{service}"),
    create=_enable,
    read=_read,
    update=lambda session, old, new, body: _read(session, new) or {},
    delete=_disable,
    replace_on=frozenset({"project", "service"}),
    computed=frozenset({"project", "deletionPolicy"}),
    table=Table(
        local=frozenset(
            {
                "checkIfServiceHasUsageOnDestroy",
                "deletionPolicy",
                "disableDependentServices",
                "disableOnDestroy",
                "project",
                "service",
            }
        )
    ),
)

IAM_MEMBER = iam_member(
    "gcp:projects/iAMMember:IAMMember",
    gcp.projects.IAMMember,
    gcp.projects.IAMMemberArgs,
    "{project}",
    PolicyCalls(
        get=Request("cloudresourcemanager.projects.getIamPolicy", {"resource": "{project}"}),
        set=Request("cloudresourcemanager.projects.setIamPolicy", {"resource": "{project}"}),
        wrapped=True,
        get_body={"options": {"requestedPolicyVersion": 3}},
        mask={"updateMask": "bindings,etag,auditConfigs"},
    ),
)
