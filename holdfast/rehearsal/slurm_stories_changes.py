"""A cluster that changes while it runs: by the service, and by `pulumi up`; and what accounting knows in the end."""

from __future__ import annotations

import re
from typing import Any

from holdfast.rehearsal import slurm_record
from holdfast.rehearsal.report import Story
from holdfast.rehearsal.slurm_record import COLUMNS_OF_STEPS, Record, story
from holdfast.rehearsal.slurm_scene import CHECKS, Take

POOL = "stat"
_EXTRA = "extra"
_KEY = "PriorityWeightAge"
_TIME = re.compile(r"(?:(\d+)-)?(?:(\d+):)?(\d+):(\d+)(\.\d+)?")


def static_again(take: Take) -> None:
    [node] = take.scene.nodes(POOL)
    take.stack = {"node": node}
    take.until(lambda record: slurm_record.is_idle(record, node), f"{node} is idle")
    take.scene.cluster.nodes.expire(node)
    take.until(lambda record: len(slurm_record.machines(record, node)) > 1, f"{node}, idle, expires and is made again")
    take.until(lambda record: slurm_record.is_idle(record, node), f"{node} is idle again")


def static_again_story(record: Record) -> Story:
    node = record.stack.get("node", "")
    checks = {
        "its machine expired": slurm_record.happened(record, "VM_DELETION", node),
        "another was made": len(slurm_record.machines(record, node)) == 2,
        "though no job waited": not record.jobs and not slurm_record.was(record, node, "ALLOCATED"),
        "Slurm has it back": slurm_record.is_idle(record, node),
    }
    return story(
        "static-node-again",
        record,
        checks,
        "a static node that expires is made again, whether or not a job waits",
        "nothing; a static pool costs as long as it is there",
    )


def running_update(take: Take) -> None:
    go = take.scene.home / CHECKS.rpartition("/")[2] / "go"
    go.parent.mkdir(exist_ok=True)
    take.submit("before", f"until [ -e {CHECKS}/go ]; do sleep 0.2; done", f"--partition={POOL}", user="ada")
    take.until_state("before", "RUNNING")
    _look(take, "before")

    def change(config: dict[str, Any]) -> None:
        config["holdfast:partitions"].append({"id": _EXTRA, "pools": [POOL]})
        del config["holdfast:config"][_KEY]

    take.scene.update(f"partition {_EXTRA} added, {_KEY} removed", change)
    _look(take, "after")
    take.submit("after", "true", f"--partition={_EXTRA}", "--ntasks=1", user="bob")
    take.until_state("after", "COMPLETED")
    go.touch()
    take.until_state("before", "COMPLETED")


def running_update_story(record: Record) -> Story:
    partitions = [record.said.get(f"sinfo {when}", "").split() for when in ("before", "after")]
    weights = [record.said.get(f"config {when}", "").rpartition("=")[2].strip() for when in ("before", "after")]
    before, after = slurm_record.times(record, "before"), slurm_record.times(record, "after")
    checks = {
        "the partition is new": sorted([*partitions[0], _EXTRA]) == sorted(partitions[1]),
        "the key is Slurm's default again": weights[0] not in ("", "0") and weights[1] == "0",
        "a job that ran before ran on": slurm_record.ends(record, "before") == ["COMPLETED"]
        and slurm_record.restarts(record, "before") == 0,
        "a job ran in the new partition meanwhile": slurm_record.ends(record, "after") == ["COMPLETED"]
        and bool(before and after)
        and before[0][0] < after[0][0] <= after[0][1] <= before[0][1]
        and slurm_record.last(record, "after").get("Partition") == _EXTRA,  # sacct may not know a new one's name yet
    }
    return story(
        "running-update",
        record,
        checks,
        "a partition is added and a key of slurm.conf removed by `pulumi up`, in place, and no job is lost",
        "nothing; keys are judged before they are sent, since a wrong one would end slurmctld",
        f"partitions {', '.join(partitions[1])}; {_KEY} {' -> '.join(weights)}",
    )


def resized(take: Take) -> None:
    [node] = take.scene.nodes(POOL)
    more = f"{node[:-1]}1"
    take.stack = {"node": more}

    def size(config: dict[str, Any], nodes: int) -> None:
        [pool] = [each for each in config["holdfast:pools"] if each["id"] == POOL]
        pool["minNodes"] = pool["maxNodes"] = nodes

    take.scene.update(f"pool {POOL} 1 -> 2 nodes", lambda config: size(config, 2))
    take.until(lambda record: slurm_record.is_idle(record, more), f"{more} is idle")
    take.submit("job", "true", f"--partition={POOL}", f"--nodelist={more}", user="ada")
    take.until_state("job", "COMPLETED")
    take.scene.update(f"pool {POOL} 2 -> 1 nodes", lambda config: size(config, 1))
    take.tell("sinfo", "sinfo", "--noheader", "--Node", f"--partition={POOL}", "--format=%N")


def resized_story(record: Record) -> Story:
    node = record.stack.get("node", "")
    checks = {
        "the new node ran a job": slurm_record.places(record, "job") == [node]
        and slurm_record.ends(record, "job") == ["COMPLETED"],
        "then it was taken away": slurm_record.happened(record, "VM_DELETION", node)
        and bool(record.said.get("sinfo"))
        and node not in record.said["sinfo"].split(),
    }
    return story(
        "static-pool-resized",
        record,
        checks,
        "a static pool that is made larger by `pulumi up` has the new node at once; made smaller, it is gone",
        "before a pool is made smaller, drain the nodes with the highest numbers: their jobs are requeued",
        f"nodes at the end: {record.said.get('sinfo', '')}",
    )


def usage(take: Take) -> None:
    """Of all jobs that the watcher has seen; `take.stack` may name the one whose steps are to be looked at."""
    watcher = take.scene.watcher
    take.ids = {job: job for job, history in watcher.jobs.items() if history[-1].get("JobState") == "COMPLETED"}
    named = [job for job, history in watcher.jobs.items() if history[-1].get("JobName") == "expiring"]
    asked = named[:1] or list(take.ids)[:1]
    flags = ("--parsable2", "--noheader", f"--format={','.join(COLUMNS_OF_STEPS)}")
    take.tell("sacct of steps", "sacct", *flags, f"--jobs={','.join(asked)}")
    take.stack = {"steps_of": asked}


def usage_story(record: Record) -> Story:
    rows = [row for job in record.rows.values() for row in job]
    steps = slurm_record.table(record.said.get("sacct of steps", ""), COLUMNS_OF_STEPS)
    users = sorted({row["User"] for row in rows})
    timed = [row for row in rows if row["Start"].isdigit() and row["End"].isdigit()]
    checks = {
        "every completed job is there": bool(record.jobs) and all(record.rows.get(job) for job in record.jobs),
        "its CPU time is its CPUs by its time": bool(timed)
        and all(
            int(row["CPUTimeRAW"]) == int(row["AllocCPUS"]) * (int(row["End"]) - int(row["Start"])) for row in timed
        ),
        "each has its user and account": bool(rows) and all(row["User"] and row["Account"] for row in rows),
        "a step's CPU time and memory are known": any(
            _seconds(step["TotalCPU"]) > 0 and step["MaxRSS"].strip("0KMG.") for step in steps
        ),
    }
    return story(
        "usage",
        Record(record.stack, {}, record.rows, {}, [], record.said),
        checks,
        "sacct has every job with its user, account, CPU time and memory",
        "`holdfast usage`",
        f"{len(rows)} runs of {len(record.rows)} jobs by {', '.join(users) or 'nobody'}",
    )


def _seconds(text: str) -> float:
    found = _TIME.fullmatch(text)
    if not found:
        return 0.0
    days, hours, minutes, seconds = (int(each or 0) for each in found.groups()[:4])
    return ((days * 24 + hours) * 60 + minutes) * 60 + seconds + float(found[5] or 0)


def _look(take: Take, when: str) -> None:
    take.tell(f"sinfo {when}", "sinfo", "--noheader", "--format=%R")
    take.tell(f"config {when}", "sh", "-c", f"scontrol show config | grep '^{_KEY} '")
