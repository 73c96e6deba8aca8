"""Who pays for a project, and the budgets of a billing account."""

from __future__ import annotations

from typing import Any

import pytest
from mockgcp_client import OTHER, PROJECT, STRANGER, Client

from mockgcp.cloud import Cloud
from mockgcp.services.billing import seed_billing

INFO = ("cloudbilling.projects.getBillingInfo", {"name": f"projects/{PROJECT}"})
BUDGETS = "billingbudgets.billingAccounts.budgets"
ACCOUNT = "billingAccounts/012345-567890-ABCDEF"
PARENT = {"parent": ACCOUNT}


@pytest.fixture(autouse=True)
def billed(cloud: Cloud) -> None:
    for project in cloud.projects:
        project.services.add("cloudbilling.googleapis.com")
    seed_billing(cloud, PROJECT, currency="EUR")


def budget(**changes: Any) -> dict[str, Any]:
    return {
        "displayName": "Training",
        "amount": {"specifiedAmount": {"units": "500", "currencyCode": "EUR"}},
        "budgetFilter": {"projects": [f"projects/{PROJECT}"]},
        "thresholdRules": [{"thresholdPercent": 0.5}, {"thresholdPercent": 1.0, "spendBasis": "FORECASTED_SPEND"}],
        **changes,
    }


def test_who_pays(cloud: Cloud, gcp: Client) -> None:
    assert gcp.call(*INFO) == {
        "name": f"projects/{PROJECT}/billingInfo",
        "projectId": PROJECT,
        "billingAccountName": ACCOUNT,
        "billingEnabled": True,
    }
    nobody = gcp.call(INFO[0], {"name": f"projects/{OTHER}"})
    assert (nobody["billingAccountName"], nobody["billingEnabled"]) == ("", False)
    seed_billing(cloud, OTHER, "AAAAAA-BBBBBB-CCCCCC", open_=False)
    assert gcp.call(INFO[0], {"name": f"projects/{OTHER}"})["billingEnabled"] is False
    assert gcp.as_(STRANGER).refused(*INFO).status == "PERMISSION_DENIED"


def test_the_api_has_to_be_on(cloud: Cloud, gcp: Client) -> None:
    cloud.project(PROJECT).services.discard("cloudbilling.googleapis.com")
    assert gcp.refused(*INFO).reason == "SERVICE_DISABLED"


def test_an_account_has_its_form(cloud: Cloud) -> None:
    with pytest.raises(ValueError, match="three times six hexadecimal digits"):
        seed_billing(cloud, PROJECT, "my-account")


def test_a_budget_gets_the_servers_defaults(cloud: Cloud, gcp: Client) -> None:
    made = gcp.call(f"{BUDGETS}.create", PARENT, budget(amount={"specifiedAmount": {"units": 500}}))
    assert made["name"].startswith(f"{ACCOUNT}/budgets/")
    assert made["amount"]["specifiedAmount"] == {"units": "500", "currencyCode": "EUR"}
    assert made["budgetFilter"] == {
        "projects": [f"projects/{cloud.project(PROJECT).number}"],
        "creditTypesTreatment": "INCLUDE_ALL_CREDITS",
        "calendarPeriod": "MONTH",
    }
    assert [rule["spendBasis"] for rule in made["thresholdRules"]] == ["CURRENT_SPEND", "FORECASTED_SPEND"]
    assert gcp.call(f"{BUDGETS}.list", PARENT)["budgets"] == [made]


@pytest.mark.parametrize(
    ("body", "status", "words"),
    [
        (budget(displayName="x" * 61), "INVALID_ARGUMENT", "60 characters"),
        (budget(amount={}), "INVALID_ARGUMENT", "specifiedAmount or lastPeriodAmount"),
        (budget(amount={"specifiedAmount": {"currencyCode": "USD"}}), "INVALID_ARGUMENT", "is EUR"),
        (budget(thresholdRules=[{"thresholdPercent": -1}]), "INVALID_ARGUMENT", "must not be negative"),
        (budget(budgetFilter={"projects": ["projects/unknown"]}), "PERMISSION_DENIED", "unknown"),
        (budget(notificationsRule={"monitoringNotificationChannels": ["x"] * 6}), "INVALID_ARGUMENT", "at most 5"),
        (budget(notificationsRule={"monitoringNotificationChannels": ["x"]}), "INVALID_ARGUMENT", "x does not exist"),
        (budget(notificationsRule={"pubsubTopic": "t"}), "UNIMPLEMENTED", "pubsubTopic"),
        (budget(spendCap={"inputState": "CONFIGURED"}), "UNIMPLEMENTED", "spendCap"),
    ],
)
def test_a_budget_that_is_refused(gcp: Client, body: dict[str, Any], status: str, words: str) -> None:
    error = gcp.refused(f"{BUDGETS}.create", PARENT, body)
    assert (error.status, words in error.message) == (status, True)


def test_a_patch_by_mask_and_by_etag(gcp: Client) -> None:
    made = gcp.call(f"{BUDGETS}.create", PARENT, budget())
    path = {"name": made["name"]}
    changed = gcp.call(f"{BUDGETS}.patch", {**path, "updateMask": "displayName"}, {"displayName": "Other"})
    assert (changed["displayName"], changed["amount"]) == ("Other", made["amount"])
    assert gcp.refused(f"{BUDGETS}.patch", path, {**budget(), "etag": made["etag"]}).status == "ABORTED"
    without = gcp.call(f"{BUDGETS}.patch", path, {"displayName": "Third"})
    assert (without["displayName"], without["thresholdRules"]) == ("Third", made["thresholdRules"])
    nested = {**path, "updateMask": "notificationsRule.disableDefaultIamRecipients,budgetFilter.services"}
    changed = gcp.call(f"{BUDGETS}.patch", nested, {"notificationsRule": {"disableDefaultIamRecipients": True}})
    assert changed["notificationsRule"] == {"disableDefaultIamRecipients": True}
    assert changed["budgetFilter"] == made["budgetFilter"]
    gcp.call(f"{BUDGETS}.delete", path)
    assert gcp.refused(f"{BUDGETS}.get", path).status == "NOT_FOUND"


@pytest.mark.parametrize("parent", [ACCOUNT, "billingAccounts/FFFFFF-FFFFFF-FFFFFF"])
def test_the_permission_is_on_the_account_which_may_not_exist(cloud: Cloud, gcp: Client, parent: str) -> None:
    # Whoever owns the project owns no budget for that.
    cloud.policies.grant(f"projects/{PROJECT}", "roles/owner", STRANGER)
    assert gcp.as_(STRANGER).refused(f"{BUDGETS}.create", {"parent": parent}, budget()).status == "PERMISSION_DENIED"
