"""Quotas of Kueue's flavors, drawn from the pools behind them, and what is wrong with quotas that somebody wrote.

Pure: pools (their shapes), the resources that a job's pods ask for, and quotas. Quota, pool and topology cannot
disagree, since nodes and chips come from the shape alone.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from infra import catalog
from infra.catalog import Problem
from infra.pool_shape import PoolShape

CPU, MEMORY, TPU = catalog.kueue()["resources"]


@dataclass(frozen=True)
class PodSize:
    """What one pod asks for: CPUs such as `8` or `500m`, and memory with its unit."""

    cpu: str
    memory: str


def _submitter() -> PodSize:
    return PodSize(**catalog.fact("gke", "ray_submitter").value)


@dataclass(frozen=True)
class JobTemplate:
    """What each kind of pod of a Ray job asks for; a worker gets the TPU chips of a whole host besides."""

    head: PodSize = PodSize("2", "4Gi")
    worker: PodSize = PodSize("8", "16Gi")
    submitter: PodSize = field(default_factory=_submitter)


@dataclass(frozen=True)
class Flavor:
    """A flavor of the ClusterQueue: the nodes of one pool, and how much of it is given out, by resource."""

    name: str
    pool: PoolShape
    quota: Mapping[str, str]


def derived(default: PoolShape, pools: Mapping[str, PoolShape], template: JobTemplate) -> list[Flavor]:
    """A flavor `default-cpu` for heads and submitters, and one for each of `pools`, in their order, by flavor name.

    A TPU flavor gives out all its pool's chips, with the CPUs and memory of as many workers as it has nodes. The first
    gives out what the head and submitter of each job ask for, of as many jobs as there are slices.
    """
    jobs = sum(pool.slices for pool in pools.values())
    return [
        Flavor("default-cpu", default, _quota([template.head, template.submitter], jobs, 0)),
        *(Flavor(name, pool, _quota([template.worker], pool.max_nodes, pool.chips)) for name, pool in pools.items()),
    ]


def written(flavors: Sequence[Flavor], quotas: Mapping[str, Mapping[str, str]]) -> list[Flavor]:
    """The flavors, with the quotas that somebody wrote in place of theirs."""
    return [Flavor(each.name, each.pool, quotas.get(each.name, each.quota)) for each in flavors]


def quota_problems(
    flavors: Sequence[Flavor],
    quotas: Mapping[str, Mapping[str, str]],
    template: JobTemplate,
    *,
    queued_above_pool: bool = False,
) -> list[Problem]:
    """What is wrong with written `quotas` of `flavors`; derived ones have none.

    `queued_above_pool` lets a queued flavor give out more than its pool can hold, as scenario B's tutorial does.
    """
    known = {each.name for each in flavors}
    problems = [
        _problem(name, f"there is no such flavor; this queue has {', '.join(sorted(known))}. Name one of these")
        for name in quotas
        if name not in known
    ]
    for flavor in flavors:
        if flavor.name in quotas:
            capped = not (flavor.pool.queued and queued_above_pool)
            problems += _flavor_problems(Flavor(flavor.name, flavor.pool, quotas[flavor.name]), template, capped)
    return problems


def _flavor_problems(flavor: Flavor, template: JobTemplate, capped: bool) -> list[Problem]:
    if set(flavor.quota) != {CPU, MEMORY, TPU}:
        names = f"{CPU}, {MEMORY} and {TPU}"
        message = (
            f"has {', '.join(flavor.quota) or 'nothing'}; Kueue wants every flavor to name {names}. Write all three"
        )
        return [_problem(flavor.name, message)]
    problems: list[Problem] = []
    cpu = _read(problems, flavor, CPU, catalog.parse_cpu)
    memory = _read(problems, flavor, MEMORY, catalog.memory_quota_gib)
    chips = _read(problems, flavor, TPU, int)
    if cpu is None or memory is None or chips is None:
        return problems
    pool = flavor.pool
    room = catalog.allocatable(pool.node.vcpu, pool.node.memory_gib)
    limits = {
        TPU: (chips, pool.chips, ""),
        CPU: (cpu, pool.max_nodes * room.cpu_m / 1000, ""),
        MEMORY: (memory, pool.max_nodes * room.memory_mib / 1024, " GiB"),
    }
    if capped:
        problems += [
            _problem(flavor.name, _above(resource, wanted, most, unit, pool))
            for resource, (wanted, most, unit) in limits.items()
            if wanted > most
        ]
    return problems or _too_little(flavor, template, cpu, memory, int(chips))


def _too_little(flavor: Flavor, template: JobTemplate, cpu: float, memory: float, chips: int) -> list[Problem]:
    """A quota on chips that no slice fits into, or on CPUs and memory that no pods fit beside the chips."""
    pool = flavor.pool
    slice_chips = pool.hosts * pool.node.chips
    if slice_chips and chips % slice_chips:
        fitting = chips // slice_chips * slice_chips or slice_chips
        message = f"{TPU} {chips} is no whole number of slices of {slice_chips} chips. Set {fitting}"
        return [_problem(flavor.name, message)]
    pods = [template.worker] if slice_chips else [template.head, template.submitter]
    # What is above the pool by choice needs no more beside it than a pool's worth.
    count = min(chips // pool.node.chips, pool.max_nodes) if slice_chips else 1
    need_cpu, need_memory = _sum(pods, count)
    short = [
        f"{resource} {have:g}{unit}, and {count * len(pods)} pods ask for {need:g}{unit}"
        for resource, have, need, unit in ((CPU, cpu, need_cpu, ""), (MEMORY, memory, need_memory, " GiB"))
        if have < need
    ]
    return [_problem(flavor.name, f"{each}, so they would wait for ever. Set at least that") for each in short]


def _above(resource: str, wanted: float, most: float, unit: str, pool: PoolShape) -> str:
    way_out = "Lower it, or enlarge the pool"
    if pool.queued:
        way_out += ", or set queuedQuotaAbovePool, and jobs wait with a request of their own instead"
    return (
        f"{resource} {wanted:g}{unit} is above what pool {pool.name} can ever hold, {most:g}{unit} (at most "
        f"{pool.max_nodes} nodes): Kueue would admit jobs whose pods never get a node, and hold the quota "
        f"(https://github.com/kubernetes-sigs/kueue/issues/5129). {way_out}"
    )


def _problem(flavor: str, message: str) -> Problem:
    return Problem("quotas", f"{flavor}: {message}")


def _read(problems: list[Problem], flavor: Flavor, resource: str, reader: Callable[[str], float]) -> float | None:
    try:
        return reader(flavor.quota[resource])
    except ValueError as error:
        message = str(error) if resource != TPU else f"{flavor.quota[resource]!r} is no whole number of chips"
        problems.append(_problem(flavor.name, f"{resource}: {message}"))
        return None


def _quota(pods: Sequence[PodSize], count: int, chips: int) -> dict[str, str]:
    cpu, memory = _sum(pods, count)
    thousandths, mebibytes = round(cpu * 1000), math.ceil(memory * 1024)
    return {
        CPU: f"{thousandths // 1000}" if thousandths % 1000 == 0 else f"{thousandths}m",
        MEMORY: f"{mebibytes // 1024}Gi" if mebibytes % 1024 == 0 else f"{mebibytes}Mi",
        TPU: f"{chips}",
    }


def _sum(pods: Sequence[PodSize], count: int) -> tuple[float, float]:
    """CPUs and GiB that `count` of each of `pods` ask for."""
    return (
        count * sum(catalog.parse_cpu(pod.cpu) for pod in pods),
        count * sum(catalog.parse_memory_gib(pod.memory) for pod in pods),
    )
