"""Where the commands print, and what they all check first."""

from __future__ import annotations

import importlib.util
import time
from collections.abc import Callable, Mapping

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from holdfast.errors import OperatorError

out = Console(highlight=False, soft_wrap=True)
err = Console(stderr=True, highlight=False, soft_wrap=True)


def show(table: Table) -> None:
    """Prints a table as wide as the terminal; in a pipe or a file wide enough for names to stay whole."""
    console = out if out.is_terminal else Console(highlight=False, width=_PIPE_WIDTH)
    console.print(table)


_PIPE_WIDTH = 160


class LeftRunning(SystemExit):
    """The end of a command that was only watching: what it watched goes on, and that has been said."""


def clocked() -> Callable[[str], None]:
    """Prints lines with the time since now before them, as minutes and seconds."""
    began = time.monotonic()

    def say(line: str) -> None:
        seconds = int(time.monotonic() - began)
        out.print(f"[dim]{seconds // 60:02d}:{seconds % 60:02d}[/dim]  {escape(line)}")

    return say


def require(modules: Mapping[str, str]) -> None:
    """Refuses to go on without the dependency groups a command needs; `modules` names the group of each."""
    missing = sorted({group for module, group in modules.items() if importlib.util.find_spec(module) is None})
    if missing:
        raise OperatorError(
            f"this environment lacks the dependency groups {', '.join(missing)} (it may have been made for deploying "
            "only): run `make env`"
        )
