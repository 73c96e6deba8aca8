"""`holdfast doctor`."""

from __future__ import annotations

from typing import Annotated

import typer

from holdfast.commands.console import out


def doctor(as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False) -> None:
    """Every tool found, its version and origin, and which cloud and project this environment points at."""
    from holdfast import doctor as module

    raise typer.Exit(module.run(out, as_json=as_json))
