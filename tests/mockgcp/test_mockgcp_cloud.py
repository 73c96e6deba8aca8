"""`Cloud.call`: in which order a call is judged, what it leaves in the audit log, and a cloud's own identity."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from mockgcp_client import BUCKET, JOB, LOCATION, OTHER, PROJECT, STRANGER, Client, job, seeded

from mockgcp.cloud import PLATFORM, Cloud
from mockgcp.errors import ApiError
from mockgcp.faults import Fault

INSERT = "storage.buckets.insert"
IN_PROJECT = {"project": PROJECT}
NEW = {"name": BUCKET, "location": "europe-west4"}


def test_a_method_of_no_document_is_named(gcp: Client) -> None:
    error = gcp.refused("bigtable.tables.get")
    assert (error.status, error.http_status) == ("UNIMPLEMENTED", 501)
    assert "no discovery document known to mockgcp has a method 'bigtable.tables.get'" in error.message


def test_a_method_that_is_not_emulated_is_named(gcp: Client) -> None:
    error = gcp.refused("storage.buckets.lockRetentionPolicy", {"bucket": BUCKET})
    assert error.status == "UNIMPLEMENTED"
    assert "does not emulate storage.buckets.lockRetentionPolicy yet" in error.message


@pytest.mark.parametrize("principal", [None, ""])
def test_a_caller_without_credentials_is_turned_away_before_the_body_is_read(
    gcp: Client, principal: str | None
) -> None:
    error = gcp.as_(principal).refused(INSERT, IN_PROJECT, {"nmae": "x"})
    assert (error.status, error.http_status) == ("UNAUTHENTICATED", 401)


def test_unknown_names_come_before_permissions(gcp: Client) -> None:
    assert gcp.as_(STRANGER).refused(INSERT, IN_PROJECT, {"nmae": "x"}).status == "INVALID_ARGUMENT"
    assert gcp.refused(INSERT, {**IN_PROJECT, "porject": "x"}, NEW).status == "INVALID_ARGUMENT"
    assert "'project'" in gcp.refused(INSERT, {}, NEW).message


def test_an_api_that_is_off_comes_before_iam(cloud: Cloud, gcp: Client) -> None:
    cloud.project(PROJECT).services.discard("storage.googleapis.com")
    error = gcp.as_(STRANGER).refused(INSERT, IN_PROJECT, NEW)
    assert (error.http_status, error.reason) == (403, "SERVICE_DISABLED")
    assert "Cloud Storage API has not been used in project" in error.message
    assert gcp.refused(INSERT, IN_PROJECT, NEW).reason == "SERVICE_DISABLED"


def test_iam_comes_before_the_services_rules(gcp: Client) -> None:
    body = {"name": "No_Good"}
    error = gcp.as_(STRANGER).refused(INSERT, IN_PROJECT, body)
    assert (error.http_status, error.reason) == (403, "IAM_PERMISSION_DENIED")
    assert "Permission 'storage.buckets.create' denied on resource 'projects/acme-train'" in error.message
    assert gcp.refused(INSERT, IN_PROJECT, body).status == "INVALID_ARGUMENT"


def test_rules_come_before_the_handler(gcp: Client) -> None:
    gcp.make_bucket()
    assert gcp.refused(INSERT, IN_PROJECT, {**NEW, "storageClass": "WARM"}).status == "INVALID_ARGUMENT"
    assert gcp.refused(INSERT, IN_PROJECT, NEW).status == "ALREADY_EXISTS"


@pytest.mark.parametrize(
    ("method", "params", "body"),
    [
        (INSERT, {**IN_PROJECT, "predefinedAcl": "publicRead"}, NEW),
        ("storage.buckets.list", {**IN_PROJECT, "softDeleted": True}, None),
        ("storage.buckets.get", {"bucket": BUCKET, "projection": "full"}, None),
        ("storage.buckets.get", {"bucket": BUCKET, "userProject": OTHER}, None),
        ("storage.objects.list", {"bucket": BUCKET, "matchGlob": "*"}, None),
        ("run.projects.locations.jobs.list", {"parent": LOCATION, "showDeleted": True}, None),
        ("run.projects.locations.jobs.patch", {"name": JOB, "allowMissing": True}, job()),
        ("run.projects.locations.jobs.get", {"name": JOB, "alt": "media"}, None),
        ("storage.objects.delete", {"bucket": BUCKET, "object": "o", "ifGenerationMatch": "0"}, None),
        ("storage.buckets.delete", {"bucket": BUCKET, "ifMetagenerationMatch": "3"}, None),
        ("storage.objects.get", {"bucket": BUCKET, "object": "o", "generation": "1"}, None),
        ("run.projects.locations.jobs.create", {"parent": LOCATION, "jobId": "j", "validateOnly": True}, job()),
        ("run.projects.locations.jobs.run", {"name": JOB}, {"validateOnly": True}),
    ],
)
def test_what_would_change_a_calls_meaning_is_refused_rather_than_ignored(
    gcp: Client, method: str, params: dict[str, object], body: object
) -> None:
    error = gcp.refused(method, params, body)
    assert error.status == "UNIMPLEMENTED"
    assert f"of {method}" in error.message


def test_parameters_that_change_nothing_are_taken(gcp: Client) -> None:
    gcp.make_bucket()
    harmless = {"alt": "json", "fields": "items(name)", "prettyPrint": "false", "quotaUser": "q", "projection": "noAcl"}
    off = {"softDeleted": False, "versions": "false", "startOffset": ""}
    assert gcp.call("storage.buckets.get", {"bucket": BUCKET, **harmless})["name"] == BUCKET
    assert gcp.call("storage.objects.list", {"bucket": BUCKET, **harmless, **off})["items"] == []


def test_a_project_that_does_not_exist_is_a_lack_of_permission(gcp: Client) -> None:
    error = gcp.refused("cloudresourcemanager.projects.get", {"projectId": "nobodys"})
    assert (error.http_status, error.reason) == (403, "CONSUMER_INVALID")


def test_a_projects_number_is_as_good_as_its_id(cloud: Cloud, gcp: Client) -> None:
    number = str(cloud.project(PROJECT).number)
    gcp.make_account()
    assert gcp.finish(
        "run.projects.locations.jobs.create",
        {"parent": LOCATION.replace(PROJECT, number), "jobId": "train"},
        job(),
    )["name"].startswith(f"projects/{PROJECT}/")


def test_only_the_platform_reports_tasks(gcp: Client) -> None:
    error = gcp.refused("mockgcp.run.executions.list")
    assert (error.http_status, "platform's own planes" in error.message) == (403, True)
    assert gcp.as_(PLATFORM).call("mockgcp.run.executions.list") == {"executions": []}


def test_an_answer_is_the_callers_own(gcp: Client) -> None:
    gcp.make_bucket(labels={"a": "b"})
    gcp.call("storage.buckets.get", {"bucket": BUCKET})["labels"]["a"] = "changed"
    assert gcp.call("storage.buckets.get", {"bucket": BUCKET})["labels"] == {"a": "b"}


# -- the audit log -------------------------------------------------------------------------------------------------


def test_every_call_is_in_the_audit_log_with_who_what_and_how_it_ended(cloud: Cloud, gcp: Client) -> None:
    cloud.faults.inject(Fault("storage.buckets.list", ApiError("UNAVAILABLE", "try later")))
    gcp.refused("storage.buckets.list", IN_PROJECT)
    gcp.refused("bigtable.tables.get")
    gcp.as_(None).refused(INSERT, IN_PROJECT, NEW)
    gcp.refused(INSERT, IN_PROJECT, {"nmae": "x"})
    gcp.as_(STRANGER).refused(INSERT, IN_PROJECT, NEW)
    gcp.refused(INSERT, IN_PROJECT, {"name": "UP"})
    cloud.clock.advance(1)
    gcp.call(INSERT, IN_PROJECT, NEW)
    assert [e.code for e in cloud.audit.entries()] == [503, 501, 401, 400, 403, 400, 200]
    entry = cloud.audit.entries(INSERT, ok=True)[0]
    assert (entry.principal, entry.params, entry.request) == (gcp.principal, IN_PROJECT, NEW)
    assert (entry.time, entry.message) == ("2026-01-01T00:00:01.000000Z", "")
    assert [e.principal for e in cloud.audit.entries("storage.buckets.*", ok=False)][1] == ""


def test_an_audited_request_does_not_follow_later_changes_of_the_callers_object(cloud: Cloud, gcp: Client) -> None:
    body = {**NEW, "labels": {"a": "b"}}
    gcp.call(INSERT, IN_PROJECT, body)
    body["labels"] = {}
    assert cloud.audit.entries(INSERT)[0].request["labels"] == {"a": "b"}


# -- waiting for changes -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "params", "body", "wakes"),
    [
        (INSERT, IN_PROJECT, NEW, True),
        ("storage.buckets.list", IN_PROJECT, None, False),
        ("logging.entries.write", {}, {"entries": [{"logName": f"projects/{PROJECT}/logs/app"}]}, False),
    ],
)
def test_only_what_a_waiter_looks_at_wakes_it(
    cloud: Cloud, gcp: Client, monkeypatch: pytest.MonkeyPatch, method: str, params: Any, body: Any, wakes: bool
) -> None:
    woken: list[bool] = []
    monkeypatch.setattr(cloud.changed, "notify_all", lambda: woken.append(True))
    gcp.call(method, params, body)
    assert bool(woken) == wakes


# -- dry runs ------------------------------------------------------------------------------------------------------


def test_validate_judges_without_doing(cloud: Cloud) -> None:
    cloud.validate(INSERT, IN_PROJECT, NEW, STRANGER)
    with pytest.raises(ApiError, match="Invalid bucket name"):
        cloud.validate(INSERT, IN_PROJECT, {"name": "UP"}, STRANGER)
    assert cloud.audit.entries() == []
    assert cloud.table("storage.bucket") == {}


# -- seeds and resets ----------------------------------------------------------------------------------------------


def built(state: Path, seed: int) -> dict[str, object]:
    cloud = seeded(state, seed)
    gcp = Client(cloud)
    account, made = gcp.make_account(), gcp.make_job()
    _, execution = gcp.run_job()
    number = cloud.project(PROJECT).number
    return {
        "number": number,
        "account": account,
        "job": made,
        "execution": gcp.execution(execution),
        "tasks": gcp.tasks(execution),
    }


def test_two_clouds_of_one_seed_give_the_same_ids_and_another_seed_others(tmp_path: Path) -> None:
    first = built(tmp_path / "1", 3)
    assert first == built(tmp_path / "2", 3)
    third = built(tmp_path / "3", 4)
    assert first["number"] != third["number"]
    assert first["account"]["uniqueId"] != third["account"]["uniqueId"]  # type: ignore[index]
    assert first["execution"]["name"] != third["execution"]["name"]  # type: ignore[index]


def test_a_reset_forgets_all_but_the_time_and_starts_the_seed_again(cloud: Cloud, gcp: Client) -> None:
    number = cloud.project(PROJECT).number
    gcp.make_bucket()
    (cloud.state_dir / "buckets" / BUCKET / "old").write_text("x")
    gcp.make_account()
    operation = gcp.start("run.projects.locations.jobs.create", {"parent": LOCATION, "jobId": "train"}, job())
    cloud.faults.inject(Fault("*", ApiError("UNAVAILABLE", "later"), times=None))
    cloud.clock.advance(1)
    cloud.reset()
    assert (cloud.projects, cloud.audit.entries(), cloud.clock.seconds()) == ((), [], 1.0)
    assert (cloud.operations.get(operation.name), cloud.clock.next_due()) == (None, None)
    for project in (PROJECT, OTHER):
        cloud.seed_project(project)
    assert cloud.project(PROJECT).number == number
    gcp.make_bucket()
    assert gcp.call("storage.objects.list", {"bucket": BUCKET})["items"] == []
    cloud.project(PROJECT).services.add("cloudresourcemanager.googleapis.com")
    assert gcp.call("cloudresourcemanager.projects.getIamPolicy", {"resource": PROJECT}, {})["bindings"] == [
        {"role": "roles/owner", "members": [gcp.principal]}
    ]


def test_a_project_is_seeded_once(cloud: Cloud) -> None:
    with pytest.raises(ValueError, match="'acme-train' is seeded already"):
        cloud.seed_project(PROJECT)


def test_an_unknown_universe_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ValueError, match=r"known: googleapis\.com"):
        Cloud(universe="example.com")


def test_an_account_and_a_buckets_link_are_of_the_clouds_universe(tmp_path: Path) -> None:
    cloud = Cloud(state_dir=tmp_path, universe="s3nsapis.fr")
    cloud.seed_project("s3ns:acme-train").services.add("iam.googleapis.com")
    gcp = Client(cloud)
    account = gcp.call(
        "iam.projects.serviceAccounts.create", {"name": "projects/s3ns:acme-train"}, {"accountId": "gpu-job-sa"}
    )
    assert account["email"] == "gpu-job-sa@acme-train.s3ns.iam.gserviceaccount.com"
    assert gcp.make_bucket(project="s3ns:acme-train")["selfLink"].startswith("https://www.s3nsapis.fr/")
