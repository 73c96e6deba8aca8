"""Time series, notification channels and dashboards."""

from __future__ import annotations

from typing import Any

import pytest
from mockgcp_client import LOCATION, OTHER, PROJECT, STRANGER, Client

from infra import catalog
from mockgcp.cloud import PLATFORM, Cloud

NAME = {"name": f"projects/{PROJECT}"}
PARENT = {"parent": f"projects/{PROJECT}"}
CHANNELS, DASHBOARDS = "monitoring.projects.notificationChannels", "monitoring.projects.dashboards"
SERIES = "monitoring.projects.timeSeries.list"
INTERVAL = {"interval.startTime": "2026-01-01T00:00:00Z", "interval.endTime": "2026-01-02T00:00:00Z"}
RUNNING = 'metric.type="run.googleapis.com/job/running_executions"'
USAGE = 'metric.type="serviceruntime.googleapis.com/quota/allocation/usage"'


def series(gcp: Client, filter_: str, **params: str) -> list[dict[str, Any]]:
    sent = {**NAME, "filter": filter_, **INTERVAL, **params}
    found: list[dict[str, Any]] = gcp.call(SERIES, sent)["timeSeries"]
    return found


def report(gcp: Client, task: str, event: str, **body: Any) -> None:
    gcp.as_(PLATFORM).call("mockgcp.run.tasks.report", {"name": task}, {"event": event, **body})


def start(gcp: Client, job_id: str = "train") -> list[str]:
    """Starts an execution of a job with a GPU; its two running tasks."""
    _, execution = gcp.run_job(f"{LOCATION}/jobs/{job_id}", {"taskCount": 2})
    tasks = [task["name"] for task in gcp.tasks(execution)]
    for task in tasks:
        report(gcp, task, "STARTED")
    return tasks


@pytest.fixture
def jobs(gcp: Client) -> None:
    gcp.make_account()
    limits = {"resources": {"limits": {"cpu": "8", "memory": "32Gi", "nvidia.com/gpu": "1"}}}
    gpu = {"nodeSelector": {"accelerator": "nvidia-l4"}, "gpuZonalRedundancyDisabled": True, "maxRetries": 0}
    for job_id in ("train", "eval"):
        gcp.make_job(job_id, container=limits, **gpu)


@pytest.mark.usefixtures("jobs")
def test_running_and_completed_executions_by_job(gcp: Client) -> None:
    for _ in range(2):
        start(gcp)
    for code in (0, 1):
        for task in start(gcp, "eval"):
            report(gcp, task, "ENDED", exitCode=code)
    (running,) = series(gcp, RUNNING)
    assert running["resource"]["labels"]["job_name"] == "train"
    assert (running["metricKind"], running["points"][0]["value"]["int64Value"]) == ("GAUGE", "2")
    completed = 'metric.type="run.googleapis.com/job/completed_execution_count" AND resource.labels.job_name="eval"'
    assert {s["metric"]["labels"]["result"] for s in series(gcp, completed)} == {"failed", "succeeded"}
    (failed,) = series(gcp, completed + ' AND metric.label.result="failed"')
    assert failed["points"][0]["value"]["int64Value"] == "1"


@pytest.mark.usefixtures("jobs")
def test_the_usage_of_the_right_quota_and_region(gcp: Client) -> None:
    assert series(gcp, USAGE) == []
    tasks = start(gcp)
    (found,) = series(gcp, USAGE)
    assert found["metric"]["labels"]["quota_metric"] == catalog.gpu_quota("nvidia-l4", False).metric
    assert found["resource"]["type"] == "consumer_quota"
    assert found["resource"]["labels"]["location"] == "europe-west4"
    assert found["points"][0]["value"]["int64Value"] == "2"
    assert series(gcp, USAGE + ' AND resource.labels.location="us-central1"') == []
    report(gcp, tasks[0], "ENDED", exitCode=0)
    assert series(gcp, USAGE)[0]["points"][0]["value"]["int64Value"] == "1"


@pytest.mark.usefixtures("jobs")
def test_the_interval_and_the_view_are_honoured(cloud: Cloud, gcp: Client) -> None:
    start(gcp)
    assert "points" not in series(gcp, RUNNING, view="HEADERS")[0]
    cloud.clock.advance(86400 + 30 - cloud.clock.seconds())  # a moment after the interval's end
    for metric, count in ((RUNNING, 24 * 60), (USAGE, 1)):
        (found,) = series(gcp, metric)
        assert found["points"][0]["interval"]["endTime"] == INTERVAL["interval.endTime"]
        assert len(found["points"]) == count
    cloud.clock.advance(60)
    assert series(gcp, USAGE) == []


@pytest.mark.parametrize(
    ("change", "status", "words"),
    [
        ({"filter": 'resource.type="x"'}, "INVALID_ARGUMENT", "a single metric type"),
        ({"filter": RUNNING + " OR " + USAGE}, "INVALID_ARGUMENT", "a single metric type"),
        ({"filter": RUNNING + " AND resource.type=starts_with(x)"}, "INVALID_ARGUMENT", "starts_with"),
        ({"filter": 'metric.type="custom.googleapis.com/x"'}, "UNIMPLEMENTED", "custom.googleapis.com/x"),
        ({"interval.endTime": None}, "INVALID_ARGUMENT", "needs filter and interval.endTime"),
        ({"interval.startTime": "2026-01-03T00:00:00Z"}, "INVALID_ARGUMENT", "start is after its end"),
        ({"aggregation.alignmentPeriod": "60s"}, "UNIMPLEMENTED", "aggregation.alignmentPeriod"),
    ],
)
def test_a_list_that_is_not_understood_is_refused(gcp: Client, change: dict[str, Any], status: str, words: str) -> None:
    error = gcp.refused(SERIES, {**NAME, "filter": RUNNING, **INTERVAL, **change})
    assert error.status == status
    assert words in error.message


@pytest.mark.usefixtures("jobs")
def test_another_projects_series_are_not_shown(gcp: Client) -> None:
    start(gcp)
    assert gcp.call(SERIES, {"name": f"projects/{OTHER}", "filter": RUNNING, **INTERVAL})["timeSeries"] == []
    assert gcp.as_(STRANGER).refused(SERIES, {**NAME, "filter": RUNNING, **INTERVAL}).status == "PERMISSION_DENIED"


# -- notification channels -----------------------------------------------------------------------------------------


def channel(**changes: Any) -> dict[str, Any]:
    return {"type": "email", "displayName": "Team", "labels": {"email_address": "team@example.com"}, **changes}


def test_a_channel_from_create_to_delete(gcp: Client) -> None:
    made = gcp.call(f"{CHANNELS}.create", NAME, channel())
    path = {"name": made["name"]}
    assert made["enabled"] is True
    changed = gcp.call(f"{CHANNELS}.patch", {**path, "updateMask": "enabled"}, {"enabled": False})
    assert (changed["enabled"], changed["labels"]) == (False, made["labels"])
    assert gcp.call(f"{CHANNELS}.list", NAME)["notificationChannels"] == [changed]
    gcp.call(f"{CHANNELS}.delete", path)
    assert gcp.refused(f"{CHANNELS}.get", path).status == "NOT_FOUND"


@pytest.mark.parametrize(
    ("body", "status", "words"),
    [
        (channel(type="slack"), "UNIMPLEMENTED", "'slack'"),
        (channel(labels={}), "INVALID_ARGUMENT", "email_address"),
        (channel(labels={"email_address": "nobody"}), "INVALID_ARGUMENT", "email_address"),
        (channel(labels={"email_address": "a@b.c", "more": "x"}), "INVALID_ARGUMENT", "'more'"),
        (channel(displayName="x" * 513), "INVALID_ARGUMENT", "512"),
        (channel(userLabels={"1": "x"}), "INVALID_ARGUMENT", "userLabels"),
    ],
)
def test_a_channel_that_is_refused(gcp: Client, body: dict[str, Any], status: str, words: str) -> None:
    error = gcp.refused(f"{CHANNELS}.create", NAME, body)
    assert (error.status, words in error.message) == (status, True)


def test_a_channel_in_use_goes_by_force_only(gcp: Client) -> None:
    made = gcp.call(f"{CHANNELS}.create", NAME, channel())["name"]
    policy = {
        "displayName": "p",
        "combiner": "OR",
        "conditions": [{"displayName": "c", "conditionMatchedLog": {"filter": "severity=ERROR"}}],
        "alertStrategy": {"notificationRateLimit": {"period": "300s"}},
        "notificationChannels": [made],
    }
    user = gcp.call("monitoring.projects.alertPolicies.create", NAME, policy)["name"]
    error = gcp.refused(f"{CHANNELS}.delete", {"name": made})
    assert (error.status, user in error.message) == ("FAILED_PRECONDITION", True)
    gcp.call(f"{CHANNELS}.delete", {"name": made, "force": True})
    assert gcp.call("monitoring.projects.alertPolicies.get", {"name": user})["notificationChannels"] == []


# -- dashboards ----------------------------------------------------------------------------------------------------


def chart() -> dict[str, Any]:
    query = {"timeSeriesFilter": {"filter": RUNNING}}
    return {"title": "Running", "xyChart": {"dataSets": [{"plotType": "LINE", "timeSeriesQuery": query}]}}


def mosaic(**tile: Any) -> dict[str, Any]:
    tiles = [{"width": 24, "height": 8, "widget": chart(), **tile}]
    return {"displayName": "Training", "mosaicLayout": {"columns": 48, "tiles": tiles}}


def test_a_dashboard_from_create_to_delete(cloud: Cloud, gcp: Client) -> None:
    made = gcp.call(f"{DASHBOARDS}.create", PARENT, mosaic())
    number = cloud.project(PROJECT).number
    assert made["name"].startswith(f"projects/{number}/dashboards/")
    path = {"name": made["name"]}
    assert gcp.call(f"{DASHBOARDS}.get", path) == made
    changed = gcp.call(f"{DASHBOARDS}.patch", path, {**made, "displayName": "Other"})
    assert changed["etag"] != made["etag"]
    assert gcp.refused(f"{DASHBOARDS}.patch", path, made).status == "ABORTED"  # its etag is an old one
    assert gcp.call(f"{DASHBOARDS}.list", PARENT)["dashboards"] == [changed]
    gcp.call(f"{DASHBOARDS}.delete", path)
    assert gcp.call(f"{DASHBOARDS}.list", PARENT)["dashboards"] == []


def test_a_name_of_ones_own_is_taken_once_and_a_validation_keeps_nothing(gcp: Client) -> None:
    body = {**mosaic(), "name": f"projects/{PROJECT}/dashboards/training"}
    gcp.call(f"{DASHBOARDS}.create", {**PARENT, "validateOnly": True}, body)
    gcp.call(f"{DASHBOARDS}.create", PARENT, body)
    assert gcp.refused(f"{DASHBOARDS}.create", PARENT, body).status == "ALREADY_EXISTS"


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({**mosaic(), "displayName": ""}, "displayName is required"),
        ({"displayName": "x"}, "has one of"),
        ({**mosaic(), "gridLayout": {}}, "has one of"),
        (mosaic(xPos=30), "within 48 columns"),
        (mosaic(height=0), "1 block or more"),
        ({"displayName": "x", "mosaicLayout": {"columns": 49}}, "columns is 1 to 48"),
        (mosaic(widget={"title": "empty"}), "mosaicLayout.tiles[0].widget has one kind of content"),
        (mosaic(widget={"xyChart": {}}), "xyChart.dataSets is required"),
        (mosaic(widget={"xyChart": {"dataSets": [{"plotType": "PIE"}]}}), "plotType"),
        (mosaic(widget={"chart": {}}), 'Unknown name "chart"'),
        ({"displayName": "x", "gridLayout": {"widgets": [{}]}}, "gridLayout.widgets[0]"),
        ({"displayName": "x", "rowLayout": {"rows": [{"widgets": [{}]}]}}, "rowLayout.rows[0].widgets[0]"),
    ],
)
def test_a_dashboard_that_is_refused(gcp: Client, body: dict[str, Any], words: str) -> None:
    error = gcp.refused(f"{DASHBOARDS}.create", PARENT, body)
    assert error.status == "INVALID_ARGUMENT"
    assert words in error.message
