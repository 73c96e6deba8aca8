"""`holdfast resubmit`."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.markup import escape

from holdfast.commands import watch as watching
from holdfast.commands.console import out
from holdfast.errors import OperatorError


def resubmit(
    job: Annotated[str, typer.Argument(help="The job's name.", show_default=False)],
    stack: watching.Stack = watching.GKE_STACK,
    watch: Annotated[bool, typer.Option("--watch", help="Follow it, as `holdfast watch` does.")] = False,
    every: watching.Every = watching.EVERY_S,
) -> None:
    """Run a GKE job that is over once more: it goes on from its checkpoints.

    Kueue never starts a deactivated job again, such as one whose flex-start nodes have reached their end: its workload
    has to be deleted. This deletes it with the job, and applies the job as it was first applied.
    """
    from holdfast.runs.backend import Resubmits, command

    backend = watching.open_backend(stack)
    if not isinstance(backend, Resubmits):
        raise OperatorError(
            f"stack {stack} runs jobs on {backend.verb}, where a run is not kept: `holdfast submit {backend.verb}` "
            "starts another, which goes on from the checkpoints"
        )
    run = backend.resubmit(backend.run(job))
    out.print(f"resubmitted {run.name}: run id {escape(run.run_id)}")
    out.print(f"  {command(backend, 'watch', run.name)}")
    if watch:
        watching.follow(backend, run, every)
