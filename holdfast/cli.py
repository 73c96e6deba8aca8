"""The operator's command: which subcommands there are, and how an expected failure ends."""

from __future__ import annotations

import signal
import sys

import typer
from rich.markup import escape

from holdfast.commands import (
    accounting,
    cancel,
    doctor,
    emulate,
    engine,
    image,
    logs,
    policies,
    preflight,
    rehearse,
    resubmit,
    runs,
    submit,
    usage,
    watch,
)
from holdfast.commands.console import LeftRunning, err
from holdfast.errors import OperatorError
from holdfast.toolcache import ToolError

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Long training jobs on scarce Google Cloud accelerators that survive losing them.",
)
app.add_typer(rehearse.app, name="rehearse")
app.add_typer(engine.app, name="engine")
app.command()(doctor.doctor)
app.command()(emulate.emulate)
app.command()(preflight.preflight)
app.command()(image.image)
app.add_typer(submit.app, name="submit")
app.command()(resubmit.resubmit)
app.command()(runs.runs)
app.command()(watch.watch)
app.command()(logs.logs)
app.command()(cancel.cancel)
app.command()(accounting.accounting)
app.command()(usage.usage)
app.command()(policies.policies)


def main() -> None:
    """Runs the command; an expected failure is one message and exit code 1."""
    # A polite end, so that every `finally` runs and nothing is left over.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    try:
        app()
    except (OperatorError, ToolError) as error:
        err.print(f"[red]error:[/red] {escape(str(error))}")
        sys.exit(1)
    except LeftRunning:
        raise
    except SystemExit as end:
        # Typer makes this of Ctrl-C.
        if end.code in (128 + signal.SIGINT, 128 + signal.SIGTERM):
            err.print("interrupted; everything it started was ended on this machine")
        raise


if __name__ == "__main__":
    main()
