"""What an operator writes on the command line about runs, read."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

from holdfast.errors import OperatorError
from holdfast.runs.backend import Order
from infra import catalog

_AGO = re.compile(r"(\d+)([smhd])")
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}
SEVERITIES = ("DEFAULT", "DEBUG", "INFO", "NOTICE", "WARNING", "ERROR", "CRITICAL", "ALERT", "EMERGENCY")
"""Cloud Logging's, mildest first."""


def settings(given: Iterable[str]) -> dict[str, str]:
    """NAME=VALUE, each an environment variable of the tasks.

    Raises:
        OperatorError: not of that form, twice the same, or a name that the platform reserves.
    """
    found: dict[str, str] = {}
    for each in given:
        name, equals, value = each.partition("=")
        if not equals or not name:
            raise OperatorError(f"--set {each}: write NAME=VALUE, as in --set HOLDFAST_STEPS=2000")
        if name in found:
            raise OperatorError(f"--set {name} is given twice: leave one")
        if problem := catalog.env_name_problem(name):
            raise OperatorError(f"--set {each}: {problem.message}")
        found[name] = value
    return found


def timeout_s(text: str | None) -> float | None:
    """--timeout in seconds.

    Raises:
        OperatorError: not a number of seconds followed by `s`.
    """
    try:
        return None if text is None else catalog.parse_duration_s(text)
    except ValueError as error:
        raise OperatorError(f"--timeout: {error}") from error


def words(order: Order) -> list[str]:
    """An order as `holdfast submit` reads it."""
    found = [word for name, value in order.env.items() for word in ("--set", f"{name}={value}")]
    found += [] if order.tasks is None else ["--tasks", str(order.tasks)]
    return found + ([] if order.timeout_s is None else ["--timeout", f"{order.timeout_s:.10g}s"])


def since(text: str | None, now: datetime) -> datetime | None:
    """--since as a moment: a time, or how long before `now`.

    Raises:
        OperatorError: neither.
    """
    if text is None:
        return None
    if ago := _AGO.fullmatch(text):
        return now - timedelta(**{_UNITS[ago[2]]: int(ago[1])})
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise OperatorError(
            f"--since {text}: write how long ago (90s, 20m, 3h, 2d) or a time (2026-11-29T20:00Z)"
        ) from None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def severity(text: str | None) -> str | None:
    """--severity as Cloud Logging writes it.

    Raises:
        OperatorError: it knows no such.
    """
    if text is not None and text.upper() not in SEVERITIES:
        raise OperatorError(f"--severity {text}: choose one of {', '.join(SEVERITIES)}")
    return text and text.upper()
