"""Cloud Billing Budget v1: budgets of a billing account. The permissions are on the account, not on a project.

Source: https://docs.cloud.google.com/billing/docs/reference/budget/rest/v1/billingAccounts.budgets, read 2026-11-29.
Deliberately not done: spend (no budget is ever used up), and whether the API is on in the project that is billed for
the call, which no request here says.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from infra import catalog
from mockgcp import masks
from mockgcp.errors import ApiError, invalid, not_found
from mockgcp.paging import PARAMS, page
from mockgcp.service import Call, Service
from mockgcp.services import monitoring
from mockgcp.services.billing import ACCOUNT

service = Service("billingbudgets", host="billingbudgets.googleapis.com")

BUDGET = "billing.budget"
_METHOD = "billingbudgets.billingAccounts.budgets"
_NOT_EMULATED = ("spendCap",)


def _account(call: Call) -> str:
    return "/".join((call.params.get("parent") or call.params["name"]).split("/")[:2])


def _check(call: Call) -> None:
    body, limits = call.body, catalog.monitoring()
    for field in _NOT_EMULATED:
        if field in body:
            raise ApiError("UNIMPLEMENTED", f"mockgcp does not emulate {field} of a budget")
    if len(body.get("displayName", "")) > limits.budget_display_name_max:
        raise invalid(
            f"displayName has at most {limits.budget_display_name_max} characters.", ("displayName", "too long")
        )
    amount = [kind for kind in ("specifiedAmount", "lastPeriodAmount") if kind in body.get("amount", {})]
    if len(amount) != 1:
        raise invalid("A budget's amount is specifiedAmount or lastPeriodAmount.", ("amount", "required"))
    for index, rule in enumerate(body.get("thresholdRules", [])):
        if rule.get("thresholdPercent", 0) < 0:
            field = f"thresholdRules[{index}].thresholdPercent"
            raise invalid(f"{field} must not be negative (1.0 is 100 %).", (field, "out of range"))
    if "pubsubTopic" in body.get("notificationsRule", {}):
        raise ApiError("UNIMPLEMENTED", "mockgcp does not emulate notificationsRule.pubsubTopic of a budget")
    channels = body.get("notificationsRule", {}).get("monitoringNotificationChannels", [])
    if len(channels) > limits.budget_channels_max:
        raise invalid(
            f"A budget notifies at most {limits.budget_channels_max} channels.", ("notificationsRule", "size")
        )


def _made(call: Call, body: Mapping[str, Any], name: str, currency: str) -> dict[str, Any]:
    """The budget as it is kept, with the server's defaults; projects go by their number, whatever was sent."""
    amount = dict(body["amount"])
    if "specifiedAmount" in amount:
        # An update may be refused for it, too: the currency is the account's and stays (discovery document).
        if amount["specifiedAmount"].get("currencyCode", currency) != currency:
            raise invalid(f"The currency of the billing account is {currency}.", ("amount.specifiedAmount", "currency"))
        amount["specifiedAmount"] = {**amount["specifiedAmount"], "currencyCode": currency}
    for channel in body.get("notificationsRule", {}).get("monitoringNotificationChannels", []):
        if channel not in call.cloud.table(monitoring.CHANNEL):
            raise invalid(f"The notification channel {channel} does not exist.", ("notificationsRule", "not found"))
    scope = {"creditTypesTreatment": "INCLUDE_ALL_CREDITS", **body.get("budgetFilter", {})}
    if "customPeriod" not in scope:
        scope.setdefault("calendarPeriod", "MONTH")
    if "projects" in scope:
        scope["projects"] = [f"projects/{call.cloud.project(p.split('/')[-1]).number}" for p in scope["projects"]]
    rules = [{"spendBasis": "CURRENT_SPEND", **rule} for rule in body.get("thresholdRules", [])]
    made = {**body, "name": name, "amount": amount, "budgetFilter": scope, "thresholdRules": rules}
    made.setdefault("notificationsRule", {})
    text = json.dumps({k: v for k, v in made.items() if k != "etag"}, sort_keys=True)
    return {**made, "etag": hashlib.sha256(text.encode()).hexdigest()[:16]}


def _stored(call: Call) -> dict[str, Any]:
    found = call.cloud.table(BUDGET).get(call.params["name"])
    if found is None:
        raise not_found(f"Budget {call.params['name']} was not found.")
    return found


def _currency(call: Call) -> str:
    return str(call.cloud.table(ACCOUNT)[_account(call)]["currencyCode"])


@service.method(f"{_METHOD}.create", permission="billing.budgets.create", on=_account, rules=_check)
def create(call: Call) -> Mapping[str, Any]:
    name = f"{_account(call)}/budgets/{call.cloud.uid()}"
    made = call.cloud.table(BUDGET)[name] = _made(call, call.body, name, _currency(call))
    return made


@service.method(f"{_METHOD}.get", permission="billing.budgets.get", on=_account)
def get(call: Call) -> Mapping[str, Any]:
    return _stored(call)


@service.method(f"{_METHOD}.list", permission="billing.budgets.list", on=_account, reads=PARAMS)
def list_(call: Call) -> Mapping[str, Any]:
    found = [budget for name, budget in call.cloud.table(BUDGET).items() if name.startswith(f"{_account(call)}/")]
    budgets, more = page(call, found)
    return {"budgets": budgets, **more}


@service.method(f"{_METHOD}.patch", permission="billing.budgets.update", on=_account, reads=("updateMask",))
def patch(call: Call) -> Mapping[str, Any]:
    old = _stored(call)
    if call.body.get("etag") not in (None, "", old["etag"]):
        raise ApiError("ABORTED", "The budget has changed since it was read (etag). Read it again and retry.")
    # Without a mask only what is not zero counts (updateMask in the discovery document).
    said = {key: value for key, value in call.body.items() if value not in ("", [], {})}
    mask = call.params.get("updateMask", "")
    new = masks.merged(old, call.body, masks.paths(mask)) if mask else {**old, **said}
    _check(Call(call.cloud, call.method, call.params, new, call.principal))
    changed = call.cloud.table(BUDGET)[old["name"]] = _made(call, new, old["name"], _currency(call))
    return changed


@service.method(f"{_METHOD}.delete", permission="billing.budgets.delete", on=_account)
def delete(call: Call) -> Mapping[str, Any]:
    del call.cloud.table(BUDGET)[_stored(call)["name"]]
    return {}
