"""`holdfast watch`, and following a run for the other verbs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from holdfast.commands.console import LeftRunning, err, out

if TYPE_CHECKING:
    from holdfast.runs.backend import Backend, Run

Stack = Annotated[str, typer.Option(help="The stack whose job it is.")]
Execution = Annotated[str | None, typer.Argument(help="The run's name; by default the latest.", show_default=False)]
Every = Annotated[float, typer.Option(min=0.05, metavar="SECONDS", help="Time between two looks.")]
STACK = "dev-cloud-run"
EVERY_S = 5.0


def open_backend(stack: str) -> Backend:
    """The backend of a stack's job on the cloud that its file names, or on the emulator of HOLDFAST_API_ENDPOINT."""
    from holdfast.gcp.google import connect
    from holdfast.runs import choose

    return choose.open_backend(stack, lambda target: connect(target.project, target.universe))


def watch(execution: Execution = None, stack: Stack = STACK, every: Every = EVERY_S) -> None:
    """Follow a run: its log (the platform's preemption lines too), its tasks, their steps.

    Ends with the run: exit code 0 when it succeeded, else 1. Ctrl-C ends only the watching, with 130: the run goes on.
    """
    from holdfast.runs import verbs

    backend = open_backend(stack)
    follow(backend, verbs.latest(backend, execution), stack, every)


def follow(backend: Backend, run: Run, stack: str, every_s: float) -> None:
    """Follows a run on the console to its end, and leaves with its exit code."""
    from holdfast.runs import display, verbs
    from holdfast.runs.backend import Selection
    from holdfast.runs.progress import Tracker

    tracker = Tracker()
    try:
        with display.Watcher(out, tracker) as watcher:
            log = backend.log(run, Selection(every_step=False))
            run = verbs.follow(backend, run, log, watcher.tell, say=watcher.say, poll_s=every_s)
    except (KeyboardInterrupt, SystemExit) as end:
        code = end.code if isinstance(end, SystemExit) else 130
        which = f"{run.name} --stack {stack}"
        err.print(f"{run.name} goes on. `holdfast watch {which}` follows it again, `holdfast cancel {which}` ends it")
        raise LeftRunning(code) from None
    again = f"holdfast submit {backend.verb} --stack {stack}"
    for line in verbs.verdict(run, lambda task: tracker.of(task).saved, again):
        out.print(escape(line))
    raise typer.Exit(run.state != "succeeded")
