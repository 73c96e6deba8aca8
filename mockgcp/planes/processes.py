"""The processes a plane starts: recorded on disk before they can be lost, ended as whole trees, counted afterwards.

Every process carries a mark in its environment that its descendants inherit, so that those who leave its session are
found, too. Where another process's environment cannot be read, sessions alone count. Deliberately not found: what
leaves the session and clears its environment as well.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import signal
import subprocess
import threading
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import psutil

# The environment variable with the mark: the ledger's token, a full stop, and an id of the process spawned.
MARK = "MOCKGCP_PROCESS"
_KILL_S = 5.0
# How far two readings of one process's creation time may lie apart: psutil adds the boot time, whole seconds.
_SAME_S = 2.0


class ProcessLedger:
    """A JSON-lines file of process ids with their creation times (an id alone is used again by the kernel)."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.Lock()
        # Of the path, so that another ledger of the same file knows what this one started.
        self._token = hashlib.sha256(os.fsencode(path.resolve())).hexdigest()[:16]
        self._marks: dict[int, str] = {}

    def spawn(
        self, argv: Sequence[str], *, env: Mapping[str, str], cwd: Path, **options: Any
    ) -> subprocess.Popen[bytes]:
        """Starts a process in a session of its own, so that its group can be ended as one, and records it.

        Raises:
            OSError: the program cannot be started. ValueError: a NUL in an argument or in the environment.
        """
        mark = f"{self._token}.{uuid.uuid4().hex}"
        process = subprocess.Popen(argv, env={**env, MARK: mark}, cwd=cwd, start_new_session=True, **options)
        self._marks[process.pid] = mark
        with contextlib.suppress(psutil.NoSuchProcess):
            created = psutil.Process(process.pid).create_time()
            # Not the arguments: they may hold a secret.
            line = json.dumps({"pid": process.pid, "created": created, "program": argv[0]})
            with self._lock:
                self.path.parent.mkdir(parents=True, exist_ok=True)
                with self.path.open("a", encoding="utf-8") as file:
                    file.write(line + "\n")
        return process

    def run(self, argv: Sequence[str], *, env: Mapping[str, str], cwd: Path) -> subprocess.CompletedProcess[str]:
        """Runs a process to its end, without input; its output and errors are kept as text.

        Raises:
            OSError, ValueError: as `spawn`.
        """
        process = self.spawn(
            argv, env=env, cwd=cwd, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        output, errors = process.communicate()
        return subprocess.CompletedProcess(list(argv), process.returncode, output.decode(), errors.decode())

    def alive(self) -> list[psutil.Process]:
        """The recorded processes that still run, members of their sessions, and descendants that left those."""
        recorded = self._recorded()

        def ours(process: psutil.Process) -> bool:
            leader = process.pid if process.pid in recorded else os.getsid(process.pid)
            if leader in recorded and not _is_another(leader, recorded[leader]):
                return True
            return _mark(process).startswith(f"{self._token}.")

        return _running(ours)

    def kill(self) -> list[psutil.Process]:
        """Ends at once whatever still runs; returns what it had to end."""
        return _end(self.alive)

    def end_tree(self, process: subprocess.Popen[bytes]) -> None:
        """Ends at once what a spawned process has left behind, and itself if it still runs.

        None of them gets to act on another's end: as when a machine goes, and not one process after the other.
        """
        mark = self._marks[process.pid]

        def tree() -> list[psutil.Process]:
            return _running(lambda found: _mark(found) == mark)

        for each in tree():
            with contextlib.suppress(psutil.Error):
                each.suspend()
        signal_group(process, signal.SIGKILL)
        _end(tree)

    def _recorded(self) -> dict[int, float]:
        """Creation times by process id. A line that was torn by a crash or a full disk is passed over."""
        if not self.path.exists():
            return {}
        recorded: dict[int, float] = {}
        for line in self.path.read_text(encoding="utf-8", errors="replace").splitlines():
            with contextlib.suppress(ValueError, TypeError, KeyError):
                entry = json.loads(line)
                recorded[int(entry["pid"])] = float(entry["created"])
        return recorded


def _running(wanted: Callable[[psutil.Process], bool]) -> list[psutil.Process]:
    """The processes of that kind that run; zombies do not."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.NoSuchProcess, OSError):
            if wanted(process) and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
    return found


def _mark(process: psutil.Process) -> str:
    """The process's mark; empty where it has none or its environment is not ours to read."""
    with contextlib.suppress(psutil.Error, OSError):
        return str(process.environ().get(MARK, ""))
    return ""


def _end(find: Callable[[], list[psutil.Process]]) -> list[psutil.Process]:
    """Kills what `find` finds; what was killed.

    It looks until it has found nothing twice: a process that forks and ends while it is looked for escapes one look.
    """
    ended: list[psutil.Process] = []
    deadline = time.monotonic() + _KILL_S
    empty = 0
    while empty < 2 and time.monotonic() < deadline:
        found = find()
        empty = 0 if found else empty + 1
        for process in found:
            with contextlib.suppress(psutil.Error):
                process.kill()
        ended += [process for process in found if process not in ended]
        while not all(map(_ended, found)) and time.monotonic() < deadline:
            time.sleep(0.01)
    return ended


def _ended(process: psutil.Process) -> bool:
    """Whether it runs no more. Reaping it is for its parent: psutil's own wait would take the exit code away."""
    try:
        return bool(process.status() == psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return True


def _is_another(pid: int, created: float) -> bool:
    """Whether the id was used again. While any of its session lives it cannot be, so nobody there means no."""
    return psutil.pid_exists(pid) and not lives(pid, created)


def lives(pid: int, created: float) -> bool:
    """Whether the process of that id and creation time (seconds since the epoch) is there."""
    try:
        return abs(psutil.Process(pid).create_time() - created) <= _SAME_S
    except psutil.NoSuchProcess:
        return False


def signal_group(process: subprocess.Popen[bytes], number: signal.Signals) -> None:
    """Signals a spawned process's whole group; one that is gone is fine."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, number)
