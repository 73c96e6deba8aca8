"""What is said of a job, from objects as Kueue 0.17.0 and KubeRay 1.6.2 wrote them on a real cluster."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from holdfast.runs.backend import State
from holdfast.runs.gke_status import Seen, look

T1, T2, T3 = "2026-11-29T23:07:02Z", "2026-11-29T23:07:06Z", "2026-11-29T23:08:04Z"
S1, S2, S3 = "11-29T23:07:02Z", "11-29T23:07:06Z", "11-29T23:08:04Z"


def said(kind: str, status: str = "True", reason: str = "", message: str = "", at: str = T1) -> dict[str, str]:
    return {"type": kind, "status": status, "reason": reason or kind, "message": message, "lastTransitionTime": at}


def job(deployment: str = "Suspended", result: str = "", *, suspend: bool = True, **status: Any) -> dict[str, Any]:
    groups = [{"groupName": "tpu-group", "replicas": 1, "numOfHosts": 4}]
    return {
        "metadata": {"name": "job", "namespace": "default", "uid": "1"},
        "spec": {"suspend": suspend, "rayClusterSpec": {"workerGroupSpecs": groups}},
        "status": {"jobDeploymentStatus": deployment, **({"jobStatus": result} if result else {}), **status},
    }


def workload(
    *conditions: Mapping[str, str], flavor: str = "", active: bool = True, checks: Sequence[Any] = (), **status: Any
) -> dict[str, Any]:
    sets = [
        {"name": "head", "flavors": {"cpu": "default-cpu", "memory": "default-cpu"}},
        {"name": "tpu-group", "flavors": {"cpu": flavor, "google.com/tpu": flavor, "memory": flavor}},
    ]
    return {
        "metadata": {"name": "rayjob-job-d7c6c"},
        "spec": {"active": active, "queueName": "user-queue"},
        "status": {
            "conditions": list(conditions),
            **({"admission": {"podSetAssignments": sets}} if flavor else {}),
            **({"admissionChecks": list(checks)} if checks else {}),
            **status,
        },
    }


def request(*conditions: Mapping[str, str], number: int = 1) -> dict[str, Any]:
    return {
        "metadata": {"name": f"rayjob-job-d7c6c-dws-prov-{number}"},
        "spec": {"podSets": [{"count": 4, "podTemplateRef": {"name": "ppt"}}]},
        "status": {"conditions": list(conditions)},
    }


def pod(*conditions: Mapping[str, str], kind: str = "worker") -> dict[str, Any]:
    return {"metadata": {"labels": {"ray.io/node-type": kind}}, "status": {"conditions": list(conditions)}}


RESERVED = said("QuotaReserved", message="Quota reserved in ClusterQueue cluster-queue")
ADMITTED = said("Admitted", message="The workload is admitted", at=T2)
WAITS = {"name": "dws-prov", "state": "Pending", "message": ""}
SHORT = (
    "couldn't assign flavors to pod set head: flavor dws doesn't match node affinity, insufficient unused quota for "
    "cpu in flavor default-cpu, 2 more needed, insufficient unused quota for memory in flavor default-cpu, 800Mi more "
    "needed; couldn't assign flavors to pod set submitter: insufficient unused quota for memory in flavor default-cpu, "
    "1000Mi more needed"
)
UNSCHEDULABLE = said(
    "PodScheduled", "False", "Unschedulable", "0/5 nodes are available: 5 node(s) didn't match. no new claims", T2
)
READY = said("Ready")
BY_HAND = said("Evicted", reason="Deactivated", message="The workload is deactivated", at=T3)
BY_KUEUE = said(
    "Evicted",
    reason="DeactivatedDueToAdmissionCheck",
    message="The workload is deactivated due to Admission check(s): dws-prov, were rejected",
    at=T3,
)
NO_QUOTA = said("QuotaReserved", "False", "Pending")
REVOKED = request(said("Accepted"), said("Provisioned"), said("CapacityRevoked", message="7 days are over", at=T3))

CASES: dict[str, tuple[Seen, State, str]] = {
    "new": (Seen(job("")), "pending", "Kueue has not seen it yet"),
    "no quota, in line": (
        Seen(
            job(),
            workload(said("QuotaReserved", "False", "Pending", SHORT)),
            pending=[
                {"metadata": {"name": "another"}, "positionInClusterQueue": 0},
                {"metadata": {"name": "rayjob-job-d7c6c"}, "positionInClusterQueue": 1},
            ],
        ),
        "pending",
        "no quota yet: 1 ahead of it; default-cpu lacks 2 of cpu, default-cpu lacks 1000Mi of memory",
    ),
    "no quota, nobody to ask": (Seen(job(), workload(NO_QUOTA)), "pending", "no quota yet"),
    "another version's words": (
        Seen(job(), workload(said("QuotaReserved", "False", "Pending", "out of luck")), pending=[]),
        "pending",
        "no quota yet; out of luck",
    ),
    "inadmissible": (
        Seen(job(), workload(said("QuotaReserved", "False", "Inadmissible", "LocalQueue q doesn't exist"))),
        "pending",
        "inadmissible: LocalQueue q doesn't exist. It waits until that changes",
    ),
    "request to come": (
        Seen(job(), workload(RESERVED, flavor="dws", checks=[WAITS])),
        "pending",
        f"quota of dws is reserved since {S1}; Kueue is about to order nodes",
    ),
    "request not accepted": (
        Seen(job(), workload(RESERVED, flavor="dws", checks=[WAITS]), [request()]),
        "pending",
        f"quota of dws is reserved since {S1}; its request for 4 nodes is not accepted yet",
    ),
    "waits for nodes": (
        Seen(job(), workload(RESERVED, flavor="dws", checks=[WAITS]), [request(said("Accepted", at=T2))]),
        "pending",
        f"quota of dws is reserved since {S1}; GKE waits for 4 flex-start nodes at once, its request is accepted since "
        f"{S2}",
    ),
    "second request": (
        Seen(job(), workload(RESERVED, flavor="dws", checks=[WAITS]), [request(said("Failed")), request(number=2)]),
        "pending",
        f"quota of dws is reserved since {S1}; its request for 4 nodes is not accepted yet",
    ),
    "nodes are there": (
        Seen(job(), workload(RESERVED, flavor="dws"), [request(said("Accepted"), said("Provisioned", at=T2))]),
        "pending",
        f"quota of dws is reserved since {S1}, and its 4 nodes are there since {S2}",
    ),
    "request failed just now": (
        Seen(job(), workload(RESERVED, flavor="dws", checks=[WAITS]), [request(said("Failed", message="none left"))]),
        "pending",
        f"quota of dws is reserved since {S1}; its request for nodes ended (Failed: none left), and Kueue is about to "
        "act on that",
    ),
    "request is retried": (
        Seen(
            job(),
            workload(
                RESERVED,
                flavor="dws",
                checks=[{"name": "dws-prov", "state": "Retry", "message": "Retrying after failure: none left"}],
                requeueState={"requeueAt": T3},
            ),
            [request(said("Failed"))],
        ),
        "pending",
        f"quota of dws is reserved since {S1}, but dws-prov says: Retrying after failure: none left. Kueue asks again "
        f"at {S3}",
    ),
    "evicted, and queued again later": (
        Seen(
            job(),
            workload(
                NO_QUOTA,
                said("Evicted", reason="PodsReadyTimeout", message="Exceeded the PodsReady timeout", at=T2),
                requeueState={"requeueAt": T3},
            ),
        ),
        "pending",
        f"evicted at {S2}: Exceeded the PodsReady timeout. Kueue tries again at {S3}",
    ),
    "starts": (
        Seen(job("Initializing", suspend=False), workload(RESERVED, ADMITTED, flavor="on-demand")),
        "pending",
        f"admitted on on-demand since {S2}; its Ray cluster starts",
    ),
    "no machine": (
        Seen(
            job("Initializing", suspend=False),
            workload(RESERVED, ADMITTED, flavor="on-demand"),
            pods=[pod(READY, kind="head"), *[pod(UNSCHEDULABLE)] * 4],
        ),
        "pending",
        f"admitted on on-demand since {S2}; 4 of 5 pods have no machine since {S2}: 0/5 nodes are available: 5 node(s) "
        "didn't match",
    ),
    "no image": (
        Seen(
            job("Initializing", suspend=False),
            workload(RESERVED, ADMITTED, flavor="on-demand"),
            pods=[
                pod(READY, kind="head"),
                {
                    "metadata": {"labels": {"ray.io/node-type": "worker"}},
                    "status": {
                        "containerStatuses": [{"state": {"waiting": {"reason": "ErrImagePull", "message": "no such"}}}]
                    },
                },
            ],
        ),
        "pending",
        f"admitted on on-demand since {S2}; 1 of 2 pods are not ready (ErrImagePull: no such)",
    ),
    "runs": (
        Seen(job("Running", "RUNNING", suspend=False), workload(RESERVED, ADMITTED, flavor="dws"), pods=[pod(READY)]),
        "running",
        "it runs",
    ),
    "has lost a node": (
        Seen(
            job("Running", "RUNNING", suspend=False),
            workload(RESERVED, ADMITTED, flavor="dws"),
            pods=[pod(READY), pod(UNSCHEDULABLE)],
        ),
        "running",
        f"it runs, but 1 of 2 pods have no machine since {S2}: 0/5 nodes are available: 5 node(s) didn't match",
    ),
    "is being stopped": (
        Seen(job("Running", "RUNNING"), workload(RESERVED, ADMITTED, BY_HAND, flavor="dws", active=False)),
        "running",
        "it is being deactivated",
    ),
    "cancelled": (
        Seen(job(), workload(NO_QUOTA, BY_HAND, active=False)),
        "cancelled",
        "its workload was deactivated by hand",
    ),
    "revoked": (
        Seen(job(), workload(NO_QUOTA, BY_KUEUE, active=False), [REVOKED]),
        "failed",
        f"deactivated since {S3}: CapacityRevoked: 7 days are over. Kueue does not start it again: resubmit it",
    ),
    "given up": (
        Seen(job(), workload(NO_QUOTA, BY_KUEUE, active=False)),
        "failed",
        f"deactivated since {S3}: The workload is deactivated due to Admission check(s): dws-prov, were rejected. "
        "Kueue does not start it again: resubmit it",
    ),
    "succeeded": (Seen(job("Complete", "SUCCEEDED", endTime=T3), workload()), "succeeded", "it is complete"),
    "stopped in Ray": (Seen(job("Complete", "STOPPED", message="stopped")), "cancelled", "stopped"),
    "failed": (
        Seen(job("Failed", "FAILED", reason="AppFailed", message="exit code 2")),
        "failed",
        "AppFailed: exit code 2",
    ),
    "refused by KubeRay": (
        Seen(job("ValidationFailed", reason="ValidationFailed", message="no head")),
        "failed",
        "ValidationFailed: no head",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_state_and_sentence(case: str) -> None:
    seen, state, sentence = CASES[case]
    found = look(seen)
    assert (found.state, found.sentence) == (state, sentence)


def test_what_else_there_is_to_know() -> None:
    seen = Seen(
        job("Running", "RUNNING", suspend=False),
        workload(RESERVED, ADMITTED, flavor="dws"),
        [request(said("Provisioned", at=T2), said("Accepted"), said("Failed", "False"))],
        [pod(READY, kind="head"), pod(READY), pod(UNSCHEDULABLE), {"metadata": {"labels": {}}}],
    )
    found = look(seen)
    assert (found.queue, found.flavor, found.ahead, found.pods, found.ended) == (
        "user-queue",
        "dws",
        None,
        (2, 5),
        None,
    )
    assert found.requests == (f"rayjob-job-d7c6c-dws-prov-1: Accepted {S1}, Provisioned {S2}",)


def test_when_it_ended() -> None:
    assert str(look(CASES["succeeded"][0]).ended) == "2026-11-29 23:08:04+00:00"
    assert str(look(CASES["revoked"][0]).ended) == "2026-11-29 23:08:04+00:00"
    assert look(CASES["waits for nodes"][0]).ended is None
