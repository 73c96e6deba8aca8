"""What jobs and users used, from Slurm's accounting (sacct), which keeps it long after slurmctld has forgotten a job.

A requeued job has a record for each time that it ran: they are added up.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace

from holdfast.errors import OperatorError
from holdfast.slurm_login import Login

_COLUMNS = "JobID,User,Account,Partition,JobName,State,ElapsedRaw,CPUTimeRAW,AllocTRES,MaxRSS"
_GPUS = re.compile(r"\bgres/gpu=(\d+)")
_MEMORY = re.compile(r"([\d.]+)([KMGTP]?)")
_UNITS = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40, "P": 2**50}
_SINCE = re.compile(r"(\d+)([mhd])")
_AGO = {"m": "minutes", "h": "hours", "d": "days"}


@dataclass(frozen=True)
class Usage:
    """What one job used, in all of its runs.

    `cpu_s`, `gpu_s`: those that were allocated, times the seconds; `memory`: bytes that its largest process ever had,
    as far as Slurm has sampled it (JobAcctGatherFrequency).
    """

    job: str
    user: str
    account: str
    partition: str
    name: str
    state: str
    runs: int
    elapsed_s: int
    cpu_s: int
    gpu_s: int
    memory: int


def look(login: Login, *, job: str | None = None, user: str | None = None, since: str = "7d") -> list[Usage]:
    """The jobs of so long ago and later, oldest first. OperatorError: they cannot be looked up, or the words are wrong.

    Args:
        since: 90m, 12h, 7d, or a time as sacct takes it.
    """
    ago = _SINCE.fullmatch(since)
    begin = f"now-{ago[1]}{_AGO[ago[2]]}" if ago else since
    # A named job whenever it was.
    which = [f"--jobs={job}"] if job else ["--allusers" if user is None else f"--user={user}", f"--starttime={begin}"]
    if job is not None and not job.isdigit():
        raise OperatorError(f"--job {job}: a Slurm job is named by its number")
    said = login.run("sacct", "--duplicates", "--noheader", "--parsable2", f"--format={_COLUMNS}", *which, admin=True)
    return parse(said)


def parse(text: str) -> list[Usage]:
    """The lines of `sacct --duplicates --parsable2`, a job each: its runs and their steps added up."""
    found: dict[str, Usage] = {}
    for line in text.splitlines():
        row = line.split("|")
        if len(row) != len(_COLUMNS.split(",")):  # a job's name with a bar, say
            row = [*row[:4], "|".join(row[4 : len(row) - 5]), *row[-5:]]
        job, step = row[0].partition(".")[::2]
        if step:
            if job in found:
                found[job] = replace(found[job], memory=max(found[job].memory, _bytes(row[9])))
            continue
        elapsed, gpus = int(row[6] or 0), _GPUS.search(row[8])
        had = found.get(job)
        # The newest record is the last.
        found[job] = Usage(
            job=job,
            user=row[1],
            account=row[2],
            partition=row[3],
            name=row[4],
            state=row[5],
            runs=(had.runs if had else 0) + 1,
            elapsed_s=(had.elapsed_s if had else 0) + elapsed,
            cpu_s=(had.cpu_s if had else 0) + int(row[7] or 0),
            gpu_s=(had.gpu_s if had else 0) + elapsed * (int(gpus[1]) if gpus else 0),
            memory=had.memory if had else 0,
        )
    return list(found.values())


@dataclass(frozen=True)
class Sum:
    """What a user's jobs used in one account."""

    user: str
    account: str
    jobs: int
    cpu_s: int
    gpu_s: int


def by_user(jobs: Iterable[Usage]) -> list[Sum]:
    """Users by the GPU time that they used, then CPU time, most first."""
    sums: dict[tuple[str, str], Sum] = {}
    for each in jobs:
        had = sums.get((each.user, each.account), Sum(each.user, each.account, 0, 0, 0))
        sums[each.user, each.account] = replace(
            had, jobs=had.jobs + 1, cpu_s=had.cpu_s + each.cpu_s, gpu_s=had.gpu_s + each.gpu_s
        )
    return sorted(sums.values(), key=lambda each: (-each.gpu_s, -each.cpu_s, each.user))


def _bytes(text: str) -> int:
    found = _MEMORY.fullmatch(text)
    return round(float(found[1]) * _UNITS[found[2]]) if found else 0
