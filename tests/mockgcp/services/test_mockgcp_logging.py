"""Log entries: what is stored, and which filters find it."""

from __future__ import annotations

from typing import Any

import pytest
from mockgcp_client import OTHER, PROJECT, Client

from mockgcp.cloud import Cloud
from mockgcp.errors import ApiError
from mockgcp.services.logging import parse_filter

LOG = f"projects/{PROJECT}/logs/app"
ENTRY = {
    "logName": LOG,
    "severity": "WARNING",
    "timestamp": "2026-01-01T00:00:01.5Z",
    "resource": {"type": "cloud_run_job", "labels": {"job_name": "train"}},
    "labels": {"run.googleapis.com/execution_name": "train-abcde"},
    "jsonPayload": {"message": "Resumed from step 40", "step": 40, "ok": True, "tags": ["a", "b"], "loss": 0.5},
}


def write(gcp: Client, *entries: dict[str, Any], **shared: Any) -> None:
    gcp.call("logging.entries.write", {}, {"entries": list(entries), **shared})


def test_an_entry_gets_its_time_severity_and_id(cloud: Cloud, gcp: Client) -> None:
    cloud.clock.advance(2)
    write(gcp, {"textPayload": "hello"}, logName=LOG, labels={"a": "b"}, resource={"type": "global"})
    (entry,) = gcp.logs()
    now = "2026-01-01T00:00:02.000000Z"
    assert (entry["timestamp"], entry["receiveTimestamp"], entry["severity"]) == (now, now, "DEFAULT")
    assert (entry["labels"], entry["resource"], entry["logName"]) == ({"a": "b"}, {"type": "global"}, LOG)
    assert entry["insertId"]


def test_an_entrys_own_fields_win_over_the_shared_ones(gcp: Client) -> None:
    write(gcp, {"textPayload": "x", "labels": {"a": "own", "c": "d"}}, logName=LOG, labels={"a": "b", "e": "f"})
    assert gcp.logs()[0]["labels"] == {"a": "own", "c": "d", "e": "f"}


@pytest.mark.parametrize(
    "filter_",
    [
        "",
        'severity="WARNING"',
        "severity=warning",
        "severity>=NOTICE",
        "severity<ERROR severity>INFO",
        "severity!=ERROR",
        'resource.type="cloud_run_job" AND resource.labels.job_name="train"',
        'resource.type="CLOUD_RUN_JOB"',
        'labels."run.googleapis.com/execution_name"="train-abcde"',
        'jsonPayload.message:"FROM STEP"',
        "jsonPayload.step=40",
        "jsonPayload.step>=9",
        "jsonPayload.step<100",
        "jsonPayload.loss<=0.5",
        "jsonPayload.ok=true",
        'jsonPayload.tags="b"',
        'jsonPayload.missing!="x"',
        'timestamp>="2026-01-01T00:00:01Z"',
        'timestamp<"2026-01-01T00:00:01.6Z"',
        'timestamp>"2026-01-01T00:00:01+01:00"',
        'timestamp>="2026-01-01"',
        f'logName="{LOG}"',
        f"logName={LOG}",
        "severity=ERROR OR severity=WARNING",
        # OR binds before AND.
        "severity=WARNING OR severity=ERROR AND jsonPayload.step=40",
        "NOT severity=ERROR",
        "-severity=ERROR AND NOT (severity=INFO OR severity=DEBUG)",
        'severity=("ERROR" OR "WARNING")',
        'jsonPayload.message=~"^Resumed from step [0-9]+$"',
        'jsonPayload.message=~"step \\d+"',
        'jsonPayload.message!~"^resumed"',
        "jsonPayload.step:* -jsonPayload.missing:*",
        'log_id("app")',
        "severity=WARNING -- and a comment\nAND jsonPayload.step=40",
    ],
)
def test_a_filter_that_holds(filter_: str) -> None:
    assert parse_filter(filter_)(ENTRY)


@pytest.mark.parametrize(
    "filter_",
    [
        'severity="ERROR"',
        "severity>WARNING",
        "severity!=WARNING",
        'resource.type="cloud_run_job" AND severity=ERROR',
        'resource.type="cloud_run"',
        'jsonPayload.missing="x"',
        'jsonPayload.missing:"x"',
        "jsonPayload.step>100",
        "jsonPayload.message>5",
        "jsonPayload.ok=false",
        'jsonPayload.tags!="b"',
        'timestamp>"2026-01-01T00:00:01.5Z"',
        'labels."run.googleapis.com/execution_name"="train-zzzzz"',
        "severity=ERROR OR severity=INFO",
        "severity=WARNING OR severity=ERROR AND jsonPayload.step=41",
        "NOT severity=WARNING",
        "-(severity=WARNING)",
        'jsonPayload.message=~"^resumed"',
        'jsonPayload.message!~"Resumed"',
        "jsonPayload.missing:*",
        'log_id("ap")',
    ],
)
def test_a_filter_that_does_not_hold(filter_: str) -> None:
    assert not parse_filter(filter_)(ENTRY)


def test_a_quoted_value_may_have_escapes() -> None:
    assert parse_filter(r'textPayload="say \"hi\""')({"textPayload": 'say "hi"'})


@pytest.mark.parametrize(
    ("filter_", "words"),
    [
        ("hello", "from 'hello' on"),
        ('"hello"', "from '\"hello\"' on"),
        ("severity=ERROR OR", "from '' on"),
        ("NOT", "from '' on"),
        ("(severity=ERROR", "from '' on"),
        ("severity=ERROR)", "from ')' on"),
        ("sample(insertId, 0.1)", "from 'sample("),
        ('textPayload=~"("', "regular expression '('"),
        ('textPayload=~"(?=x)"', "RE2 has no '(?='"),
        ("jsonPayload.step=*", "only jsonPayload.step:*"),
        ("severity>=LOUD", "severity >= 'LOUD' cannot be compared"),
        ('timestamp>"yesterday"', "'yesterday' cannot be compared"),
        ('jsonPayload.step>"many"', "'many' cannot be compared"),
        ('severity="ERROR', "from '\"ERROR' on"),
    ],
)
def test_what_is_not_understood_is_refused_and_quoted(filter_: str, words: str) -> None:
    with pytest.raises(ApiError) as caught:
        parse_filter(filter_)
    assert caught.value.status == "INVALID_ARGUMENT"
    assert caught.value.message.startswith("Unparseable filter")
    assert words in caught.value.message


def test_entries_come_by_time_of_day_not_by_spelling(gcp: Client) -> None:
    times = ["2026-01-01T00:00:01.5Z", "2026-01-01T00:00:01Z", "2026-01-01T01:00:00+01:00"]
    write(gcp, *({"logName": LOG, "textPayload": t, "timestamp": t} for t in times))
    assert [e["textPayload"] for e in gcp.logs()] == times[::-1]
    body = {"resourceNames": [f"projects/{PROJECT}"], "orderBy": "timestamp desc"}
    assert [e["textPayload"] for e in gcp.call("logging.entries.list", {}, body)["entries"]] == times


def test_pages_follow_each_other(gcp: Client) -> None:
    write(gcp, *({"logName": LOG, "textPayload": str(n)} for n in range(5)))
    body: dict[str, Any] = {"resourceNames": [f"projects/{PROJECT}"], "pageSize": 2}
    seen, pages = [], 0
    while True:
        page = gcp.call("logging.entries.list", {}, body)
        seen += [e["textPayload"] for e in page["entries"]]
        pages += 1
        if "nextPageToken" not in page:
            break
        body["pageToken"] = page["nextPageToken"]
    assert (seen, pages) == (["0", "1", "2", "3", "4"], 3)


@pytest.mark.parametrize(
    "change",
    [{"pageToken": "nonsense"}, {"pageSize": -1}, {"orderBy": "severity"}, {"resourceNames": []}, {"filter": "("}],
)
def test_a_list_that_makes_no_sense_is_refused(gcp: Client, change: dict[str, Any]) -> None:
    body = {"resourceNames": [f"projects/{PROJECT}"], **change}
    assert gcp.refused("logging.entries.list", {}, body).status == "INVALID_ARGUMENT"


def test_projects_do_not_see_each_others_entries_and_a_write_is_for_one(gcp: Client) -> None:
    write(gcp, {"textPayload": "theirs"}, logName=f"projects/{OTHER}/logs/app")
    assert gcp.logs() == []
    entries = [{"logName": LOG, "textPayload": "a"}, {"logName": f"projects/{OTHER}/logs/app", "textPayload": "b"}]
    error = gcp.refused("logging.entries.write", {}, {"entries": entries})
    assert "one project" in error.message


def test_an_unknown_severity_is_refused(gcp: Client) -> None:
    body = {"entries": [{"logName": LOG, "severity": "LOUD"}]}
    assert "'entries[0].severity' (enum)" in gcp.refused("logging.entries.write", {}, body).message
