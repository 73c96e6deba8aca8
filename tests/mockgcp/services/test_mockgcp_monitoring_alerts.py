"""Alert policies: what they are refused for, in the API's words, and which incidents they would have raised."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from mockgcp_client import APIS, PROJECT, Client

from mockgcp.cloud import DEFAULT_OWNER, Cloud
from mockgcp.services.monitoring_incidents import incidents

NAME = {"name": f"projects/{PROJECT}"}
POLICIES = "monitoring.projects.alertPolicies"
JOB = {"type": "cloud_run_job", "labels": {"project_id": PROJECT, "location": "europe-west4", "job_name": "train"}}
LIMIT = {"notificationRateLimit": {"period": "3600s"}}


def on(metric: str) -> str:
    return f'metric.type="logging.googleapis.com/user/{metric}" AND resource.type="cloud_run_job"'


def policy(condition: dict[str, Any], **changes: Any) -> dict[str, Any]:
    return {
        "displayName": "Training",
        "combiner": "OR",
        "conditions": [{"displayName": "it happened", **condition}],
        **changes,
    }


def threshold(**changes: Any) -> dict[str, Any]:
    aggregation = {"alignmentPeriod": "60s", "perSeriesAligner": "ALIGN_DELTA"}
    inner = {
        "filter": on("preemptions"),
        "comparison": "COMPARISON_GT",
        "duration": "0s",
        "aggregations": [aggregation],
    }
    return {"conditionThreshold": {**inner, **changes}}


def absent(**changes: Any) -> dict[str, Any]:
    return {"conditionAbsent": {"filter": on("saves"), "duration": "600s", **changes}}


def matched(filter_: str = 'jsonPayload.message:"no retries left"') -> dict[str, Any]:
    return {"conditionMatchedLog": {"filter": filter_}}


def promql(**changes: Any) -> dict[str, Any]:
    query = "increase(logging_googleapis_com:user_preemptions[1h]) > 0"
    return {"conditionPrometheusQueryLanguage": {"query": query, **changes}}


@pytest.fixture(autouse=True)
def metrics(gcp: Client) -> None:
    for name, filter_ in (
        ("preemptions", "jsonPayload.reason=INSTANCE_PREEMPTED"),
        ("saves", "jsonPayload.event=saved"),
    ):
        gcp.call(
            "logging.projects.metrics.create",
            {"parent": f"projects/{PROJECT}"},
            {"name": name, "filter": filter_},
        )


def write(gcp: Client, **payload: Any) -> None:
    entry = {"logName": f"projects/{PROJECT}/logs/app", "resource": JOB, "jsonPayload": payload}
    gcp.call("logging.entries.write", {}, {"entries": [entry]})


def make(gcp: Client, body: dict[str, Any]) -> dict[str, Any]:
    return gcp.call(f"{POLICIES}.create", NAME, body)


# -- rules ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "body",
    [
        policy(threshold()),
        policy(threshold(duration="60s", evaluationMissingData="EVALUATION_MISSING_DATA_INACTIVE")),
        policy(absent(), alertStrategy={"autoClose": "1800s"}),
        policy(matched(), alertStrategy=LIMIT),
        policy(promql(duration="0s", evaluationInterval="30s")),
        policy(promql(query="increase(logging_googleapis_com:user_nothing[5m]) > 0", disableMetricValidation=True)),
        policy(
            threshold(filter='metric.type="run.googleapis.com/job/running_executions" resource.type="cloud_run_job"')
        ),
    ],
)
def test_what_is_accepted_is_kept_and_named(gcp: Client, body: dict[str, Any]) -> None:
    made = make(gcp, body)
    assert made["enabled"] is True
    assert made["conditions"][0]["name"].startswith(f"{made['name']}/conditions/")
    assert made["creationRecord"]["mutatedBy"] == DEFAULT_OWNER.partition(":")[2]
    assert gcp.call(f"{POLICIES}.get", {"name": made["name"]}) == made


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (policy(threshold(), displayName=""), "alert_policy.display_name"),
        (policy(threshold(), combiner="COMBINE_UNSPECIFIED"), "a combiner must be specified"),
        (policy(threshold(), conditions=[]), "1 to 6 conditions"),
        (policy({}), "Condition subtype"),
        (policy({**threshold(), **absent()}), "Condition subtype"),
        (policy({**threshold(), "displayName": ""}), "conditions[0].display_name"),
        (policy(threshold(duration="30s")), "a multiple of 60 s"),
        (policy(threshold(duration="86400s")), "to 84600 s"),
        (policy({"conditionThreshold": {"filter": on("preemptions")}}), 'duration had an invalid value of "None"'),
        (policy(absent(duration="60s")), "a multiple of 60 s, 120 s to"),
        (policy(threshold(comparison="COMPARISON_EQ")), "COMPARISON_GT or COMPARISON_LT"),
        (policy(threshold(filter='metric.type="x"')), 'must specify a restriction on "resource.type"'),
        (policy(threshold(filter='resource.type="x"')), "a single metric type"),
        (policy(threshold(filter=on("preemptions") + " AND )")), "Unparseable filter"),
        (policy(threshold(aggregations=[{"alignmentPeriod": "30s"}])), "aggregations[0].alignment_period"),
        (
            policy(threshold(evaluationMissingData="EVALUATION_MISSING_DATA_NO_OP")),
            "Conditions setting evaluation_missing_data must have a non-zero duration.",
        ),
        (policy(threshold(), alertStrategy=LIMIT), "metric-based alert policies must not specify"),
        (policy(matched()), "log-based alert policies must specify a notification rate limit"),
        (policy(matched("oh no"), alertStrategy=LIMIT), "Unparseable filter"),
        (
            policy(
                {},
                conditions=[{"displayName": "a", **matched()}, {"displayName": "b", **threshold()}],
                alertStrategy=LIMIT,
            ),
            "Alert policies with a log matching condition can only have a single condition.",
        ),
        (policy(absent(), alertStrategy={"autoClose": "60s"}), "alert_strategy.auto_close"),
        (policy(promql(query="")), "must not be empty"),
        (policy(promql(query="sum(")), "condition_prometheus_query_language.query"),
        (policy(promql(evaluationInterval="45s")), "a positive multiple of 30 s"),
        (policy(threshold(), documentation={"content": "x" * 8193}), "at most 8192"),
        (policy(threshold(), documentation={"content": "x", "mimeType": "text/html"}), "only text/markdown"),
        (policy(threshold(), userLabels={"Team": "x"}), "userLabels"),
        (policy(threshold(), name="projects/p/alertPolicies/1"), "the server gives the name"),
    ],
)
def test_what_is_refused(gcp: Client, body: dict[str, Any], words: str) -> None:
    error = gcp.refused(f"{POLICIES}.create", NAME, body)
    assert error.status == "INVALID_ARGUMENT"
    assert words in error.message


@pytest.mark.parametrize(
    "condition",
    [threshold(filter=on("nothing")), promql(query="increase(logging_googleapis_com:user_nothing[5m]) > 0")],
)
def test_a_metric_that_is_not_there_is_not_found(gcp: Client, condition: dict[str, Any]) -> None:
    error = gcp.refused(f"{POLICIES}.create", NAME, policy(condition))
    assert error.http_status == 404
    assert error.message.startswith('Cannot find metric(s) that match type = "logging.googleapis.com/user/nothing".')


def test_a_new_metric_takes_its_time_to_be_known(tmp_path: Path) -> None:
    cloud = Cloud(state_dir=tmp_path, durations={"logging.projects.metrics.create": 300})
    cloud.seed_project(PROJECT).services.update(APIS)
    gcp = Client(cloud)
    body = {"name": "preemptions", "filter": "severity=ERROR"}
    gcp.call("logging.projects.metrics.create", {"parent": f"projects/{PROJECT}"}, body)
    assert "Please try again soon" in gcp.refused(f"{POLICIES}.create", NAME, policy(threshold())).message
    cloud.clock.advance(300)
    assert make(gcp, policy(threshold()))


@pytest.mark.parametrize(
    ("condition", "words"),
    [
        ({"conditionMonitoringQueryLanguage": {"query": "fetch x", "duration": "60s"}}, "conditionMonitoringQuery"),
        (threshold(filter='metric.type="custom.googleapis.com/x" resource.type="global"'), "custom.googleapis.com/x"),
        (promql(query="rate(a:b[5m]) > 0"), "conditions[0].condition_prometheus_query_language.query: "),
    ],
)
def test_what_is_not_emulated_is_refused_by_name(gcp: Client, condition: dict[str, Any], words: str) -> None:
    error = gcp.refused(f"{POLICIES}.create", NAME, policy(condition))
    assert (error.status, words in error.message) == ("UNIMPLEMENTED", True)


def test_a_channel_that_is_not_there_is_not_found(gcp: Client) -> None:
    channel = f"projects/{PROJECT}/notificationChannels/1"
    error = gcp.refused(f"{POLICIES}.create", NAME, policy(threshold(), notificationChannels=[channel]))
    assert (error.status, channel in error.message) == ("NOT_FOUND", True)


def test_a_patch_replaces_what_its_mask_names_or_everything(gcp: Client) -> None:
    made = make(gcp, policy(threshold(), severity="WARNING"))
    params = {"name": made["name"], "updateMask": "displayName,enabled"}
    changed = gcp.call(f"{POLICIES}.patch", params, {"displayName": "Other", "enabled": False})
    assert (changed["displayName"], changed["enabled"], changed["severity"]) == ("Other", False, "WARNING")
    assert changed["conditions"] == made["conditions"]
    changed = gcp.call(f"{POLICIES}.patch", {"name": made["name"]}, policy(absent()))
    assert "severity" not in changed
    assert "conditionAbsent" in changed["conditions"][0]
    refused = gcp.refused(f"{POLICIES}.patch", {"name": made["name"]}, policy(absent(duration="60s")))
    assert "120 s" in refused.message
    documented = policy(absent(), documentation={"content": "See", "subject": "No checkpoint"})
    gcp.call(f"{POLICIES}.patch", {"name": made["name"]}, documented)
    nested = {"name": made["name"], "updateMask": "documentation.content,documentation.subject,severity"}
    changed = gcp.call(f"{POLICIES}.patch", nested, {"documentation": {"subject": "None"}})
    assert changed["documentation"] == {"subject": "None"}
    assert gcp.refused(f"{POLICIES}.patch", {**nested, "updateMask": "*"}, {}).status == "UNIMPLEMENTED"


def test_delete_and_list(gcp: Client) -> None:
    made = make(gcp, policy(threshold()))
    assert gcp.call(f"{POLICIES}.list", NAME)["alertPolicies"] == [made]
    gcp.call(f"{POLICIES}.delete", {"name": made["name"]})
    assert gcp.call(f"{POLICIES}.list", NAME)["alertPolicies"] == []
    assert gcp.refused(f"{POLICIES}.delete", {"name": made["name"]}).status == "NOT_FOUND"


def test_the_editors_role_is_enough(cloud: Cloud, gcp: Client) -> None:
    who = "user:alerts@example.com"
    assert gcp.as_(who).refused(f"{POLICIES}.create", NAME, policy(threshold())).status == "PERMISSION_DENIED"
    cloud.policies.grant(f"projects/{PROJECT}", "roles/monitoring.alertPolicyEditor", who)
    assert make(gcp.as_(who), policy(threshold()))


# -- incidents -----------------------------------------------------------------------------------------------------


def conditions(cloud: Cloud) -> list[str]:
    return [incident.condition for incident in incidents(cloud, PROJECT)]


def test_a_preemption_raises_an_incident(cloud: Cloud, gcp: Client) -> None:
    write(gcp, reason="INSTANCE_PREEMPTED")
    cloud.clock.advance(600)
    make(gcp, policy(threshold()))
    assert incidents(cloud, PROJECT) == []
    write(gcp, reason="INSTANCE_PREEMPTED")
    cloud.clock.advance(60)
    (found,) = incidents(cloud, PROJECT)
    assert (found.policy, found.saw, found.opened.minute) == ("Training", "1", 11)


@pytest.mark.parametrize(
    ("changes", "held"),
    [
        ({"thresholdValue": 2}, False),
        ({"thresholdValue": 1, "aggregations": [{"alignmentPeriod": "600s", "perSeriesAligner": "ALIGN_SUM"}]}, True),
        ({"thresholdValue": 1}, False),
        ({"duration": "120s"}, False),
        ({"duration": "120s", "aggregations": [{"alignmentPeriod": "600s", "perSeriesAligner": "ALIGN_SUM"}]}, True),
        (
            {"thresholdValue": 0.5, "aggregations": [{"alignmentPeriod": "60s", "perSeriesAligner": "ALIGN_RATE"}]},
            False,
        ),
        (
            {"thresholdValue": 0.01, "aggregations": [{"alignmentPeriod": "60s", "perSeriesAligner": "ALIGN_RATE"}]},
            True,
        ),
        ({"filter": on("preemptions") + ' AND resource.labels.job_name="other"'}, False),
    ],
)
def test_a_threshold_over_the_alignment_period(cloud: Cloud, gcp: Client, changes: dict[str, Any], held: bool) -> None:
    """Two preemptions, three minutes apart."""
    make(gcp, policy(threshold(**changes)))
    for _ in range(2):
        write(gcp, reason="INSTANCE_PREEMPTED")
        cloud.clock.advance(180)
    assert bool(incidents(cloud, PROJECT)) is held


@pytest.mark.parametrize(("reducer", "held"), [("REDUCE_SUM", True), ("REDUCE_NONE", False)])
def test_series_are_added_up_where_the_aggregation_says_so(cloud: Cloud, gcp: Client, reducer: str, held: bool) -> None:
    aggregation = {"alignmentPeriod": "60s", "perSeriesAligner": "ALIGN_DELTA", "crossSeriesReducer": reducer}
    make(gcp, policy(threshold(thresholdValue=1, aggregations=[aggregation])))
    for name in ("train", "other"):
        resource = {"type": "cloud_run_job", "labels": {**JOB["labels"], "job_name": name}}  # type: ignore[dict-item]
        entry = {"logName": f"projects/{PROJECT}/logs/app", "resource": resource}
        entry["jsonPayload"] = {"reason": "INSTANCE_PREEMPTED"}
        gcp.call("logging.entries.write", {}, {"entries": [entry]})
    cloud.clock.advance(60)
    assert bool(incidents(cloud, PROJECT)) is held


def test_an_execution_that_failed_raises_an_incident(cloud: Cloud, gcp: Client) -> None:
    completed = 'metric.type="run.googleapis.com/job/completed_execution_count" AND resource.type="cloud_run_job"'
    make(gcp, policy(threshold(filter=completed + ' AND metric.labels.result="failed"')))
    for minute, failed in ((1, 0), (2, 1)):
        name = f"projects/{PROJECT}/locations/europe-west4/jobs/train/executions/train-{minute}"
        ended = {"name": name, "completionTime": f"2026-01-01T00:0{minute}:00Z", "failedCount": failed, "template": {}}
        cloud.table("run.execution")[name] = ended
    cloud.clock.advance(240)
    assert [incident.opened.minute for incident in incidents(cloud, PROJECT)] == [3]


def test_a_line_that_matches_raises_an_incident_at_once(cloud: Cloud, gcp: Client) -> None:
    make(gcp, policy(matched(), alertStrategy=LIMIT))
    write(gcp, message="all is well")
    assert conditions(cloud) == []
    write(gcp, message="No retries left")
    write(gcp, message="no retries left, again")
    assert [incident.saw for incident in incidents(cloud, PROJECT)] == ["No retries left"]


def test_no_checkpoint_for_a_while_raises_an_incident(cloud: Cloud, gcp: Client) -> None:
    make(gcp, policy(absent()))
    cloud.clock.advance(3600)
    assert conditions(cloud) == []  # never a checkpoint: no series that could stop
    write(gcp, event="saved")
    cloud.clock.advance(540)
    write(gcp, event="saved")
    cloud.clock.advance(540)
    assert conditions(cloud) == []
    cloud.clock.advance(180)
    assert conditions(cloud) == ["it happened"]


def test_a_disabled_policy_and_half_of_an_and_raise_nothing(cloud: Cloud, gcp: Client) -> None:
    make(gcp, policy(threshold(), enabled=False))
    both = [{"displayName": "a", **threshold()}, {"displayName": "b", **threshold(filter=on("saves"))}]
    make(gcp, policy({}, conditions=both, combiner="AND"))
    write(gcp, reason="INSTANCE_PREEMPTED")
    cloud.clock.advance(60)
    assert conditions(cloud) == []
    write(gcp, event="saved")
    cloud.clock.advance(60)
    assert conditions(cloud) == ["a", "b"]
