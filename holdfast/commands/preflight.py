"""`holdfast preflight`: what `up` will meet, before it does."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape
from rich.table import Table

from holdfast.commands.cloud import connect
from holdfast.commands.console import show

if TYPE_CHECKING:
    from holdfast.preflight import PreflightReport

_STYLE = {"ok": "green", "warn": "yellow", "failed": "red", "unknown": "magenta"}


def preflight(
    stack: Annotated[str, typer.Argument(help="The stack to look at, such as dev-foundation or dev-gke-tpu.")],
    hours: Annotated[float, typer.Option(min=0.0, help="Hours of a run, to price it.")] = 1.0,
    skip: Annotated[list[str] | None, typer.Option(metavar="NAME", help="A check to leave out; repeatable.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Look at everything that `up` and a run need on the project: access, quota, names, image, price. Changes nothing.

    Exit code 0: every check is ok or only warns. 1: one failed. 3: none failed, but one could not look.
    """
    from holdfast import preflight as module

    report = module.run(stack, connect, hours=hours, skip=tuple(skip or ()))
    if as_json:
        print(report.model_dump_json(indent=2))
    else:
        show(table(report))
    raise typer.Exit(report.exit_code)


def table(report: PreflightReport) -> Table:
    """The report as a table; what to do stands under what was found."""
    where = f": {report.project}, {report.region}, {report.universe}" if report.project else ""
    found = Table("check", "", title=f"Preflight of {report.stack}{where}", title_justify="left")
    found.add_column("found", overflow="fold")
    for check in report.checks:
        said = escape(check.found) + (f"\n[dim]→ {escape(check.do)}[/dim]" if check.do else "")
        found.add_row(check.name, f"[{_STYLE[check.status]}]{check.status}[/]", said)
    for name in report.skipped:
        found.add_row(name, "skipped", "")
    return found
