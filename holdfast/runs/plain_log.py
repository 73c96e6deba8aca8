"""Logs that are plain text, a line an entry: which lines are wanted, and what the trainer's own say.

Cloud Logging does the same for the logs that it has; pods' logs and Slurm's output files come whole.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from holdfast.runs.backend import LogLine, Selection
from holdfast.runs.options import SEVERITIES

TAIL = 500
"""Lines from the end in which the last step is looked for."""
RECENT = timedelta(minutes=5)
"""How far back every step is read when a run that is long under way is looked at."""


def wanted(selection: Selection, lines: Sequence[LogLine]) -> list[LogLine]:
    """Those of a look's lines, oldest first, that were asked for, whichever task wrote them."""
    return [line for line in lines if _takes(selection, line, lines[-1].time)]


def _takes(selection: Selection, line: LogLine, newest: datetime) -> bool:
    least, since = selection.severity, selection.since
    mild = least is not None and SEVERITIES.index(line.severity) < SEVERITIES.index(least)
    old_step = not selection.every_step and line.event == "step" and line.time < newest - RECENT
    return not mild and not old_step and (since is None or line.time >= since)


def last_step(lines: Sequence[LogLine]) -> int | None:
    """The newest step that the lines, oldest first, tell of; None: of none."""
    for line in reversed(lines):
        if line.event in ("step", "saved", "resumed", "done"):
            return int(line.payload.get("step", line.payload.get("from_step", 0)))
    return None


def payload(said: str) -> Mapping[str, Any]:
    """The object that a line is; empty for any other."""
    try:
        found = json.loads(said) if said.startswith("{") else {}
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def severity(payload: Mapping[str, Any], otherwise: str = "DEFAULT") -> str:
    """An object's severity, `otherwise` where it names none; DEFAULT for one that Cloud Logging does not know."""
    named = str(payload.get("severity", otherwise))
    return named if named in SEVERITIES else "DEFAULT"
