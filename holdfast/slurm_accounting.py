"""A cluster's accounts, users, shares and QOS as one typed file, and the sacctmgr commands that make it so.

What the file does not name is left alone, unless it is to be removed. Names and columns are sacctmgr's
(https://slurm.schedmd.com/sacctmgr.html).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError, model_validator
from pydantic.alias_generators import to_camel

from holdfast.errors import OperatorError
from holdfast.slurm_login import Login

# sacctmgr takes commas and spaces as the end of a value, and makes small letters of names.
_Name = Annotated[str, StringConstraints(pattern=r"^[a-z_][a-z0-9_.-]{0,39}$")]
_Text = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_. :/()-]*$")]
_Tres = Annotated[str, StringConstraints(pattern=r"^[a-z]+(/[a-z0-9_:.-]+)?=\d+(,[a-z]+(/[a-z0-9_:.-]+)?=\d+)*$")]
_Wall = Annotated[str, StringConstraints(pattern=r"^(\d+-)?\d\d:\d\d:\d\d$")]
_ROOT = "root"  # the account that Slurm makes, the root of all
_NORMAL = "normal"  # the QOS that Slurm makes


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", alias_generator=to_camel, validate_by_name=True)


class Qos(_Part):
    """Limits and priority that a job asks for by --qos. Absent: Slurm's default, or as it is."""

    priority: int = Field(0, ge=0)
    grace_s: int = Field(0, ge=0)
    """Seconds that a preempted job has."""
    preempts: list[_Name] = Field(default_factory=list)
    """QOS whose jobs are preempted for this one's, with PreemptType preempt/qos."""
    max_wall: _Wall | None = None
    """The longest --time."""
    max_tres_per_user: _Tres | None = None
    """What a user's running jobs may have together, as in gres/gpu=16."""


class Account(_Part):
    """Whom jobs are charged to. Shares are relative to those of the accounts beside it."""

    parent: _Name = _ROOT
    description: _Text = ""
    shares: int = Field(1, ge=0)
    qos: list[_Name] = Field(default_factory=lambda: [_NORMAL])
    """What its users may ask for."""
    max_tres: _Tres | None = None
    """What all running jobs of the account may have together (GrpTRES)."""


class User(_Part):
    """A user's place in an account, in all partitions or in one: who has only such of one is refused elsewhere."""

    name: _Name
    account: _Name
    partition: _Name | None = None
    shares: int = Field(1, ge=0)
    default: bool = False
    """Whether the account is the one of a job that names none."""


class Accounting(_Part):
    """The file."""

    qos: dict[_Name, Qos] = Field(default_factory=dict)
    accounts: dict[_Name, Account] = Field(default_factory=dict)
    users: list[User] = Field(default_factory=list)

    @model_validator(mode="after")
    def _hangs_together(self) -> Accounting:
        if problems := list(_problems(self)):
            raise ValueError("; ".join(problems))
        return self


def _problems(wanted: Accounting) -> Iterator[str]:
    qos = {*wanted.qos, _NORMAL}
    for name, each in wanted.qos.items():
        yield from (f"qos.{name}.preempts: no QOS {other!r}" for other in each.preempts if other not in qos)
    for name, account in wanted.accounts.items():
        if name == _ROOT:
            yield "accounts.root: Slurm's own, the parent of all; leave it out"
        seen, parent = {name}, account.parent
        while parent in wanted.accounts and parent not in seen:
            seen.add(parent)
            parent = wanted.accounts[parent].parent
        if parent != _ROOT:
            why = "is its own ancestor" if parent in seen else "is no account of this file"
            yield f"accounts.{name}.parent: {parent!r} {why}"
        yield from (f"accounts.{name}.qos: no QOS {other!r}" for other in account.qos if other not in qos)
    places: set[tuple[str, str, str | None]] = set()
    defaults: dict[str, str] = {}
    for index, user in enumerate(wanted.users):
        if user.account not in wanted.accounts:
            yield f"users[{index}].account: {user.account!r} is no account of this file"
        place = (user.name, user.account, user.partition)
        if place in places:
            yield f"users[{index}]: {user.name} is in {user.account} twice; write a partition, or leave one out"
        places.add(place)
        if user.default and defaults.setdefault(user.name, user.account) != user.account:
            yield f"users[{index}].default: {user.name} has one already, {defaults[user.name]}"


def read(path: Path, partitions: Sequence[str] = ()) -> Accounting:
    """The file. OperatorError: a line for each thing that is wrong; `partitions`: those that there are."""
    try:
        wanted = Accounting.model_validate(yaml.safe_load(path.read_text(encoding="utf-8")) or {})
    except OSError as error:
        raise OperatorError(f"{path}: {error.strerror}; write the cluster's accounts there, or name --file") from error
    except yaml.YAMLError as error:
        raise OperatorError(f"{path} is no YAML: {error}") from error
    except ValidationError as error:
        lines = (f"{path}, {'.'.join(map(str, each['loc'])) or 'the file'}: {each['msg']}" for each in error.errors())
        raise OperatorError("\n".join(lines)) from error
    known = ", ".join(partitions)
    unknown = [
        f"{path}, users.{index}.partition: {user.partition!r}; the cluster has {known}"
        for index, user in enumerate(wanted.users)
        if partitions and user.partition and user.partition not in partitions
    ]
    if unknown:
        raise OperatorError("\n".join(unknown))
    return wanted


Values = Mapping[str, str]
"""Settings by sacctmgr's names for them in `set`."""


@dataclass(frozen=True)
class Existing:
    """What Slurm has: each thing's settings. Users' places are (user, account, partition, empty for all)."""

    qos: Mapping[str, Values] = field(default_factory=dict)
    accounts: Mapping[str, Values] = field(default_factory=dict)
    places: Mapping[tuple[str, str, str], Values] = field(default_factory=dict)
    defaults: Mapping[str, str] = field(default_factory=dict)
    """Users' default accounts."""


@dataclass(frozen=True)
class Change:
    """One command, and what it changes: `+` adds, `~` modifies, `-` removes."""

    sign: Literal["+", "~", "-"]
    what: str
    argv: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.sign} {self.what}"


def look(login: Login, cluster: str) -> Existing:
    """What the cluster has. OperatorError: it cannot be asked."""
    qos = _rows(login, "qos", "name,priority,gracetime,preempt,maxwall,maxtrespu")
    accounts = _rows(login, "account", "account,descr")
    rows = _rows(login, "assoc", "account,user,partition,parentname,share,qos,grptres", "where", f"cluster={cluster}")
    users = _rows(login, "user", "user,defaultaccount")
    told = {row["account"]: row["descr"] for row in accounts}
    return Existing(
        qos={
            row["name"]: {
                "Priority": row["priority"] or "0",
                "GraceTime": str(_seconds(row["gracetime"])),
                "Preempt": _sorted(row["preempt"]),
                "MaxWall": row["maxwall"],
                "MaxTRESPerUser": _sorted(row["maxtrespu"]),
            }
            for row in qos
        },
        accounts={
            row["account"]: {
                "Parent": row["parentname"],
                "Description": told.get(row["account"], ""),
                "Fairshare": row["share"],
                "QOS": _sorted(row["qos"]),
                "GrpTRES": _sorted(row["grptres"]),
            }
            for row in rows
            if not row["user"] and row["account"] != _ROOT
        },
        places={
            (row["user"], row["account"], row["partition"]): {"Fairshare": row["share"]} for row in rows if row["user"]
        },
        defaults={row["user"]: row["defaultaccount"] for row in users},
    )


def plan(wanted: Accounting, existing: Existing, *, remove: bool = False) -> list[Change]:
    """The commands that make of what there is what is wanted, in an order that works; none where it is so."""
    found = [*_qos(wanted, existing), *_accounts(wanted, existing), *_users(wanted, existing)]
    return [*found, *(_removals(wanted, existing) if remove else ())]


def extras(wanted: Accounting, existing: Existing) -> list[str]:
    """What there is that the file does not name: left alone unless it is to be removed."""
    return [each.what for each in _removals(wanted, existing)]


def apply(login: Login, changes: Sequence[Change]) -> None:
    """Makes the changes. OperatorError: one is refused; those before it are made, and a second run goes on from it."""
    for each in changes:
        login.run("sacctmgr", "-i", *each.argv, admin=True)


def _qos(wanted: Accounting, existing: Existing) -> Iterator[Change]:
    for name in wanted.qos:  # all before any is set, since they name each other
        if name not in existing.qos:
            yield Change("+", f"qos {name}", ("add", "qos", name))
    for name, qos in wanted.qos.items():
        settings = {
            "Priority": str(qos.priority),
            "GraceTime": str(qos.grace_s),
            "Preempt": ",".join(sorted(qos.preempts)),
            "MaxWall": qos.max_wall or "",
            "MaxTRESPerUser": _sorted(qos.max_tres_per_user or ""),
        }
        yield from _set("qos", f"qos {name}", (f"name={name}",), settings, existing.qos.get(name, _NEW_QOS))


def _accounts(wanted: Accounting, existing: Existing) -> Iterator[Change]:
    for name in _parents_first(wanted):
        account = wanted.accounts[name]
        settings = {
            "Parent": account.parent,
            "Description": account.description or name,
            "Fairshare": str(account.shares),
            "QOS": ",".join(sorted(account.qos)),
            "GrpTRES": _sorted(account.max_tres or ""),
        }
        where = (f"name={name}",)
        if name in existing.accounts:
            yield from _set("account", f"account {name}", where, settings, existing.accounts[name])
            continue
        given = tuple(f"{key}={value}" for key, value in settings.items() if value)
        yield Change("+", f"account {name}: {', '.join(given)}", ("add", "account", name, *given))


def _users(wanted: Accounting, existing: Existing) -> Iterator[Change]:
    defaults = dict(existing.defaults)
    for user in wanted.users:
        place = (user.name, user.account, user.partition or "")
        shares = str(user.shares)
        if place in existing.places:
            where = _where(*place)
            yield from _set("user", _told(place), where, {"Fairshare": shares}, existing.places[place])
            continue
        partition = (f"partition={user.partition}",) if user.partition else ()
        argv = ("add", "user", user.name, f"account={user.account}", *partition, f"Fairshare={shares}")
        yield Change("+", f"{_told(place)}: Fairshare={shares}", argv)
        defaults.setdefault(user.name, user.account)  # a new user's first account is the default
    for user in wanted.users:
        has = {"DefaultAccount": defaults[user.name]} if user.name in defaults else {}
        if user.default:
            where = (f"name={user.name}",)
            yield from _set("user", f"user {user.name}", where, {"DefaultAccount": user.account}, has)
            defaults[user.name] = user.account


def _removals(wanted: Accounting, existing: Existing) -> Iterator[Change]:
    places = {(user.name, user.account, user.partition or "") for user in wanted.users}
    for place in existing.places:
        if place not in places and place[0] != _ROOT:
            yield Change("-", _told(place), ("delete", "user", "where", *_where(*place)))
    gone = [name for name in existing.accounts if name not in wanted.accounts]
    for name in sorted(gone, key=lambda name: -_depth(name, existing)):
        yield Change("-", f"account {name}", ("delete", "account", "where", f"name={name}"))
    for name in existing.qos:
        if name not in wanted.qos and name != _NORMAL:
            yield Change("-", f"qos {name}", ("delete", "qos", "where", f"name={name}"))


def _where(user: str, account: str, partition: str) -> tuple[str, ...]:
    """One place: an empty partition is that of all partitions, where none would be every place in the account."""
    return f"name={user}", f"account={account}", f"partition={partition}"


def _told(place: tuple[str, str, str]) -> str:
    user, account, partition = place
    return f"user {user} in account {account}" + (f", partition {partition}" if partition else "")


def _set(kind: str, what: str, where: Sequence[str], wanted: Values, has: Values) -> Iterator[Change]:
    """The command that changes the settings that differ."""
    new = {key: value for key, value in wanted.items() if has.get(key) != value}
    if not new:
        return
    told = ", ".join(f"{key} {has.get(key, '') or 'unset'} -> {value or 'unset'}" for key, value in new.items())
    words = [_word(key, value, has.get(key, "")) for key, value in new.items()]
    yield Change("~", f"{what}: {told}", ("modify", kind, "where", *where, "set", *words))


def _word(key: str, value: str, has: str) -> str:
    """A setting for `set`, where -1 takes a limit away; of TRES, from each that had one and is to have none."""
    if "TRES" in key:
        kept, had = ([each.partition("=")[0] for each in text.split(",") if each] for text in (value, has))
        value = ",".join(filter(None, (value, *(f"{tres}=-1" for tres in had if tres not in kept))))
    elif key == "MaxWall":
        value = value or "-1"
    return f"{key}={value}"


_NEW_QOS: Values = {"Priority": "0", "GraceTime": "0", "Preempt": "", "MaxWall": "", "MaxTRESPerUser": ""}


def _parents_first(wanted: Accounting) -> list[str]:
    def depth(name: str) -> int:
        return 0 if name == _ROOT else 1 + depth(wanted.accounts[name].parent)

    return sorted(wanted.accounts, key=depth)


def _depth(name: str, existing: Existing) -> int:
    parent = existing.accounts[name]["Parent"] if name in existing.accounts else _ROOT
    return 0 if parent in ("", _ROOT) else 1 + _depth(parent, existing)


def _rows(login: Login, what: str, columns: str, *where: str) -> list[dict[str, str]]:
    said = login.run("sacctmgr", "-nP", "show", what, *where, f"format={columns}", admin=True)
    names = columns.split(",")
    return [dict(zip(names, line.split("|"), strict=True)) for line in said.splitlines() if line]


def _sorted(names: str) -> str:
    return ",".join(sorted(filter(None, names.split(","))))


_CLOCK = re.compile(r"(?:(\d+)-)?(\d+):(\d+):(\d+)")


def _seconds(text: str) -> int:
    found = _CLOCK.fullmatch(text)
    if not found:
        return int(text or 0)
    days, hours, minutes, seconds = (int(each or 0) for each in found.groups())
    return ((days * 24 + hours) * 60 + minutes) * 60 + seconds
