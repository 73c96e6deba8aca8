"""All checks in their order, which rests on which, and the run of them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast import stackfile
from holdfast.errors import OperatorError
from holdfast.gcp.api import Api, CloudError
from holdfast.preflight import access, capacity, resources
from holdfast.preflight.report import Check, Finding, PreflightReport
from holdfast.preflight.site import Job, Site, could_not_look

if TYPE_CHECKING:
    from stacks.config import Target


@dataclass(frozen=True)
class _Entry:
    """A check. `needs`: those whose failure leaves nothing to judge; `stacks`: whose it is."""

    name: str
    look: Callable[[Site], Finding]
    needs: tuple[str, ...] = ()
    stacks: tuple[str, ...] = ("foundation", "cloud-run")


def _of_job(look: Callable[[Site, Job], Finding]) -> Callable[[Site], Finding]:
    def judged(site: Site) -> Finding:
        assert site.job is not None  # the entry is a job's stack's only
        return look(site, site.job)

    return judged


_CLOUD, _JOB = ("credentials", "project"), ("cloud-run",)
_CHECKS = (
    _Entry("credentials", access.credentials),
    _Entry("project", access.project, ("credentials",)),
    _Entry("billing", access.billing, _CLOUD),
    _Entry("apis", access.apis, _CLOUD),
    _Entry("permissions", access.permissions, _CLOUD),
    _Entry("buckets", resources.buckets, _CLOUD, ("foundation",)),
    _Entry("foundation", _of_job(resources.foundation), _CLOUD, _JOB),
    _Entry("image", _of_job(resources.image), _CLOUD, _JOB),
    _Entry("region", _of_job(capacity.region), (), _JOB),
    _Entry("quota", _of_job(capacity.quota), _CLOUD, _JOB),
    _Entry("price", _of_job(capacity.price), (), _JOB),
)
_CONFIG = "config"
NAMES = (_CONFIG, *(entry.name for entry in _CHECKS))
"""Every check there is. `config` cannot be skipped: the others read it."""


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
    entries = [entry for entry in _CHECKS if module in entry.stacks and entry.name not in skip]
    report = PreflightReport(stack=stack, skipped=sorted(skip))
    try:
        site = _site(stack, module, connect, folder, hours)
    except OperatorError as error:
        report.checks.append(Check(name=_CONFIG, status="failed", found=str(error), do="correct the file"))
        report.checks += [_not_judged(entry.name, _CONFIG, "failed") for entry in entries]
        return report
    where = site.target
    report.project, report.region, report.universe = where.project, where.region, where.universe.domain
    files = dict.fromkeys((stack, site.foundation_stack))
    found = f"every key of {' and '.join(f'Pulumi.{name}.yaml' for name in files)} is sound"
    report.checks.append(Check(name=_CONFIG, status="ok", found=found))
    for check in _looks(site, entries):
        report.checks.append(check)
    report.principal = "" if report.status("credentials") in (None, "failed", "unknown") else site.principal
    return report


def _looks(site: Site, entries: list[_Entry]) -> Iterator[Check]:
    statuses: dict[str, str] = {}
    for entry in entries:
        resting = next((name for name in entry.needs if statuses.get(name) in ("failed", "unknown")), None)
        if resting is not None:
            check = _not_judged(entry.name, resting, statuses[resting])
        else:
            try:
                finding = entry.look(site)
            except CloudError as error:
                finding = could_not_look(error)
            check = Check(name=entry.name, **finding.model_dump())
        statuses[entry.name] = check.status
        yield check


def _not_judged(name: str, resting: str, status: str) -> Check:
    return Check(name=name, status="unknown", found=f"not looked at: it rests on {resting}, which is {status}")


def _site(stack: str, module: str, connect: Callable[[Target], Api], folder: Path, hours: float) -> Site:
    """OperatorError: a stack's file is wrong, or there is no such stack to look at."""
    from stacks.config import CloudRunConfig, FoundationConfig

    if module == "foundation":
        foundation, target = stackfile.read(FoundationConfig, stack, folder)
        return Site(connect, module, stack, stack, foundation, target, target)
    if module != "cloud-run":
        raise OperatorError(f"nothing looks at stacks of {module} yet")
    config, target = stackfile.read(CloudRunConfig, stack, folder)
    under = config.foundation_stack(stack)
    foundation, there = stackfile.read(FoundationConfig, under, folder)
    return Site(connect, module, stack, under, foundation, there, target, Job(config, hours))
