"""`holdfast submit`: a run of a stack's job."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.markup import escape

from holdfast.commands import watch as watching
from holdfast.commands.console import out

app = typer.Typer(no_args_is_help=True, help="Start a run of the job.")


@app.callback()
def _group() -> None:
    """Keeps the service's name a subcommand while there is one only."""


@app.command("cloud-run")
def submit_cloud_run(
    stack: watching.Stack = watching.STACK,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="A setting, such as HOLDFAST_STEPS=2000; repeatable."),
    ] = None,
    tasks: Annotated[int | None, typer.Option(min=1, help="Tasks of this run; else the job's.")] = None,
    timeout: Annotated[
        str | None, typer.Option(metavar="DURATION", help="Time an attempt may take, such as 3600s; else the job's.")
    ] = None,
    watch: Annotated[bool, typer.Option("--watch", help="Follow it, as `holdfast watch` does.")] = False,
    every: watching.Every = watching.EVERY_S,
) -> None:
    """Execute the Cloud Run job. It goes on from the newest checkpoint of its run id (--set HOLDFAST_RUN_ID=...).

    Refused while another execution of the same run id is active.
    """
    from holdfast.runs import options, verbs
    from holdfast.runs.backend import Order, command

    order = Order(options.settings(set_ or ()), tasks, options.timeout_s(timeout))
    backend = watching.open_backend(stack)
    run = verbs.submit(backend, order, lambda line: out.print(escape(line)))
    out.print(f"started {run.name}: {run.task_count} task(s), run id {escape(run.run_id)}")
    for verb in ("watch", "logs", "cancel"):
        out.print(f"  {command(backend, verb, run.name)}")
    out.print(f"  {backend.link(run)}")
    if watch:
        watching.follow(backend, run, every)
