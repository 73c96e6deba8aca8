"""Cloud Logging v2: entries.write and entries.list with the part of the query language that Cloud Run's users need.

Understood: `path = "value"`, `!=`, `:` (contains), `>=`, `>`, `<=`, `<` on severity, times and numbers, joined by AND
or white space; text compares without regard to case. Anything else is refused, never guessed.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from mockgcp.errors import invalid
from mockgcp.paging import page
from mockgcp.service import Call, Service

service = Service("logging", host="logging.googleapis.com", records=("logging.entry",))

SEVERITIES = ("DEFAULT", "DEBUG", "INFO", "NOTICE", "WARNING", "ERROR", "CRITICAL", "ALERT", "EMERGENCY")
_TERM = re.compile(
    r'\s*(?:AND\s+)?(?P<path>[A-Za-z_][\w]*(?:\.(?:[\w]+|"[^"]*"))*)\s*(?P<op>>=|<=|!=|=|:|>|<)\s*'
    r'(?P<value>"(?:[^"\\]|\\.)*"|[\w.:/%-]+)\s*'
)
# Entries of a page (pageSize of entries.list in the discovery document; 1000: its reference page, read 2026-11-29).
_PAGE, _PAGE_MAX = 50, 1000


def _writer(call: Call) -> str:
    names = {entry.get("logName", call.body.get("logName", "")) for entry in call.body.get("entries", [])}
    parents = {"/".join(name.split("/")[:2]) for name in names}
    if len(parents) != 1 or not next(iter(parents)).startswith("projects/"):
        raise invalid(f"entries.write takes the entries of one project, got {sorted(parents)}", ("entries.logName", ""))
    return call.cloud.project(parents.pop().split("/")[1]).name


def _reader(call: Call) -> str:
    parents = call.body.get("resourceNames", [])
    if len(parents) != 1:
        raise invalid("mockgcp reads the log of one project at a time", ("resourceNames", "size"))
    return call.cloud.project(parents[0].split("/")[1]).name


# Each line that a task prints comes through here: whoever waits for an execution to move on must not look each time.
@service.method("logging.entries.write", permission="logging.logEntries.create", on=_writer, wakes=False)
def write(call: Call) -> Mapping[str, Any]:
    log = call.cloud.table("logging.entry")
    shared = {key: call.body[key] for key in ("logName", "resource", "labels") if key in call.body}
    for entry in call.body.get("entries", []):
        now = call.cloud.clock.timestamp()
        stored = {"timestamp": now, "severity": "DEFAULT", **shared, **entry}
        stored["labels"] = {**shared.get("labels", {}), **entry.get("labels", {})}
        stored["receiveTimestamp"], stored["insertId"] = now, f"{len(log):012x}"
        log[stored["insertId"]] = stored
    return {}


@service.method("logging.entries.list", permission="logging.logEntries.list", on=_reader)
def list_(call: Call) -> Mapping[str, Any]:
    prefix, keep = _reader(call) + "/", parse_filter(call.body.get("filter", ""))
    order = call.body.get("orderBy")
    if order not in (None, "", "timestamp asc", "timestamp desc"):
        raise invalid(f"orderBy {order!r}: timestamp asc or timestamp desc", ("orderBy", "unsupported"))
    found = [e for e in call.cloud.table("logging.entry").values() if e["logName"].startswith(prefix) and keep(e)]
    found.sort(key=lambda entry: (_instant(entry["timestamp"]), entry["insertId"]), reverse=order == "timestamp desc")
    entries, more = page(call, found, default=_PAGE, most=_PAGE_MAX)
    return {"entries": entries, **more}


Predicate = Callable[[Mapping[str, Any]], bool]


def parse_filter(text: str) -> Predicate:
    """The predicate a filter stands for.

    Raises:
        ApiError: INVALID_ARGUMENT at the first thing that is not understood.
    """
    terms: list[Predicate] = []
    at = 0
    while at < len(text.rstrip()):
        match = _TERM.match(text, at)
        if match is None:
            rest = text[at : at + 40]
            raise invalid(f"Unparseable filter: mockgcp does not understand it from {rest!r} on", ("filter", ""))
        value = match["value"]
        value = re.sub(r"\\(.)", r"\1", value[1:-1]) if value.startswith('"') else value
        terms.append(_term(match["path"], match["op"], value))
        at = match.end()
    return lambda entry: all(term(entry) for term in terms)


def _term(path: str, op: str, value: str) -> Predicate:
    keys = [key.strip('"') for key in re.findall(r'"[^"]*"|[^.]+', path)]
    rank: Callable[[Any], Any] = _RANKS.get(path, float if op in _ORDER else _folded)
    try:
        wanted = rank(value)
    except ValueError:
        raise invalid(f"Unparseable filter: {path} {op} {value!r} cannot be compared", ("filter", "")) from None

    def holds(entry: Mapping[str, Any]) -> bool:
        found = list(_values(entry, keys))
        if op == ":":
            return any(value.lower() in _folded(v) for v in found)
        if op == "!=":
            return all(rank(v) != wanted for v in found)
        if op == "=":
            return any(rank(v) == wanted for v in found)
        # Only numbers have a place among numbers.
        return any(_ORDER[op](rank(v), wanted) for v in found if rank is not float or isinstance(v, (int, float)))

    return holds


def _folded(value: Any) -> str:
    return str(value).lower()


def _severity(name: str) -> int:
    return SEVERITIES.index(name.upper())


def _instant(text: str) -> datetime:
    moment = datetime.fromisoformat(text.upper())
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


# What a field's values are compared as; others as numbers by an order, and as text otherwise.
_RANKS: Mapping[str, Callable[[Any], Any]] = {
    "severity": _severity,
    "timestamp": _instant,
    "receiveTimestamp": _instant,
}
_ORDER: Mapping[str, Callable[[Any, Any], bool]] = {
    ">": operator.gt,
    "<": operator.lt,
    ">=": operator.ge,
    "<=": operator.le,
}


def _values(node: Any, keys: list[str]) -> Iterator[Any]:
    if isinstance(node, list):
        for item in node:
            yield from _values(item, keys)
    elif not keys:
        if node is not None:
            yield node
    elif isinstance(node, Mapping) and keys[0] in node:
        yield from _values(node[keys[0]], keys[1:])
