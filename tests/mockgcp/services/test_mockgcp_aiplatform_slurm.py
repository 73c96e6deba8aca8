"""What is asked of a running training cluster: Slurm's REST API through the service, and to mend a node."""

from __future__ import annotations

import json
from typing import Any

import pytest
from mockgcp_client import PROJECT, STRANGER, Client
from slurm_site import GPU, LOGIN, REGION, ZONE, Schedulers, settle, training_cluster

from mockgcp.cloud import Cloud
from mockgcp.training_clusters import Node, Status

LOCATION = f"projects/{PROJECT}/locations/{REGION}"
NAME = f"{LOCATION}/modelDevelopmentClusters/flexvm"
METHODS = "aiplatform.projects.locations.modelDevelopmentClusters"
REST, FAULTY = f"{METHODS}.callSlurmRestApi", f"{METHODS}.reportFaultyNodes"
IT = {"name": NAME}
JOB = {"script": "#!/bin/bash\nsleep 5\n", "job": {"name": "my-run", "partition": "a3u"}}


def make(cloud: Cloud, schedulers: Schedulers | None = None) -> Client:
    settle(cloud, PROJECT)
    cloud.training_clusters = schedulers
    owner = Client(cloud)
    h100 = {"machineSpec": {"machineType": "a3-highgpu-8g"}, "id": "h100", "provisioningModel": "SPOT", "zone": ZONE}
    pools = [LOGIN, GPU, {**h100, "scalingSpec": {"minNodeCount": 1, "maxNodeCount": 1}}]
    new = {"parent": LOCATION, "modelDevelopmentClusterId": "flexvm"}
    owner.finish(f"{METHODS}.create", new, training_cluster(PROJECT, nodePools=pools))
    return owner


def asks(verb: str, path: str, body: Any = None) -> dict[str, Any]:
    return {"method": f"HTTP_METHOD_{verb}", "path": path, **({} if body is None else {"body": body})}


# -- Slurm's REST API ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("verb", "path", "body"),
    [
        ("POST", "/slurm/v0.0.42/job/submit", JOB),
        ("GET", "/slurm/v0.0.42/jobs/", None),
        ("GET", "/slurm/v0.0.42/jobs", None),
        ("GET", "/slurm/v0.0.42/job/7", None),
        ("DELETE", "/slurm/v0.0.42/job/7", None),
    ],
)
def test_slurm_answers_in_the_callers_name(cloud: Cloud, verb: str, path: str, body: Any) -> None:
    schedulers = Schedulers()
    answer = make(cloud, schedulers).call(REST, IT, asks(verb, path, body))
    assert (answer["status"], json.loads(answer["body"])) == (200, {"job_id": 7, "errors": []})
    assert schedulers.asked[-1] == ("rest", NAME, verb, path, body, "user:owner@example.com")


@pytest.mark.parametrize(
    ("sent", "status", "says"),
    [
        (asks("GET", "/slurm/v0.0.42/nodes/"), "UNIMPLEMENTED", "GET /slurm/v0.0.42/nodes/"),
        (asks("GET", "/slurm/v0.0.41/jobs/"), "UNIMPLEMENTED", "v0.0.42"),
        (asks("GET", "/slurmdb/v0.0.42/job/7"), "UNIMPLEMENTED", "job/submit"),
        (asks("POST", "/slurm/v0.0.42/job/7", {}), "UNIMPLEMENTED", "POST /slurm/v0.0.42/job/7"),
        (asks("GET", "/etc/passwd"), "INVALID_ARGUMENT", "is not a valid Slurm path"),
        ({"path": "/slurm/v0.0.42/jobs/"}, "INVALID_ARGUMENT", "method is required"),
        (asks("POST", "/slurm/v0.0.42/job/submit"), "INVALID_ARGUMENT", "body is required for POST"),
        (asks("GET", "/slurm/v0.0.42/jobs/", {}), "INVALID_ARGUMENT", "body is required for POST, and for POST alone"),
        (asks("POST", "/slurm/v0.0.42/job/submit", {"script": "x" * 10**6}), "INVALID_ARGUMENT", "under 1000000"),
    ],
)
def test_what_slurm_is_not_asked(cloud: Cloud, sent: Any, status: str, says: str) -> None:
    schedulers = Schedulers()
    refused = make(cloud, schedulers).refused(REST, IT, sent)
    assert (refused.status, says in refused.message) == (status, True), refused.message
    assert [what for what, *_ in schedulers.asked] == ["create"]
    assert refused.http_status == (501 if status == "UNIMPLEMENTED" else 400)


def test_without_a_plane_no_scheduler_answers_and_that_is_said(cloud: Cloud) -> None:
    refused = make(cloud).refused(REST, IT, asks("GET", "/slurm/v0.0.42/jobs/"))
    assert (refused.http_status, "no scheduler runs behind" in refused.message) == (501, True)


def test_a_cluster_that_is_not_up_is_unavailable(cloud: Cloud) -> None:
    schedulers = Schedulers()
    owner = make(cloud, schedulers)
    owner.start(f"{METHODS}.patch", {**IT, "updateMask": "displayName"}, {"displayName": "other"})
    assert owner.call(REST, IT, asks("GET", "/slurm/v0.0.42/jobs/"))["status"] == 200
    cloud.clock.advance(1000)
    schedulers.fails = "slurmctld is away"
    assert owner.refused(REST, IT, asks("GET", "/slurm/v0.0.42/jobs/")).status == "UNAVAILABLE"
    schedulers.fails = ""
    owner.start(f"{METHODS}.delete", IT)
    refused = owner.refused(REST, IT, asks("GET", "/slurm/v0.0.42/jobs/"))
    assert (refused.status, "STOPPING" in refused.message) == ("UNAVAILABLE", True)
    cloud.clock.advance(1000)
    assert owner.refused(REST, IT, asks("GET", "/slurm/v0.0.42/jobs/")).status == "NOT_FOUND"


def test_a_user_of_the_platform_may_run_and_a_viewer_may_not(cloud: Cloud) -> None:
    stranger = make(cloud, Schedulers()).as_(STRANGER)
    sent = asks("GET", "/slurm/v0.0.42/jobs/")
    cloud.policies.grant(f"projects/{PROJECT}", "roles/aiplatform.viewer", STRANGER)
    assert "modelDevelopmentClusters.run" in stranger.refused(REST, IT, sent).message
    cloud.policies.grant(f"projects/{PROJECT}", "roles/aiplatform.user", STRANGER)
    assert stranger.call(REST, IT, sent)["status"] == 200


# -- faulty nodes ----------------------------------------------------------------------------------------------------


def report(node: str = "flexvm-a3u-0", *reasons: dict[str, str], host: bool = False) -> dict[str, Any]:
    return {
        "nodeActions": [{"nodeId": node, **({"reportFaultyHost": {"faultReasons": list(reasons)}} if host else {})}]
    }


XID = {"behavior": "UNRECOVERABLE_GPU_ERROR", "description": "Xid 79"}


def node(gcp: Client, name: str) -> dict[str, Any]:
    found = gcp.call(f"{METHODS}.get", IT)["clusterStatus"]["nodesStatus"]
    return next(each for each in found if each["instanceName"] == name)


def allow_reports(cloud: Cloud) -> None:
    agent = f"service-{cloud.project(PROJECT).number}@gcp-sa-aiplatform.iam.gserviceaccount.com"
    cloud.policies.grant(f"projects/{PROJECT}", "roles/compute.instanceAdmin.v1", f"serviceAccount:{agent}")


def test_a_static_node_that_is_deleted_comes_back_as_another(cloud: Cloud) -> None:
    owner = make(cloud)
    before = node(owner, "flexvm-a3u-0")
    owner.finish(FAULTY, IT, report())
    after = node(owner, "flexvm-a3u-0")
    assert (after["nodeState"], after["createTime"] > before["createTime"]) == ("RUNNING", True)
    assert after["instanceId"] != before["instanceId"]
    [event] = owner.call(f"{METHODS}.get", IT)["clusterEvents"]
    assert (event["eventType"], "flexvm-a3u-0" in event["eventMessage"]) == ("VM_DELETION", True)


def test_a_host_is_reported_with_its_reasons(cloud: Cloud) -> None:
    owner = make(cloud)
    refused = owner.refused(FAULTY, IT, report("flexvm-a3u-0", XID, host=True))
    assert (refused.status, "gcp-sa-aiplatform.iam.gserviceaccount.com" in refused.message) == (
        "PERMISSION_DENIED",
        True,
    )
    allow_reports(cloud)
    owner.finish(FAULTY, IT, report("flexvm-a3u-0", XID, host=True))
    [event] = owner.call(f"{METHODS}.get", IT)["clusterEvents"]
    assert (event["eventType"], "Xid 79" in event["eventMessage"]) == ("VM_REPORT_AND_REPLACEMENT", True)


def test_a_plane_mends_its_own_nodes(cloud: Cloud) -> None:
    schedulers = Schedulers()
    owner = make(cloud, schedulers)
    allow_reports(cloud)
    at = cloud.clock.timestamp()
    schedulers.now = Status((Node("flexvm-a3u-1", "a3u", "RUNNING", at, at),))
    owner.finish(FAULTY, IT, report("flexvm-a3u-1"))
    owner.finish(FAULTY, IT, report("flexvm-a3u-1", XID, host=True))
    assert schedulers.asked[1:] == [
        ("report_faulty", NAME, "flexvm-a3u-1", [], False),
        ("report_faulty", NAME, "flexvm-a3u-1", [XID], True),
    ]
    schedulers.fails = "it did not come back"
    with pytest.raises(Exception, match="it did not come back"):
        owner.finish(FAULTY, IT, report("flexvm-a3u-1"))


@pytest.mark.parametrize(
    ("sent", "status", "says"),
    [
        ({"nodeActions": []}, "INVALID_ARGUMENT", "exactly one node at a time, got 0"),
        ({"nodeActions": report()["nodeActions"] * 2}, "INVALID_ARGUMENT", "exactly one node at a time, got 2"),
        (report(""), "INVALID_ARGUMENT", "nodeId is required"),
        (report("flexvm-a3u-9"), "NOT_FOUND", "has no node 'flexvm-a3u-9'"),
        (report("flexvm-login-0"), "INVALID_ARGUMENT", "is a login node"),
        (report(host=True), "INVALID_ARGUMENT", "one reason or more"),
        (report("flexvm-a3u-0", {"behavior": "PERFORMANCE"}, host=True), "INVALID_ARGUMENT", "and a description"),
        (report("flexvm-a3u-0", {**XID, "behavior": "SAD"}, host=True), "INVALID_ARGUMENT", "(enum)"),
        (report("flexvm-h100-0", XID, host=True), "FAILED_PRECONDITION", "a4-highgpu-8g alone, not of a3-highgpu-8g"),
    ],
)
def test_a_report_that_is_refused(cloud: Cloud, sent: Any, status: str, says: str) -> None:
    refused = make(cloud).refused(FAULTY, IT, sent)
    assert (refused.status, says in refused.message) == (status, True), refused.message


def test_the_host_of_a_node_that_does_not_run_is_not_reported(cloud: Cloud) -> None:
    schedulers = Schedulers()
    owner = make(cloud, schedulers)
    allow_reports(cloud)
    at = cloud.clock.timestamp()
    schedulers.now = Status((Node("flexvm-a3u-0", "a3u", "PREPARING", at, at),))
    refused = owner.refused(FAULTY, IT, report("flexvm-a3u-0", XID, host=True))
    assert "must be RUNNING, and it is PREPARING" in refused.message
