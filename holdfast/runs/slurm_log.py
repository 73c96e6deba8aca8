"""A job's output file on /home, read from afar by way of the login node: no API of the service has it."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from holdfast.errors import OperatorError
from holdfast.runs import plain_log
from holdfast.runs.backend import LogLine, Run, Selection
from holdfast.slurm_login import Login

# Bytes of one look: what more there is comes with the next one.
_LOOK = 4_000_000
# Prints nothing of a file that is not there yet, but fails where that cannot be told. As base64, so that every byte
# comes through and is counted.
_READ = """
[ -e "$2" ] || { ls -d "${2%/*}/." >/dev/null; exit; }
tail -c "+$1" -- "$2" | head -c "$3" | base64 -w 0
"""
_OURS = re.compile(r"(slurmstepd\S*|srun|holdfast|slurmd\S*): ")
# What Slurm writes into the output of a job whose nodes it takes away.
_TAKEN = re.compile(r"\*\*\* JOB \d+ .* DUE TO (PREEMPTION|NODE FAILURE)")


@dataclass
class OutputLog:
    """The lines of a run's output, from all of its attempts and processes. `file`: empty where Slurm names none."""

    login: Login
    file: str
    run: Run
    selection: Selection
    _offset: int = 0
    _last: LogLine | None = None

    def read(self) -> list[LogLine]:
        if self.selection.task:
            raise OperatorError(f"--task {self.selection.task}: {self.run.name} has task 0 alone, with all processes")
        return plain_log.wanted(self.selection, list(self._lines(self._more())))

    def last_step(self) -> int | None:
        """The newest step that the end of the output tells of; None: of none."""
        if not self.file:
            return None
        tail = ("sh", "-c", 'tail -n "$1" -- "$2" 2>/dev/null || :', "tail", str(plain_log.TAIL), self.file)
        return plain_log.last_step(list(self._lines(self.login.run(*tail))))

    def _more(self) -> str:
        """The whole lines that there are beyond those read."""
        if not self.file:
            return ""
        said = self.login.run("sh", "-c", _READ, "read", str(self._offset + 1), self.file, str(_LOOK))
        data = base64.b64decode(said)
        whole = data[: data.rfind(b"\n") + 1] if self.run.active or len(data) == _LOOK else data
        self._offset += len(whole)
        return whole.decode("utf-8", "replace")

    def _lines(self, text: str) -> Iterator[LogLine]:
        for said in text.splitlines():
            if said.strip():
                self._last = _line(said, self._last, self.run)
                yield self._last


def _line(said: str, last: LogLine | None, run: Run) -> LogLine:
    """A line; one that is no event has no time and attempt of its own, and is given those of the one before it."""
    payload = plain_log.payload(said)
    platform = not payload and _OURS.match(said) is not None
    taken = _TAKEN.search(said) if platform else None
    time = last.time if last else run.created
    if isinstance(stamp := payload.get("time"), str):
        time = datetime.fromisoformat(stamp)
    return LogLine(
        time=time,
        severity=plain_log.severity(payload, "WARNING" if taken else "DEFAULT"),
        source="platform" if platform else "task",
        task=0,
        attempt=payload.get("attempt", last.attempt if last else 0),
        message=str(payload.get("message") or said),
        payload={"reason": "INSTANCE_PREEMPTED"} if taken else payload,
        entry={"timestamp": time.isoformat(), **({"jsonPayload": payload} if payload else {"textPayload": said})},
    )
