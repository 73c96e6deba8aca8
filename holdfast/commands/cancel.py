"""`holdfast cancel`."""

from __future__ import annotations

from typing import Annotated

import typer

from holdfast.commands.console import out
from holdfast.commands.watch import STACK, Execution, Stack, find
from holdfast.errors import OperatorError


def cancel(
    execution: Execution = None,
    stack: Stack = STACK,
    delete: Annotated[
        bool, typer.Option("--delete", help="On GKE, remove the job as well, over or not: its name is free then.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
) -> None:
    """End a run: every task gets SIGTERM, saves a checkpoint if there is time, and is not tried again."""
    from holdfast.runs.backend import Resubmits, command

    backend, run = find(stack, execution)
    if delete:
        if not isinstance(backend, Resubmits):
            raise OperatorError(f"--delete is for jobs on GKE: on {backend.verb} nothing stands in a later run's way")
        out.print(f"{run.name}: {run.state}. The job is removed, its pods end; its checkpoints stay")
        _confirm(f"Delete {run.name}?", yes)
        backend.delete(run)
        out.print("deleted")
        return
    if not run.active:
        raise OperatorError(f"{run.name} is over already: {run.state}")
    out.print(f"{run.name}: {run.state}. {backend.cancel_says()}")
    _confirm(f"Cancel {run.name}?", yes)
    backend.cancel(run)
    out.print(f"cancelled; `{command(backend, 'watch', run.name)}` shows its end")


def _confirm(question: str, yes: bool) -> None:
    if not yes:
        typer.confirm(question, abort=True)
