"""Nodes that are not sound: what prologs and epilogs find, and what the service repairs."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from holdfast.gcp.api import CloudError, wait
from holdfast.rehearsal import slurm_record
from holdfast.rehearsal.report import Story
from holdfast.rehearsal.slurm_record import Record, story
from holdfast.rehearsal.slurm_scene import CHECKS, Take

POOL = "check"
_ONE_EACH = (f"--partition={POOL}", "--exclusive", "--nodes=1")
_PROLOGS = ("first", "second")
_POLL_S = 0.2
_OPERATION = "aiplatform.projects.locations.operations.get"
_METHOD = "aiplatform.projects.locations.modelDevelopmentClusters.reportFaultyNodes"


def scripts() -> Mapping[str, Sequence[str]]:
    """The prologs and the epilog of a rehearsal, after the stack's own: they say that they ran, and fail on demand."""
    noted = f'#!/bin/bash\nmkdir -p {CHECKS}\necho "$SLURM_JOB_ID $(hostname) {{}}" >>{CHECKS}/prologs\n'
    fails = f'[ ! -e "{CHECKS}/{{}}-$(hostname)" ]\n'
    first, second = (noted.format(which) for which in _PROLOGS)
    return {"prolog": [first, second + fails.format("prolog")], "epilog": [f"#!/bin/bash\n{fails.format('epilog')}"]}


def prolog_failure(take: Take) -> None:
    """Two jobs, so that one is put on the node whose prolog fails."""
    bad, good = take.scene.nodes(POOL)
    take.stack = {"bad": bad, "good": good}
    trigger = _trigger(take, "prolog", bad)
    for label in ("one", "two"):
        take.submit(label, "sleep 1", *_ONE_EACH, user="ada")
    for label in ("one", "two"):
        take.until_state(label, "COMPLETED")
    take.until(lambda record: slurm_record.happened(record, "VM_PROLOG_ERROR", bad), f"{bad}'s prolog fails")
    trigger.unlink()
    file = _folder(take) / "prologs"
    lines = file.read_text(encoding="utf-8").splitlines()
    take.said["prologs"] = "\n".join(line for line in lines if line.split()[0] in take.ids.values())
    _replace(take, bad)


def prolog_failure_story(record: Record) -> Story:
    bad, good = record.stack.get("bad", ""), record.stack.get("good", "")
    runs = [slurm_record.restarts(record, job) for job in record.jobs]
    checks = {
        "the node is drained, for its prolog": slurm_record.was(record, bad, "DRAIN")
        and any(each["reason"].startswith("Prolog error") for each in record.nodes.get(bad, ())),
        "the service tells of it": slurm_record.happened(record, "VM_PROLOG_ERROR", bad),
        "its job was requeued, not held": sorted(runs) == [0, 1],
        "both jobs ran on the other node": bool(record.jobs)
        and all(slurm_record.state(record, job) == "COMPLETED" for job in record.jobs)
        and all(slurm_record.places(record, job)[-1:] == [good] for job in record.jobs),
    }
    return story(
        "prolog-failure",
        record,
        checks,
        "a failing prolog drains its node, and the job runs elsewhere, without a release by hand",
        "look at the node's reason (`sinfo -R`); report it faulty, or resume it when it is sound",
        f"{bad} drained",
    )


def prologs_in_order_story(record: Record) -> Story:
    """Of the same record: what the prologs wrote down."""
    good = record.stack.get("good", "")
    ran: dict[str, list[str]] = {}
    for line in record.said.get("prologs", "").splitlines():
        job, node, which = line.split()
        if node == good:
            ran.setdefault(job, []).append(which)
    checks = {
        "both ran, in their order, before each job": len(ran) == len(record.jobs) > 0
        and all(order == list(_PROLOGS) for order in ran.values())
    }
    saw = "; ".join(f"job {job}: {', then '.join(order)}" for job, order in ran.items())
    return story(
        "prologs-in-order",
        record,
        checks,
        "the prologs of the stack's list run in the list's order on each node of a job",
        "nothing; put the cheapest check first",
        saw,
    )


def epilog_failure(take: Take) -> None:
    node = take.scene.nodes(POOL)[1]
    take.stack = {"node": node}
    trigger = _trigger(take, "epilog", node)
    take.submit("job", "true", *_ONE_EACH, f"--nodelist={node}", user="ada")
    take.until_state("job", "COMPLETED")
    take.until(lambda record: slurm_record.happened(record, "VM_EPILOG_ERROR", node), f"{node}'s epilog fails")
    trigger.unlink()
    _replace(take, node)


def epilog_failure_story(record: Record) -> Story:
    node = record.stack.get("node", "")
    checks = {
        "the node is drained, for its epilog": slurm_record.was(record, node, "DRAIN")
        and any(each["reason"].startswith("Epilog error") for each in record.nodes.get(node, ())),
        "the service tells of it": slurm_record.happened(record, "VM_EPILOG_ERROR", node),
        "the job is done all the same": slurm_record.ends(record, "job") == ["COMPLETED"]
        and slurm_record.restarts(record, "job") == 0,
    }
    return story(
        "epilog-failure",
        record,
        checks,
        "a failing epilog drains its node after the job, which stays completed",
        "as for a prolog",
        f"{node} drained",
    )


def repair(take: Take) -> None:
    """A job that can run on this node alone, so that it tells of the new machine."""
    node = take.scene.nodes(POOL)[0]
    take.stack = {"node": node}
    take.until(lambda record: slurm_record.is_idle(record, node), f"{node} is idle")
    script = '[ -n "$SLURM_RESTART_COUNT" ] || sleep 900'
    take.submit("job", script, *_ONE_EACH, f"--nodelist={node}", user="ada")
    take.until_state("job", "RUNNING")
    _report(take, node, {"behavior": "UNRECOVERABLE_GPU_ERROR", "description": "Xid 79"})
    take.until_state("job", "COMPLETED")
    take.until(lambda record: slurm_record.is_idle(record, node), f"{node} is idle again")


def repair_story(record: Record) -> Story:
    node = record.stack.get("node", "")
    checks = {
        "the service took it away for repair": slurm_record.happened(record, "VM_REPORT_AND_REPLACEMENT", node),
        "its machine is another": len(slurm_record.machines(record, node)) == 2,
        "the job ran again there": slurm_record.ends(record, "job")[1:] == ["COMPLETED"]
        and slurm_record.restarts(record, "job") == 1
        and slurm_record.places(record, "job") == [node, node],
        "the node is sound again, with no manual step": slurm_record.is_idle(record, node),
    }
    return story(
        "repair",
        record,
        checks,
        "a node whose host is reported with a GPU error is replaced by the service; its job is requeued and runs again",
        "`reportFaultyNodes`, for the errors that the service does not see itself; to report a host, grant the "
        "service's own agent roles/compute.instanceAdmin.v1",
    )


def _folder(take: Take) -> Path:
    folder = take.scene.home / Path(CHECKS).name
    folder.mkdir(exist_ok=True)
    return folder


def _trigger(take: Take, kind: str, node: str) -> Path:
    file = _folder(take) / f"{kind}-{node}"
    file.touch()
    return file


def _report(take: Take, node: str, *reasons: Mapping[str, str]) -> None:
    """With reasons the host is reported, whose machine type and agent the service judges; without, it is deleted."""
    action = {"nodeId": node, **({"reportFaultyHost": {"faultReasons": list(reasons)}} if reasons else {})}
    scene = take.scene
    api, cluster = scene.backend.api, scene.backend.cluster
    deadline = time.monotonic() + scene.limit_s
    while True:
        try:
            operation = api.call(_METHOD, {"name": cluster}, {"nodeActions": [action]})
            break
        except CloudError as error:  # while the cluster is updated, it takes no such report
            if error.status != "FAILED_PRECONDITION" or time.monotonic() > deadline:
                raise
            scene.pause()
    wait(api, _OPERATION, operation, timeout_s=scene.limit_s, poll_s=_POLL_S)
    scene.say(f"  {node} is reported faulty")


def _replace(take: Take, node: str) -> None:
    """Leaves a sound node to the next story."""
    take.until(lambda record: slurm_record.was(record, node, "DRAIN"), f"{node} is drained")
    _report(take, node)
    take.until(
        lambda record: len(slurm_record.machines(record, node)) > 1 and slurm_record.is_idle(record, node),
        f"{node} is another machine, and idle",
    )
