"""`holdfast accounting`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from holdfast.commands.console import out
from holdfast.commands.watch import SLURM_STACK, Stack


def accounting(
    stack: Stack = SLURM_STACK,
    file: Annotated[
        Path | None, typer.Option(help="The file; else stacks/accounting.STACK.yaml.", show_default=False)
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would change; change nothing.")] = False,
    remove: Annotated[
        bool, typer.Option("--remove", help="Remove accounts, users and QOS that the file does not name.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
) -> None:
    """Make the cluster's accounts, users, shares and QOS what a file says, by sacctmgr on the login node.

    Shows first what it changes. A second time it changes nothing.
    """
    from holdfast import slurm_accounting, slurm_login, stackfile
    from stacks.slurm_config import SlurmConfig

    config, target = stackfile.read(SlurmConfig, stack)
    partitions = [each.id for each in config.partitions]
    wanted = slurm_accounting.read(file or stackfile.FOLDER / f"accounting.{stack}.yaml", partitions)
    login = slurm_login.login(config, target)
    existing = slurm_accounting.look(login, config.cluster_id)
    changes = slurm_accounting.plan(wanted, existing, remove=remove)
    for change in changes:
        out.print(escape(str(change)))
    if not remove and (others := slurm_accounting.extras(wanted, existing)):
        out.print(f"left alone, since the file does not name them: {escape('; '.join(others))}")
    if not changes:
        out.print("nothing to change")
        return
    if dry_run:
        out.print(f"{len(changes)} change(s), none made")
        return
    if not yes:
        typer.confirm(f"Make {len(changes)} change(s)?", abort=True)
    slurm_accounting.apply(login, changes)
    out.print(f"{len(changes)} change(s) made")
