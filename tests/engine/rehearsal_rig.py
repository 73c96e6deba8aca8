"""`holdfast rehearse` as a user runs it: what it says, what belongs to it, and what it leaves."""

import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil

from holdfast.rehearsal.sealed import REPOSITORY

Start = Callable[..., subprocess.Popen[str]]


def processes_of(cache: Path) -> list[psutil.Process]:
    """The processes that belong to rehearsals in this cache: its path is in their command line or their environment."""
    found = []
    for process in psutil.process_iter():
        try:
            words = [*process.cmdline(), *process.environ().values()]
        except (psutil.NoSuchProcess, psutil.AccessDenied, psutil.ZombieProcess):
            continue
        if any(str(cache) in word for word in words):
            found.append(process)
    return found


def left_over(cache: Path) -> list[str]:
    """What remains in five seconds of a rehearsal that has ended."""
    deadline = time.monotonic() + 5
    while True:
        rest = [" ".join(p.cmdline()) for p in processes_of(cache) if p.is_running()]
        rest += [str(path) for path in (cache / "rehearsals").glob("*")]
        if not rest or time.monotonic() > deadline:
            return rest
        time.sleep(0.1)


def checkout() -> str:
    git = ["git", "-C", str(REPOSITORY), "status", "--porcelain"]
    return subprocess.run(git, capture_output=True, text=True, check=True).stdout


def story(report: dict[str, Any], name: str) -> dict[str, Any]:
    [found] = [each for each in report["stories"] if each["name"] == name]
    assert found["held"] is True
    evidence: dict[str, Any] = found["evidence"]
    return evidence


def until(process: subprocess.Popen[str], text: str) -> None:
    assert process.stdout is not None
    seen = []
    for line in process.stdout:
        seen.append(line)
        if text in line:
            return
    raise AssertionError(f"it never said {text!r}:\n{''.join(seen)}")


def end(process: subprocess.Popen[str]) -> str:
    """Waits for the end and returns what was said after `until`."""
    assert process.stdout is not None
    said = process.stdout.read()
    process.wait(timeout=30)
    return said
