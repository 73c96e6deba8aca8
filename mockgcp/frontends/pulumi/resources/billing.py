"""gcp:billing: budgets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pulumi_gcp as gcp

from mockgcp.errors import ApiError
from mockgcp.frontends.pulumi.resource import (
    Props,
    Request,
    ResourceType,
    Session,
    created_by,
    deleted_by,
    id_parts,
    read_by,
    validated_by,
)
from mockgcp.frontends.pulumi.resources.masked import masked_update
from mockgcp.frontends.pulumi.translate import Table

_METHOD = "billingbudgets.billingAccounts.budgets"
_FULL_NAME = "billingAccounts/{billingAccount}/budgets/{name}"
_CREATE = Request(f"{_METHOD}.create", {"parent": "billingAccounts/{billingAccount}"})
_NAMED = {"name": _FULL_NAME}
_GET = Request(f"{_METHOD}.get", _NAMED)
_create, _validate = created_by(_CREATE), validated_by(_CREATE)
_COMPUTED = frozenset(
    {
        "amount.specifiedAmount.currencyCode",
        "budgetFilter",
        "budgetFilter.labels",
        "budgetFilter.services",
        "deletionPolicy",
    }
)
# What changes in place, field by field as the provider names it (resource_billing_budget.go of the Terraform provider).
_CHANGEABLE = {
    "displayName": ("displayName",),
    "ownershipScope": ("ownershipScope",),
    "thresholdRules": ("thresholdRules",),
    "amount": tuple(f"amount.specifiedAmount.{name}" for name in ("currencyCode", "units", "nanos")),
    "budgetFilter": tuple(
        f"budgetFilter.{name}"
        for name in (
            *("projects", "resourceAncestors", "labels", "calendarPeriod", "customPeriod", "services"),
            *("creditTypesTreatment", "creditTypes", "subaccounts"),
        )
    ),
    "allUpdatesRule": tuple(
        f"notificationsRule.{name}"
        for name in (
            *("pubsubTopic", "schemaVersion", "monitoringNotificationChannels"),
            *("disableDefaultIamRecipients", "enableProjectLevelRecipients"),
        )
    ),
}
_update = masked_update(Request(f"{_METHOD}.patch", _NAMED), _GET, _CHANGEABLE, _COMPUTED)


def _sound(body: Mapping[str, Any]) -> Mapping[str, Any]:
    """The body, unless it has what would need a translation of its own."""
    if "lastPeriodAmount" in body.get("amount", {}) or "labels" in body.get("budgetFilter", {}):
        raise ApiError("UNIMPLEMENTED", "mockgcp emulates neither amount.lastPeriodAmount nor budgetFilter.labels yet")
    return body


def _import(identifier: str) -> Props:
    """`billingAccounts/ACCOUNT/budgets/ID`, or `ACCOUNT/ID`."""
    return id_parts(_FULL_NAME if identifier.startswith("billingAccounts/") else "{billingAccount}/{name}")(identifier)


def _derive(session: Session, properties: Props, rest: Mapping[str, Any]) -> Props:
    _, account, _, name = rest["name"].split("/")
    return {"name": name, "billingAccount": account}


BUDGET = ResourceType(
    token="gcp:billing/budget:Budget",
    resource=gcp.billing.Budget,
    args=gcp.billing.BudgetArgs,
    id=_FULL_NAME,
    import_id=_import,
    create=lambda session, properties, body: _create(session, properties, _sound(body)),
    read=read_by(_GET),
    update=lambda session, old, new, body: _update(session, old, new, _sound(body)),
    delete=deleted_by(Request(f"{_METHOD}.delete", _NAMED)),
    dry_run=lambda session, properties, body: _validate(session, properties, _sound(body)),
    in_project=False,
    defaults={
        "allUpdatesRule.disableDefaultIamRecipients": False,
        "allUpdatesRule.enableProjectLevelRecipients": False,
        "allUpdatesRule.schemaVersion": "1.0",
        "budgetFilter.creditTypesTreatment": "INCLUDE_ALL_CREDITS",
        "thresholdRules.spendBasis": "CURRENT_SPEND",
    },
    replace_on=frozenset({"billingAccount"}),
    computed=_COMPUTED,
    table=Table(
        names={"allUpdatesRule": "notificationsRule"},
        local=frozenset({"billingAccount", "deletionPolicy"}),
    ),
    derive=_derive,
)
