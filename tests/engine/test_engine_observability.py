"""Metrics, alerts, a dashboard and a budget on the real engine: made, quiet, drifted and gone."""

import pytest
from pulumi_rig import PROJECT, Rig

from mockgcp.cloud import DEFAULT_OWNER
from mockgcp.services.billing import seed_billing

pytestmark = pytest.mark.engine

PROGRAM = """
import json
import pulumi
import pulumi_gcp as gcp
from pulumi_gcp import billing, monitoring

number = gcp.organizations.get_project().number
metric = gcp.logging.Metric("saves", name="saves", filter="jsonPayload.event=saved")
channel = monitoring.NotificationChannel("team", type="email", labels={"email_address": "team@example.com"})
threshold = monitoring.AlertPolicyConditionConditionThresholdArgs(
    filter=metric.name.apply(lambda n: f'metric.type="logging.googleapis.com/user/{n}" resource.type="cloud_run_job"'),
    comparison="COMPARISON_GT",
    duration="0s",
)
monitoring.AlertPolicy(
    "alert",
    display_name="Saves",
    combiner="OR",
    conditions=[monitoring.AlertPolicyConditionArgs(display_name="many", condition_threshold=threshold)],
    notification_channels=[channel.name],
)
layout = {"widgets": [{"title": "About", "text": {"content": "Saves"}}]}
dashboard = monitoring.Dashboard("board", dashboard_json=json.dumps({"displayName": "Saves", "gridLayout": layout}))
billing.Budget(
    "budget",
    billing_account="012345-567890-ABCDEF",
    amount={"specified_amount": {"units": "500"}},
    budget_filter={"projects": [f"projects/{number}"]},
    threshold_rules=[{"threshold_percent": 0.9}],
)
pulumi.export("dashboard", dashboard.id)
"""


def test_a_second_up_changes_nothing_drift_is_mended_and_destroy_leaves_nothing(fresh: Rig) -> None:
    cloud = fresh.cloud
    seed_billing(cloud, PROJECT)
    cloud.projects[0].services.add("cloudresourcemanager.googleapis.com")  # for the project's number
    pulumi = fresh.program("watched", PROGRAM)
    assert pulumi.operate("preview", "dev").changes["create"] == 6
    made = pulumi.operate("up", "dev")
    assert made.changes["create"] == 6
    assert "warning" not in made.stdout
    assert pulumi.operate("up", "dev").changed == 0

    [board] = cloud.table("monitoring.dashboard").values()
    assert pulumi.outputs("dev")["dashboard"] == board["name"]
    assert pulumi.operate("refresh", "dev").changed == 0
    cloud.call(
        "monitoring.projects.dashboards.patch", {"name": board["name"]}, {**board, "displayName": "X"}, DEFAULT_OWNER
    )
    assert pulumi.operate("refresh", "dev").changes.get("update") == 1
    assert pulumi.operate("up", "dev").changes.get("update") == 1
    [board] = cloud.table("monitoring.dashboard").values()
    assert board["displayName"] == "Saves"

    pulumi.operate("destroy", "dev")
    assert cloud.resources() == []
