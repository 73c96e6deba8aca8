"""The accounts' file, and what has to be done to a cluster for it; tests/planes has it on a real Slurm."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from holdfast import stackfile
from holdfast.errors import OperatorError
from holdfast.slurm_accounting import Accounting, Existing, extras, plan, read

QOS = {"Priority": "0", "GraceTime": "0", "Preempt": "", "MaxWall": "", "MaxTRESPerUser": ""}
RESEARCH = {"Parent": "root", "Description": "research", "Fairshare": "1", "QOS": "normal", "GrpTRES": ""}
THERE = Existing(
    qos={"normal": QOS},
    accounts={"research": RESEARCH},
    places={("root", "root", ""): {"Fairshare": "1"}, ("ada", "research", ""): {"Fairshare": "1"}},
    defaults={"root": "root", "ada": "research"},
)
ADA = {"name": "ada", "account": "research"}


def wanted(**parts: Any) -> Accounting:
    return Accounting.model_validate({"accounts": {"research": {}}, "users": [ADA], **parts})


def commands(file: Accounting, there: Existing = THERE, **options: bool) -> list[str]:
    return [" ".join(each.argv) for each in plan(file, there, **options)]


def test_what_is_so_needs_nothing() -> None:
    assert plan(wanted(), THERE) == []
    assert plan(wanted(), THERE, remove=True) == []


def test_from_nothing_in_an_order_that_works() -> None:
    file = wanted(
        qos={"low": {}, "high": {"priority": 10, "preempts": ["low", "normal"], "maxWall": "1-00:00:00"}},
        accounts={
            "team": {"parent": "research", "qos": ["normal", "high"], "shares": 2, "maxTres": "gres/gpu=8,cpu=64"},
            "research": {},
        },
        users=[{"name": "eve", "account": "team", "partition": "a3u"}, ADA],
    )
    assert commands(file, Existing(qos={"normal": QOS})) == [
        "add qos low",
        "add qos high",
        "modify qos where name=high set Priority=10 Preempt=low,normal MaxWall=1-00:00:00",
        "add account research Parent=root Description=research Fairshare=1 QOS=normal",
        "add account team Parent=research Description=team Fairshare=2 QOS=high,normal GrpTRES=cpu=64,gres/gpu=8",
        "add user eve account=team partition=a3u Fairshare=1",
        "add user ada account=research Fairshare=1",
    ]


@pytest.mark.parametrize(
    ("parts", "command"),
    [
        ({"accounts": {"research": {"shares": 5}}}, "modify account where name=research set Fairshare=5"),
        (
            {"accounts": {"research": {"description": "the lab"}}},
            "modify account where name=research set Description=the lab",
        ),
        ({"qos": {"normal": {"graceS": 90}}}, "modify qos where name=normal set GraceTime=90"),
        (
            {"users": [{**ADA, "shares": 3}]},
            # Without its empty partition it would be all of the user's places in the account.
            "modify user where name=ada account=research partition= set Fairshare=3",
        ),
        ({"users": [ADA, {**ADA, "partition": "a3u"}]}, "add user ada account=research partition=a3u Fairshare=1"),
        (
            {"users": [{**ADA, "default": True}, {"name": "bob", "account": "research", "default": True}]},
            "add user bob",
        ),
    ],
)
def test_one_difference_is_one_command(parts: dict[str, Any], command: str) -> None:
    (found,) = commands(wanted(**parts))
    assert found.startswith(command)


def test_a_limit_is_taken_away_by_its_name() -> None:
    limits = {**QOS, "Preempt": "normal", "MaxWall": "1-00:00:00", "MaxTRESPerUser": "cpu=4,gres/gpu=8"}
    there = Existing(qos={"normal": QOS, "high": limits}, accounts=THERE.accounts, places=THERE.places)
    assert commands(wanted(qos={"high": {"maxTresPerUser": "cpu=2"}}), there) == [
        "modify qos where name=high set Preempt= MaxWall=-1 MaxTRESPerUser=cpu=2,gres/gpu=-1"
    ]


def test_a_default_account_is_set_where_slurm_would_choose_another() -> None:
    both = [{"name": "bob", "account": "research"}, {"name": "bob", "account": "team", "default": True}]
    file = wanted(accounts={"research": {}, "team": {}}, users=[ADA, *both])
    assert commands(file)[-1] == "modify user where name=bob set DefaultAccount=team"


def test_what_the_file_does_not_name_is_removed_only_when_asked() -> None:
    there = Existing(
        qos={"normal": QOS, "old": QOS},
        accounts={"research": RESEARCH, "old": RESEARCH, "older": {**RESEARCH, "Parent": "old"}},
        places={**THERE.places, ("ada", "research", "a3u"): {}, ("eve", "old", ""): {}},
        defaults=THERE.defaults,
    )
    assert commands(wanted(), there) == []
    assert extras(wanted(), there)[0] == "user ada in account research, partition a3u"
    assert commands(wanted(), there, remove=True) == [
        "delete user where name=ada account=research partition=a3u",
        "delete user where name=eve account=old partition=",
        "delete account where name=older",
        "delete account where name=old",
        "delete qos where name=old",
    ]


def test_changes_are_told_with_what_was() -> None:
    (change,) = plan(wanted(accounts={"research": {"shares": 5, "maxTres": "gres/gpu=8"}}), THERE)
    assert str(change) == "~ account research: Fairshare 1 -> 5, GrpTRES unset -> gres/gpu=8"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("accounts: {Research: {}}", "accounts.Research"),
        ("accounts: {research: {share: 1}}", r"accounts.research.share: Extra inputs"),
        ("accounts: {a: {parent: b}}", "accounts.a.parent: 'b' is no account of this file"),
        ("accounts: {a: {parent: b}, b: {parent: a}}", "accounts.a.parent: 'a' is its own ancestor"),
        ("accounts: {root: {}}", "accounts.root: Slurm's own"),
        ("accounts: {a: {qos: [high]}}", "accounts.a.qos: no QOS 'high'"),
        ("accounts: {a: {maxTres: 8 GPUs}}", "accounts.a.maxTres: String should match"),
        ("qos: {high: {preempts: [low]}}", "qos.high.preempts: no QOS 'low'"),
        ("qos: {high: {maxWall: 1 day}}", "qos.high.maxWall: String should match"),
        ("users: [{name: ada, account: a}]", r"users\[0\].account: 'a' is no account"),
        ("accounts: {a: {}}\nusers: [{name: ada, account: a}, {name: ada, account: a}]", "ada is in a twice"),
        (
            "accounts: {a: {}, b: {}}\n"
            "users: [{name: u, account: a, default: true}, {name: u, account: b, default: true}]",
            "u has one already, a",
        ),
        ("accounts: {a: {}}\nusers: [{name: u, account: a, partition: b}]", "users.0.partition: 'b'; the .* has a3u"),
        ("accounts: [", "is no YAML"),
    ],
)
def test_a_wrong_file_is_refused_with_the_place(tmp_path: Path, text: str, why: str) -> None:
    (tmp_path / "accounts.yaml").write_text(text)
    with pytest.raises(OperatorError, match=why) as said:
        read(tmp_path / "accounts.yaml", ["a3u"])
    assert str(said.value).startswith(str(tmp_path))


def test_a_missing_file_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(OperatorError, match=r"No such file.*or name --file"):
        read(tmp_path / "none.yaml")


def test_the_shipped_file_fits_the_shipped_stack() -> None:
    assert read(stackfile.FOLDER / "accounting.dev-slurm.yaml", ["a3u"]).users
