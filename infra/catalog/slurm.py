"""What a training cluster with Slurm may be. Sources: slurm.yaml, and slurm_conf.yaml for the maps of keys.

The rules read a cluster as the API and the provider write it (camelCase), so infrastructure, policies and the emulated
cloud ask the same ones.
"""

import difflib
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import Any

from infra.catalog.compute import compute_zones
from infra.catalog.facts import Universe, fact
from infra.catalog.rules import Problem
from infra.catalog.slurm_conf import CLUSTER, NODE_POOL, PARTITION, slurm_conf_problems
from infra.catalog.units import parse_duration_s

FLEX_START, RESERVATION = "FLEX_START", "RESERVATION"
_SPEC = "orchestratorSpec.slurmSpec"
_OLDER = ("scheduling", "accounting")
_NOTHING = (None, "")  # what is not known yet may be no truth value
_Body = Mapping[str, Any]


@dataclass(frozen=True)
class GpuMachine:
    """A machine type with GPUs. `hyperdisk`: it boots from hyperdisk-balanced alone; `block`: nodes come in these."""

    name: str
    gpu: str
    gpus: int
    hyperdisk: bool = False
    block: int = 1


@cache
def gpu_machines() -> Mapping[str, GpuMachine]:
    """The machine types with GPUs that a training cluster may have, by name."""
    return MappingProxyType({name: GpuMachine(name, **each) for name, each in _value("gpu_machines").items()})


def training_cluster_id_problem(cluster_id: str) -> Problem | None:
    """What the service refuses of a cluster's id."""
    return _name("cluster_id", "modelDevelopmentClusterId", cluster_id, "at most 10 lower-case letters and digits")


def flex_start_duration_problem(duration: str) -> Problem | None:
    """What is refused of the time that a flex-start node runs."""
    limits = _value("flex_start_s")
    try:
        seconds = parse_duration_s(duration)
    except ValueError as error:
        return Problem("flexStartMaxDuration", str(error))
    if limits["min"] <= seconds <= limits["max"]:
        return None
    message = (
        f"{duration}; a flex-start node runs {limits['min']}s to {limits['max']}s, {limits['max'] // 86400} days "
        f"({_source('flex_start_s')}). Set a time in that range; a longer run goes on from its last checkpoint"
    )
    return Problem("flexStartMaxDuration", message)


def training_cluster_problems(
    cluster: _Body, *, region: str | None = None, universe: Universe | None = None, release: str | None = None
) -> list[Problem]:
    """Everything that the service, or its Slurm, refuses of a cluster; a problem's field is the path to what is wrong.

    What is no text where a text belongs is not known yet, and is not judged; `region` None leaves out whether zones
    are in it. `release` is Slurm's, as in `slurm_conf_problems`.
    """
    pools = _items(cluster.get("nodePools"))
    spec = _mapping(_mapping(cluster.get("orchestratorSpec")).get("slurmSpec"))
    login = spec.get("loginNodePoolId")
    found: list[Problem] = []
    if isinstance(cluster.get("displayName"), str):
        problem = _name(
            "display_name", "displayName", cluster["displayName"], "at most 10 lower-case letters and digits"
        )
        found += [problem] if problem else []
    found += _network(_mapping(cluster.get("network")))
    found += _ids("nodePools", pools)
    zones = compute_zones(universe).get(region) if region else None
    for index, pool in enumerate(pools):
        path = f"nodePools[{index}]"
        problems = (*_machine(pool), *_provisioning(pool), *_scaling(pool, login), *_disk(pool), *_places(pool, zones))
        found += [Problem(f"{path}.{each.field}", f"pool {pool.get('id')!r}: {each.message}") for each in problems]
    found += [Problem(f"{_SPEC}.{each.field}", each.message) for each in _slurm(spec, pools, release)]
    return found


# -- names ---------------------------------------------------------------------------------------------------------


def _name(key: str, field: str, text: str, allowed: str) -> Problem | None:
    pattern = _value(f"{key}_pattern")
    if re.fullmatch(pattern, text):
        return None
    message = f"{text!r} does not match {pattern} ({_source(f'{key}_pattern')}). Use {allowed}, a letter first"
    return Problem(field, message)


def _full_name(key: str, field: str, text: Any, example: str) -> Iterator[Problem]:
    if isinstance(text, str) and not re.fullmatch(_value(f"{key}_name_pattern"), text):
        source = _source(f"{key}_name_pattern")
        yield Problem(field, f"{text!r} is no full name ({source}). Write it as {example}")


def _network(network: _Body) -> Iterator[Problem]:
    if network.get("network") in _NOTHING:
        yield Problem("network.network", f"is missing ({_source('network_name_pattern')}). Name the cluster's network")
    yield from _full_name("network", "network.network", network.get("network"), "projects/P/global/networks/N")
    subnetwork = network.get("subnetwork")
    yield from _full_name("subnetwork", "network.subnetwork", subnetwork, "projects/P/regions/R/subnetworks/S")


def _ids(path: str, parts: Sequence[_Body]) -> Iterator[Problem]:
    """Ids that are missing, no ids, or there twice."""
    for index, part in enumerate(parts):
        text = part.get("id")
        if not text:
            yield Problem(f"{path}[{index}].id", f"is missing ({_source('part_id_pattern')}). Give it one, such as a3u")
        elif isinstance(text, str):
            problem = _name("part_id", f"{path}[{index}].id", text, "lower-case letters, digits and hyphens")
            if problem:
                yield problem
    for text, count in Counter(str(part.get("id")) for part in parts if part.get("id")).items():
        if count > 1:
            message = f"{count} have the id {text!r}, which must be unique ({_source('part_id_pattern')}). Rename one"
            yield Problem(path, message)


# -- pools ---------------------------------------------------------------------------------------------------------


def _gpu(pool: _Body) -> GpuMachine | None:
    return gpu_machines().get(str(_mapping(pool.get("machineSpec")).get("machineType")))


def _machine(pool: _Body) -> Iterator[Problem]:
    spec = _mapping(pool.get("machineSpec"))
    machine, gpu = spec.get("machineType"), _gpu(pool)
    if not machine:
        yield Problem(
            "machineSpec.machineType", f"is missing ({_source('gpu_machines')}). Name one, such as n2-standard-8"
        )
    elif isinstance(machine, str) and gpu is None and not re.fullmatch(_value("cpu_machine_pattern"), machine):
        near = difflib.get_close_matches(machine, gpu_machines(), n=1)
        guess = f"did you mean {near[0]}?" if near else f"choose {', '.join(gpu_machines())}, or one of family n2"
        message = f"training clusters have no {machine!r} ({_source('gpu_machines')}); {guess}"
        yield Problem("machineSpec.machineType", message)
    given, count = spec.get("acceleratorType"), spec.get("acceleratorCount")
    if gpu and (given not in (None, gpu.gpu) or count not in (None, gpu.gpus)):
        message = (
            f"{count} {given}; {machine} has {gpu.gpus} {gpu.gpu} ({_source('gpu_machines')}). Leave both fields out"
        )
        yield Problem("machineSpec.acceleratorType", message)


def _provisioning(pool: _Body) -> Iterator[Problem]:
    affinity = _mapping(_mapping(pool.get("machineSpec")).get("reservationAffinity"))
    model, source = _set(pool.get("provisioningModel")), "provisioning_models"
    kind = _set(affinity.get("reservationAffinityType"))
    reserved = kind in ("ANY_RESERVATION", "SPECIFIC_RESERVATION") or bool(affinity.get("values"))
    if model is not None and model not in _value(source):
        message = f"{model!r}; there are {', '.join(_value(source))} ({_source(source)}). Choose one of these"
        yield Problem("provisioningModel", message)
        return
    if model is None and _gpu(pool) and not reserved:
        message = f"is missing; a pool with GPUs says how its nodes come ({_source(source)}). Set one of "
        yield Problem("provisioningModel", f"{message}{', '.join(_value(source))}")
    if kind is not None and kind not in _value("reservation_types"):
        message = f"{kind!r}; there are {', '.join(_value('reservation_types'))} ({_source('reservation_types')})"
        yield Problem("machineSpec.reservationAffinity", f"{message}. Choose one of these")
    elif model in ("ON_DEMAND", "SPOT", FLEX_START) and reserved:
        message = (
            f"{model} nodes come from no reservation ({_source(source)}). Leave the affinity out, or set RESERVATION"
        )
        yield Problem("machineSpec.reservationAffinity", message)
    elif model == RESERVATION and not reserved:
        message = f"RESERVATION without a reservation ({_source(source)}). Name one: projects/P/zones/Z/reservations/R"
        yield Problem("machineSpec.reservationAffinity", message)
    elif kind == "SPECIFIC_RESERVATION" and not affinity.get("values"):
        yield Problem(
            "machineSpec.reservationAffinity",
            f"SPECIFIC_RESERVATION names none ({_source(source)}). Name it: projects/P/zones/Z/reservations/R",
        )
    for value in affinity.get("values") or ():
        example = "projects/P/zones/Z/reservations/R"
        yield from _full_name("reservation", "machineSpec.reservationAffinity", value, example)
    duration = pool.get("flexStartMaxDuration")
    if isinstance(duration, str):
        problem = flex_start_duration_problem(duration)
        if model != FLEX_START:
            message = f"{duration}, but only FLEX_START nodes have an end ({_source('flex_start_s')}). Leave it out"
            yield Problem("flexStartMaxDuration", message)
        elif problem:
            yield problem


def _scaling(pool: _Body, login: Any) -> Iterator[Problem]:
    spec, source = _mapping(pool.get("scalingSpec")), _source("part_id_pattern")
    low, high = (_whole(spec.get(f"{end}NodeCount", 0)) for end in ("min", "max"))
    if low is None or high is None:
        return
    if not 0 <= low <= high or high < 1:
        message = f"{low} to {high} nodes ({source}). Set a minimum of at least 0, and a maximum of at least that and 1"
        yield Problem("scalingSpec", message)
    elif pool.get("id") == login and low != high:
        message = f"{low} to {high} nodes; a login pool has a fixed size ({source}). Set both to {high}"
        yield Problem("scalingSpec", message)
    gpu = _gpu(pool)
    if gpu and (low % gpu.block or high % gpu.block):
        message = f"{low} to {high} nodes; {gpu.name} comes in blocks of {gpu.block} ({_source('gpu_machines')})"
        yield Problem("scalingSpec", f"{message}. Set multiples of {gpu.block}")


def _disk(pool: _Body) -> Iterator[Problem]:
    disk, gpu, source = _mapping(pool.get("bootDisk")), _gpu(pool), _source("boot_disk_types")
    kind, size = disk.get("bootDiskType"), _whole(disk.get("bootDiskSizeGb", 100))
    if isinstance(kind, str) and kind not in _value("boot_disk_types"):
        choice = f"Choose {', '.join(_value('boot_disk_types'))}"
        yield Problem("bootDisk.bootDiskType", f"{kind!r} is no boot disk here ({source}). {choice}")
    elif isinstance(kind, str) and gpu and gpu.hyperdisk and kind != "hyperdisk-balanced":
        message = f"{kind}; {gpu.name} boots from hyperdisk-balanced alone ({_source('boot_disk_default')}). Set that"
        yield Problem("bootDisk.bootDiskType", message)
    if size is not None and size < 1:
        yield Problem("bootDisk.bootDiskSizeGb", f"{size} GB ({source}). Set a size, such as 100")


def _places(pool: _Body, zones: Sequence[str] | None) -> Iterator[Problem]:
    zone = pool.get("zone")
    if isinstance(zone, str) and zones is not None and zone not in zones:
        source = fact("compute", "regions").source
        message = f"{zone!r} is no zone of the cluster's region, which has {', '.join(zones)} ({source}). Choose one"
        yield Problem("zone", message)
    for field in ("filestores", "lustres"):
        for name in _items(pool.get(field)):
            yield from _full_name("storage", field, name, "projects/P/locations/Z/instances/NAME")


# -- Slurm ---------------------------------------------------------------------------------------------------------


def _slurm(spec: _Body, pools: Sequence[_Body], release: str | None) -> Iterator[Problem]:
    ids, login, source = [pool.get("id") for pool in pools], spec.get("loginNodePoolId"), _source("part_id_pattern")
    partitions, config = _items(spec.get("partitions")), _mapping(spec.get("config"))
    if not login:
        yield Problem("loginNodePoolId", f"is missing ({source}). Name the pool that people log in to")
    elif isinstance(login, str) and login not in ids:
        yield Problem("loginNodePoolId", f"there is no pool {login!r} ({source}). {_choose(login, ids)}")
    home = spec.get("homeDirectoryStorage")
    if home in _NOTHING:
        message = f"is missing ({_source('storage_name_pattern')}). Name the Filestore or Lustre instance of /home"
        yield Problem("homeDirectoryStorage", message)
    yield from _full_name("storage", "homeDirectoryStorage", home, "projects/P/locations/Z/instances/NAME")
    yield from _ids("partitions", partitions)
    for index, partition in enumerate(partitions):
        yield from _partition(f"partitions[{index}]", partition, ids, login)
        problems = slurm_conf_problems(_mapping(partition.get("config")), PARTITION, release=release, cluster=config)
        where = f"partition {partition.get('id')!r}"
        yield from (Problem(f"partitions[{index}].config", f"{where}: {each.message}") for each in problems)
    if not partitions:
        yield Problem("partitions", f"there is none, so no job could run ({source}). Add one, with its pools")
    default = spec.get("defaultPartitionId")
    known = [partition.get("id") for partition in partitions]
    if isinstance(default, str) and default and default not in known:
        message = (
            f"there is no partition {default!r} ({source}). {_choose(default, known)}, or leave it out for the first"
        )
        yield Problem("defaultPartitionId", message)
    yield from _node_sets(_items(spec.get("nodeSets")), ids, login, release)
    older = [field for field in _OLDER if spec.get(field)]
    if older and config:
        message = f"excludes {' and '.join(older)}, which it replaces ({source}). Keep config alone"
        yield Problem("config", message)
    yield from (Problem("config", each.message) for each in slurm_conf_problems(config, CLUSTER, release=release))
    for field in ("prologBashScripts", "epilogBashScripts"):
        for index, script in enumerate(_items(spec.get(field))):
            if isinstance(script, str) and not script.strip():
                message = f"is empty ({source}). Give the script's whole text, or leave it out of the list"
                yield Problem(f"{field}[{index}]", message)


def _partition(path: str, partition: _Body, ids: Sequence[Any], login: Any) -> Iterator[Problem]:
    members, name, source = _items(partition.get("nodePoolIds")), partition.get("id"), _source("part_id_pattern")
    if not members:
        yield Problem(f"{path}.nodePoolIds", f"partition {name!r} has no pool ({source}). Name at least one")
    for pool, count in Counter(map(str, members)).items():
        if pool == login:
            message = f"partition {name!r} has the login pool {pool!r}, on which no job runs ({source}). Take it out"
            yield Problem(f"{path}.nodePoolIds", message)
        elif pool not in ids:
            others = [each for each in ids if each != login]
            message = f"partition {name!r}: there is no pool {pool!r} ({source}). {_choose(pool, others)}"
            yield Problem(f"{path}.nodePoolIds", message)
        elif count > 1:
            yield Problem(f"{path}.nodePoolIds", f"partition {name!r} names pool {pool!r} twice. Name it once")


def _node_sets(sets: Sequence[_Body], ids: Sequence[Any], login: Any, release: str | None) -> Iterator[Problem]:
    source = _source("part_id_pattern")
    for index, each in enumerate(sets):
        pool, path = each.get("nodePoolId"), f"nodeSets[{index}]"
        if pool == login:
            message = f"{pool!r} is the login pool, whose nodes are not Slurm's ({source}). Name a compute pool"
            yield Problem(f"{path}.nodePoolId", message)
        elif pool not in ids:
            others = [other for other in ids if other != login]
            yield Problem(f"{path}.nodePoolId", f"there is no pool {pool!r} ({source}). {_choose(str(pool), others)}")
        problems = slurm_conf_problems(_mapping(each.get("config")), NODE_POOL, release=release)
        yield from (Problem(f"{path}.config", f"pool {pool!r}: {problem.message}") for problem in problems)
    for pool, count in Counter(str(each.get("nodePoolId")) for each in sets).items():
        if count > 1:
            yield Problem("nodeSets", f"{count} are of pool {pool!r}, which has at most one ({source}). Merge them")


def _choose(name: str, known: Sequence[Any]) -> str:
    near = difflib.get_close_matches(name, [str(each) for each in known], n=1)
    return f"Did you mean {near[0]!r}?" if near else f"Choose one of {', '.join(map(str, known)) or 'yours'}"


def _set(value: Any) -> Any:
    """An enumeration's value, None for its zero."""
    return None if str(value).endswith("_UNSPECIFIED") else value


def _whole(value: Any) -> int | None:
    try:
        return int(value)
    except (TypeError, ValueError):
        return None


def _mapping(value: Any) -> _Body:
    return value if isinstance(value, Mapping) else {}


def _items(value: Any) -> Sequence[Any]:
    return value if isinstance(value, list | tuple) else ()


def _value(key: str) -> Any:
    return fact("slurm", key).value


def _source(key: str) -> str:
    return fact("slurm", key).source
