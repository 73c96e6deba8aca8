"""The event log: JSON lines on stdout, where Cloud Logging reads them as structured entries, and in events.jsonl."""

import json
import os
import sys
import threading
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, TypedDict, Unpack

VERSION = 1

EventName = Literal["start", "resumed", "step", "saved", "sigterm", "fallback", "done", "exit"]
# https://cloud.google.com/logging/docs/reference/v2/rest/v2/LogEntry#LogSeverity
Severity = Literal["INFO", "WARNING", "ERROR"]


class Fields(TypedDict, total=False):
    """What an event may carry beside the common keys."""

    step: int  # completed steps (step, saved, done); the step of the damaged checkpoint (fallback)
    from_step: int  # resumed: completed steps in the checkpoint
    loss: float  # step, done
    seconds: float  # how long the step, the save or the restore took
    digest: str  # saved, resumed: of params and optimizer state; done: of params, as in result.json
    steps_total: int  # start, done
    productive_seconds: float  # resumed, done: time in steps that led to this state
    grace_seconds: float  # sigterm
    reason: str  # fallback: why the checkpoint could not be read
    code: int  # exit


class Event(Fields):
    """One line of the log. `time` is UTC, RFC 3339; `severity`, `message` and `time` are Cloud Logging's own keys."""

    v: int
    time: str
    severity: Severity
    message: str
    event: EventName
    job: str
    execution: str
    task_index: int
    attempt: int


class EventLog:
    """Appends events to stdout and, if `path` is given, to a file: one write an event, so a kill tears one line.

    Usable from several threads. The file is opened at the first event.
    """

    def __init__(self, path: Path | None, *, job: str = "", execution: str = "", task_index: int = 0, attempt: int = 0):
        self._path = path
        self._common = {"job": job, "execution": execution, "task_index": task_index, "attempt": attempt}
        self._fd: int | None = None
        self._lock = threading.Lock()

    def emit(self, event: EventName, message: str, severity: Severity = "INFO", **fields: Unpack[Fields]) -> None:
        """Writes one event; raises OSError when stdout or the file cannot be written."""
        now = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        head = {"v": VERSION, "time": now, "severity": severity, "message": message, "event": event}
        line = json.dumps(head | self._common | fields, allow_nan=False) + "\n"
        with self._lock:
            sys.stdout.write(line)
            sys.stdout.flush()
            if self._path:
                if self._fd is None:
                    self._fd = _open_for_append(self._path)
                os.write(self._fd, line.encode())


def _open_for_append(path: Path) -> int:
    path.parent.mkdir(parents=True, exist_ok=True)
    fd = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o644)
    size = os.fstat(fd).st_size
    if size and os.pread(fd, 1, size - 1) != b"\n":  # a killed attempt left half a line: end it, or it swallows ours
        os.write(fd, b"\n")
    return fd


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
