"""Cloud Logging v2: entries.write and entries.list. The log-based metrics are in logging_metrics.py."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mockgcp.errors import invalid
from mockgcp.paging import page
from mockgcp.service import Call, Service
from mockgcp.services import logging_counters
from mockgcp.services.logging_filter import SEVERITIES, instant, parse_filter

__all__ = ["SEVERITIES", "parse_filter", "service"]

service = Service("logging", host="logging.googleapis.com", records=("logging.entry", logging_counters.TABLE))

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
        logging_counters.count(call.cloud, stored)
    return {}


@service.method("logging.entries.list", permission="logging.logEntries.list", on=_reader)
def list_(call: Call) -> Mapping[str, Any]:
    prefix, keep = _reader(call) + "/", parse_filter(call.body.get("filter", ""))
    order = call.body.get("orderBy")
    if order not in (None, "", "timestamp asc", "timestamp desc"):
        raise invalid(f"orderBy {order!r}: timestamp asc or timestamp desc", ("orderBy", "unsupported"))
    found = [e for e in call.cloud.table("logging.entry").values() if e["logName"].startswith(prefix) and keep(e)]
    found.sort(key=lambda entry: (instant(entry["timestamp"]), entry["insertId"]), reverse=order == "timestamp desc")
    entries, more = page(call, found, default=_PAGE, most=_PAGE_MAX)
    return {"entries": entries, **more}
