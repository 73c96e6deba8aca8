"""Cloud Billing v1: which billing account pays for a project. Accounts and links are seeded, not made through the API.

Source: https://docs.cloud.google.com/billing/docs/reference/rest/v1/projects/getBillingInfo, read 2026-11-29.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from mockgcp.service import Call, Service
from mockgcp.state import State

ACCOUNT, LINK = "billing.account", "billing.link"

service = Service("cloudbilling", host="cloudbilling.googleapis.com", records=(ACCOUNT, LINK))


def seed_billing(
    cloud: State,
    project_id: str,
    account: str = "012345-567890-ABCDEF",
    *,
    currency: str = "USD",
    open_: bool = True,
    principal: str | None = None,
) -> str:
    """Makes a billing account pay for a project, and returns its name, `billingAccounts/ID`.

    `principal`, the project's owner by default, may manage the account's budgets, as roles/billing.costsManager says.

    Raises:
        ValueError: the account's id does not have the form.
    """
    if not re.fullmatch(r"[0-9A-F]{6}-[0-9A-F]{6}-[0-9A-F]{6}", account):
        raise ValueError(f"a billing account is three times six hexadecimal digits, got {account!r}")
    project, name = cloud.project(project_id), f"billingAccounts/{account}"
    cloud.table(ACCOUNT)[name] = {"name": name, "open": open_, "currencyCode": currency}
    cloud.table(LINK)[project.name] = {"billingAccountName": name}
    cloud.policies.grant(name, "roles/billing.costsManager", principal or project.owner)
    return name


def _project(call: Call) -> str:
    return call.cloud.project(call.params["name"].split("/")[1]).name


@service.method("cloudbilling.projects.getBillingInfo", permission="resourcemanager.projects.get", on=_project)
def get_billing_info(call: Call) -> Mapping[str, Any]:
    project = _project(call)
    account = call.cloud.table(LINK).get(project, {}).get("billingAccountName", "")
    return {
        "name": f"{project}/billingInfo",
        "projectId": project.split("/")[1],
        "billingAccountName": account,
        "billingEnabled": bool(account) and call.cloud.table(ACCOUNT)[account]["open"],
    }
