"""What watches a job: log filters, metrics, alerts, the dashboard, links to the console."""

import json
from dataclasses import replace
from typing import Any

import pulumi
import pytest

from infra import catalog, console, job_logs
from infra.errors import InputError
from infra.job_alerts import JobAlerts, JobAlertsArgs, metric_name, metric_type
from infra.job_dashboard import JobDashboard, JobDashboardArgs, job_dashboard
from infra.project_services import ProjectServices, ProjectServicesArgs
from mockgcp.cloud import Cloud
from mockgcp.frontends.pulumi.mocks import EmulatedGcp, Result
from mockgcp.services.logging_filter import parse_filter

PROJECT, REGION, JOB = "demo-project", "us-central1", "gpu-resilient-job"
ALERTS = JobAlertsArgs(PROJECT, REGION, JOB, "dev-cloud-run")
DASHBOARD = JobDashboardArgs(PROJECT, REGION, JOB)


def entry(log: str = "stdout", job: str = JOB, execution: str = f"{JOB}-abcde", **payload: Any) -> dict[str, Any]:
    return {
        "logName": f"projects/{PROJECT}/logs/run.googleapis.com%2F{log}",
        "resource": {"type": "cloud_run_job", "labels": {"job_name": job, "location": REGION}},
        "labels": {"run.googleapis.com/execution_name": execution},
        "severity": "INFO",
        "jsonPayload": payload,
    }


@pytest.fixture(scope="module")
def watched() -> Result:
    cloud = Cloud()
    cloud.seed_project(PROJECT, number=123456789012)

    def program() -> None:
        apis = ProjectServices("apis", ProjectServicesArgs(PROJECT, catalog.services().cloud_run_job))
        after = pulumi.ResourceOptions(depends_on=[apis])
        JobAlerts("alerts", replace(ALERTS, email="team@example.com", labels={"app": "holdfast", "stack": "s"}), after)
        JobDashboard("dashboard", DASHBOARD, after)

    return EmulatedGcp(cloud, project=PROJECT, region=REGION, stack="dev-cloud-run").run(program)


def policies(result: Result) -> dict[str, dict[str, Any]]:
    found = result.of_type("gcp:monitoring/alertPolicy:AlertPolicy")
    return {each.name: dict(each.inputs) for each in found}


SYSTEM = "varlog%2Fsystem"


@pytest.mark.parametrize(
    ("text", "line", "kept"),
    [
        (job_logs.job(JOB, REGION), entry(event="step"), True),
        (job_logs.job(JOB, REGION), entry(job="another"), False),
        (job_logs.job(JOB, "europe-west4"), entry(), False),
        (job_logs.execution(JOB, REGION, f"{JOB}-abcde"), entry(), True),
        (job_logs.execution(JOB, REGION, f"{JOB}-abcde"), entry(execution=f"{JOB}-fghij"), False),
        (job_logs.preemptions(JOB, REGION), entry(SYSTEM, reason="INSTANCE_PREEMPTED"), True),
        (job_logs.preemptions(JOB, REGION), entry(SYSTEM, message="Container started"), False),
        (job_logs.preemptions(JOB, REGION), entry("stdout", reason="INSTANCE_PREEMPTED"), False),
        (job_logs.saved(JOB, REGION), entry(event="saved", step=50), True),
        (job_logs.saved(JOB, REGION), entry(event="save_failed"), False),
    ],
)
def test_filters_let_through_what_they_say(text: str, line: dict[str, Any], kept: bool) -> None:
    assert parse_filter(text)(line) is kept


def test_metrics_count_preemptions_and_checkpoints(watched: Result) -> None:
    metrics = {each.name: each.inputs for each in watched.of_type("gcp:logging/metric:Metric")}
    assert {name: each["filter"] for name, each in metrics.items()} == {
        "alerts-preemptions": job_logs.preemptions(JOB, REGION),
        "alerts-saved": job_logs.saved(JOB, REGION),
    }
    assert {each["metricDescriptor"]["metricKind"] for each in metrics.values()} == {"DELTA"}
    assert metrics["alerts-saved"]["name"] == metric_name("saved", JOB, REGION) == "gpu_resilient_job_us_central1_saved"


def test_a_failed_execution_alerts_by_the_platforms_own_count(watched: Result) -> None:
    [condition] = policies(watched)["alerts-failed"]["conditions"]
    threshold = condition["conditionThreshold"]
    assert 'metric.type="run.googleapis.com/job/completed_execution_count"' in threshold["filter"]
    assert 'metric.labels.result="failed"' in threshold["filter"]
    assert f'resource.labels.job_name="{JOB}"' in threshold["filter"]
    assert (threshold["comparison"], threshold["thresholdValue"], threshold["duration"]) == ("COMPARISON_GT", 0, "0s")


def test_the_other_alerts_are_promql_that_waits_for_no_metric(watched: Result) -> None:
    queries = {}
    for name in ("alerts-preempted", "alerts-stalled"):
        [condition] = policies(watched)[name]["conditions"]
        queries[name] = condition["conditionPrometheusQueryLanguage"]
    assert all(each["disableMetricValidation"] is True for each in queries.values())
    preempted, stalled = queries["alerts-preempted"], queries["alerts-stalled"]
    assert preempted["query"] == (
        "sum(increase(logging_googleapis_com:user_gpu_resilient_job_us_central1_preemptions"
        '{monitored_resource="cloud_run_job"}[1d])) > 3'
    )
    assert stalled["query"] == (
        '(sum(run_googleapis_com:job_running_executions{monitored_resource="cloud_run_job",'
        'job_name="gpu-resilient-job",location="us-central1"}) > 0) unless '
        "(sum(increase(logging_googleapis_com:user_gpu_resilient_job_us_central1_saved"
        '{monitored_resource="cloud_run_job"}[600s])) > 0)'
    )
    assert (preempted["duration"], stalled["duration"]) == ("0s", "1800s")


def test_each_alert_says_what_to_do_and_tells_the_team(watched: Result) -> None:
    [channel] = watched.of_type("gcp:monitoring/notificationChannel:NotificationChannel")
    assert (channel.inputs["type"], channel.inputs["labels"]) == ("email", {"email_address": "team@example.com"})
    found = policies(watched)
    assert len(found) == 3
    for policy in found.values():
        assert policy["notificationChannels"] == [channel.outputs["name"]]
        assert policy["userLabels"] == {"app": "holdfast", "stack": "s"}
        assert policy["alertStrategy"] == {"autoClose": "1800s"}
        assert "`holdfast submit cloud-run --stack dev-cloud-run`" in policy["documentation"]["content"]
        assert "{" not in policy["documentation"]["content"]


@pytest.mark.parametrize(
    ("change", "where"),
    [
        ({"preemptions_per_day": -1}, "preemptions_per_day"),
        ({"checkpoint_interval_s": 59}, "checkpoint_interval_s"),
        ({"missed_checkpoints": 0}, "missed_checkpoints"),
        ({"missed_checkpoints": 24, "checkpoint_interval_s": 3600}, "missed_checkpoints"),
    ],
)
def test_alerts_that_cannot_work_are_refused(change: dict[str, Any], where: str) -> None:
    with pytest.raises(InputError, match=f"^JobAlerts alerts, {where}: "):
        JobAlerts("alerts", replace(ALERTS, **change))


def test_the_dashboard_shows_the_jobs_own_metrics_and_no_two_tiles_overlap(watched: Result) -> None:
    [dashboard] = watched.of_type("gcp:monitoring/dashboard:Dashboard")
    shown = json.loads(str(dashboard.inputs["dashboardJson"]))
    assert shown == job_dashboard(DASHBOARD)
    text = json.dumps(shown)
    for metric in ("preemptions", "saved"):
        assert metric_type(metric, JOB, REGION) in text
    taken: set[tuple[int, int]] = set()
    for tile in shown["mosaicLayout"]["tiles"]:
        x, y = tile.get("xPos", 0), tile.get("yPos", 0)
        cells = {(column, row) for column in range(x, x + tile["width"]) for row in range(y, y + tile["height"])}
        assert not cells & taken
        assert x + tile["width"] <= shown["mosaicLayout"]["columns"]
        taken |= cells


def test_the_dashboards_log_panel_has_a_filter_that_can_be_read() -> None:
    [panel] = [
        tile["widget"] for tile in job_dashboard(DASHBOARD)["mosaicLayout"]["tiles"] if "logsPanel" in tile["widget"]
    ]
    keep = parse_filter(panel["logsPanel"]["filter"])
    assert keep(entry(event="saved"))
    assert not keep(entry(event="step"))


def test_links_are_to_the_universes_console() -> None:
    public, sovereign = catalog.universe(), catalog.universe("s3nsapis.fr")
    assert console.job_url(public, "p", REGION, JOB) == (
        "https://console.cloud.google.com/run/jobs/details/us-central1/gpu-resilient-job/executions?project=p"
    )
    assert console.bucket_url(sovereign, "s3ns:p", "b").startswith(
        "https://console.cloud.s3nscloud.fr/storage/browser/b"
    )
    assert console.logs_url(public, "p", 'a="b"') == (
        "https://console.cloud.google.com/logs/query;query=a%3D%22b%22?project=p"
    )
    assert console.dashboard_url(public, "p", "projects/1/dashboards/d").endswith("/builder/d?project=p")
    assert "/executions/details/us-central1/e/" in console.execution_url(public, "p", REGION, "e")
