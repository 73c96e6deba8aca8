"""The job's own three alerts on the emulated cloud: when they raise an incident, and when they do not."""

from dataclasses import replace
from typing import Any

import pytest

from infra.job_alerts import JobAlerts, JobAlertsArgs
from mockgcp.cloud import DEFAULT_OWNER, PLATFORM, Cloud
from mockgcp.frontends.pulumi.mocks import EmulatedGcp
from mockgcp.services.monitoring_incidents import incidents

PROJECT, REGION, JOB = "demo-project", "us-central1", "gpu-resilient-job"
INTERVAL_S = 600
ALERTS = JobAlertsArgs(
    PROJECT, REGION, JOB, "dev-cloud-run", preemptions_per_day=3, checkpoint_interval_s=INTERVAL_S, missed_checkpoints=3
)
DAY_S = 86400


class Watched:
    """A job with its alerts, on a cloud whose clock is held."""

    def __init__(self) -> None:
        self.cloud = Cloud()
        apis = ("iam", "logging", "monitoring", "run")
        self.cloud.seed_project(PROJECT).services.update(f"{api}.googleapis.com" for api in apis)
        EmulatedGcp(self.cloud, project=PROJECT, region=REGION).run(lambda: JobAlerts("alerts", ALERTS))
        for job in (JOB, "another-job"):
            self.make(job)

    def make(self, job: str) -> None:
        account = f"{job}@{PROJECT}.iam.gserviceaccount.com"
        body = {"accountId": job}
        self.cloud.call("iam.projects.serviceAccounts.create", {"name": f"projects/{PROJECT}"}, body, DEFAULT_OWNER)
        task = {"containers": [{"image": "busybox"}], "serviceAccount": account, "maxRetries": 0}
        self.cloud.answer(
            "run.projects.locations.jobs.create",
            {"parent": f"projects/{PROJECT}/locations/{REGION}", "jobId": job},
            {"template": {"template": task}},
            DEFAULT_OWNER,
        )

    def passes(self, seconds: float) -> None:
        self.cloud.clock.advance(seconds)

    def start(self, job: str = JOB) -> str:
        """Starts an execution; its task."""
        name = f"projects/{PROJECT}/locations/{REGION}/jobs/{job}"
        self.cloud.call("run.projects.locations.jobs.run", {"name": name}, {}, DEFAULT_OWNER)
        task = list(self.cloud.table("run.task"))[-1]
        self.report(task, event="STARTED")
        return task

    def report(self, task: str, **body: Any) -> None:
        self.cloud.call("mockgcp.run.tasks.report", {"name": task}, body, PLATFORM)

    def writes(self, log: str, job: str = JOB, **payload: Any) -> None:
        entry = {
            "logName": f"projects/{PROJECT}/logs/run.googleapis.com%2F{log}",
            "resource": {"type": "cloud_run_job", "labels": {"job_name": job, "location": REGION}},
            "jsonPayload": payload,
        }
        self.cloud.call("logging.entries.write", {}, {"entries": [entry]}, PLATFORM)

    def preempted(self, times: int, job: str = JOB) -> None:
        for _ in range(times):
            self.writes("varlog%2Fsystem", job, reason="INSTANCE_PREEMPTED")
            self.passes(600)

    def fired(self) -> list[str]:
        """What the alerts say, each once, by time."""
        return [each.policy.removeprefix(f"{JOB}: ") for each in incidents(self.cloud, PROJECT)]


@pytest.fixture
def watched() -> Watched:
    return Watched()


def test_more_preemptions_in_a_day_than_the_limit(watched: Watched) -> None:
    watched.preempted(3)
    watched.preempted(1, "another-job")
    assert watched.fired() == []
    watched.preempted(1)
    assert watched.fired() == ["more than 3 preemptions in a day"]
    [incident] = incidents(watched.cloud, PROJECT)
    assert incident.saw == "4"


def test_as_many_preemptions_over_more_than_a_day(watched: Watched) -> None:
    watched.preempted(3)
    watched.passes(DAY_S)
    watched.preempted(3)
    assert watched.fired() == []


@pytest.mark.parametrize(("job", "code", "fires"), [(JOB, 1, True), (JOB, 0, False), ("another-job", 1, False)])
def test_an_execution_that_failed(watched: Watched, job: str, code: int, fires: bool) -> None:
    watched.report(watched.start(job), event="ENDED", exitCode=code)
    watched.passes(60)
    assert watched.fired() == (["an execution failed"] if fires else [])


def test_a_run_without_a_checkpoint_since_it_began(watched: Watched) -> None:
    watched.passes(DAY_S)  # nothing ran, so nothing was missed
    watched.start()
    watched.passes(3 * INTERVAL_S - 60)
    assert watched.fired() == []
    watched.passes(120)
    assert watched.fired() == ["no checkpoint for 3 intervals"]


def test_a_run_whose_checkpoints_stop_coming(watched: Watched) -> None:
    watched.start()
    for _ in range(20):
        watched.passes(INTERVAL_S - 60)
        watched.writes("stdout", event="saved")
        watched.writes("stdout", event="step")
    assert watched.fired() == []
    # The last one counts for an interval, and then three must pass.
    watched.passes(4 * INTERVAL_S - 60)
    assert watched.fired() == []
    watched.passes(120)
    assert watched.fired() == ["no checkpoint for 3 intervals"]


def test_another_jobs_checkpoints_do_not_count(watched: Watched) -> None:
    watched.start()
    for _ in range(4):
        watched.passes(INTERVAL_S)
        watched.writes("stdout", "another-job", event="saved")
    assert watched.fired() == ["no checkpoint for 3 intervals"]


def test_a_run_that_has_ended_misses_nothing(watched: Watched) -> None:
    task = watched.start()
    watched.passes(2 * INTERVAL_S)
    watched.report(task, event="ENDED", exitCode=0)
    watched.passes(DAY_S)
    assert watched.fired() == []


def test_another_jobs_run_misses_nothing_of_this_one(watched: Watched) -> None:
    watched.start("another-job")
    watched.passes(DAY_S)
    assert watched.fired() == []


def test_fewer_missed_checkpoints_alert_sooner(watched: Watched) -> None:
    sooner = replace(ALERTS, job_name="another-job", missed_checkpoints=1)
    EmulatedGcp(watched.cloud, project=PROJECT, region=REGION).run(lambda: JobAlerts("sooner", sooner))
    for job in (JOB, "another-job"):
        watched.start(job)
    watched.passes(INTERVAL_S + 120)
    assert watched.fired() == ["another-job: no checkpoint for 1 intervals"]
