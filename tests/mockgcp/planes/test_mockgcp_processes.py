"""The ledger of processes: what it finds alive, what it ends, and what it must never touch."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from mockgcp.planes.processes import ProcessLedger, signal_group

SLEEP = ("sleep", "60")
ENV = {"PATH": os.environ["PATH"]}


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[ProcessLedger]:
    ledger = ProcessLedger(tmp_path / "state" / "processes.jsonl")
    yield ledger
    ledger.kill()


def test_a_process_is_recorded_with_its_start_and_found_alive_until_it_ends(
    ledger: ProcessLedger, tmp_path: Path
) -> None:
    assert ledger.alive() == []
    process = ledger.spawn(SLEEP, env=ENV, cwd=tmp_path)
    (line,) = ledger.path.read_text().splitlines()
    recorded = json.loads(line)
    assert recorded == {"pid": process.pid, "created": recorded["created"], "program": SLEEP[0]}
    assert recorded["created"] == pytest.approx(psutil.Process(process.pid).create_time(), abs=2)
    assert [p.pid for p in ledger.alive()] == [process.pid]
    process.kill()
    process.wait()
    assert ledger.alive() == []


def test_a_zombie_is_not_alive(ledger: ProcessLedger, tmp_path: Path) -> None:
    process = ledger.spawn(("true",), env=ENV, cwd=tmp_path)
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    assert ledger.alive() == []
    process.wait()


def test_a_program_that_does_not_exist_is_an_error_and_not_recorded(ledger: ProcessLedger, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        ledger.spawn((str(tmp_path / "none"),), env=ENV, cwd=tmp_path)
    assert not ledger.path.exists()


def test_a_grandchild_that_outlives_its_leader_is_found_and_ended(ledger: ProcessLedger, tmp_path: Path) -> None:
    script = "sleep 60 >/dev/null 2>&1 & echo $!"
    process = ledger.spawn(("sh", "-c", script), env=ENV, cwd=tmp_path, stdout=subprocess.PIPE)
    grandchild = int(process.communicate()[0])
    assert process.returncode == 0
    assert [p.pid for p in ledger.alive()] == [grandchild]
    assert [p.pid for p in ledger.kill()] == [grandchild]
    assert ledger.alive() == []
    assert ledger.kill() == []


DAEMON = """
import os, time
os.fork() and os._exit(0)
os.setsid()
between = os.getpid()
os.fork() and os._exit(0)
while os.getppid() == between:
    time.sleep(0.01)
print(os.getpid(), flush=True)
time.sleep(60)
"""


def daemon_of(ledger: ProcessLedger, folder: Path) -> tuple[subprocess.Popen[bytes], int]:
    """A process that has ended, and the daemon that it left behind in another session."""
    argv = (sys.executable, "-I", "-S", "-c", DAEMON)
    process = ledger.spawn(argv, env=ENV, cwd=folder, stdout=subprocess.PIPE)
    assert process.stdout is not None
    with process.stdout:
        daemon = int(process.stdout.readline())
    process.wait(timeout=5)
    return process, daemon


def test_a_daemon_that_left_its_session_is_found_and_ended(ledger: ProcessLedger, tmp_path: Path) -> None:
    _, daemon = daemon_of(ledger, tmp_path)
    assert [p.pid for p in ledger.alive()] == [daemon]
    assert [p.pid for p in ProcessLedger(ledger.path).kill()] == [daemon]
    assert ledger.alive() == []


def test_ending_one_process_tree_leaves_the_others(ledger: ProcessLedger, tmp_path: Path) -> None:
    other = ledger.spawn(SLEEP, env=ENV, cwd=tmp_path)
    one, _ = daemon_of(ledger, tmp_path)
    assert len(ledger.alive()) == 2
    ledger.end_tree(one)
    assert [p.pid for p in ledger.alive()] == [other.pid]


WIDOW = """
import ctypes, pathlib, signal, subprocess, sys, time
if len(sys.argv) == 1:
    child = subprocess.Popen([sys.executable, __file__, "child"], start_new_session=True)
else:
    ctypes.CDLL(None).prctl(1, signal.SIGTERM)  # when its parent ends
    signal.signal(signal.SIGTERM, lambda *_: pathlib.Path("told").touch())
    print("ready", flush=True)
time.sleep(60)
"""


def test_no_process_of_a_tree_acts_on_anothers_end(ledger: ProcessLedger, tmp_path: Path) -> None:
    script = tmp_path / "widow.py"
    script.write_text(WIDOW)
    process = ledger.spawn((sys.executable, str(script)), env=ENV, cwd=tmp_path, stdout=subprocess.PIPE)
    assert process.stdout is not None
    with process.stdout:
        assert process.stdout.readline() == b"ready\n"
    ledger.end_tree(process)
    assert process.wait(timeout=5) == -signal.SIGKILL
    assert not (tmp_path / "told").exists()
    assert ledger.alive() == []


def test_a_torn_line_does_not_hide_the_others(ledger: ProcessLedger, tmp_path: Path) -> None:
    process = ledger.spawn(SLEEP, env=ENV, cwd=tmp_path)
    for torn in ('{"pid": 12', "[]", '{"pid": 3}', "\x00\x00"):
        ledger.path.write_text(f"{torn}\n{ledger.path.read_text()}")
    assert [p.pid for p in ledger.alive()] == [process.pid]


def test_another_ledger_of_the_same_file_ends_what_the_first_started(ledger: ProcessLedger, tmp_path: Path) -> None:
    process = ledger.spawn(SLEEP, env=ENV, cwd=tmp_path)
    assert [p.pid for p in ProcessLedger(ledger.path).kill()] == [process.pid]
    assert process.wait(timeout=5) == -signal.SIGKILL


@pytest.mark.parametrize("shift_s", [-1000.0, 1000.0])
def test_a_process_that_got_a_recorded_id_later_is_left_alone_with_its_children(
    ledger: ProcessLedger, tmp_path: Path, shift_s: float
) -> None:
    script = "sleep 60 & echo $!; wait"
    innocent = subprocess.Popen(("sh", "-c", script), start_new_session=True, stdout=subprocess.PIPE)
    try:
        assert innocent.stdout is not None
        child = int(innocent.stdout.readline())
        created = psutil.Process(innocent.pid).create_time() + shift_s
        ledger.path.parent.mkdir()
        ledger.path.write_text(json.dumps({"pid": innocent.pid, "created": created, "program": "x"}) + "\n")
        assert ledger.alive() == []
        assert ledger.kill() == []
        assert innocent.poll() is None
        assert psutil.pid_exists(child)
    finally:
        signal_group(innocent, signal.SIGKILL)
        innocent.communicate()


def test_signalling_a_group_reaches_every_member_and_a_gone_one_is_fine(ledger: ProcessLedger, tmp_path: Path) -> None:
    process = ledger.spawn(("sh", "-c", "sleep 60 & wait"), env=ENV, cwd=tmp_path)
    signal_group(process, signal.SIGKILL)
    process.wait()
    deadline = time.monotonic() + 5
    while ledger.alive() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert ledger.alive() == []
    signal_group(process, signal.SIGKILL)
