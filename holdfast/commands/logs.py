"""`holdfast logs`."""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from holdfast.commands.console import LeftRunning, out
from holdfast.commands.watch import EVERY_S, STACK, Every, Execution, Stack, find

if TYPE_CHECKING:
    from holdfast.runs.backend import LogLine


def logs(
    execution: Execution = None,
    stack: Stack = STACK,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on until the run ends.")] = False,
    task: Annotated[int | None, typer.Option(min=0, help="One task's lines only, by its index.")] = None,
    severity: Annotated[str | None, typer.Option(help="This severity and worse, such as WARNING.")] = None,
    since: Annotated[str | None, typer.Option(help="How long ago (20m, 3h) or a time; else from the start.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Whole entries, one JSON object a line.")] = False,
    every: Every = EVERY_S,
) -> None:
    """Print a run's log, the platform's lines among the application's, oldest first."""
    from holdfast.runs import options, verbs
    from holdfast.runs.backend import Selection

    selection = Selection(task, options.severity(severity), options.since(since, datetime.now(UTC)))
    backend, run = find(stack, execution)
    log = backend.log(run, selection)
    if follow:
        try:
            verbs.follow(backend, run, log, lambda run, lines: _print(lines, as_json), poll_s=every)
        except (KeyboardInterrupt, SystemExit) as end:
            raise LeftRunning(end.code if isinstance(end, SystemExit) else 130) from None
        return
    while lines := log.read():
        _print(lines, as_json)


def _print(lines: Iterable[LogLine], as_json: bool) -> None:
    from holdfast.runs import display

    for line in lines:
        if as_json:
            print(json.dumps(line.entry), flush=True)
        else:
            out.print(display.text(line))
