"""A rehearsal's verdicts follow from the evidence: tampered evidence must turn them."""

import dataclasses
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import pytest

from holdfast.image.build import Image
from holdfast.preflight import Check, PreflightReport
from holdfast.rehearsal import training
from holdfast.rehearsal.cloud_run import alert_story, execution_story
from holdfast.rehearsal.frame import deployed_story, policy_story
from holdfast.rehearsal.job_execution import Evidence, figures
from holdfast.rehearsal.pulumi_cli import Outcome
from holdfast.rehearsal.readiness import image_story, preflight_story
from holdfast.rehearsal.report import CloudRunReport, Story
from mockgcp.audit import AuditEntry
from mockgcp.services.monitoring_incidents import Incident

STEPS, STRIKES = 3, (1,)
PREEMPTED = {"jsonPayload": {"reason": "INSTANCE_PREEMPTED", "message": "preempted"}}


def event(name: str, attempt: int, **fields: Any) -> dict[str, Any]:
    return {"event": name, "attempt": attempt, "task_index": 0, **fields}


def evidence(**changes: Any) -> Evidence:
    """A job of three steps that lost its instance after the first and did the second twice."""
    good = Evidence(
        execution={},
        tasks=[
            {
                "conditions": [{"state": "CONDITION_SUCCEEDED"}],
                "startTime": "2026-01-01T00:00:00.000000Z",
                "completionTime": "2026-01-01T00:00:10.000000Z",
            }
        ],
        log=[PREEMPTED],
        events=[
            event("start", 0),
            event("step", 0, step=1),
            event("step", 0, step=2),
            event("start", 1),
            event("resumed", 1, from_step=1),
            event("step", 1, step=2),
            event("step", 1, step=3),
            event("done", 1, productive_seconds=4.0),
        ],
        task_dirs=["/there"],
    )
    return dataclasses.replace(good, **changes)


def without(name: str) -> list[Mapping[str, Any]]:
    return [each for each in evidence().events if each["event"] != name]


def test_figures_add_the_evidence_up() -> None:
    found = figures(evidence())
    assert (found.attempts, found.preemptions, found.resumes) == (2, 1, 1)
    assert (found.steps_total, found.steps_repeated, found.goodput) == (3, 1, 0.4)


def test_an_execution_that_went_on_holds() -> None:
    assert execution_story(evidence(), STEPS, STRIKES).held


@pytest.mark.parametrize(
    "changes",
    [
        {"log": []},
        {"log": [PREEMPTED, PREEMPTED]},
        {"events": without("resumed")},
        {"events": evidence().events[:-2]},
        {"events": [each for each in evidence().events if each != event("start", 0)]},
        {"tasks": [{"conditions": [{"state": "CONDITION_FAILED"}]}]},
    ],
    ids=["no preemption", "two of them", "no resume", "a step missing", "an attempt missing", "failed"],
)
def test_an_execution_with_other_evidence_does_not_hold(changes: dict[str, Any]) -> None:
    assert not execution_story(evidence(**changes), STEPS, STRIKES).held


def outcome(command: str, **changes: Any) -> Outcome:
    good = Outcome(command, {"create": 3}, [], {"holdfast|local|policies": "0.0.1"})
    return dataclasses.replace(good, **changes)


def entry(method: str, code: int, **params: str) -> AuditEntry:
    return AuditEntry("2026-01-01T00:00:00Z", method, "user:me", params, None, code)


def test_a_deployment_is_judged_by_the_last_answer_to_each_request() -> None:
    ups = [outcome("up a"), outcome("up b")]
    conflict = entry("storage.buckets.setIamPolicy", 409, bucket="b")
    retried = entry("storage.buckets.setIamPolicy", 200, bucket="b")
    assert deployed_story(ups, 2, [conflict, retried]).held
    assert not deployed_story(ups, 2, [retried, conflict]).held
    assert not deployed_story(ups, 2, [entry("storage.buckets.setIamPolicy", 409, bucket="c"), retried]).held


@pytest.mark.parametrize("ups", [[], [outcome("up a")], [outcome("up a"), outcome("up b", changes={})]])
def test_a_deployment_needs_every_stack(ups: list[Outcome]) -> None:
    assert not deployed_story(ups, 2, [entry("storage.buckets.insert", 200, project="p")]).held


def test_policies_hold_only_when_our_pack_judged_everything_and_found_nothing() -> None:
    assert policy_story([outcome("preview a"), outcome("up a")]).held
    assert not policy_story([]).held
    assert not policy_story([outcome("up a", policy_packs={})]).held
    assert not policy_story([outcome("up a", policy_packs={"somebody-elses": "1"})]).held
    assert not policy_story([outcome("up a", policy_violations=[{"policyName": "public-bucket"}])]).held


FOUND = PreflightReport(stack="a", checks=[Check(name="quota", status="ok", found="1 of 1")])


@pytest.mark.parametrize(
    ("found", "held"),
    [
        ([FOUND, FOUND], True),
        (
            [FOUND, PreflightReport(stack="b", checks=[Check(name="region", status="warn", found="by invitation")])],
            True,
        ),
        ([FOUND], False),
        ([FOUND, PreflightReport(stack="b", checks=[Check(name="quota", status="failed", found="0")])], False),
        ([FOUND, PreflightReport(stack="b", checks=[Check(name="quota", status="unknown", found="denied")])], False),
    ],
)
def test_a_preflight_holds_when_every_stack_may_go_on(found: list[PreflightReport], held: bool) -> None:
    assert preflight_story(found, 2).held is held


BUILT, FOUND_AGAIN = Image("r@sha256:1", "t", built=True), Image("r@sha256:1", "t", built=False)
BUILD = entry("cloudbuild.projects.locations.builds.create", 200)


@pytest.mark.parametrize(
    ("made", "again", "builds", "held"),
    [
        (BUILT, FOUND_AGAIN, [BUILD], True),
        (FOUND_AGAIN, FOUND_AGAIN, [BUILD], False),
        (BUILT, BUILT, [BUILD], False),
        (BUILT, Image("r@sha256:2", "t", built=False), [BUILD], False),
        (BUILT, FOUND_AGAIN, [BUILD, BUILD], False),
    ],
)
def test_an_image_is_built_once(made: Image, again: Image, builds: list[AuditEntry], held: bool) -> None:
    assert image_story(made, again, builds).held is held


def incident(condition: str) -> Incident:
    return Incident("a policy", condition, datetime(2026, 1, 1, tzinfo=UTC), "3")


OFTEN, FAILED = incident("job: more than 2 preemptions in a day"), incident("job: an execution failed")


@pytest.mark.parametrize(
    ("raised", "preemptions", "held"),
    [
        ([OFTEN], 3, True),
        ([], 0, True),
        ([], 3, False),
        ([FAILED], 3, False),
        ([OFTEN, FAILED], 3, False),
        ([OFTEN], 0, False),
    ],
)
def test_alerts_hold_when_they_tell_of_the_preemptions_alone(
    raised: list[Incident], preemptions: int, held: bool
) -> None:
    assert alert_story(raised, preemptions).held is held


def _report(**changes: Any) -> CloudRunReport:
    story = Story(name="one", held=True, evidence={})
    good: dict[str, Any] = {"scenario": "s", "seed": 0, "engine": "path", "engine_version": "3", "stories": [story]}
    return CloudRunReport(**{**good, **changes})


@pytest.mark.parametrize(
    ("changes", "passed"),
    [
        ({}, True),
        ({"stories": []}, False),
        ({"stories": [Story(name="one", held=False, evidence={})]}, False),
        ({"error": "it broke"}, False),
        ({"leftover_resources": ["storage.bucket b"]}, False),
        ({"leftover_processes": ["1"]}, False),
    ],
)
def test_a_report_passes_only_whole(changes: dict[str, Any], passed: bool) -> None:
    assert _report(**changes).passed is passed


@pytest.mark.parametrize(
    ("saved", "done", "resumed", "right"),
    [
        ([4], 6, [4], True),
        ([4], 8, [8], True),  # whole, but not told of any more
        ([4, 8], 9, [8], True),
        ([4, 8], 9, [4], False),
        ([4], 6, [6], False),
        ([4], 6, [8], False),
        ([4], 6, [0], False),
        ([4], 6, [], False),
        ([4], 6, [4, 4], False),
        ([], 3, [0], False),
    ],
)
def test_a_run_goes_on_from_its_last_checkpoint(saved: list[int], done: int, resumed: list[int], right: bool) -> None:
    first: list[dict[str, Any]] = [{"event": "step", "step": step} for step in range(1, done + 1)]
    first += [{"event": "saved", "step": step} for step in saved]
    second = [{"event": "resumed", "from_step": step} for step in resumed]
    assert training.resumed_from_the_last(first, second) is right
