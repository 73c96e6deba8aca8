"""The processes a plane starts: recorded on disk before they can be lost, ended as whole groups, counted afterwards."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import psutil

_KILL_S = 5.0
# How far two readings of one process's creation time may lie apart: psutil adds the boot time, whole seconds.
_SAME_S = 2.0


class ProcessLedger:
    """A JSON-lines file of process ids with their creation times (an id alone is used again by the kernel)."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.Lock()

    def spawn(
        self, argv: Sequence[str], *, env: Mapping[str, str], cwd: Path, **options: Any
    ) -> subprocess.Popen[bytes]:
        """Starts a process in a session of its own, so that its group can be ended as one, and records it.

        Raises:
            OSError: the program cannot be started.
        """
        process = subprocess.Popen(argv, env=dict(env), cwd=cwd, start_new_session=True, **options)
        with contextlib.suppress(psutil.NoSuchProcess):
            created = psutil.Process(process.pid).create_time()
            line = json.dumps({"pid": process.pid, "created": created, "argv": list(argv)})
            with self._lock:
                self.path.parent.mkdir(parents=True, exist_ok=True)
                with self.path.open("a", encoding="utf-8") as file:
                    file.write(line + "\n")
        return process

    def alive(self) -> list[psutil.Process]:
        """The recorded processes, and members of their groups, that still run."""
        recorded = self._recorded()
        found = []
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.NoSuchProcess, ProcessLookupError, PermissionError):
                leader = process.pid if process.pid in recorded else os.getsid(process.pid)
                if leader not in recorded or process.status() == psutil.STATUS_ZOMBIE:
                    continue
                if not _is_another(leader, recorded[leader]):
                    found.append(process)
        return found

    def kill(self) -> list[psutil.Process]:
        """Ends at once whatever still runs; returns what it had to end."""
        found = self.alive()
        for process in found:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        deadline = time.monotonic() + _KILL_S
        while not all(map(_ended, found)) and time.monotonic() < deadline:
            time.sleep(0.01)
        return found

    def _recorded(self) -> dict[int, float]:
        if not self.path.exists():
            return {}
        lines = self.path.read_text(encoding="utf-8").splitlines()
        return {entry["pid"]: entry["created"] for entry in map(json.loads, lines)}


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
