"""Executions and tasks: the states they pass as a plane reports attempts, without any process."""

from __future__ import annotations

from typing import Any

import pytest
from mockgcp_client import JOB, LOCATION, PROJECT, STRANGER, Client

from mockgcp.cloud import PLATFORM, Cloud

CANCEL = "run.projects.locations.jobs.executions.cancel"
DELETE = "run.projects.locations.jobs.executions.delete"


@pytest.fixture(autouse=True)
def account(gcp: Client) -> None:
    gcp.make_account()


def report(gcp: Client, task: dict[str, Any], event: str, attempt: int = 0, **body: Any) -> str:
    """What the plane says of a task; what comes next."""
    sent = {"event": event, "attempt": attempt, **body}
    answer: str = gcp.as_(PLATFORM).call("mockgcp.run.tasks.report", {"name": task["name"]}, sent)["next"]
    return answer


def attempt(gcp: Client, task: dict[str, Any], number: int = 0, code: int = 0, **body: Any) -> str:
    """One whole attempt that ends with an exit code."""
    assert report(gcp, task, "STARTED", number) == "WAIT"
    return report(gcp, task, "ENDED", number, exitCode=code, **body)


def state(resource: dict[str, Any]) -> str:
    found: str = resource["conditions"][0]["state"]
    return found


def latest(gcp: Client) -> str:
    found: str = gcp.call("run.projects.locations.jobs.get", {"name": JOB})["latestCreatedExecution"][
        "completionStatus"
    ]
    return found


def counts(execution: dict[str, Any]) -> dict[str, int]:
    names = ("runningCount", "succeededCount", "failedCount", "cancelledCount", "retriedCount")
    return {name.removesuffix("Count"): execution[name] for name in names if execution[name]}


def test_a_run_makes_a_pending_execution_with_its_tasks(cloud: Cloud, gcp: Client) -> None:
    gcp.make_job(execution={"taskCount": 2}, timeout="60s", maxRetries=1)
    operation, name = gcp.run_job()
    execution, tasks = gcp.execution(name), gcp.tasks(name)
    assert name.startswith(f"{JOB}/executions/train-")
    assert (state(execution), counts(execution), execution["taskCount"]) == ("CONDITION_PENDING", {}, 2)
    assert [(t["index"], t["timeout"], t["maxRetries"], state(t)) for t in tasks] == [
        (0, "60s", 1, "CONDITION_PENDING"),
        (1, "60s", 1, "CONDITION_PENDING"),
    ]
    assert (operation.done, latest(gcp)) == (False, "EXECUTION_PENDING")
    assert gcp.call("run.projects.locations.jobs.get", {"name": JOB})["executionCount"] == 1
    active = gcp.as_(PLATFORM).call("mockgcp.run.executions.list")["executions"]
    assert [e["name"] for e in active] == [name]


def test_a_task_that_works_completes_the_execution_and_its_operation(cloud: Cloud, gcp: Client) -> None:
    gcp.make_job()
    operation, name = gcp.run_job()
    task = gcp.tasks(name)[0]
    cloud.clock.advance(5)
    report(gcp, task, "STARTED")
    assert counts(gcp.execution(name)) == {"running": 1}
    assert latest(gcp) == "EXECUTION_RUNNING"
    cloud.clock.advance(5)
    assert report(gcp, task, "ENDED", exitCode=0) == "DONE"
    execution, task = gcp.execution(name), gcp.tasks(name)[0]
    assert (state(execution), counts(execution), latest(gcp)) == (
        "CONDITION_SUCCEEDED",
        {"succeeded": 1},
        "EXECUTION_SUCCEEDED",
    )
    assert task["lastAttemptResult"] == {"exitCode": 0, "status": {"code": 0}}
    assert task["startTime"] < task["completionTime"]
    assert operation.response == execution
    assert gcp.as_(PLATFORM).call("mockgcp.run.executions.list") == {"executions": []}


def test_a_failed_attempt_is_retried_until_the_retries_are_used_up(gcp: Client) -> None:
    gcp.make_job(maxRetries=2)
    operation, name = gcp.run_job()
    task = gcp.tasks(name)[0]
    assert attempt(gcp, task, 0, 143, message="preempted") == "RETRY"
    retrying = gcp.tasks(name)[0]
    assert retrying["conditions"][0]["type"] == "Retry"
    assert retrying["conditions"][0]["message"] == "preempted"
    assert attempt(gcp, task, 1, 1) == "RETRY"
    assert attempt(gcp, task, 2, 1, message="out of luck") == "DONE"
    execution, task = gcp.execution(name), gcp.tasks(name)[0]
    assert (state(execution), counts(execution)) == ("CONDITION_FAILED", {"failed": 1, "retried": 2})
    assert (task["retried"], task["lastAttemptResult"]["exitCode"]) == (2, 1)
    short = task["name"].split("/")[-1]
    assert execution["conditions"][0]["message"] == f"Task {short} failed with message: out of luck"
    assert execution["conditions"][0]["executionReason"] == "NON_ZERO_EXIT_CODE"
    assert operation.error is not None
    assert (operation.error.status, latest(gcp)) == ("ABORTED", "EXECUTION_FAILED")


def test_a_retry_that_works_is_a_success(gcp: Client) -> None:
    gcp.make_job(maxRetries=1)
    _, name = gcp.run_job()
    task = gcp.tasks(name)[0]
    attempt(gcp, task, 0, 143)
    assert attempt(gcp, task, 1, 0) == "DONE"
    assert (state(gcp.execution(name)), gcp.tasks(name)[0]["retried"]) == ("CONDITION_SUCCEEDED", 1)


def test_without_retries_the_first_failure_is_the_last(gcp: Client) -> None:
    gcp.make_job(maxRetries=0)
    _, name = gcp.run_job()
    assert attempt(gcp, gcp.tasks(name)[0], 0, 143) == "DONE"
    assert state(gcp.execution(name)) == "CONDITION_FAILED"


def test_an_attempt_that_could_not_start_counts_as_one(gcp: Client) -> None:
    gcp.make_job(maxRetries=1)
    _, name = gcp.run_job()
    task = gcp.tasks(name)[0]
    assert report(gcp, task, "NOT_STARTED", 0, message="Image not found.") == "RETRY"
    assert report(gcp, task, "NOT_STARTED", 1, message="Image not found.") == "DONE"
    task = gcp.tasks(name)[0]
    assert (task["retried"], "startTime" in task) == (1, False)
    assert "Image not found." in gcp.execution(name)["conditions"][0]["message"]


@pytest.mark.parametrize("ending", [{"exitCode": 0, "termSignal": 9}, {"exitCode": 0, "stopped": True}])
def test_a_signal_or_the_platforms_stop_is_no_success_whatever_the_exit_code(
    gcp: Client, ending: dict[str, Any]
) -> None:
    gcp.make_job(maxRetries=0)
    _, name = gcp.run_job()
    task = gcp.tasks(name)[0]
    report(gcp, task, "STARTED")
    report(gcp, task, "ENDED", **ending)
    assert state(gcp.execution(name)) == "CONDITION_FAILED"


def test_an_execution_waits_for_all_its_tasks_and_fails_with_one(gcp: Client) -> None:
    gcp.make_job(execution={"taskCount": 3}, maxRetries=0)
    operation, name = gcp.run_job()
    first, second, third = gcp.tasks(name)
    attempt(gcp, first, 0, 0)
    attempt(gcp, second, 0, 1, message="bad luck")
    report(gcp, third, "STARTED")
    assert (operation.done, counts(gcp.execution(name))) == (False, {"running": 1, "succeeded": 1, "failed": 1})
    report(gcp, third, "ENDED", exitCode=0)
    execution = gcp.execution(name)
    assert (state(execution), counts(execution)) == ("CONDITION_FAILED", {"succeeded": 2, "failed": 1})
    assert f"{second['name'].split('/')[-1]} failed with message: bad luck" in execution["conditions"][0]["message"]


def test_a_task_cancelled_while_its_process_started_stays_cancelled(gcp: Client) -> None:
    gcp.make_job()
    _, name = gcp.run_job()
    task = gcp.tasks(name)[0]
    gcp.start(CANCEL, {"name": name}, {})
    before = gcp.execution(name)
    assert report(gcp, task, "STARTED") == "DONE"
    assert report(gcp, task, "ENDED", exitCode=0) == "DONE"
    assert gcp.execution(name) == before


def test_reports_of_what_was_deleted_meanwhile_end_the_matter(gcp: Client) -> None:
    assert report(gcp, {"name": f"{JOB}/executions/e/tasks/t"}, "ENDED", exitCode=0) == "DONE"


# -- overrides -----------------------------------------------------------------------------------------------------


def test_overrides_change_one_execution_and_not_the_job(gcp: Client) -> None:
    container = {"args": ["--old"], "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}]}
    made = gcp.make_job(container=container)
    overrides = {
        "taskCount": 3,
        "timeout": "30s",
        "containerOverrides": [{"args": ["--new"], "env": [{"name": "B", "value": "3"}, {"name": "C", "value": "4"}]}],
    }
    _, name = gcp.run_job(overrides=overrides)
    execution, tasks = gcp.execution(name), gcp.tasks(name)
    assert (len(tasks), execution["parallelism"], tasks[0]["timeout"]) == (3, 3, "30s")
    assert tasks[0]["containers"][0]["args"] == ["--new"]
    assert {e["name"]: e["value"] for e in tasks[0]["containers"][0]["env"]} == {"A": "1", "B": "3", "C": "4"}
    assert gcp.call("run.projects.locations.jobs.get", {"name": JOB})["template"] == made["template"]


def test_arguments_can_be_cleared(gcp: Client) -> None:
    gcp.make_job(container={"args": ["--old"]})
    _, name = gcp.run_job(overrides={"containerOverrides": [{"clearArgs": True}]})
    assert gcp.tasks(name)[0]["containers"][0]["args"] == []


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        ({"timeout": "604801s"}, "604800s"),
        ({"taskCount": 0}, "0 tasks"),
        ({"containerOverrides": [{"env": [{"name": "CLOUD_RUN_JOB", "value": "x"}]}]}, "is reserved"),
        ({"containerOverrides": [{"env": [{"value": "x"}]}]}, "env.name"),
    ],
)
def test_overrides_keep_to_the_jobs_rules(gcp: Client, overrides: dict[str, Any], words: str) -> None:
    gcp.make_job()
    error = gcp.refused("run.projects.locations.jobs.run", {"name": JOB}, {"overrides": overrides})
    assert (error.status, words in error.message) == ("INVALID_ARGUMENT", True)


def test_an_invoker_runs_a_job_as_it_is_and_needs_more_to_override(cloud: Cloud, gcp: Client) -> None:
    gcp.make_job()
    cloud.policies.grant(JOB, "roles/run.invoker", STRANGER)
    stranger = gcp.as_(STRANGER)
    stranger.run_job()
    error = stranger.refused("run.projects.locations.jobs.run", {"name": JOB}, {"overrides": {"taskCount": 2}})
    assert (error.http_status, "run.jobs.runWithOverrides" in error.message) == (403, True)
    cloud.policies.grant(f"projects/{PROJECT}", "roles/run.developer", STRANGER)
    stranger.run_job(overrides={"taskCount": 2})


# -- cancel and delete ---------------------------------------------------------------------------------------------


def test_cancelling_ends_what_has_not_started_and_waits_for_what_runs(gcp: Client) -> None:
    gcp.make_job(execution={"taskCount": 2}, maxRetries=3)
    operation, name = gcp.run_job()
    running, waiting = gcp.tasks(name)
    report(gcp, running, "STARTED")
    cancelling = gcp.start(CANCEL, {"name": name}, {})
    execution = gcp.execution(name)
    assert execution["conditions"][0]["executionReason"] == "CANCELLING"
    assert state(gcp.tasks(name)[1]) == "CONDITION_FAILED"
    assert not operation.done
    assert report(gcp, running, "ENDED", exitCode=143) == "DONE", "no retry after a cancellation"
    execution = gcp.execution(name)
    assert (state(execution), counts(execution)) == ("CONDITION_FAILED", {"cancelled": 2})
    assert execution["conditions"][0]["executionReason"] == "CANCELLED"
    assert (gcp.cloud.wait(cancelling)["name"], latest(gcp)) == (name, "EXECUTION_CANCELLED")
    assert operation.error is not None
    assert operation.error.status == "CANCELLED"
    assert waiting["name"] != running["name"]


def test_cancelling_before_anything_runs_completes_at_once(gcp: Client) -> None:
    gcp.make_job()
    operation, name = gcp.run_job()
    gcp.start(CANCEL, {"name": name}, {})
    assert (operation.done, state(gcp.execution(name))) == (True, "CONDITION_FAILED")


def test_a_complete_execution_cannot_be_cancelled_and_a_running_one_not_deleted(gcp: Client) -> None:
    gcp.make_job()
    _, name = gcp.run_job()
    assert "cancel it first" in gcp.refused(DELETE, {"name": name}).message
    attempt(gcp, gcp.tasks(name)[0])
    assert "cannot be cancelled" in gcp.refused(CANCEL, {"name": name}, {}).message
    gcp.finish(DELETE, {"name": name})
    assert gcp.refused("run.projects.locations.jobs.executions.get", {"name": name}).status == "NOT_FOUND"
    assert gcp.tasks(name) == []


def test_an_execution_can_be_deleted_twice(gcp: Client) -> None:
    gcp.make_job()
    _, name = gcp.run_job()
    attempt(gcp, gcp.tasks(name)[0])
    deletions = [gcp.start(DELETE, {"name": name}) for _ in range(2)]
    assert [gcp.cloud.wait(deletion)["name"] for deletion in deletions] == [name, name]


def test_executions_are_listed_newest_first_and_tasks_can_be_read(gcp: Client) -> None:
    gcp.make_job()
    names = [gcp.run_job()[1] for _ in range(3)]
    listed = gcp.call("run.projects.locations.jobs.executions.list", {"parent": JOB})["executions"]
    assert [e["name"] for e in listed] == names[::-1]
    task = gcp.tasks(names[0])[0]
    read = "run.projects.locations.jobs.executions.tasks.get"
    assert gcp.call(read, {"name": task["name"]}) == task
    assert gcp.refused(read, {"name": task["name"] + "x"}).status == "NOT_FOUND"


def test_a_hyphen_in_a_parent_stands_for_any(gcp: Client) -> None:
    gcp.make_job("one")
    gcp.make_job("two")
    (_, first), (_, second) = (gcp.run_job(f"{LOCATION}/jobs/{job}") for job in ("one", "two"))
    for parent in (f"{LOCATION}/jobs/-", f"projects/{PROJECT}/locations/-/jobs/-"):
        listed = gcp.call("run.projects.locations.jobs.executions.list", {"parent": parent})["executions"]
        assert [e["name"] for e in listed] == [second, first]
    for parent, found in {
        f"{LOCATION}/jobs/-/executions/-": [first, second],
        f"{LOCATION}/jobs/two/executions/-": [second],
        f"projects/{PROJECT}/locations/us-central1/jobs/-/executions/-": [],
    }.items():
        assert [t["name"].partition("/tasks/")[0] for t in gcp.tasks(parent)] == found
    jobs = gcp.call("run.projects.locations.jobs.list", {"parent": f"projects/{PROJECT}/locations/-"})["jobs"]
    assert [j["name"].split("/")[-1] for j in jobs] == ["one", "two"]
