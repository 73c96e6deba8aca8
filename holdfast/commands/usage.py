"""`holdfast usage`."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table

from holdfast.commands.console import show
from holdfast.commands.watch import SLURM_STACK, Stack


def usage(
    stack: Stack = SLURM_STACK,
    job: Annotated[str | None, typer.Option(help="One job, by its number, however old.", show_default=False)] = None,
    user: Annotated[str | None, typer.Option(help="One user's jobs.", show_default=False)] = None,
    since: Annotated[str, typer.Option(help="How long ago (90m, 12h, 7d), or a time as sacct takes it.")] = "7d",
) -> None:
    """What jobs and users used of the training cluster: GPU, CPU and memory, from Slurm's accounting."""
    from holdfast import slurm_login, slurm_usage, stackfile
    from holdfast.runs.display import duration
    from stacks.slurm_config import SlurmConfig

    config, target = stackfile.read(SlurmConfig, stack)
    jobs = slurm_usage.look(slurm_login.login(config, target), job=job, user=user, since=since)
    table = Table("job", "user", "account", "partition", "name", "state", "runs", "time", "GPU h", "CPU h", "memory")
    for each in jobs:
        table.add_row(
            each.job,
            each.user,
            each.account,
            each.partition,
            escape(each.name),
            each.state,
            str(each.runs),
            duration(each.elapsed_s),
            f"{each.gpu_s / 3600:.2f}",
            f"{each.cpu_s / 3600:.2f}",
            f"{each.memory / 2**30:.1f} GiB" if each.memory else "",
        )
    show(table)
    if job is not None:
        return
    sums = Table("user", "account", "jobs", "GPU h", "CPU h")
    for total in slurm_usage.by_user(jobs):
        sums.add_row(
            total.user, total.account, str(total.jobs), f"{total.gpu_s / 3600:.2f}", f"{total.cpu_s / 3600:.2f}"
        )
    show(sums)
