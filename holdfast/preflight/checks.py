"""All checks in their order, which rests on which, and the run of them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from holdfast import stackfile
from holdfast.errors import OperatorError
from holdfast.gcp.api import Api, CloudError
from holdfast.preflight import access, capacity, resources, tpus, training
from holdfast.preflight.report import Check, Finding, PreflightReport
from holdfast.preflight.site import Base, Job, Site, Tpus, Training, could_not_look
from infra import catalog

if TYPE_CHECKING:
    from stacks.config import StackConfig, Target

    C = TypeVar("C", bound=StackConfig)

P = TypeVar("P")


@dataclass(frozen=True)
class _Entry:
    """A check. `needs`: those whose failure leaves nothing to judge; `part`: whose it is, None for every stack's."""

    name: str
    look: Callable[[Site], Finding]
    needs: tuple[str, ...] = ()
    part: type | None = None


def _of(part: type[P], name: str, look: Callable[[Site, P], Finding], needs: tuple[str, ...] = ()) -> _Entry:
    """A check that is only of stacks of this kind."""

    def judged(site: Site) -> Finding:
        assert isinstance(site.part, part)
        return look(site, site.part)

    return _Entry(name, judged, needs, part)


_CLOUD = ("credentials", "project")
_CHECKS = (
    _Entry("credentials", access.credentials),
    _Entry("project", access.project, ("credentials",)),
    _Entry("billing", access.billing, _CLOUD),
    _Entry("apis", access.apis, _CLOUD),
    _Entry("permissions", access.permissions, _CLOUD),
    _of(Base, "buckets", resources.buckets, _CLOUD),
    _of(Job, "foundation", resources.foundation, _CLOUD),
    _of(Job, "image", resources.image, _CLOUD),
    _of(Job, "region", capacity.region),
    _of(Job, "quota", capacity.quota, _CLOUD),
    _of(Job, "price", capacity.price),
    _of(Tpus, "buckets", resources.bucket, _CLOUD),
    _of(Tpus, "cluster", resources.cluster, _CLOUD),
    _of(Tpus, "zone", tpus.zone, _CLOUD),
    _of(Tpus, "version", tpus.version, _CLOUD),
    _of(Tpus, "quota", tpus.quota, _CLOUD),
    _of(Tpus, "price", tpus.price),
    _of(Training, "allow-list", training.allow_list, _CLOUD),
    _of(Training, "agent", training.agent, _CLOUD),
    _of(Training, "cluster", resources.training_cluster, _CLOUD),
    _of(Training, "home", training.home, _CLOUD),
    _of(Training, "zone", training.zone, _CLOUD),
    _of(Training, "quota", training.quota, _CLOUD),
    _of(Training, "price", training.price),
)
_CONFIG = "config"
NAMES = (_CONFIG, *dict.fromkeys(entry.name for entry in _CHECKS))
"""Every check there is. `config` cannot be skipped: the others read it."""
_PARTS: dict[str, type] = {"foundation": Base, "cloud-run": Job, "gke-tpu": Tpus, "slurm": Training}


def run(
    stack: str,
    connect: Callable[[Target], Api],
    *,
    folder: Path = stackfile.FOLDER,
    hours: float = 1.0,
    skip: Collection[str] = (),
) -> PreflightReport:
    """Looks at everything that the stack's `up` (and a run of its job) needs. Changes nothing.

    A check goes on after another's failure unless it rests on it; then it says so.

    Args:
        connect: the cloud that a stack's file names.
        folder: where the stacks' files are.
        hours: the hours of a run that are priced.
        skip: names of checks to leave out.

    Raises:
        OperatorError: `skip` names no check; the stack has no file, or its name says nothing; `connect`'s.
    """
    if unknown := sorted(set(skip) - set(NAMES[1:])):
        raise OperatorError(f"--skip {', '.join(unknown)}: choose among {', '.join(NAMES[1:])}")
    module = stackfile.module(stack, folder)
    entries = [entry for entry in _CHECKS if entry.part in (None, _PARTS.get(module)) and entry.name not in skip]
    report = PreflightReport(stack=stack, skipped=sorted(skip))
    try:
        site = _site(stack, module, connect, folder, hours)
    except OperatorError as error:
        report.checks.append(Check(name=_CONFIG, status="failed", found=str(error), do="correct the file"))
        report.checks += [_not_judged(entry.name, _CONFIG, "failed") for entry in entries]
        return report
    where = site.target
    report.project, report.region, report.universe = where.project, where.region, where.universe.domain
    files = [stack, site.part.base.stack] if isinstance(site.part, Job) else [stack]
    found = f"every key of {' and '.join(f'Pulumi.{name}.yaml' for name in files)} is sound"
    report.checks.append(Check(name=_CONFIG, status="ok", found=found))
    for check in _looks(site, entries):
        report.checks.append(check)
    report.principal = "" if report.status("credentials") in (None, "failed", "unknown") else site.principal
    return report


def _looks(site: Site, entries: list[_Entry]) -> Iterator[Check]:
    statuses: dict[str, str] = {}
    turned_on: list[str] = []  # by `up`
    for entry in entries:
        resting = next((name for name in entry.needs if statuses.get(name) in ("failed", "unknown")), None)
        if resting is not None:
            check = _not_judged(entry.name, resting, statuses[resting])
        else:
            try:
                finding = entry.look(site)
            except CloudError as error:
                finding = could_not_look(error, turned_on)
            if entry.name == "apis" and finding.status == "ok":
                turned_on = finding.figures["off"]
            check = Check(name=entry.name, **finding.model_dump())
        statuses[entry.name] = check.status
        yield check


def _not_judged(name: str, resting: str, status: str) -> Check:
    return Check(name=name, status="unknown", found=f"not looked at: it rests on {resting}, which is {status}")


def _site(stack: str, module: str, connect: Callable[[Target], Api], folder: Path, hours: float) -> Site:
    """OperatorError: a stack's file is wrong, or there is no such stack to look at."""
    from stacks.config import CloudRunConfig, FoundationConfig
    from stacks.gke_config import GkeTpuConfig
    from stacks.slurm_config import SlurmConfig

    if module == "foundation":
        base = Base(*_read(FoundationConfig, stack, folder))
        return Site(connect, module, stack, base.there, base, tuple(base.config.apis()))
    if module == "gke-tpu":
        pools, _, target = _read(GkeTpuConfig, stack, folder)
        return Site(connect, module, stack, target, Tpus(pools, hours), catalog.services().gke_tpu)
    if module == "slurm":
        cluster, _, target = _read(SlurmConfig, stack, folder)
        return Site(connect, module, stack, target, Training(cluster, hours), catalog.services().slurm)
    if module != "cloud-run":
        raise OperatorError(f"nothing looks at stacks of {module} yet")
    config, _, target = _read(CloudRunConfig, stack, folder)
    base = Base(*_read(FoundationConfig, config.foundation_stack(stack), folder))
    return Site(connect, module, stack, target, Job(config, base, hours), tuple(base.config.apis()))


def _read(model: type[C], stack: str, folder: Path) -> tuple[C, str, Target]:
    config, target = stackfile.read(model, stack, folder)
    return config, stack, target
