"""What becomes of jobs for which there are no flex-start nodes, or no longer, or no on-demand ones, or never any."""

from __future__ import annotations

from holdfast.errors import OperatorError
from holdfast.rehearsal import gke_record
from holdfast.rehearsal.gke_record import KUEUE, Record
from holdfast.rehearsal.gke_scene import Take
from holdfast.rehearsal.gke_stories_verdict import DEACTIVATED, DWS, ON_DEMAND, story
from holdfast.rehearsal.report import Story
from holdfast.runs.gke_job import JobOrder
from mockgcp.planes.k8s.api import MERGE

HOLDER = "holder"
"""A job that has the on-demand quota, so that others overflow."""
# Seconds in which a job would long be let in, if it were.
_NOTHING_S = 2.0


def hold(take: Take) -> None:
    take.submit(HOLDER)
    take.until(lambda record: admitted(record, HOLDER), f"{HOLDER} has the on-demand quota")


def expire(take: Take, job: str) -> None:
    """Ends the run duration of the flex-start pool's nodes, here at once, and waits until the job is given up."""
    pool = take.scene.flex_start
    limit, pool.run_limit_s = pool.run_limit_s, 0.0
    try:
        take.until(lambda record: given_up(record, job), "its nodes have reached their limit and are gone")
    finally:
        pool.run_limit_s = limit


def admitted(record: Record, job: str) -> bool:
    return bool(gke_record.reason(gke_record.workload(record, job), "Admitted"))


def given_up(record: Record, job: str) -> bool:
    """Deactivated, and its quota free."""
    state = gke_record.workload(record, job)
    return state.get("active") is False and not gke_record.flavor(state)


def was_given_up(record: Record, job: str) -> bool:
    return any(not state["active"] and not gke_record.flavor(state) for state in record.workloads.get(job, ()))


def workloads(record: Record, job: str) -> list[str]:
    """A job's workloads in their order, by name: one for each time that it was submitted."""
    return list(dict.fromkeys(state["name"] for state in record.workloads.get(job, ())))


# -- stock-out ---------------------------------------------------------------------------------------------------------

STOCK_OUT = "stock-out"
_NO_CAPACITY = "Requested capacity is not available."


def stock_out(take: Take) -> None:
    hold(take)
    for _ in range(take.scene.backend.config.retry_limit + 1):
        take.scene.cluster.provisioning.order(STOCK_OUT, "Failed", _NO_CAPACITY)
    take.submit(STOCK_OUT)
    take.until(lambda record: given_up(record, STOCK_OUT), "its requests have failed, and it is given up")
    take.scene.resubmit(STOCK_OUT)
    take.until(lambda record: admitted(record, STOCK_OUT), "there is capacity again, and it is admitted")


def stock_out_story(record: Record) -> Story:
    retries = record.stack["request_retries"]
    turns = gke_record.events(record, STOCK_OUT, "AdmissionCheckUpdated")
    checks = {
        f"{retries} retries": sum(f"Retrying after failure: {_NO_CAPACITY}" in each for each in turns) == retries,
        "then the check was rejected": sum("to Rejected with message" in each for each in turns) == 1,
        f"{retries + 2} requests in all": len(gke_record.events(record, STOCK_OUT, "ProvisioningRequestCreated"))
        == retries + 2,
        "deactivated, its quota free": was_given_up(record, STOCK_OUT),
        "resubmitted, a new workload was admitted": len(workloads(record, STOCK_OUT)) == 2
        and admitted(record, STOCK_OUT)
        and gke_record.flavors(record, STOCK_OUT)[-1:] == [DWS],
    }
    return story(
        STOCK_OUT,
        record,
        [STOCK_OUT],
        checks,
        f"a request that fails is tried again {retries} times; then Kueue rejects the job, deactivates its workload "
        "and frees its quota; it never tries again by itself",
        "`holdfast watch` says why; `holdfast resubmit` queues the job anew, and it goes on from its checkpoints. "
        "Raise retryLimit and retryMaxSeconds to wait longer without you",
    )


# -- booking expired ---------------------------------------------------------------------------------------------------

BOOKED, LATE = "booked", "late"


def booking_expired(take: Take) -> None:
    hold(take)
    provisioning = take.scene.cluster.provisioning
    take.submit(BOOKED)
    take.until(lambda record: gke_record.result(record, BOOKED) == "RUNNING", f"{BOOKED} runs")
    before, provisioning.booking_s = provisioning.booking_s, 0.0
    try:
        take.until(
            lambda record: any("BookingExpired" in each for each in gke_record.requests(record, BOOKED)),
            "its booking has expired",
        )
    finally:
        provisioning.booking_s = before
    take.scene.finish(BOOKED)
    take.until(lambda record: gke_record.result(record, BOOKED) == "SUCCEEDED", f"{BOOKED} has succeeded")
    take.until(lambda record: gke_record.reason(gke_record.workload(record, BOOKED), "Finished"), "its quota is free")
    take.scene.scale_down()
    provisioning.order(LATE, "BookingExpired")
    take.submit(LATE)
    take.until(lambda record: admitted(record, LATE), f"{LATE} is admitted, by a second request")


def booking_expired_story(record: Record) -> Story:
    turns = gke_record.events(record, LATE, "AdmissionCheckUpdated")
    checks = {
        f"the booking of {BOOKED} expired": gke_record.requests(record, BOOKED)
        == [["Accepted", "Provisioned", "BookingExpired"]],
        f"{BOOKED} was not evicted": not gke_record.reasons(record, BOOKED, "Evicted"),
        f"{BOOKED} succeeded": gke_record.result(record, BOOKED) == "SUCCEEDED",
        f"{LATE} was retried for it": sum("Retrying after booking expired" in each for each in turns) == 1,
        f"{LATE} had two requests": len(gke_record.events(record, LATE, "ProvisioningRequestCreated")) == 2,
        f"{LATE} was admitted on {DWS} then": admitted(record, LATE)
        and gke_record.flavor(gke_record.workload(record, LATE)) == DWS,
    }
    return story(
        "booking-expired",
        record,
        [BOOKED, LATE],
        checks,
        "after admission nothing happens: GKE no longer holds idle nodes, and those with pods stay; before admission, "
        "as when Kueue was away while the nodes were held, it counts as a failure, and Kueue orders nodes anew",
        "nothing; if a job loses nodes so again and again, look at why Kueue, or the image's pull, takes 10 minutes",
    )


# -- capacity revoked --------------------------------------------------------------------------------------------------

REVOKED = "revoked"


def capacity_revoked(take: Take) -> None:
    scene = take.scene
    hold(take)
    take.submit(REVOKED)
    take.until(lambda record: gke_record.result(record, REVOKED) == "RUNNING", f"{REVOKED} runs on flex-start nodes")
    expire(take, REVOKED)
    workload = gke_record.workload(take.recorder.record, REVOKED)["name"]
    with scene.api() as api:
        where = f"{KUEUE}/namespaces/{scene.backend.config.namespace}/workloads/{workload}"
        api.call("PATCH", where, {"spec": {"active": True}}, MERGE)
    take.watch(_NOTHING_S)
    scene.say("  its workload was set active, and nothing has come of it")
    scene.backend.cancel(scene.backend.run(REVOKED))
    take.until(lambda record: given_up(record, REVOKED), "and inactive again")
    scene.resubmit(REVOKED)
    take.until(
        lambda record: len(workloads(record, REVOKED)) == 2 and gke_record.result(record, REVOKED) == "RUNNING",
        f"{REVOKED} runs again, on new nodes",
    )


def capacity_revoked_story(record: Record) -> Story:
    states = record.workloads.get(REVOKED, [])
    first = [state for state in states if state["name"] == states[0]["name"]]
    over = next((number for number, state in enumerate(first) if not state["active"]), len(first))
    requests = gke_record.requests(record, REVOKED)
    checks = {
        "the capacity was revoked": requests[:1] == [["Accepted", "Provisioned", "CapacityRevoked"]],
        "deactivated, its quota free": was_given_up(record, REVOKED)
        and any(each.startswith(DEACTIVATED) for each in gke_record.reasons(record, REVOKED, "Evicted")),
        "set active, it got no quota": any(state["active"] and not gke_record.flavor(state) for state in first[over:])
        and not any(state["active"] and gke_record.flavor(state) for state in first[over:]),
        "resubmitted, a new workload has a new request": len(workloads(record, REVOKED)) == 2
        and requests[1:] == [["Accepted", "Provisioned"]],
        "and runs": gke_record.result(record, REVOKED) == "RUNNING",
    }
    return story(
        "capacity-revoked",
        record,
        [REVOKED],
        checks,
        "at the end of maxRunDuration the nodes go with all that runs on them, and the request says CapacityRevoked; "
        "Kueue rejects the job, deactivates its workload and frees its quota, so that it neither waits for nodes that "
        "are gone nor comes back; setting the workload active does not bring it back either",
        "`holdfast resubmit`: it deletes the workload, and the job goes on from its last checkpoint. Checkpoint often "
        "enough, and submit runs of more than 7 days as such from the start",
    )


# -- no machine for quota ----------------------------------------------------------------------------------------------

NO_MACHINE = "no-machine"


def no_machine(take: Take) -> None:
    scene = take.scene
    scene.on_demand.capacity = 0
    take.submit(NO_MACHINE)
    take.until(
        lambda record: given_up(record, NO_MACHINE), "no machine came in time, however often, and it is given up"
    )
    scene.say("  the operator takes the quota of on-demand to 0")
    with scene.closed(ON_DEMAND):
        scene.resubmit(NO_MACHINE)
        hosts = scene.hosts
        take.until(lambda record: gke_record.pools(record, NO_MACHINE, hosts), "it runs on flex-start nodes")


def no_machine_story(record: Record) -> Story:
    retries = record.stack["pods_ready_retries"]
    evicted = gke_record.reasons(record, NO_MACHINE, "Evicted")
    checks = {
        "there is a limit for pods to come up": retries is not None,
        f"admitted on {ON_DEMAND} each time, then on {DWS}": gke_record.flavors(record, NO_MACHINE)
        == [ON_DEMAND] * ((retries or 0) + 1) + [DWS],
        "evicted each time for its pods": evicted[:-1] == ["PodsReadyTimeout"] * (retries or 0),
        "then deactivated": evicted[-1:] == [f"{DEACTIVATED}RequeuingLimitExceeded"]
        and was_given_up(record, NO_MACHINE),
        "its workers ran on the flex-start pool alone": gke_record.pools(record, NO_MACHINE, record.stack["hosts"])
        == {record.stack["flex_start_pool"]},
    }
    return story(
        NO_MACHINE,
        record,
        [NO_MACHINE],
        checks,
        "quota is not a machine: the job is admitted on demand, and its pods wait. Kueue alone would leave it so for "
        "ever. With podsReadySeconds (waitForPodsReady) it is evicted and queued again after a while, but Kueue 0.17 "
        f"remembers nothing of it: as long as {ON_DEMAND} has free quota, that is what it gets again, and not {DWS}; "
        "after podsReadyRetries it is deactivated, its quota free for others",
        f"while on-demand machines are out of stock, set the quota of {ON_DEMAND} to 0 (holdfast:quotas, `pulumi up`) "
        f"and `holdfast resubmit` the job: it goes to {DWS}",
    )


# -- too large ---------------------------------------------------------------------------------------------------------

TOO_LARGE = "too-large"


def too_large(take: Take) -> None:
    config = take.scene.backend.config
    slices = max(config.on_demand_slices, config.flex_start_slices) + 1
    said = take.recorder.record.said
    try:
        take.scene.submit(JobOrder(name=TOO_LARGE, slices=slices))
        said[f"submit --slices {slices}"] = "accepted"
    except OperatorError as error:
        said[f"submit --slices {slices}"] = str(error)
    take.recorder.look()


def too_large_story(record: Record) -> Story:
    said = " ".join(record.said.values())
    checks = {
        "refused, with what the largest pool has": "chips; the largest flavor, with its pool, has" in said,
        "nothing applied": not record.jobs and not record.workloads,
    }
    return story(
        TOO_LARGE,
        record,
        [],
        checks,
        "a job that no pool can ever hold is refused at submit, with the size that fits, and nothing of it is applied: "
        "Kueue would let it wait for ever",
        "ask for fewer slices, or enlarge the pool and its quota",
    )
