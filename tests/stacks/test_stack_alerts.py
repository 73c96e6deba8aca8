"""The alerts of the shipped stacks: metrics count, and an execution that failed raises an incident."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from infra import catalog
from infra.job_alerts import metric_type
from mockgcp.cloud import DEFAULT_OWNER, PLATFORM, Cloud
from mockgcp.frontends.pulumi.mocks import EmulatedGcp
from mockgcp.services.artifactregistry import seed_image
from mockgcp.services.monitoring_incidents import incidents
from stacks.choose import choose

STACKS = Path(__file__).parents[2] / "stacks"
PROJECT, REGION, JOB = "holdfast-dev", "us-central1", "gpu-resilient-job"
FULL_NAME = f"projects/{PROJECT}/locations/{REGION}/jobs/{JOB}"


@pytest.fixture
def cloud() -> Cloud:
    """A held clock, the shipped foundation, and the shipped job with one retry."""
    cloud = Cloud()
    cloud.seed_project(PROJECT, number=123456789012)
    for quota_id in catalog.gpu_quotas():
        cloud.quotas.set(PROJECT, quota_id, "*", 1)
    outputs: dict[str, Any] = {}
    for stack in ("dev-foundation", "dev-cloud-run"):
        config = yaml.safe_load((STACKS / f"Pulumi.{stack}.yaml").read_text(encoding="utf-8"))["config"]
        if stack == "dev-cloud-run":
            seed_image(cloud, config["holdfast:image"])
            config["holdfast:maxRetries"] = 1
        known = {"organization/holdfast/dev-foundation": outputs}
        emulated = EmulatedGcp(cloud, project=PROJECT, region=REGION, config=config, stack=stack, stack_outputs=known)
        outputs = emulated.run(choose(stack)).outputs
    return cloud


def call(cloud: Cloud, method: str, params: dict[str, Any], body: Any = None, principal: str = DEFAULT_OWNER) -> Any:
    return cloud.answer(method, params, body, principal)


def run_attempts(cloud: Cloud, *exit_codes: int) -> None:
    """One execution whose only task ends so, attempt by attempt."""
    cloud.call("run.projects.locations.jobs.run", {"name": FULL_NAME}, {}, DEFAULT_OWNER)
    executions = call(cloud, "run.projects.locations.jobs.executions.list", {"parent": FULL_NAME})["executions"]
    tasks = call(cloud, "run.projects.locations.jobs.executions.tasks.list", {"parent": executions[0]["name"]})["tasks"]
    for number, code in enumerate(exit_codes):
        for body in ({"event": "STARTED"}, {"event": "ENDED", "exitCode": code}):
            sent = {"attempt": number, **body}
            call(cloud, "mockgcp.run.tasks.report", {"name": tasks[0]["name"]}, sent, PLATFORM)
        cloud.clock.advance(60)


def test_retries_used_up_raise_an_incident_and_a_retry_that_works_does_not(cloud: Cloud) -> None:
    run_attempts(cloud, 143, 0)
    assert incidents(cloud, PROJECT) == []
    run_attempts(cloud, 143, 143)
    [incident] = incidents(cloud, PROJECT)
    assert incident.policy == f"{JOB}: an execution failed"


@pytest.mark.parametrize(
    ("what", "log", "payload"),
    [
        ("preemptions", "varlog%2Fsystem", {"message": "preempted", "reason": "INSTANCE_PREEMPTED"}),
        ("saved", "stdout", {"event": "saved", "step": 50}),
    ],
)
def test_the_metrics_count_what_the_alerts_look_at(cloud: Cloud, what: str, log: str, payload: dict[str, Any]) -> None:
    labels = {"project_id": PROJECT, "location": REGION, "job_name": JOB}
    lines = [
        {
            "logName": f"projects/{PROJECT}/logs/run.googleapis.com%2F{log}",
            "resource": {"type": "cloud_run_job", "labels": {**labels, "job_name": name}},
            "jsonPayload": payload,
        }
        for name in (JOB, JOB, "another-job")
    ]
    call(cloud, "logging.entries.write", {}, {"entries": lines}, PLATFORM)
    cloud.clock.advance(120)
    now = cloud.clock.timestamp()
    query = {
        "name": f"projects/{PROJECT}",
        "filter": f'metric.type="{metric_type(what, JOB, REGION)}"',
        "interval.startTime": "2000-01-01T00:00:00Z",
        "interval.endTime": now,
    }
    [series] = call(cloud, "monitoring.projects.timeSeries.list", query)["timeSeries"]
    assert sum(int(point["value"]["int64Value"]) for point in series["points"]) == 2
