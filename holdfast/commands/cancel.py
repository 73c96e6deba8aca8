"""`holdfast cancel`."""

from __future__ import annotations

from typing import Annotated

import typer

from holdfast.commands.console import out
from holdfast.commands.watch import STACK, Execution, Stack, open_backend
from holdfast.errors import OperatorError


def cancel(
    execution: Execution = None,
    stack: Stack = STACK,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
) -> None:
    """End a run: every task gets SIGTERM, saves a checkpoint if there is time, and is not tried again."""
    from holdfast.runs import verbs
    from holdfast.runs.backend import command
    from infra import catalog

    backend = open_backend(stack)
    run = verbs.latest(backend, execution)
    if not run.active:
        raise OperatorError(f"{run.name} is over already: {run.state}")
    grace = catalog.cloud_run().termination_grace_s
    out.print(
        f"{run.name} is {run.state}. Its tasks get SIGTERM, and SIGKILL {grace} s later: the trainer saves a "
        "checkpoint in between. They are not tried again; the next run of the same run id resumes from there"
    )
    if not yes:
        typer.confirm(f"Cancel {run.name}?", abort=True)
    backend.cancel(run)
    out.print(f"cancelled; `{command(backend, 'watch', run.name)}` shows its end")
