"""`holdfast runs`."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table

from holdfast.commands.console import show
from holdfast.commands.watch import STACK, Stack, looking_at, open_backend


def runs(
    stack: Stack = STACK,
    most: Annotated[int, typer.Option(min=1, max=100, help="How many, newest first.")] = 10,
) -> None:
    """List the job's runs: state, attempts, the last step that the log tells of."""
    with looking_at(stack):
        backend = open_backend(stack)
        found = backend.runs(most)
    table = Table("run", "started (UTC)", "state", "run id", "tasks", "attempts", "step")
    for run in found:
        step = backend.last_step(run)
        table.add_row(
            run.name,
            f"{run.created:%Y-%m-%d %H:%M:%S}",
            run.state,
            escape(run.run_id),
            str(run.task_count),
            str(run.task_count + run.retries),
            "none" if step is None else str(step),
        )
    show(table)
