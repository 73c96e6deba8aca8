"""Metrics, alert policies, channels, dashboards and budgets through the provider: quiet when nothing changed."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from scenario_a import NUMBER, PROJECT, Desk

from mockgcp.cloud import Cloud
from mockgcp.errors import ApiError
from mockgcp.frontends.pulumi.core import ProviderError, State
from mockgcp.frontends.pulumi.values import Value
from mockgcp.services.billing import seed_billing

METRIC = "gcp:logging/metric:Metric"
POLICY = "gcp:monitoring/alertPolicy:AlertPolicy"
CHANNEL = "gcp:monitoring/notificationChannel:NotificationChannel"
DASHBOARD = "gcp:monitoring/dashboard:Dashboard"
BUDGET = "gcp:billing/budget:Budget"
ACCOUNT = "012345-567890-ABCDEF"


def layout(title: str = "Running", **more: Value) -> dict[str, Value]:
    return {"displayName": "Training", "gridLayout": {"widgets": [{"title": title, "text": {"content": "x"}}]}, **more}


INPUTS: dict[str, dict[str, Value]] = {
    METRIC: {
        "name": "holdfast/saves",
        "filter": "jsonPayload.event=saved",
        "description": "Checkpoints",
        "metricDescriptor": {
            "metricKind": "DELTA",
            "valueType": "INT64",
            "labels": [{"key": "task", "description": "index"}],
        },
        "labelExtractors": {"task": "EXTRACT(jsonPayload.task_index)"},
    },
    POLICY: {
        "displayName": "No checkpoint",
        "combiner": "OR",
        "conditions": [
            {
                "displayName": "none",
                "conditionThreshold": {
                    "filter": 'metric.type="logging.googleapis.com/user/known" AND resource.type="cloud_run_job"',
                    "comparison": "COMPARISON_GT",
                    "thresholdValue": 0,
                    "duration": "0s",
                    "aggregations": [{"alignmentPeriod": "60s", "perSeriesAligner": "ALIGN_DELTA"}],
                },
            }
        ],
        "alertStrategy": {"autoClose": "1800s", "notificationChannelStrategies": [{"renotifyInterval": "1800s"}]},
        "documentation": {"content": "See the docs."},
        "userLabels": {"app": "holdfast"},
    },
    CHANNEL: {"type": "email", "displayName": "Team", "enabled": True, "labels": {"email_address": "team@example.com"}},
    DASHBOARD: {"dashboardJson": json.dumps(layout())},
    BUDGET: {
        "billingAccount": ACCOUNT,
        "displayName": "Training",
        "amount": {"specifiedAmount": {"units": "500", "currencyCode": "EUR"}},
        "budgetFilter": {"projects": [f"projects/{NUMBER}"]},
        "thresholdRules": [{"thresholdPercent": 0.5}, {"thresholdPercent": 1.0, "spendBasis": "FORECASTED_SPEND"}],
        "allUpdatesRule": {"disableDefaultIamRecipients": True},
    },
}
CHANGES: dict[str, tuple[dict[str, Value], str]] = {
    METRIC: ({"description": "All checkpoints"}, "description"),
    POLICY: ({"displayName": "Other"}, "displayName"),
    CHANNEL: ({"enabled": False}, "enabled"),
    DASHBOARD: ({"dashboardJson": json.dumps(layout("Waiting"))}, "dashboardJson"),
    BUDGET: ({"displayName": "Other"}, "displayName"),
}


@pytest.fixture(autouse=True)
def ground(cloud: Cloud, desk: Desk) -> None:
    seed_billing(cloud, PROJECT, ACCOUNT, currency="EUR")
    desk.create(METRIC, {"name": "known", "filter": "severity=ERROR"})


@pytest.mark.parametrize("token", INPUTS)
def test_a_second_up_and_a_refresh_change_nothing(desk: Desk, token: str) -> None:
    made = desk.create(token, INPUTS[token])
    assert desk.diff(token, made, INPUTS[token]) == {}
    found = desk.refresh(token, made)
    assert found is not None
    assert (found.id, found.inputs) == (made.id, made.inputs)
    assert desk.diff(token, found, INPUTS[token]) == {}


@pytest.mark.parametrize("token", [POLICY, CHANNEL])
def test_what_is_turned_off_stays_off(desk: Desk, token: str) -> None:
    inputs = {**INPUTS[token], "enabled": False}
    made = desk.create(token, inputs)
    assert made.outputs["enabled"] is False
    found = desk.refresh(token, made)
    assert found is not None
    assert desk.diff(token, found, inputs) == {}


@pytest.mark.parametrize("token", CHANGES)
def test_a_change_is_made_in_place(desk: Desk, token: str) -> None:
    change, path = CHANGES[token]
    made, changed = desk.create(token, INPUTS[token]), {**INPUTS[token], **change}
    assert desk.diff(token, made, changed) == {path: ("update", False)}
    desk.settles(token, made, changed)


@pytest.mark.parametrize(
    ("token", "change"),
    [
        (METRIC, {"filter": "severity=ERROR"}),
        (METRIC, {"disabled": True}),
        (METRIC, {"labelExtractors": {"task": "EXTRACT(labels.task)"}}),
        (POLICY, {"combiner": "AND"}),
        (POLICY, {"enabled": False}),
        (POLICY, {"severity": "ERROR"}),
        (POLICY, {"userLabels": {"app": "other"}}),
        (POLICY, {"documentation": {"content": "See", "subject": "No checkpoint"}}),
        (POLICY, {"alertStrategy": {"autoClose": "3600s"}}),
        (CHANNEL, {"description": "d"}),
        (CHANNEL, {"userLabels": {"app": "holdfast"}}),
        (CHANNEL, {"labels": {"email_address": "other@example.com"}}),
        (BUDGET, {"amount": {"specifiedAmount": {"units": "600"}}}),
        (BUDGET, {"thresholdRules": [{"thresholdPercent": 0.9}]}),
        (BUDGET, {"ownershipScope": "ALL_USERS"}),
        (BUDGET, {"allUpdatesRule": {"enableProjectLevelRecipients": True}}),
        (BUDGET, {"budgetFilter": {"projects": [f"projects/{NUMBER}"], "services": ["services/24E6-581D-38E5"]}}),
    ],
)
def test_each_property_is_set_and_taken_back_in_place(desk: Desk, token: str, change: dict[str, Value]) -> None:
    made = desk.create(token, INPUTS[token])
    changed = desk.settles(token, made, {**INPUTS[token], **change})
    back = desk.settles(token, changed, INPUTS[token])
    ids = ("creationRecords", "etag", "mutationRecords")
    assert {k: v for k, v in back.outputs.items() if k not in ids} == {
        k: v for k, v in made.outputs.items() if k not in ids
    }


def test_an_update_names_what_changed(desk: Desk, cloud: Cloud) -> None:
    """So an alert's conditions keep their ids, and with them their open incidents."""
    policy, budget = desk.create(POLICY, INPUTS[POLICY]), desk.create(BUDGET, INPUTS[BUDGET])
    renamed = desk.update(POLICY, policy, {**INPUTS[POLICY], "displayName": "Other"})
    assert renamed.outputs["conditions"] == policy.outputs["conditions"]
    desk.update(BUDGET, budget, {**INPUTS[BUDGET], "displayName": "Other", "ownershipScope": "ALL_USERS"})
    found = [cloud.audit.entries(f"*{kind}.patch")[0].params["updateMask"] for kind in ("alertPolicies", "budgets")]
    assert found == ["displayName", "displayName,ownershipScope"]


def test_what_is_the_providers_own_sends_nothing(desk: Desk, cloud: Cloud) -> None:
    made = desk.create(POLICY, INPUTS[POLICY])
    desk.settles(POLICY, made, {**INPUTS[POLICY], "deletionPolicy": "ABANDON"})
    assert cloud.audit.entries("*.patch") == []


@pytest.mark.parametrize("token", CHANGES)
def test_drift_is_found(desk: Desk, token: str) -> None:
    change, path = CHANGES[token]
    made = desk.create(token, INPUTS[token])
    desk.update(token, made, {**INPUTS[token], **change})  # by somebody else
    found = desk.refresh(token, made)
    assert found is not None
    assert desk.diff(token, found, INPUTS[token]).keys() == {path}


@pytest.mark.parametrize("token", INPUTS)
def test_what_is_deleted_is_gone(desk: Desk, cloud: Cloud, token: str) -> None:
    before = cloud.resources()
    made = desk.create(token, INPUTS[token])
    assert len(cloud.resources()) == len(before) + 1
    desk.provider.delete(token, made)
    assert cloud.resources() == before
    assert desk.refresh(token, made) is None
    desk.provider.delete(token, made)  # again is fine


@pytest.mark.parametrize(
    ("token", "form"),
    [
        (METRIC, "{name}"),
        (METRIC, "{project} {name}"),
        (POLICY, "{id}"),
        (POLICY, "{project}/{short}"),
        (CHANNEL, "{id}"),
        (DASHBOARD, "{id}"),
        (BUDGET, "{id}"),
        (BUDGET, "{account}/{short}"),
    ],
)
def test_an_import_by_the_registrys_ids(desk: Desk, token: str, form: str) -> None:
    made = desk.create(token, INPUTS[token])
    names = {"name": made.outputs.get("name"), "project": PROJECT, "account": ACCOUNT}
    identifier = form.format(id=made.id, short=made.id.split("/")[-1], **names)
    found = desk.provider.read(token, identifier, {}, {})
    assert found is not None
    assert found.id == made.id
    assert desk.diff(token, found, INPUTS[token]) == {}


@pytest.mark.parametrize("token", [POLICY, CHANNEL, DASHBOARD, BUDGET])
def test_an_import_by_a_bare_id_is_refused(desk: Desk, token: str) -> None:
    with pytest.raises(ProviderError, match="does not have the form"):
        desk.provider.read(token, "12345", {}, {})


@pytest.mark.parametrize(
    ("token", "changes", "words"),
    [
        (METRIC, {"filter": "hello there"}, "Unparseable filter"),
        (POLICY, {"combiner": "COMBINE_UNSPECIFIED"}, "a combiner must be specified"),
        (CHANNEL, {"labels": {}}, "email_address"),
        (DASHBOARD, {"dashboardJson": "{"}, "dashboardJson is no JSON"),
        (DASHBOARD, {"dashboardJson": "[]"}, "no JSON object"),
        (DASHBOARD, {"dashboardJson": json.dumps(layout(rows=1))}, 'Unknown name "rows"'),
        (BUDGET, {"displayName": "x" * 61}, "60 characters"),
        (BUDGET, {"amount": {"lastPeriodAmount": True}}, "lastPeriodAmount"),
        (METRIC, {"filtre": "x"}, "filtre"),
    ],
)
def test_the_apis_rules_are_asked_before_anything_is_made(
    desk: Desk, token: str, changes: dict[str, Value], words: str
) -> None:
    [failure] = desk.refused(token, {**INPUTS[token], **changes})
    assert words in failure


def test_of_a_dashboard_only_what_the_program_says_counts(desk: Desk, cloud: Cloud) -> None:
    made = desk.create(DASHBOARD, INPUTS[DASHBOARD])
    spelt = {"dashboardJson": json.dumps(dict(reversed(layout().items())), indent=2)}
    assert desk.diff(DASHBOARD, made, spelt) == {}
    stored: dict[str, Any] = next(iter(cloud.table("monitoring.dashboard").values()))
    stored["gridLayout"]["columns"] = "2"  # the server's own
    found = desk.refresh(DASHBOARD, made)
    assert found is not None
    assert desk.diff(DASHBOARD, found, INPUTS[DASHBOARD]) == {}


def test_a_name_is_generated_for_a_metric(desk: Desk) -> None:
    made = desk.create(METRIC, {"filter": "severity=ERROR"})
    assert made.id.startswith("it-")


def test_labels_and_billing_accounts_replace(desk: Desk) -> None:
    made = desk.create(METRIC, INPUTS[METRIC])
    descriptor = {**INPUTS[METRIC]["metricDescriptor"], "labels": [{"key": "index", "description": "index"}]}
    changed = {"metricDescriptor": descriptor, "labelExtractors": {"index": "EXTRACT(jsonPayload.task_index)"}}
    replaced = [p for p, (_, replaces) in desk.diff(METRIC, made, {**INPUTS[METRIC], **changed}).items() if replaces]
    assert replaced == ["metricDescriptor.labels[0].key"]
    budget = desk.create(BUDGET, INPUTS[BUDGET])
    other = {**INPUTS[BUDGET], "billingAccount": "AAAAAA-AAAAAA-AAAAAA"}
    assert desk.diff(BUDGET, budget, other) == {"billingAccount": ("update", True)}


def test_a_channel_in_use_is_deleted_by_force_only(desk: Desk) -> None:
    made = desk.create(CHANNEL, INPUTS[CHANNEL])
    desk.create(POLICY, {**INPUTS[POLICY], "notificationChannels": [made.id]})
    with pytest.raises(ApiError, match="is used by"):
        desk.provider.delete(CHANNEL, made)
    forced: State = replace(made, inputs={**made.inputs, "forceDelete": True})
    desk.provider.delete(CHANNEL, forced)
    assert desk.refresh(CHANNEL, made) is None
