"""Scenario B itself: job 1 takes the on-demand slice, job 2 overflows to flex-start, no human involved."""

from __future__ import annotations

from holdfast.rehearsal import gke_record
from holdfast.rehearsal.gke_record import Record
from holdfast.rehearsal.gke_scene import Take
from holdfast.rehearsal.gke_stories_verdict import DWS, ON_DEMAND, story
from holdfast.rehearsal.report import JobFigures, RequestFigures, Story
from holdfast.runs.backend import Selection
from infra import catalog

JOBS = ("job1", "job2")
DONE = "Training Complete!"


def two_jobs(take: Take) -> None:
    one, two = JOBS
    take.submit(one)
    take.until(lambda record: gke_record.reason(gke_record.workload(record, one), "Admitted"), f"{one} is admitted")
    take.submit(two)
    take.until(lambda record: gke_record.flavors(record, two), f"{two} has its quota, and waits for nodes")
    take.until(lambda record: gke_record.reason(gke_record.workload(record, two), "Admitted"), f"{two} is admitted")
    hosts = take.scene.hosts
    take.until(lambda record: all(gke_record.pools(record, job, hosts) for job in JOBS), "the workers of both run")
    if not take.scene.real:
        take.scene.finish(*JOBS)
    take.until(lambda record: all(gke_record.result(record, job) == "SUCCEEDED" for job in JOBS), "both have succeeded")
    for job in JOBS:
        backend = take.scene.backend
        lines = backend.log(backend.run(job), Selection()).read() if take.scene.real else []
        take.recorder.record.said[f"logs {job}"] = "\n".join(line.message for line in lines)
    take.until(lambda record: not gke_record.used(record), "no quota is in use")


def two_jobs_story(record: Record) -> Story:
    one, two = JOBS
    stack = record.stack
    asked = [each for each in record.requests.values() if each[-1]["job"] == two]
    waited = [
        state
        for state in record.workloads.get(two, ())
        if gke_record.flavor(state) == DWS and not gke_record.reason(state, "Admitted")
    ]
    started = [state["at"] for state in record.jobs.get(two, ()) if not state["suspend"]]
    checks = {
        f"{one} on {ON_DEMAND} alone": gke_record.flavors(record, one) == [ON_DEMAND],
        f"{two} on {DWS} alone": gke_record.flavors(record, two) == [DWS],
        f"{two} waited, suspended, for nodes": bool(waited and started) and waited[0]["at"] < started[0],
        "one request, of its class, for one pod set of a slice": [
            (each[-1]["class"], each[-1]["pod_sets"]) for each in asked
        ]
        == [(catalog.kueue()["provisioning_class"], [stack["hosts"]])],
        "it was accepted, then provisioned": [each[:2] for each in gke_record.requests(record, two)]
        == [["Accepted", "Provisioned"]],
        f"{one} on the on-demand pool's nodes": gke_record.pools(record, one, stack["hosts"])
        == {stack["on_demand_pool"]},
        f"{two} on the flex-start pool's nodes": gke_record.pools(record, two, stack["hosts"])
        == {stack["flex_start_pool"]},
        "nobody was evicted": not any(gke_record.reasons(record, job, "Evicted") for job in JOBS),
        "both succeeded": all(gke_record.result(record, job) == "SUCCEEDED" for job in JOBS),
        f"both logged {DONE}": not stack["really_run"]
        or all(DONE in record.said.get(f"logs {job}", "") for job in JOBS),
        "no quota in use at the end": not gke_record.used(record),
    }
    return story(
        "two-jobs",
        record,
        JOBS,
        checks,
        f"{one} is admitted on {ON_DEMAND}; {two} gets quota of {DWS}, stays suspended until its request is "
        "provisioned, and runs on the flex-start pool",
        "nothing; `holdfast watch` shows what each waits for",
    )


def figures(record: Record) -> tuple[list[JobFigures], list[RequestFigures]]:
    """What a report says of the two jobs and of their requests."""
    jobs = [
        JobFigures(
            name=job,
            flavor=", ".join(gke_record.flavors(record, job)),
            admitted=_since(record, job, "Admitted"),
            waited_for=", ".join(name for name, each in record.requests.items() if each[-1]["job"] == job),
        )
        for job in JOBS
    ]
    requests = [
        RequestFigures.model_validate(
            {
                "class": history[-1]["class"],
                "count": sum(history[-1]["pod_sets"]),
                "state": (history[-1]["conditions"] or [{"type": ""}])[-1]["type"],
            }
        )
        for history in record.requests.values()
    ]
    return jobs, requests


def _since(record: Record, job: str, condition: str) -> str:
    """When a workload's condition first held, as Kubernetes says."""
    found = (
        str(each["lastTransitionTime"])
        for state in record.workloads.get(job, ())
        for each in state["status"].get("conditions", ())
        if each["type"] == condition and each["status"] == "True"
    )
    return next(found, "")
