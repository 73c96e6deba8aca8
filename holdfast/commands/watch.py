"""`holdfast watch`, and following a run for the other verbs."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from holdfast.commands.cloud import connect
from holdfast.commands.console import LeftRunning, err, out
from holdfast.errors import OperatorError

if TYPE_CHECKING:
    from holdfast.runs.backend import Backend, Run

Stack = Annotated[str, typer.Option(help="The stack whose job it is.")]
Execution = Annotated[str | None, typer.Argument(help="The run's name; by default the latest.", show_default=False)]
Every = Annotated[float, typer.Option(min=0.05, metavar="SECONDS", help="Time between two looks.")]
STACK = "dev-cloud-run"
GKE_STACK = "dev-gke-tpu"
SLURM_STACK = "dev-slurm"
EVERY_S = 5.0


def open_backend(stack: str) -> Backend:
    """The backend of a stack's job on the cloud that its file names, or on the emulator of HOLDFAST_API_ENDPOINT."""
    from holdfast.runs import choose

    return choose.open_backend(stack, connect)


@contextlib.contextmanager
def looking_at(stack: str) -> Iterator[None]:
    """A run is looked for. What is not to be had of the default stack may be another's: the message names those."""
    try:
        yield
    except OperatorError as error:
        from holdfast.gcp.api import CloudError

        elsewhere = not isinstance(error, CloudError) or error.status in ("NOT_FOUND", "PERMISSION_DENIED")
        if stack != STACK or not elsewhere:
            raise
        raise OperatorError(f"{error}\nThis looked at stack {stack}; {_OTHERS} looks at another") from error


_OTHERS = f"--stack {GKE_STACK} or --stack {SLURM_STACK}"


def find(stack: str, execution: str | None) -> tuple[Backend, Run]:
    """The run of that name, or the latest, of a stack's job. OperatorError: it is not there, or cannot be looked at."""
    from holdfast.runs import verbs

    with looking_at(stack):
        backend = open_backend(stack)
        return backend, verbs.latest(backend, execution)


def watch(execution: Execution = None, stack: Stack = STACK, every: Every = EVERY_S) -> None:
    """Follow a run: its log (the platform's preemption lines too), its tasks, their steps; on GKE also why it waits.

    Ends with the run: exit code 0 when it succeeded, else 1. Ctrl-C ends only the watching, with 130: the run goes on.
    """
    backend, run = find(stack, execution)
    follow(backend, run, every)


def follow(backend: Backend, run: Run, every_s: float) -> None:
    """Follows a run on the console to its end, and leaves with exit code 1 unless it succeeded."""
    from holdfast.runs import display, verbs
    from holdfast.runs.backend import Selection, command
    from holdfast.runs.progress import Tracker

    tracker = Tracker()
    try:
        with display.Watcher(out, tracker) as watcher:
            log = backend.log(run, Selection(every_step=False))
            run = verbs.follow(backend, run, log, watcher.tell, say=watcher.say, poll_s=every_s)
    except (KeyboardInterrupt, SystemExit) as end:
        code = end.code if isinstance(end, SystemExit) else 130
        again, stop = (command(backend, verb, run.name) for verb in ("watch", "cancel"))
        err.print(escape(f"{run.name} goes on. `{again}` follows it again, `{stop}` ends it"))
        raise LeftRunning(code) from None
    for line in verbs.verdict(run, lambda task: tracker.of(task).saved):
        out.print(escape(line))
    if run.state == "succeeded":
        return
    out.print(escape(backend.again(run)))
    raise typer.Exit(1)
