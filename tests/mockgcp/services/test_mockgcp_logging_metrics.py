"""Log-based metrics: what they are refused for, and what they count."""

from __future__ import annotations

from typing import Any

import pytest
from mockgcp_client import OTHER, PROJECT, Client

from mockgcp.cloud import Cloud

PARENT = {"parent": f"projects/{PROJECT}"}
METRICS = "logging.projects.metrics"
JOB = {"type": "cloud_run_job", "labels": {"project_id": PROJECT, "location": "europe-west4", "job_name": "train"}}


def metric(**changes: Any) -> dict[str, Any]:
    return {"name": "preemptions", "filter": 'jsonPayload.reason="INSTANCE_PREEMPTED"', **changes}


def labelled(**extractors: str) -> dict[str, Any]:
    labels = [{"key": key, "valueType": "INT64" if key == "task" else "STRING"} for key in extractors]
    return metric(metricDescriptor={"labels": labels}, labelExtractors=extractors)


def write(gcp: Client, payload: dict[str, Any], project: str = PROJECT, **fields: Any) -> None:
    entry = {"logName": f"projects/{project}/logs/app", "resource": JOB, "jsonPayload": payload, **fields}
    gcp.call("logging.entries.write", {}, {"entries": [entry]})


def series(gcp: Client, name: str = "preemptions") -> list[dict[str, Any]]:
    params = {
        "name": f"projects/{PROJECT}",
        "filter": f'metric.type="logging.googleapis.com/user/{name}" AND resource.type="cloud_run_job"',
        "interval.startTime": "2026-01-01T00:00:00Z",
        "interval.endTime": "2026-01-02T00:00:00Z",
    }
    found: list[dict[str, Any]] = gcp.call("monitoring.projects.timeSeries.list", params)["timeSeries"]
    return found


def test_a_metric_has_a_descriptor_whatever_was_sent(gcp: Client) -> None:
    made = gcp.call(f"{METRICS}.create", PARENT, metric(description="Maintenance"))
    descriptor = made["metricDescriptor"]
    assert (descriptor["metricKind"], descriptor["valueType"], descriptor["unit"]) == ("DELTA", "INT64", "1")
    assert descriptor["type"] == "logging.googleapis.com/user/preemptions"
    assert gcp.call(f"{METRICS}.list", PARENT)["metrics"] == [made]
    assert gcp.refused(f"{METRICS}.create", PARENT, metric()).status == "ALREADY_EXISTS"


def test_a_name_with_a_slash_is_quoted_in_paths(gcp: Client) -> None:
    made = gcp.call(f"{METRICS}.create", PARENT, metric(name="holdfast/saves"))
    path = {"metricName": made["resourceName"]}
    assert made["resourceName"] == f"projects/{PROJECT}/metrics/holdfast%2Fsaves"
    assert gcp.call(f"{METRICS}.get", path)["name"] == "holdfast/saves"
    gcp.call(f"{METRICS}.delete", path)
    assert gcp.refused(f"{METRICS}.get", path).status == "NOT_FOUND"


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (metric(name="/x"), "Invalid metric name '/x'"),
        (metric(name="n" * 101), "1 to 100"),
        (metric(filter=""), "needs a filter"),
        (metric(filter="hello there"), "Unparseable filter"),
        (metric(description="d" * 8001), "8000"),
        (metric(metricDescriptor={"metricKind": "GAUGE"}), "not GAUGE INT64"),
        (metric(metricDescriptor={"valueType": "DISTRIBUTION"}), "needs a valueExtractor"),
        (metric(valueExtractor="EXTRACT(jsonPayload.seconds)"), "nothing else takes one"),
        (metric(bucketOptions={"explicitBuckets": {"bounds": [1]}}), "for a DISTRIBUTION"),
        (metric(metricDescriptor={"labels": [{"key": "job"}]}), "Each label has one extractor"),
        (metric(labelExtractors={"job": "EXTRACT(labels.job)"}), "Each label has one extractor"),
        (labelled(job="labels.job"), "EXTRACT(field)"),
        (labelled(job='REGEXP_EXTRACT(jsonPayload.message, "step")'), "exactly one group"),
        (labelled(**{f"l{n}": "EXTRACT(labels.x)" for n in range(11)}), "at most 10 labels"),
    ],
)
def test_what_is_refused(gcp: Client, body: dict[str, Any], words: str) -> None:
    error = gcp.refused(f"{METRICS}.create", PARENT, body)
    assert error.status == "INVALID_ARGUMENT"
    assert words in error.message


def test_a_metric_of_a_log_bucket_is_refused_by_name(gcp: Client) -> None:
    assert "bucketName" in gcp.refused(f"{METRICS}.create", PARENT, metric(bucketName="projects/p/x")).message


def test_it_counts_what_matches_and_was_written_after_it_was_made(cloud: Cloud, gcp: Client) -> None:
    hit, miss = {"reason": "INSTANCE_PREEMPTED"}, {"reason": "OTHER"}
    write(gcp, hit)
    gcp.call(f"{METRICS}.create", PARENT, metric())
    assert series(gcp) == []
    for _ in range(2):
        write(gcp, hit)
    write(gcp, miss)
    write(gcp, hit, project=OTHER)
    cloud.clock.advance(60)
    write(gcp, hit)
    (found,) = series(gcp)
    assert found["resource"] == JOB
    assert (found["metricKind"], found["valueType"]) == ("DELTA", "INT64")
    assert [(p["interval"]["startTime"][11:19], p["value"]["int64Value"]) for p in found["points"]] == [
        ("00:01:00", "1"),
        ("00:00:00", "2"),
    ]


def test_a_disabled_metric_does_not_count(gcp: Client) -> None:
    gcp.call(f"{METRICS}.create", PARENT, metric(disabled=True))
    write(gcp, {"reason": "INSTANCE_PREEMPTED"})
    assert series(gcp) == []


def test_each_set_of_label_values_is_a_series_of_its_own(gcp: Client) -> None:
    extractors = {
        "execution": 'EXTRACT(labels."run.googleapis.com/execution_name")',
        "task": 'REGEXP_EXTRACT(jsonPayload.message, "task (\\d+)")',
    }
    gcp.call(f"{METRICS}.create", PARENT, labelled(**extractors))
    for execution, message in (("train-a", "task 1"), ("train-a", "task 1"), ("train-b", "task x")):
        labels = {"run.googleapis.com/execution_name": execution}
        write(gcp, {"reason": "INSTANCE_PREEMPTED", "message": message}, labels=labels)
    found = {tuple(s["metric"]["labels"].values()): s["points"][0]["value"]["int64Value"] for s in series(gcp)}
    assert found == {("train-a", "1"): "2", ("train-b", "0"): "1"}


@pytest.mark.parametrize(
    ("options", "counts"),
    [
        ({"explicitBuckets": {"bounds": [1, 2]}}, ["1", "0", "2"]),
        ({"linearBuckets": {"numFiniteBuckets": 3, "width": 1, "offset": 0}}, ["0", "1", "0", "1", "1"]),
        ({"exponentialBuckets": {"numFiniteBuckets": 2, "growthFactor": 2, "scale": 1}}, ["1", "0", "1", "1"]),
    ],
)
def test_a_distribution_of_extracted_values(gcp: Client, options: dict[str, Any], counts: list[str]) -> None:
    body = metric(
        name="save_seconds",
        filter="jsonPayload.event=saved",
        metricDescriptor={"valueType": "DISTRIBUTION"},
        valueExtractor="EXTRACT(jsonPayload.seconds)",
        bucketOptions=options,
    )
    gcp.call(f"{METRICS}.create", PARENT, body)
    for seconds in (0.5, 2.5, 6, "soon"):
        write(gcp, {"event": "saved", "seconds": seconds})
    (found,) = series(gcp, "save_seconds")
    value = found["points"][0]["value"]["distributionValue"]
    assert (value["count"], value["mean"], value["bucketCounts"]) == ("3", 3.0, counts)


def test_an_update_keeps_the_count_and_the_kind(gcp: Client) -> None:
    path = {"metricName": f"projects/{PROJECT}/metrics/preemptions"}
    gcp.call(f"{METRICS}.update", path, metric())  # makes it where there is none
    write(gcp, {"reason": "INSTANCE_PREEMPTED"})
    gcp.call(f"{METRICS}.update", path, metric(filter="jsonPayload.reason=OTHER"))
    write(gcp, {"reason": "OTHER"})
    write(gcp, {"reason": "INSTANCE_PREEMPTED"})
    assert series(gcp)[0]["points"][0]["value"]["int64Value"] == "2"
    kind = metric(metricDescriptor={"valueType": "DISTRIBUTION"}, valueExtractor="EXTRACT(jsonPayload.x)")
    assert "valueType of a metric cannot be changed" in gcp.refused(f"{METRICS}.update", path, kind).message
    assert "is not the one of" in gcp.refused(f"{METRICS}.update", path, metric(name="other")).message


def test_the_configurers_role_is_enough_and_a_viewers_is_not(cloud: Cloud, gcp: Client) -> None:
    for who, role in (("user:conf@example.com", "logging.configWriter"), ("user:view@example.com", "logging.viewer")):
        cloud.policies.grant(f"projects/{PROJECT}", f"roles/{role}", who)
    assert gcp.as_("user:conf@example.com").call(f"{METRICS}.create", PARENT, metric())
    assert gcp.as_("user:view@example.com").call(f"{METRICS}.list", PARENT)["metrics"]
    path = {"metricName": f"projects/{PROJECT}/metrics/preemptions"}
    assert gcp.as_("user:view@example.com").refused(f"{METRICS}.delete", path).status == "PERMISSION_DENIED"
