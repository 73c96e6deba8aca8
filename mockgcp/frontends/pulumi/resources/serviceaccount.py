"""gcp:serviceaccount: accounts and their IAM members."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pulumi_gcp as gcp

from infra import catalog
from mockgcp.frontends.pulumi.resource import (
    AutoName,
    Props,
    Request,
    ResourceType,
    Session,
    deleted_by,
    id_parts,
    read_by,
)
from mockgcp.frontends.pulumi.resources.iam_member import PolicyCalls, iam_member
from mockgcp.frontends.pulumi.translate import Table

_CREATE = Request("iam.projects.serviceAccounts.create", {"name": "projects/{project}"})
_NAME = {"name": "{name}"}


def _account(properties: Props, body: Mapping[str, Any]) -> dict[str, Any]:
    account = {key: value for key, value in body.items() if key in ("displayName", "description")}
    return {"accountId": properties["accountId"], "serviceAccount": account}


def _create(session: Session, properties: Props, body: Mapping[str, Any]) -> Mapping[str, Any]:
    made = session.call(_CREATE.method, _CREATE.fill(properties), _account(properties, body))
    if properties.get("disabled"):
        session.call("iam.projects.serviceAccounts.disable", {"name": made["name"]}, {})
        made["disabled"] = True
    return made


def _update(session: Session, old: Props, new: Props, body: Mapping[str, Any]) -> Mapping[str, Any]:
    name = {"name": old["name"]}
    account = {key: body.get(key, "") for key in ("displayName", "description")}
    sent = {"serviceAccount": account, "updateMask": "displayName,description"}
    session.call("iam.projects.serviceAccounts.patch", name, sent)
    verb = "disable" if new.get("disabled") else "enable"
    session.call(f"iam.projects.serviceAccounts.{verb}", name, {})
    return session.call("iam.projects.serviceAccounts.get", name)


def _derive(session: Session, properties: Props, rest: Mapping[str, Any]) -> Props:
    account_id = rest["email"].partition("@")[0]
    return {"accountId": account_id, "member": f"serviceAccount:{rest['email']}", "project": rest["projectId"]}


ACCOUNT = ResourceType(
    token="gcp:serviceaccount/account:Account",
    resource=gcp.serviceaccount.Account,
    args=gcp.serviceaccount.AccountArgs,
    id="{name}",
    import_id=lambda identifier: {
        **id_parts("projects/{project}/serviceAccounts/{account}")(identifier),
        "name": identifier,
    },
    create=_create,
    read=read_by(Request("iam.projects.serviceAccounts.get", _NAME)),
    update=_update,
    delete=deleted_by(Request("iam.projects.serviceAccounts.delete", _NAME)),
    auto_name=AutoName("accountId", catalog.service_account().id_max),
    replace_on=frozenset({"accountId", "project"}),
    computed=frozenset({"project", "deletionPolicy"}),
    defaults={"disabled": False},
    table=Table(local=frozenset({"accountId", "createIgnoreAlreadyExists", "deletionPolicy", "project"})),
    derive=_derive,
    dry_run=lambda session, properties, body: session.validate(_CREATE, properties, _account(properties, body)),
)

IAM_MEMBER = iam_member(
    "gcp:serviceaccount/iAMMember:IAMMember",
    gcp.serviceaccount.IAMMember,
    gcp.serviceaccount.IAMMemberArgs,
    "{serviceAccountId}",
    PolicyCalls(
        get=Request("iam.projects.serviceAccounts.getIamPolicy", {"resource": "{serviceAccountId}"}),
        set=Request("iam.projects.serviceAccounts.setIamPolicy", {"resource": "{serviceAccountId}"}),
        wrapped=True,
    ),
)
