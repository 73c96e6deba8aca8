"""IAM v1: service accounts, with the e-mail domain of their universe, and their IAM policies."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from infra import catalog
from mockgcp import masks
from mockgcp.errors import already_exists, failed_precondition, invalid, not_found, permission_denied
from mockgcp.paging import PARAMS, page
from mockgcp.service import Call, Service
from mockgcp.services.standard import serve_policies
from mockgcp.state import Project, State

service = Service("iam", host="iam.googleapis.com")


def _name(call: Call) -> str:
    """The account's full name; `projects/-/serviceAccounts/E` finds its project by e-mail or unique id."""
    name: str = call.params.get("name") or call.params["resource"]
    wanted = name.split("/")[3]
    for full, account in call.cloud.table("iam.serviceAccount").items():
        if wanted in (account["email"], account["uniqueId"]):
            return full
    return name


def _parent(call: Call) -> str:
    return call.cloud.project(call.params["name"].split("/")[1]).name


def _account(call: Call) -> dict[str, Any]:
    account = call.cloud.table("iam.serviceAccount").get(_name(call))
    if account is None:
        raise not_found(f"Unknown service account: {_name(call)}")
    return account


def _check_id(call: Call) -> None:
    if problem := catalog.service_account_id_problem(call.body.get("accountId", "")):
        raise invalid(f"accountId: {problem.message}", ("accountId", "malformed"))


@service.method(
    "iam.projects.serviceAccounts.create", permission="iam.serviceAccounts.create", on=_parent, rules=_check_id
)
def create(call: Call) -> Mapping[str, Any]:
    project = call.cloud.project(call.params["name"].split("/")[1])
    account_id = call.body["accountId"]
    email = call.cloud.universe.service_account_email(account_id, project.id)
    name = f"{project.name}/serviceAccounts/{email}"
    accounts = call.cloud.table("iam.serviceAccount")
    if name in accounts:
        raise already_exists(f"Service account {account_id} already exists within project {project.name}.")
    accounts[name] = {
        **call.body.get("serviceAccount", {}),
        "name": name,
        "projectId": project.id,
        "email": email,
        "uniqueId": str(call.cloud.random.randrange(10**20, 10**21)),
        "oauth2ClientId": str(call.cloud.random.randrange(10**20, 10**21)),
        "etag": "MDEwMjE5MjA=",
    }
    return accounts[name]


@service.method("iam.projects.serviceAccounts.get", permission="iam.serviceAccounts.get", on=_name)
def get(call: Call) -> Mapping[str, Any]:
    return _account(call)


@service.method("iam.projects.serviceAccounts.list", permission="iam.serviceAccounts.list", on=_parent, reads=PARAMS)
def list_(call: Call) -> Mapping[str, Any]:
    prefix = _parent(call) + "/"
    found = [a for n, a in call.cloud.table("iam.serviceAccount").items() if n.startswith(prefix)]
    # 20 and 100: pageSize in the discovery document.
    accounts, more = page(call, found, default=20, most=100)
    return {"accounts": accounts, **more}


@service.method("iam.projects.serviceAccounts.patch", permission="iam.serviceAccounts.update", on=_name)
def patch(call: Call) -> Mapping[str, Any]:
    account = _account(call)
    mask = masks.paths(call.body.get("updateMask", ""))
    if not mask or not set(mask) <= {"displayName", "description"}:
        raise invalid("updateMask must name displayName, description or both", ("updateMask", "unsupported"))
    changes = call.body.get("serviceAccount", {})
    for key in mask:
        account[key] = changes.get(key, "")
    return account


@service.method("iam.projects.serviceAccounts.disable", permission="iam.serviceAccounts.disable", on=_name)
def disable(call: Call) -> Mapping[str, Any]:
    _account(call)["disabled"] = True
    return {}


@service.method("iam.projects.serviceAccounts.enable", permission="iam.serviceAccounts.enable", on=_name)
def enable(call: Call) -> Mapping[str, Any]:
    _account(call)["disabled"] = False
    return {}


@service.method("iam.projects.serviceAccounts.delete", permission="iam.serviceAccounts.delete", on=_name)
def delete(call: Call) -> Mapping[str, Any]:
    account = _account(call)
    del call.cloud.table("iam.serviceAccount")[account["name"]]
    call.cloud.policies.drop(account["name"])
    call.cloud.policies.delete_service_account(account["email"], account["uniqueId"])
    return {}


def _with_policy(call: Call) -> str:
    """The account of a policy: one that somebody made, or a project's default one, which is always there."""
    default = _default_account(call.cloud, _name(call).split("/")[3])
    return str((default or _account(call))["name"])


serve_policies(service, "iam.projects.serviceAccounts", "iam.serviceAccounts", on=_name, there=_with_policy)


def default_account(state: State, project: Project) -> str | None:
    """The e-mail of Compute Engine's default service account, which a project has once that API is on."""
    # It holds no role by default: a new organisation's policy keeps Editor from it
    # (constraints/iam.automaticIamGrantsForDefaultServiceAccounts).
    if "compute.googleapis.com" not in project.services:
        return None
    return f"{project.number}-compute@developer.{state.universe.service_agent_domain}"


def _default_account(state: State, email: str) -> dict[str, Any] | None:
    """The account of that e-mail, if it is a project's default one: no resource that somebody made or could leave."""
    for project in state.projects:
        if default_account(state, project) == email:
            return {"name": f"{project.name}/serviceAccounts/{email}", "email": email}
    return None


def require_act_as(call: Call, email: str) -> None:
    """Refuses a caller that may not run work as the service account, or an account that does not exist.

    Raises:
        ApiError: PERMISSION_DENIED or FAILED_PRECONDITION, as Cloud Run answers.
    """
    accounts = call.cloud.table("iam.serviceAccount").values()
    account = next((a for a in accounts if a["email"] == email), None) or _default_account(call.cloud, email)
    if account is None or not call.cloud.allowed(call.principal, "iam.serviceAccounts.actAs", account["name"]):
        raise permission_denied(
            f"Permission 'iam.serviceaccounts.actAs' denied on service account {email} (or it may not exist)."
        )
    if account.get("disabled"):
        raise failed_precondition(f"Service account {email} is disabled.")
