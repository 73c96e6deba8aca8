"""The event log: JSON lines on stdout, where Cloud Logging reads them as structured entries, and in events.jsonl."""

import json
import os
import sys
import threading
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, TypedDict, Unpack

VERSION = 1

EventName = Literal[
    "start",
    "lease_waiting",
    "lease_refused",
    "lease_lost",
    "imported",
    "fresh",
    "resumed",
    "fallback",
    "compiled",
    "step",
    "eval",
    "saved",
    "save_failed",
    "sigterm",
    "log_failed",
    "done",
    "exit",
]
# https://cloud.google.com/logging/docs/reference/v2/rest/v2/LogEntry#LogSeverity
Severity = Literal["INFO", "WARNING", "ERROR"]


class Fields(TypedDict, total=False):
    """What an event may carry beside the common keys."""

    step: int  # completed steps (step, eval, saved, save_failed, done); the damaged checkpoint's (fallback)
    from_step: int  # resumed, fresh: completed steps to go on from
    loss: float  # step, eval, done
    seconds: float  # how long it took; lease_waiting: how long it may take
    digest: str  # saved, resumed: of params and optimizer state; done: of params, as in result.json
    steps_total: int  # start, done
    productive_seconds: float  # resumed, done: time in steps that led to this state
    grace_seconds: float  # sigterm
    reason: str  # fallback, save_failed: what went wrong
    holder: str  # lease_waiting: who has the folder
    code: int  # exit


class Event(Fields):
    """One line of the log. `time` is UTC, RFC 3339; `severity`, `message` and `time` are Cloud Logging's own keys."""

    v: int
    time: str
    severity: Severity
    message: str
    event: EventName
    job: str
    run_id: str
    execution: str
    task_index: int
    attempt: int
    process: int  # only with several


class EventLog:
    """Writes events to stdout and, from `write_to` on, to a file: one write an event, so a kill tears one line.

    Usable from several threads.
    """

    def __init__(self, **common: str | int):
        """common: what every event carries beside version, time, severity, message and name (see `Event`)."""
        self._common = common
        self._lock = threading.Lock()
        self._earlier: list[str] | None = []  # for the file, once there is one
        self._fd: int | None = None
        self._torn = False
        self._failing = False

    def write_to(self, path: Path) -> None:
        """Appends to the file from now on, and what was emitted before. Raises OSError when it cannot be opened."""
        with self._lock:
            self._fd, self._torn = _open_for_append(path)
            for line in self._earlier or []:
                self._append(line)
            self._earlier = None

    def write_no_more(self) -> None:
        """Leaves the file to another writer; stdout goes on."""
        with self._lock:
            self._fd = self._earlier = None

    def emit(self, event: EventName, message: str, severity: Severity = "INFO", **fields: Unpack[Fields]) -> None:
        """Writes one event. Raises OSError when stdout cannot be written; for the file there is `log_failed`."""
        now = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        head = {"v": VERSION, "time": now, "severity": severity, "message": message, "event": event}
        line = json.dumps(head | self._common | fields, allow_nan=False) + "\n"
        with self._lock:
            sys.stdout.write(line)
            sys.stdout.flush()
            if self._earlier is not None:
                self._earlier.append(line)
            failure = self._append(line)
            again, self._failing = self._failing, failure is not None
        if failure and not again:  # a full disk costs lines of the file, not the training
            self.emit("log_failed", f"events.jsonl cannot be written, stdout goes on: {failure}", "ERROR")

    def _append(self, line: str) -> OSError | None:
        if self._fd is None:
            return None
        data = b"\n" * self._torn + line.encode()
        try:
            self._torn = os.write(self._fd, data) != len(data)
        except OSError as error:
            return error
        return None


def _open_for_append(path: Path) -> tuple[int, bool]:
    """The file, and whether it ends in half a line, left by a killed attempt, that would swallow ours."""
    path.parent.mkdir(parents=True, exist_ok=True)
    fd = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o644)
    size = os.fstat(fd).st_size
    return fd, bool(size) and os.pread(fd, 1, size - 1) != b"\n"


def read_events(path: Path) -> list[dict[str, Any]]:
    """All whole events of a log, oldest first; half lines left by a kill are passed over. No file, no events."""
    events = []
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines() if path.exists() else []:
        try:
            event = json.loads(line)
        except json.JSONDecodeError:
            continue
        if isinstance(event, dict):
            events.append(event)
    return events
