"""Who gets the nodes: preemption and its exemption, exclusive jobs, fair share, who may not at all."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from holdfast import slurm_accounting
from holdfast.rehearsal import slurm_record
from holdfast.rehearsal.report import Story
from holdfast.rehearsal.slurm_record import Record, story
from holdfast.rehearsal.slurm_scene import Scene, Take
from holdfast.slurm_accounting import Accounting

LOW, HIGH, ALONE = "low", "high", "alone"
EXEMPT_S = 10
_WHOLE = ("--nodes=2", "--exclusive")
# It ends by itself only when it was requeued.
_LONG = '[ -n "$SLURM_RESTART_COUNT" ] || sleep 900'
_WEIGHT = "PriorityWeightFairshare"
_SPRIO = ("JobID", "User", "Fairshare")


# Ada and Bob share an account evenly; Mia may use one partition alone; Eve is in none.
_ACCOUNTING = {
    "accounts": {"research": {}},
    "users": [
        {"name": "ada", "account": "research"},
        {"name": "bob", "account": "research"},
        {"name": "mia", "account": "research", "partition": HIGH},
    ],
}


def accounting(scene: Scene) -> Story:
    """Makes the accounts and users that the stories need, as `holdfast accounting` does, and looks once more."""
    began, (login, name) = time.monotonic(), (scene.backend.login, scene.backend.config.cluster_id)
    wanted = Accounting.model_validate(_ACCOUNTING)
    changes = slurm_accounting.plan(wanted, slurm_accounting.look(login, name))
    slurm_accounting.apply(login, changes)
    again = slurm_accounting.plan(wanted, slurm_accounting.look(login, name))
    made = accounting_story([str(each) for each in changes], [str(each) for each in again])
    return made.model_copy(update={"seconds": round(time.monotonic() - began, 1)})


def accounting_story(changes: Sequence[str], again: Sequence[str]) -> Story:
    """The first run made what the file says, the second found nothing to do."""
    added = sum(change.startswith("+") for change in changes)
    return Story(
        name="accounting",
        held=added == len(_ACCOUNTING["accounts"]) + len(_ACCOUNTING["users"]) and not again,
        evidence={"first": list(changes), "second": list(again)},
        outcome=f"{len(changes)} changes, then {len(again)}",
        expected="accounts and users are made from one file, and a second run changes nothing",
        advice="`holdfast accounting --dry-run`, then without",
    )


def preemption(take: Take) -> None:
    take.stack = {"exempt_s": EXEMPT_S}
    take.submit("lower", _LONG, f"--partition={LOW}", *_WHOLE, user="ada")
    take.until_state("lower", "RUNNING")
    take.submit("higher", "sleep 1", f"--partition={HIGH}", *_WHOLE, user="bob")
    take.until_state("higher", "COMPLETED")
    take.until_state("lower", "COMPLETED")


def preemption_story(record: Record) -> Story:
    exempt_s: float = record.stack.get("exempt_s", 0)
    lower, higher = slurm_record.times(record, "lower"), slurm_record.times(record, "higher")
    ran = lower[0][1] - lower[0][0] if lower else 0
    waited = [each for each in record.jobs.get("higher", ()) if each.get("JobState") == "PENDING"]
    asked = waited[0]["at"] if waited else 0
    checks = {
        "the higher job asked within the exempt time": bool(lower and waited) and asked < lower[0][0] + exempt_s,
        "the lower job was preempted": slurm_record.ends(record, "lower")[:1] == ["PREEMPTED"],
        f"not before it had run {exempt_s:g} s": ran >= exempt_s,
        "the higher job ran on its nodes": bool(higher and lower)
        and higher[0][0] >= lower[0][1]
        and slurm_record.places(record, "higher")[:1] == slurm_record.places(record, "lower")[:1],
        "the lower job ran again, and completed": slurm_record.ends(record, "lower")[1:] == ["COMPLETED"]
        and slurm_record.restarts(record, "lower") == 1
        and len(lower) == 2
        and bool(higher)
        and lower[1][0] >= higher[0][1],
    }
    return story(
        "preemption",
        record,
        checks,
        f"two partitions share their nodes; a job of the higher one waits until the lower one's has run for "
        f"PreemptExemptTime ({exempt_s:g} s), takes its nodes, and the lower one's is requeued and runs again",
        "nothing; raise PreemptExemptTime where jobs need longer to their first checkpoint",
        f"the lower job was preempted after {ran} s",
    )


def exclusive(take: Take) -> None:
    take.submit("alone", "sleep 900", f"--partition={ALONE}", "--ntasks=1", user="ada")
    take.until_state("alone", "RUNNING")
    for number in (1, 2):
        take.submit(f"small {number}", "sleep 1", f"--partition={LOW}", "--ntasks=1", user="bob")
    for number in (1, 2):
        take.until_state(f"small {number}", "COMPLETED")
    take.cancel("alone")
    take.until_state("alone", "CANCELLED")


def exclusive_story(record: Record) -> Story:
    small = [job for job in record.jobs if job != "alone"]
    mine, span = slurm_record.places(record, "alone"), slurm_record.times(record, "alone")
    others = [place for job in small for place in slurm_record.places(record, job)]
    meanwhile = [time for job in small for time in slurm_record.times(record, job)]
    checks = {
        "it ran on one node": len(mine) == 1 and "[" not in mine[0],
        "others ran meanwhile": len(meanwhile) == len(small) > 0
        and bool(span)
        and all(span[0][0] <= begin and end <= span[0][1] for begin, end in meanwhile),
        "on other nodes": bool(others) and not set(mine) & set(others),
    }
    return story(
        "exclusive",
        record,
        checks,
        "a job of one CPU in a partition with OverSubscribe=EXCLUSIVE has its node for itself: others run elsewhere",
        "nothing; `holdfast submit slurm --exclusive` asks for the same in any partition",
    )


def fair_share(take: Take) -> None:
    """Ada uses the nodes; then she and Bob wait for them, she first."""
    before, after = "10000", "50000"
    take.stack = {"before": before, "after": after}
    take.submit("holder", "sleep 900", f"--partition={LOW}", *_WHOLE, user="ada")
    take.until_state("holder", "RUNNING")
    for user in ("ada", "bob"):
        take.submit(user, "sleep 1", f"--partition={LOW}", *_WHOLE, user=user)

    def figures(key: str) -> dict[str, int]:
        ids = f"{take.ids['ada']},{take.ids['bob']}"
        take.tell(key, "sprio", "--noheader", f"--jobs={ids}", "--format=%i|%u|%F")
        return fairshares(take.said[key])

    take.until(lambda record: _ordered(figures("sprio before")), "sprio has Bob before Ada, who used the nodes")
    first = take.said["sprio before"]

    def heavier(config: dict[str, Any]) -> None:
        config["holdfast:config"][_WEIGHT] = after

    take.scene.update(f"{_WEIGHT} {before} -> {after}", heavier)
    bob = fairshares(first).get("bob", 0)
    take.until(lambda record: figures("sprio after").get("bob", 0) > bob, "sprio's figures have moved")
    take.cancel("holder")
    for user in ("bob", "ada"):
        take.until_state(user, "COMPLETED")


def fair_share_story(record: Record) -> Story:
    before, after = (fairshares(record.said.get(f"sprio {when}", "")) for when in ("before", "after"))
    ada, bob = (slurm_record.times(record, user) for user in ("ada", "bob"))
    asked = [(record.jobs.get(user) or [{"at": 0}])[0]["at"] for user in ("ada", "bob")]
    holder = slurm_record.restarts(record, "holder") == 0 and slurm_record.ends(record, "holder") == ["CANCELLED"]
    ratio = after.get("bob", 0) / before["bob"] if before.get("bob") else 0
    weights = int(record.stack.get("after", 0)) / int(record.stack.get("before", 1))
    checks = {
        "Bob, who used less, is before Ada": _ordered(before) and _ordered(after),
        "Bob's job ran first, though Ada's was there first": bool(ada and bob)
        and 0 < asked[0] <= asked[1]
        and bob[0][0] < ada[0][0],
        "the figures moved with the weight": weights > 1 and 0.8 * weights <= ratio <= 1.25 * weights,
        "while a job ran, and ran on": holder,
    }
    return story(
        "fair-share",
        record,
        checks,
        f"of two users who wait, the one who used less is first; {_WEIGHT} changed by `pulumi up` under load moves "
        "sprio's figures, and no job is lost",
        "`sprio` shows each factor; give accounts and users their shares in the accounting file",
        f"{_WEIGHT}: ada {before.get('ada')} -> {after.get('ada')}, bob {before.get('bob')} -> {after.get('bob')}",
    )


def fairshares(text: str) -> dict[str, int]:
    """What sprio printed, by user."""
    if text.count("|") % 2:  # an error, or no such job yet
        return {}
    return {row["User"].strip(): int(row["Fairshare"]) for row in slurm_record.table(text, _SPRIO)}


def _ordered(figures: dict[str, int]) -> bool:
    return {"ada", "bob"} <= figures.keys() and figures["bob"] > figures["ada"]


def access(take: Take) -> None:
    """Eve has no association, Mia one for the partition `high` alone."""
    script = "#!/bin/bash\ntrue\n"
    for user, partition in (("eve", LOW), ("mia", LOW)):
        take.tell(f"{user} in {partition}", "sbatch", "--hold", f"--partition={partition}", user=user, stdin=script)
    take.submit("mia", "true", "--hold", f"--partition={HIGH}", user="mia")
    take.submit("no partition", "true", "--hold", user="ada")
    take.stack = {"default": _default(take.scene.config)}
    take.until(lambda record: all(record.jobs.values()), "Slurm has the jobs that it took")


def access_story(record: Record) -> Story:
    refused = "Invalid account or account/partition combination specified"
    checks = {
        "no association: refused": refused in record.said.get(f"eve in {LOW}", ""),
        "another partition's association: refused": refused in record.said.get(f"mia in {LOW}", ""),
        "her own partition: taken": slurm_record.last(record, "mia").get("Partition") == HIGH,
        "no partition named: the default one": bool(record.stack.get("default"))
        and slurm_record.last(record, "no partition").get("Partition") == record.stack.get("default"),
    }
    return story(
        "access",
        record,
        checks,
        "who has no association, or one for another partition alone, is refused; a job that names no partition goes to "
        "the default one",
        "add the user to the accounting file, for the partition, and apply it",
        "; ".join(f"{who}: {said.splitlines()[0] if said else 'nothing'}" for who, said in record.said.items()),
    )


def _default(config: dict[str, Any]) -> str:
    return str(config.get("holdfast:defaultPartition") or config["holdfast:partitions"][0]["id"])
