"""What Slurm, or the training clusters that run it, refuse of slurm.conf. Sources: slurm_conf.yaml.

A wrong key stops slurmctld (22.05 even on `scontrol reconfigure`), so a map is judged before it is sent anywhere.
"""

import difflib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import Any

from infra.catalog.facts import fact
from infra.catalog.rules import Problem

_FILE = "slurm_conf"
CLUSTER, PARTITION, NODE_POOL = "cluster", "partition", "node_pool"
_SCOPES = {CLUSTER: "the cluster's config", PARTITION: "a partition's config", NODE_POOL: "a node pool's config"}
_BITS = {"uint16": 16, "uint32": 32, "uint64": 64}
_UNLIMITED = ("UNLIMITED", "INFINITE")
_BOOLEANS = ("YES", "NO", "TRUE", "FALSE", "UP", "DOWN", "1", "0")
_TIME = re.compile(r"\d+(:\d+){0,2}|\d+-\d+(:\d+){0,2}|-1")
_OVERSUBSCRIBE = re.compile(r"NO|EXCLUSIVE|YES(:\d+)?|FORCE(:\d+)?", re.IGNORECASE)
_TRES_WEIGHTS = re.compile(r"[\w/:.-]+=\d+(\.\d+)?[KMGTP]?(,[\w/:.-]+=\d+(\.\d+)?[KMGTP]?)*", re.IGNORECASE)
_UNIT_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


@dataclass(frozen=True)
class SlurmKey:
    """A key of slurm.conf in one scope. `kind`: text, time, boolean, uint16, uint32 or uint64.

    `since`, `until`: the first and the last release that know it; None for one from before 22.05, or still known.
    """

    name: str
    scope: str
    kind: str
    since: str | None = None
    until: str | None = None

    def known_in(self, release: str) -> bool:
        """Whether Slurm `release`, such as 22.05, knows it."""
        return (self.since or "") <= release <= (self.until or "99")


@cache
def slurm_keys(scope: str) -> Mapping[str, SlurmKey]:
    """The keys of a scope (cluster, partition, node_pool) by their names as `slurm_name` makes them."""
    since, until = (_value(fact_).get(scope, {}) for fact_ in ("since", "until"))
    known = (
        SlurmKey(name, scope, kind, since.get(name), until.get(name))
        for kind, names in _value(f"{scope}_keys").items()
        for name in names
    )
    return MappingProxyType({slurm_name(each.name): each for each in known})


def slurm_name(key: str) -> str:
    """A key as the service compares it: without case and underscores."""
    return key.replace("_", "").lower()


def slurm_key(key: str, scope: str = CLUSTER) -> SlurmKey | None:
    """The key that is written so in that scope."""
    return slurm_keys(scope).get(slurm_name(key))


def slurm_flags_since(key: str, release: str) -> list[str]:
    """The flags of that key that are newer than Slurm `release`."""
    flags = _value("flags_since").get(key, {})
    return [flag for flag, since in flags.items() if since > release]


def slurm_conf_problems(
    config: Mapping[str, str],
    scope: str = CLUSTER,
    *,
    release: str | None = None,
    cluster: Mapping[str, str] | None = None,
) -> list[Problem]:
    """Everything that Slurm or the service refuses of a map of keys; a problem's field is the key, as it is written.

    `release` is Slurm's; None for any that the service may run. `cluster` is the cluster's own map, for what a
    partition's must fit; None leaves that out.
    """
    releases = _value("service_releases") if release is None else [release]
    problems, written = [], dict[str, str]()
    for key, value in config.items():
        name = slurm_name(key)
        if name in written:
            why = f"is {written[name]} again, of which Slurm would silently take the last. Keep one of them"
            problems.append(_problem(key, scope, why))
            continue
        written[name] = key
        why_not = _key_problem(key, scope, releases) or _value_problem(slurm_keys(scope)[name], value, releases)
        if why_not:
            problems.append(_problem(key, scope, why_not))
    if not problems:
        problems = _preemption(config, scope, cluster)
    return problems


def _key_problem(key: str, scope: str, releases: list[str]) -> str | None:
    """Why the scope has no such key, and the way out."""
    name, known = slurm_name(key), slurm_keys(scope)
    found, refused = known.get(name), _value("refused")[scope]
    if found and found.name in refused:
        way_out = refused[found.name]
        return f"is refused by the service ({_source('refused')}): {way_out}"
    if found and found.name in _value("service_keys")[scope]:
        return f"is the service's own to write ({_source('service_keys')}). Leave it out"
    if found and not any(map(found.known_in, releases)):
        when = f"since {found.since}" if found.since and found.since > max(releases) else f"up to {found.until}"
        return f"is a key of Slurm {when}, not of {_or(releases)} ({_source('since')}). Leave it out"
    if found:
        return None
    elsewhere = [where for where in _SCOPES if name in slurm_keys(where)]
    if elsewhere:
        places = _or(_SCOPES[each] for each in elsewhere)
        return f"does not belong there ({_source(f'{elsewhere[0]}_keys')}). Move it to {places}"
    if name in {slurm_name(each) for each in _value("slurmdbd_keys")}:
        return (
            f"is a key of slurmdbd.conf, which the service keeps to itself ({_source('slurmdbd_keys')}). Leave it out"
        )
    near = difflib.get_close_matches(name, known, n=1)
    guess = f"did you mean {known[near[0]].name}?" if near else f"the keys are in {_source(f'{scope}_keys')}"
    return f"is no key of slurm.conf, and Slurm does not start with one that it does not know; {guess}"


def _value_problem(key: SlurmKey, value: str, releases: list[str]) -> str | None:
    """Why the key cannot have that value, and the way out."""
    if value == "" or re.search(r"[\n\r#]", value):
        return f"{value!r} is empty, or would end the line in slurm.conf. Write one line without `#`"
    if re.search(r"\s", value) and not re.fullmatch(r'"[^"]*"', value):
        return f"{value!r} has a space, where Slurm takes the value for ended. Write {''.join(value.split())}"
    choices, flags = _value("choices")[key.scope].get(key.name), _value("flags")[key.scope].get(key.name)
    if choices is not None:
        return _choice(value, [value], choices, "one of ")
    if flags is not None:
        newer = set.intersection(*(set(slurm_flags_since(key.name, each)) for each in releases))
        return _choice(
            value, value.split(","), [each for each in flags if each not in newer], "a list, with commas, of "
        )
    if key.kind in _BITS:
        most = 2 ** _BITS[key.kind] - 1
        if value.upper() in _UNLIMITED or (re.fullmatch(r"\d+", value) and int(value) <= most):
            return None
        return f"{value!r} is no whole number from 0 to {most} ({_key_source(key)}). Write one, such as 1000"
    if key.kind == "boolean":
        return _choice(value, [value], list(_BOOLEANS), "one of ")
    if key.kind == "time":
        return _time(key, value)
    return _other(key, value)


def _choice(value: str, given: list[str], allowed: list[str], kind: str) -> str | None:
    plain = {each if "/" in each else each.lower(): each for each in allowed}
    for each in given:
        if (each if "/" in each else each.lower()) not in plain:
            near = difflib.get_close_matches(each.lower(), plain, n=1) or [
                other for other in plain if other.endswith(f"/{each.lower()}")
            ]
            guess = f"; did you mean {plain[near[0]]}?" if near else ""
            what = repr(value) if each == value else f"{each!r} in {value!r}"
            return f"{what} is not possible ({_source('choices')}). Write {kind}{', '.join(allowed)}{guess}"
    return None


def _time(key: SlurmKey, value: str) -> str | None:
    if _TIME.fullmatch(value) or value.upper() in _UNLIMITED:
        return None
    other = re.fullmatch(r"(\d+)([smhd])", value)
    seconds = int(other[1]) * _UNIT_SECONDS[other[2]] if other else 600
    days, rest = divmod(seconds, 86400)
    clock = f"{rest // 3600:02}:{rest % 3600 // 60:02}:{rest % 60:02}"
    example = f"{days}-{clock}" if days else clock
    return (
        f"{value!r} is no time of Slurm's, which has minutes, minutes:seconds, hours:minutes:seconds or days-hours "
        f"({_key_source(key)}). Write {'' if other else 'it as in '}{example}"
    )


def _other(key: SlurmKey, value: str) -> str | None:
    if key.name == "OverSubscribe" and not _OVERSUBSCRIBE.fullmatch(value):
        return f"{value!r} is not possible ({_key_source(key)}). Write NO, EXCLUSIVE, YES:COUNT or FORCE:COUNT"
    if key.name in ("PriorityWeightTRES", "TRESBillingWeights", "TRESWeights") and not _TRES_WEIGHTS.fullmatch(
        value.strip('"')
    ):
        return f"{value!r} is no list of weights ({_key_source(key)}). Write, for example, CPU=1000,GRES/gpu=3000"
    return None


def _preemption(config: Mapping[str, str], scope: str, cluster: Mapping[str, str] | None) -> list[Problem]:
    """Preemption's type and mode that do not go together."""
    if scope == PARTITION:
        modes = _modes(config)
        if "SUSPEND" in modes and cluster is not None and "GANG" not in _modes(cluster):
            why = f"SUSPEND needs GANG in {_SCOPES[CLUSTER]} ({_preempt_source()}). Set PreemptMode=SUSPEND,GANG there"
            return [_problem(_written(config, "PreemptMode"), scope, why)]
        return []
    if scope != CLUSTER:
        return []
    kind, modes = slurm_value(config, "PreemptType") or "preempt/none", _modes(config)
    mode = slurm_value(config, "PreemptMode")
    acting = modes - {"GANG", "OFF", "WITHIN"}
    key = _written(config, "PreemptMode" if modes else "PreemptType")
    if kind == "preempt/none" and acting:
        why = (
            f"{mode} says how to preempt, and no PreemptType says whom ({_preempt_source()}). "
            "Set PreemptType=preempt/partition_prio or preempt/qos, or leave the mode out"
        )
        return [_problem(key, scope, why)]
    if kind != "preempt/none" and not acting:
        with_mode = f"PreemptMode {mode}" if modes else "no PreemptMode"
        way_out = "Set PreemptMode=REQUEUE, CANCEL or SUSPEND,GANG"
        why = f"{kind} with {with_mode} stops Slurm ({_preempt_source()}). {way_out}"
        return [_problem(key, scope, why)]
    if "SUSPEND" in modes and "GANG" not in modes:
        return [_problem(key, scope, f"SUSPEND needs GANG too ({_preempt_source()}). Write SUSPEND,GANG")]
    if len(modes - {"GANG", "WITHIN"}) > 1:
        several = ", ".join(sorted(modes - {"GANG", "WITHIN"}))
        why = f"{several} are modes that exclude each other ({_preempt_source()}). Keep one, and GANG with SUSPEND"
        return [_problem(key, scope, why)]
    return []


def _modes(config: Mapping[str, str]) -> set[str]:
    return set(filter(None, (slurm_value(config, "PreemptMode") or "").upper().split(",")))


def slurm_value(config: Mapping[str, str], key: str) -> str | None:
    """What the map says of that key, however it is spelled; the last one, as Slurm does."""
    return {slurm_name(each): value for each, value in config.items()}.get(slurm_name(key))


def _written(config: Mapping[str, str], key: str) -> str:
    return next((each for each in config if slurm_name(each) == slurm_name(key)), key)


def _problem(key: str, scope: str, why: str) -> Problem:
    return Problem(key, f"{key} in {_SCOPES[scope]}: {why}")


def _or(names: Iterable[str]) -> str:
    return " or ".join(names)


def _value(key: str) -> Any:
    return fact(_FILE, key).value


def _source(key: str) -> str:
    return fact(_FILE, key).source


def _key_source(key: SlurmKey) -> str:
    return f"{_source(f'{key.scope}_keys')}#OPT_{key.name}"


def _preempt_source() -> str:
    return f"{_source('cluster_keys')}#OPT_PreemptMode"
