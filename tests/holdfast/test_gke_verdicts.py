"""The verdicts on scenario B's stories follow from what Kubernetes said: other evidence must turn them."""

import copy
import json
from collections.abc import Callable
from typing import Any

import pytest

from holdfast.rehearsal import gke_record
from holdfast.rehearsal.gke_record import Record
from holdfast.rehearsal.gke_stories import STORIES
from holdfast.rehearsal.gke_stories_admission import DONE, figures

STACK = {
    "hosts": 4,
    "on_demand_pool": "on-demand-pool",
    "flex_start_pool": "dws-pool",
    "request_retries": 1,
    "pods_ready_retries": 1,
    "really_run": False,
}
CLASS = "queued-provisioning.gke.io"


def state(at: float, name: str, flavor: str = "", *, active: bool = True, **conditions: str) -> dict[str, Any]:
    """A workload in a moment: the flavor it has, and the reasons of the conditions that hold."""
    sets = [
        {"name": "head", "flavors": {"cpu": "default-cpu"}},
        {"name": "tpu-group", "flavors": {gke_record.TPU: flavor}},
    ]
    status: dict[str, Any] = {"admission": {"podSetAssignments": sets}} if flavor else {}
    said = [
        {"type": kind, "status": "True", "reason": reason, "lastTransitionTime": f"2026-11-29T00:00:{at:02.0f}Z"}
        for kind, reason in conditions.items()
    ]
    return {"at": at, "name": name, "active": active, "status": {**status, "conditions": said}}


def request(job: str, *conditions: str, at: float = 0, count: int = 4) -> list[dict[str, Any]]:
    """A request that came to these conditions, one by one."""
    said = [{"type": kind, "status": "True"} for kind in conditions]
    return [
        {"at": at + number, "job": job, "class": CLASS, "pod_sets": [count], "conditions": said[:number]}
        for number in range(len(said) + 1)
    ]


def event(job: str, reason: str, message: str, count: int = 1) -> dict[str, Any]:
    return {"job": job, "type": "Normal", "reason": reason, "message": message, "count": count}


def job(*results: str, suspended_until: float = 0) -> list[dict[str, Any]]:
    begun = [{"at": suspended_until, "suspend": False, "status": {}}]
    ran = [{"at": 20 + n, "suspend": False, "status": {"jobStatus": result}} for n, result in enumerate(results)]
    return [{"at": 0, "suspend": True, "status": {}}, *begun, *ran]


def workers(name: str, pool: str, count: int = 4) -> dict[str, list[dict[str, Any]]]:
    waits = {"at": 1, "job": name, "phase": "Pending", "node": "", "pool": ""}
    runs = {"at": 2, "job": name, "phase": "Running", "node": "n", "pool": pool}
    return {f"{name}-{pool}-{number}": [waits, runs] for number in range(count)}


IDLE: list[dict[str, Any]] = [{"at": 0, "used": {}}, {"at": 3, "used": {"dws/cpu": "8"}}, {"at": 30, "used": {}}]


def two_jobs() -> Record:
    return Record(
        STACK,
        workloads={
            "job1": [state(0, "w1"), state(1, "w1", "on-demand", Admitted="Admitted")],
            "job2": [
                state(2, "w2", "dws", QuotaReserved="QuotaReserved"),
                state(9, "w2", "dws", QuotaReserved="QuotaReserved", Admitted="Admitted"),
                state(30, "w2", "dws", Admitted="Admitted", Finished="Succeeded"),
            ],
        },
        jobs={"job1": job("RUNNING", "SUCCEEDED"), "job2": job("RUNNING", "SUCCEEDED", suspended_until=9)},
        requests={"r": request("job2", "Accepted", "Provisioned", at=2)},
        pods={**workers("job1", "on-demand-pool"), **workers("job2", "dws-pool")},
        usage=IDLE,
    )


def stock_out() -> Record:
    why = "Requested capacity is not available."
    return Record(
        STACK,
        workloads={
            "stock-out": [
                state(1, "w1", "dws"),
                state(2, "w1", Evicted="AdmissionCheck"),
                state(3, "w1", "dws"),
                state(4, "w1", "dws", active=False, Evicted="DeactivatedDueToAdmissionCheck"),
                state(5, "w1", active=False, Evicted="DeactivatedDueToAdmissionCheck"),
                state(6, "w2", "dws", Admitted="Admitted"),
            ]
        },
        events=[
            event("stock-out", "AdmissionCheckUpdated", f"from Pending to Retry: Retrying after failure: {why}"),
            event("stock-out", "AdmissionCheckUpdated", f"from Pending to Rejected with message: {why}"),
            event("stock-out", "ProvisioningRequestCreated", "Created", count=3),
        ],
    )


def booking_expired() -> Record:
    return Record(
        STACK,
        workloads={
            "booked": [state(1, "w1", "dws", Admitted="Admitted")],
            "late": [
                state(2, "w2", "dws"),
                state(3, "w2", Evicted="AdmissionCheck"),
                state(4, "w2", "dws", Admitted="Admitted"),
            ],
        },
        jobs={"booked": job("RUNNING", "SUCCEEDED")},
        requests={"r1": request("booked", "Accepted", "Provisioned", "BookingExpired")},
        events=[
            event(
                "late", "AdmissionCheckUpdated", "from Pending to Retry with message: Retrying after booking expired: x"
            ),
            event("late", "ProvisioningRequestCreated", "Created 1"),
            event("late", "ProvisioningRequestCreated", "Created 2"),
        ],
    )


def capacity_revoked() -> Record:
    gone = "DeactivatedDueToAdmissionCheck"
    return Record(
        STACK,
        workloads={
            "revoked": [
                state(1, "w1", "dws", Admitted="Admitted"),
                state(2, "w1", active=False, Evicted=gone),
                state(3, "w1", Evicted=gone),
                state(5, "w1", active=False, Evicted=gone),
                state(6, "w2", "dws", Admitted="Admitted"),
            ]
        },
        jobs={"revoked": job("RUNNING")},
        requests={
            "r1": request("revoked", "Accepted", "Provisioned", "CapacityRevoked"),
            "r2": request("revoked", "Accepted", "Provisioned", at=6),
        },
    )


def no_machine() -> Record:
    gone = "DeactivatedDueToRequeuingLimitExceeded"
    return Record(
        STACK,
        workloads={
            "no-machine": [
                state(1, "w1", "on-demand", Admitted="Admitted"),
                state(2, "w1", Evicted="PodsReadyTimeout"),
                state(3, "w1", "on-demand", Admitted="Admitted"),
                state(4, "w1", active=False, Evicted=gone),
                state(5, "w2", "dws", Admitted="Admitted"),
            ]
        },
        pods=workers("no-machine", "dws-pool"),
    )


def too_large() -> Record:
    return Record(STACK, said={"submit --slices 2": "32 chips; the largest flavor, with its pool, has 16"})


def trained(attempt: int, name: str, **fields: Any) -> dict[str, Any]:
    return {"event": name, "attempt": attempt, **fields}


def expired_slice() -> Record:
    """Killed after step 6 of 20, with a checkpoint at 4."""
    gone = "DeactivatedDueToAdmissionCheck"
    before = [trained(0, "step", step=step) for step in range(1, 7)]
    after = [trained(1, "step", step=step) for step in range(5, 21)]
    return Record(
        STACK,
        workloads={
            "expiring": [
                state(1, "w1", "dws", Admitted="Admitted"),
                state(2, "w1", active=False, Evicted=gone),
                state(3, "w2", "dws", Admitted="Admitted"),
            ]
        },
        jobs={"expiring": job("RUNNING", "SUCCEEDED")},
        requests={
            "r1": request("expiring", "Accepted", "Provisioned", "CapacityRevoked"),
            "r2": request("expiring", "Accepted", "Provisioned", at=6),
        },
        training={
            "events": [
                trained(0, "start"),
                *before[:4],
                trained(0, "saved", step=4),
                *before[4:],
                trained(1, "start"),
                trained(1, "resumed", from_step=4),
                *after,
                trained(1, "done", step=20),
            ],
            "compared": [{"bit_exact": True, "leaves": 7}],
        },
    )


GOOD: dict[str, Callable[[], Record]] = {
    "two-jobs": two_jobs,
    "stock-out": stock_out,
    "booking-expired": booking_expired,
    "capacity-revoked": capacity_revoked,
    "no-machine": no_machine,
    "too-large": too_large,
    "expired-slice": expired_slice,
}
JUDGE = {script.name: script.judge for script in STORIES}


@pytest.mark.parametrize("name", GOOD)
def test_a_story_that_went_as_expected_holds(name: str) -> None:
    found = JUDGE[name](GOOD[name]())
    assert found.held, found.outcome
    assert found.name == name
    assert found.expected
    assert found.advice
    assert json.loads(found.model_dump_json())["evidence"]["stack"] == STACK


@pytest.mark.parametrize("name", GOOD)
def test_a_story_that_got_stuck_at_once_does_not_hold(name: str) -> None:
    found = JUDGE[name](Record(STACK))
    assert not found.held
    assert "NOT seen: " in found.outcome


def _evict(record: Record) -> None:
    record.workloads["job1"].insert(2, state(5, "w1", Evicted="PodsReadyTimeout"))


TAMPERED: list[tuple[str, str, Callable[[Record], object]]] = [
    ("two-jobs", "both on demand", lambda r: r.workloads.update(job2=r.workloads["job1"])),
    ("two-jobs", "admitted at once", lambda r: r.workloads["job2"].pop(0)),
    ("two-jobs", "not suspended meanwhile", lambda r: r.jobs.update(job2=job("SUCCEEDED", suspended_until=1))),
    ("two-jobs", "another class", lambda r: r.requests["r"][-1].update({"class": "check-capacity"})),
    ("two-jobs", "half a slice", lambda r: r.requests.update(r=request("job2", "Accepted", "Provisioned", count=2))),
    ("two-jobs", "two requests", lambda r: r.requests.update(s=request("job2", "Accepted"))),
    ("two-jobs", "not accepted", lambda r: r.requests.update(r=request("job2", "Provisioned"))),
    ("two-jobs", "a worker less", lambda r: r.pods.pop("job2-dws-pool-3")),
    ("two-jobs", "a worker elsewhere", lambda r: r.pods["job2-dws-pool-3"][-1].update(pool="on-demand-pool")),
    ("two-jobs", "evicted", _evict),
    ("two-jobs", "failed", lambda r: r.jobs.update(job1=job("FAILED"))),
    ("two-jobs", "no log", lambda r: r.stack.update(really_run=True)),
    ("two-jobs", "quota held", lambda r: r.usage.pop()),
    ("stock-out", "no retry", lambda r: r.events.pop(0)),
    ("stock-out", "not rejected", lambda r: r.events.pop(1)),
    ("stock-out", "a request less", lambda r: r.events[2].update(count=2)),
    ("stock-out", "quota held", lambda r: r.workloads["stock-out"].pop(4)),
    ("stock-out", "not resubmitted", lambda r: r.workloads["stock-out"].pop()),
    ("booking-expired", "not expired", lambda r: r.requests.update(r1=request("booked", "Accepted", "Provisioned"))),
    (
        "booking-expired",
        "evicted",
        lambda r: r.workloads["booked"].append(state(9, "w1", Evicted="AdmissionCheck")),
    ),
    ("booking-expired", "not retried", lambda r: r.events.pop(0)),
    ("booking-expired", "one request", lambda r: r.events.pop()),
    ("booking-expired", "not admitted", lambda r: r.workloads["late"].pop()),
    ("capacity-revoked", "failed", lambda r: r.requests.update(r1=request("revoked", "Failed"))),
    ("capacity-revoked", "not deactivated", lambda r: r.workloads["revoked"].pop(1)),
    ("capacity-revoked", "never set active", lambda r: r.workloads["revoked"].pop(2)),
    ("capacity-revoked", "came back by itself", lambda r: r.workloads["revoked"].insert(3, state(4, "w1", "dws"))),
    ("capacity-revoked", "not resubmitted", lambda r: r.workloads["revoked"].pop()),
    ("capacity-revoked", "does not run", lambda r: r.jobs["revoked"].pop()),
    ("no-machine", "no limit", lambda r: r.stack.update(pods_ready_retries=None)),
    ("no-machine", "moved by itself", lambda r: r.workloads["no-machine"].insert(3, state(3, "w1", "dws"))),
    ("no-machine", "never given up", lambda r: r.workloads["no-machine"].pop(3)),
    ("no-machine", "a machine after all", lambda r: r.pods.update(workers("no-machine", "on-demand-pool"))),
    ("too-large", "accepted", lambda r: r.said.update({"submit --slices 2": "accepted"})),
    ("too-large", "applied", lambda r: r.jobs.update({"too-large": job()})),
    ("expired-slice", "not revoked", lambda r: r.requests.update(r1=request("expiring", "Accepted", "Provisioned"))),
    ("expired-slice", "not given up", lambda r: r.workloads["expiring"].pop(1)),
    ("expired-slice", "told to end", lambda r: r.training["events"].insert(7, trained(0, "sigterm"))),
    ("expired-slice", "from the start", lambda r: r.training["events"][9].update(from_step=0)),
    ("expired-slice", "a third attempt", lambda r: r.training["events"].append(trained(2, "start"))),
    ("expired-slice", "a step missing", lambda r: r.training["events"].pop(20)),
    ("expired-slice", "failed", lambda r: r.jobs.update(expiring=job("FAILED"))),
    ("expired-slice", "not compared", lambda r: r.training.pop("compared")),
    ("expired-slice", "another weight", lambda r: r.training.update(compared=[{"bit_exact": False}])),
]


@pytest.mark.parametrize(
    ("name", "how"), [(each[0], each[2]) for each in TAMPERED], ids=[f"{a}: {b}" for a, b, _ in TAMPERED]
)
def test_other_evidence_turns_the_verdict(name: str, how: Callable[[Record], object]) -> None:
    record = copy.deepcopy(GOOD[name]())
    how(record)
    assert not JUDGE[name](record).held


def test_jobs_that_really_ran_have_said_so() -> None:
    record = copy.deepcopy(two_jobs())
    record.stack["really_run"] = True
    record.said.update({f"logs {name}": f"loss 0.1\n{DONE}" for name in ("job1", "job2")})
    assert JUDGE["two-jobs"](record).held


def test_the_reports_figures_are_the_evidences() -> None:
    jobs, requests = figures(two_jobs())
    assert [(each.name, each.flavor, each.waited_for) for each in jobs] == [
        ("job1", "on-demand", ""),
        ("job2", "dws", "r"),
    ]
    assert jobs[1].admitted == "2026-11-29T00:00:09Z"
    assert [each.model_dump() for each in requests] == [{"class": CLASS, "count": 4, "state": "Provisioned"}]
