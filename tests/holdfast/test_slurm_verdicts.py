"""The verdicts on scenario C's stories follow from what Slurm and the service said: other evidence must turn them."""

import copy
from collections.abc import Callable
from typing import Any

import pytest

from holdfast.rehearsal import slurm_stories_changes as changes
from holdfast.rehearsal import slurm_stories_health as health
from holdfast.rehearsal import slurm_stories_sharing as sharing
from holdfast.rehearsal import slurm_stories_training as training
from holdfast.rehearsal.report import Story
from holdfast.rehearsal.slurm_record import Record, since, turns
from holdfast.rehearsal.slurm_stories import COLUMNS, USAGE

Judge = Callable[[Record], Story]
Objects = list[dict[str, Any]]

BOTH = "flexvm-share-[0-1]"
OLD, NEW = "2026-11-30T00:00:00Z", "2026-11-30T00:01:00Z"


def job(*states: str, restarts: int = 0, at: float = 0, partition: str = "low") -> Objects:
    """A job that was in these states, and began again so often in the end."""
    return [
        {"at": at + number, "JobState": state, "Restarts": str(restarts), "Partition": partition}
        for number, state in enumerate(states)
    ]


def row(
    state: str, start: int, end: int, nodes: str = BOTH, user: str = "ada", partition: str = "low"
) -> dict[str, Any]:
    """What sacct has of a run on two CPUs."""
    times = {"Start": str(start), "End": str(end), "AllocCPUS": "2", "CPUTimeRAW": str(2 * (end - start))}
    who = {"JobID": "1", "User": user, "Account": "research", "Partition": partition}
    return {**who, "State": state, "NodeList": nodes, **times}


def node(*states: tuple[str, str, str], reason: str = "") -> Objects:
    """What Slurm says, what the service does, and when its machine was made."""
    return [
        {
            "at": number,
            "slurm": slurm,
            "reason": reason if "DRAIN" in slurm else "",
            "machine": machine,
            "created": made,
        }
        for number, (slurm, machine, made) in enumerate(states)
    ]


def event(kind: str, name: str) -> dict[str, str]:
    return {"type": kind, "message": f"{name}: why", "time": OLD}


def preemption() -> Record:
    return Record(
        {"exempt_s": 10},
        jobs={
            "lower": job("RUNNING", "PENDING", "COMPLETED", restarts=1, at=100),
            "higher": job("PENDING", "RUNNING", "COMPLETED", at=102, partition="high"),
        },
        rows={
            "lower": [row("PREEMPTED", 100, 110), row("COMPLETED", 116, 117)],
            "higher": [row("COMPLETED", 110, 111, user="bob", partition="high")],
        },
    )


def exclusive() -> Record:
    return Record(
        jobs={"alone": job("RUNNING", "CANCELLED"), "small 1": job("COMPLETED"), "small 2": job("COMPLETED")},
        rows={
            "alone": [row("CANCELLED by 0", 100, 120, "n-0")],
            "small 1": [row("COMPLETED", 102, 103, "n-1")],
            "small 2": [row("COMPLETED", 102, 104, "n-1")],
        },
    )


def fair_share() -> Record:
    return Record(
        {"before": "10000", "after": "50000"},
        jobs={
            "holder": job("RUNNING", "CANCELLED"),
            "ada": job("PENDING", "COMPLETED", at=5),
            "bob": job("PENDING", "COMPLETED", at=6),
        },
        rows={
            "holder": [row("CANCELLED by 0", 100, 120)],
            "ada": [row("COMPLETED", 122, 123)],
            "bob": [row("COMPLETED", 120, 121, user="bob")],
        },
        said={
            "sprio before": "2|     ada|      2500\n3|     bob|      5000",
            "sprio after": "2|     ada|     12500\n3|     bob|     25000",
        },
    )


def access() -> Record:
    refused = "sbatch: error: Invalid account or account/partition combination specified"
    return Record(
        {"default": "a3u"},
        jobs={"mia": job("PENDING", partition="high"), "no partition": job("PENDING", partition="a3u")},
        rows={"mia": [], "no partition": []},
        said={"eve in low": refused, "mia in low": refused},
    )


def prolog_failure() -> Record:
    return Record(
        {"bad": "n-0", "good": "n-1"},
        jobs={"one": job("PENDING", "COMPLETED", restarts=1), "two": job("COMPLETED")},
        rows={
            "one": [row("REQUEUED", 100, 100, "n-0"), row("COMPLETED", 106, 107, "n-1")],
            "two": [row("COMPLETED", 100, 101, "n-1")],
        },
        nodes={
            "n-0": node(("IDLE", "RUNNING", OLD), ("DRAIN+IDLE", "RUNNING", OLD), reason="Prolog error"),
            "n-1": node(("IDLE", "RUNNING", OLD)),
        },
        events=[event("VM_PROLOG_ERROR", "n-0")],
        said={"prologs": "1 n-0 first\n1 n-0 second\n2 n-1 first\n2 n-1 second\n1 n-1 first\n1 n-1 second"},
    )


def epilog_failure() -> Record:
    return Record(
        {"node": "n-1"},
        jobs={"job": job("COMPLETED")},
        rows={"job": [row("COMPLETED", 100, 100, "n-1")]},
        nodes={"n-1": node(("IDLE", "RUNNING", OLD), ("DRAIN+IDLE", "RUNNING", OLD), reason="Epilog error")},
        events=[event("VM_EPILOG_ERROR", "n-1")],
    )


def repair() -> Record:
    return Record(
        {"node": "n-0"},
        jobs={"job": job("RUNNING", "PENDING", "COMPLETED", restarts=1)},
        rows={"job": [row("NODE_FAIL", 100, 101, "n-0"), row("COMPLETED", 110, 111, "n-0")]},
        nodes={"n-0": node(("IDLE", "RUNNING", OLD), ("DOWN", "UPDATING", OLD), ("IDLE", "RUNNING", NEW))},
        events=[event("VM_REPORT_AND_REPLACEMENT", "n-0")],
    )


def static_again() -> Record:
    return Record(
        {"node": "n-0"},
        nodes={"n-0": node(("IDLE", "RUNNING", OLD), ("DOWN", "", ""), ("IDLE", "RUNNING", NEW))},
        events=[event("VM_DELETION", "n-0")],
    )


def running_update() -> Record:
    return Record(
        jobs={"before": job("RUNNING", "COMPLETED"), "after": job("COMPLETED", partition="extra")},
        rows={
            "before": [row("COMPLETED", 100, 120, "n-0", partition="stat")],
            "after": [row("COMPLETED", 118, 118, "n-0", partition="")],
        },
        said={
            "sinfo before": "a3u\nstat",
            "sinfo after": "a3u\nstat\nextra",
            "config before": "PriorityWeightAge       = 1000",
            "config after": "PriorityWeightAge       = 0",
        },
    )


def resized() -> Record:
    return Record(
        {"node": "n-1"},
        jobs={"job": job("COMPLETED")},
        rows={"job": [row("COMPLETED", 100, 101, "n-1")]},
        events=[event("VM_DELETION", "n-1")],
        said={"sinfo": "n-0"},
    )


def expired_node() -> Record:
    first = [
        {"event": "start"},
        {"event": "step", "step": 1},
        {"event": "saved", "step": 1},
        {"event": "step", "step": 2},
    ]
    second = [
        {"event": "start"},
        {"event": "resumed", "from_step": 1},
        *({"event": "step", "step": number} for number in (2, 3)),
        {"event": "done"},
        {"event": "exit"},
    ]
    return Record(
        {"nodes": 2, "steps": 3},
        jobs={training.JOB: job("RUNNING", "PENDING", "COMPLETED", restarts=1)},
        rows={training.JOB: [row("NODE_FAIL", 100, 115, "n-[0-1]"), row("COMPLETED", 150, 170, "n-[0-1]")]},
        events=[event("VM_DELETION", "n-0")],
        said={"the first node": "n-0\nn-1"},
        training={"events": [*first, *second], "compared": [{"bit_exact": True, "leaves": 29, "differing": 0}]},
    )


def idle_node() -> Record:
    return Record(
        {"node": "n-0", "seconds": 15},
        nodes={
            "n-0": node(
                ("CLOUD+IDLE", "RUNNING", OLD),
                ("CLOUD+DOWN", "ERROR", OLD),
                ("CLOUD+DOWN+POWER_DOWN", "", ""),
                ("CLOUD+IDLE+POWERED_DOWN", "", ""),
            )
        },
        events=[event("VM_DELETION", "n-0")],
    )


def usage() -> Record:
    return Record(
        jobs={"1": job("COMPLETED"), "2": job("COMPLETED")},
        rows={"1": [row("NODE_FAIL", 100, 110), row("COMPLETED", 120, 130)], "2": [row("COMPLETED", 100, 101)]},
        said={"sacct of steps": "1|20|00:07.733|\n1.0|20|1-00:00:07|254M"},
    )


STORIES: dict[str, tuple[Callable[[], Record], Judge]] = {
    "preemption": (preemption, sharing.preemption_story),
    "exclusive": (exclusive, sharing.exclusive_story),
    "fair-share": (fair_share, sharing.fair_share_story),
    "access": (access, sharing.access_story),
    "prolog-failure": (prolog_failure, health.prolog_failure_story),
    "prologs-in-order": (prolog_failure, health.prologs_in_order_story),
    "epilog-failure": (epilog_failure, health.epilog_failure_story),
    "repair": (repair, health.repair_story),
    "static-node-again": (static_again, changes.static_again_story),
    "running-update": (running_update, changes.running_update_story),
    "static-pool-resized": (resized, changes.resized_story),
    "expired-node": (expired_node, training.expired_node_story),
    "idle-node": (idle_node, training.idle_node_story),
    "usage": (usage, changes.usage_story),
}


def test_every_story_that_is_played_is_judged_here() -> None:
    scripts = [USAGE, *(script for column in COLUMNS for script in column)]
    assert {judge for _, judge in STORIES.values()} == {
        judge for script in scripts for judge in (script.judge, script.also) if judge
    }


@pytest.mark.parametrize("name", STORIES)
def test_the_evidence_holds_and_nothing_is_shown_by_none(name: str) -> None:
    record, judge = STORIES[name]
    story = judge(record())
    assert (story.name, story.held) == (name, True), story.outcome
    assert story.expected
    assert story.advice
    assert not judge(Record()).held


Tamper = Callable[[Record], object]


def put(where: str, value: Any) -> Tamper:
    """Puts a value at a path of the record: parts by slashes, numbers for places in a list."""

    def change(record: Record) -> None:
        first, *path, last = where.split("/")
        found: Any = getattr(record, first)
        for part in path:
            found = found[int(part)] if isinstance(found, list) else found[part]
        found[int(last) if isinstance(found, list) else last] = value

    return change


TAMPERED: list[tuple[str, Tamper, str]] = [
    ("preemption", put("rows/lower/0/End", "109"), "not before it had run 10 s"),
    ("preemption", put("rows/lower/0/State", "CANCELLED"), "was preempted"),
    ("preemption", put("jobs/higher/0/at", 111), "asked within the exempt time"),
    ("preemption", put("rows/higher/0/NodeList", "elsewhere"), "ran on its nodes"),
    ("preemption", lambda record: record.rows["lower"].pop(), "ran again"),
    ("preemption", put("rows/lower/1/State", "FAILED"), "ran again"),
    ("exclusive", put("rows/small 1/0/NodeList", "n-0"), "on other nodes"),
    ("exclusive", put("rows/small 2/0/Start", "99"), "others ran meanwhile"),
    ("exclusive", put("rows/alone/0/NodeList", "n-[0-1]"), "ran on one node"),
    ("fair-share", put("said/sprio before", "2|ada|5000\n3|bob|5000"), "is before Ada"),
    ("fair-share", put("rows/bob/0/Start", "125"), "ran first"),
    ("fair-share", put("said/sprio after", "2|ada|2500\n3|bob|5000"), "moved with the weight"),
    ("fair-share", put("rows/holder/0/State", "PREEMPTED"), "ran on"),
    ("access", put("said/eve in low", "Submitted batch job 7"), "no association"),
    ("access", put("said/mia in low", ""), "another partition's"),
    ("access", put("jobs/mia", []), "her own partition"),
    ("access", put("jobs/no partition/0/Partition", "low"), "the default one"),
    ("prolog-failure", put("nodes/n-0/1/reason", "Not responding"), "for its prolog"),
    ("prolog-failure", put("rows/two/0/NodeList", "n-0"), "on the other node"),
    ("prolog-failure", put("jobs/one/1/Restarts", "0"), "requeued, not held"),
    ("prolog-failure", put("jobs/one/1/JobState", "PENDING"), "on the other node"),
    ("prolog-failure", lambda record: record.events.clear(), "the service tells"),
    ("prologs-in-order", put("said/prologs", "2 n-1 second\n2 n-1 first\n1 n-1 first\n1 n-1 second"), "in their order"),
    ("prologs-in-order", put("said/prologs", "2 n-1 first\n2 n-1 second"), "before each job"),
    ("epilog-failure", put("rows/job/0/State", "FAILED"), "done all the same"),
    ("epilog-failure", put("nodes/n-1/1/slurm", "IDLE"), "for its epilog"),
    ("repair", put("nodes/n-0/2/created", OLD), "another"),
    ("repair", put("rows/job/1/NodeList", "n-1"), "ran again there"),
    ("repair", put("nodes/n-0/2/slurm", "DRAIN+IDLE"), "sound again"),
    ("repair", lambda record: record.events.clear(), "took it away"),
    ("static-node-again", put("nodes/n-0/2/created", OLD), "another was made"),
    ("static-node-again", put("jobs/a", job("PENDING")), "no job waited"),
    ("static-node-again", lambda record: record.events.clear(), "expired"),
    ("running-update", put("said/sinfo after", "a3u\nstat"), "the partition is new"),
    ("running-update", put("said/sinfo after", "a3u\nextra"), "the partition is new"),
    ("running-update", put("said/config after", "PriorityWeightAge       = 1000"), "Slurm's default"),
    ("running-update", put("jobs/before/1/Restarts", "1"), "ran on"),
    ("running-update", put("rows/after/0/Start", "130"), "meanwhile"),
    ("running-update", put("jobs/after/0/Partition", "stat"), "meanwhile"),
    ("static-pool-resized", put("said/sinfo", "n-0\nn-1"), "taken away"),
    ("static-pool-resized", put("rows/job/0/NodeList", "n-0"), "ran a job"),
    ("expired-node", put("training/compared/0/bit_exact", False), "bit for bit"),
    ("expired-node", put("training/compared", []), "bit for bit"),
    ("expired-node", put("training/events/5/from_step", 0), "last checkpoint"),
    ("expired-node", put("training/events/3", {"event": "sigterm"}), "without a word"),
    ("expired-node", put("training/events/7/step", 2), "every step"),
    ("expired-node", put("rows/expiring/1/State", "FAILED"), "completed"),
    ("expired-node", put("rows/expiring/1/Start", "105"), "requeued once"),
    ("expired-node", put("jobs/expiring/2/Restarts", "2"), "requeued once"),
    ("expired-node", put("events/0", event("VM_DELETION", "n-1")), "maximum duration"),
    ("idle-node", put("nodes/n-0/3/machine", "PREPARING"), "none was made again"),
    ("idle-node", put("nodes/n-0/3/created", NEW), "none was made again"),
    ("idle-node", put("nodes/n-0/3/slurm", "CLOUD+DOWN"), "for later"),
    ("usage", put("rows/2", []), "every completed job"),
    ("usage", put("rows/2/0/CPUTimeRAW", "1"), "CPU time"),
    ("usage", put("rows/1/0/Account", ""), "user and account"),
    ("usage", put("said/sacct of steps", "1.0|20|00:07.733|"), "memory"),
    ("usage", put("said/sacct of steps", "1.0|20|00:00:00|254M"), "memory"),
]


@pytest.mark.parametrize(("name", "tamper", "missed"), TAMPERED)
def test_other_evidence_turns_the_verdict(name: str, tamper: Tamper, missed: str) -> None:
    made, judge = STORIES[name]
    record = copy.deepcopy(made())
    tamper(record)
    story = judge(record)
    assert not story.held
    assert missed in story.outcome.rpartition("NOT seen: ")[2]


def test_accounting_holds_when_a_second_run_finds_nothing_to_do() -> None:
    made = ["+ account research", *(f"+ user {name}" for name in ("ada", "bob", "mia"))]
    assert sharing.accounting_story(made, []).held
    assert not sharing.accounting_story(made, ["~ user ada"]).held
    assert not sharing.accounting_story(made[1:], []).held


def test_a_history_since_a_moment_begins_with_what_held_then() -> None:
    history = [{"at": 1.0, "x": "a"}, {"at": 2.0, "x": "b"}, {"at": 4.0, "x": "c"}]
    assert [each["x"] for each in since(history, 3.0)] == ["b", "c"]
    assert [each["x"] for each in since(history, 0.5)] == ["a", "b", "c"]
    assert turns("aabba") == ["a", "b", "a"]
