"""One writer a folder: who waits, who leaves, who takes over."""

import json
import signal
import subprocess
import threading
import time
from pathlib import Path

import pytest
from trainer_process import PATIENCE, STEPS, Trainer, event, of, until

from workloads.trainer import files
from workloads.trainer.events import read_events
from workloads.trainer.lease import FILE, AnotherWriter, Lease


def lease(folder: Path, execution: str = "one", attempt: int = 0, seconds: float = 60.0) -> Lease:
    return Lease(folder / FILE, execution=execution, attempt=attempt, seconds=seconds, on_lost=lambda _: None)


def acquire(lease: Lease) -> list[float]:
    """Takes the lease and returns the waits that it announced."""
    waits: list[float] = []
    assert lease.acquire(threading.Event(), lambda _, seconds: waits.append(seconds))
    return waits


def abandon(folder: Path, execution: str, seconds: float) -> None:
    """The lease of a holder that was killed just now."""
    content = {"v": 1, "holder": f"{execution}/0/x", "execution": execution, "attempt": 0, "seconds": seconds}
    (folder / FILE).write_text(json.dumps(content | {"expires": time.time() + seconds}))


@pytest.mark.parametrize(
    ("execution", "attempt", "waits"), [("one", 1, False), ("one", 0, True), ("two", 1, True), ("", 1, True)]
)
def test_only_a_later_attempt_of_the_same_execution_does_not_wait(
    tmp_path: Path, execution: str, attempt: int, waits: bool
) -> None:
    abandon(tmp_path, "one", 0.3)
    assert bool(acquire(lease(tmp_path, execution, attempt))) == waits


def test_two_without_an_execution_are_strangers(tmp_path: Path) -> None:
    abandon(tmp_path, "", 0.3)
    assert acquire(lease(tmp_path, "", 1))


def test_a_released_lease_is_free_at_once(tmp_path: Path) -> None:
    first = lease(tmp_path)
    assert acquire(first) == []
    first.release()
    assert list(tmp_path.iterdir()) == []
    assert acquire(lease(tmp_path, "two")) == []


@pytest.mark.parametrize("content", ["", "[]", '{"v": 1, "hol', '{"v": 1}', '{"v": 2}'])
def test_a_file_that_is_no_lease_keeps_nobody_out(tmp_path: Path, content: str) -> None:
    (tmp_path / FILE).write_text(content)
    assert acquire(lease(tmp_path)) == []


def test_two_that_write_at_once_leave_the_whole_file_of_one(tmp_path: Path) -> None:
    failed: list[Exception] = []

    def write(who: str) -> None:
        try:
            for _ in range(100):
                files.replace(tmp_path / FILE, {"v": 1, "holder": who * 1000})
        except Exception as error:
            failed.append(error)

    writers = [threading.Thread(target=write, args=(who,)) for who in "ab"]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert failed == []
    found = files.read(tmp_path / FILE, 1, {"holder"})
    assert found
    assert set(found["holder"]) in ({"a"}, {"b"})
    assert list(tmp_path.iterdir()) == [tmp_path / FILE]


def test_a_clock_that_is_hours_ahead_is_waited_for_one_lease_only(tmp_path: Path) -> None:
    abandon(tmp_path, "one", 0.3)
    content = json.loads((tmp_path / FILE).read_text())
    (tmp_path / FILE).write_text(json.dumps(content | {"expires": time.time() + 7200}))
    assert acquire(lease(tmp_path, "two")) == [0.3]


def test_a_living_holder_keeps_it(tmp_path: Path) -> None:
    holder = lease(tmp_path, seconds=3)
    acquire(holder)
    with pytest.raises(AnotherWriter, match=r"one/0/.*HOLDFAST_RUN_ID"):
        acquire(lease(tmp_path, "two"))
    holder.renew()
    holder.release()


def test_a_wait_ends_with_sigterm(tmp_path: Path) -> None:
    abandon(tmp_path, "one", 3600)
    before = (tmp_path / FILE).read_text()
    stop = threading.Event()
    assert not lease(tmp_path, "two").acquire(stop, lambda *_: stop.set())
    assert (tmp_path / FILE).read_text() == before


def test_who_lost_it_learns_so_at_each_write_and_leaves_the_others_alone(tmp_path: Path) -> None:
    slow, told = lease(tmp_path), []
    slow._on_lost = told.append
    acquire(slow)
    other = lease(tmp_path, attempt=1)
    acquire(other)
    for _ in range(2):
        with pytest.raises(AnotherWriter, match="taken over"):
            slow.renew()
    assert slow.lost.is_set()
    assert len(told) == 1
    slow.release()
    other.renew()


def leave(process: subprocess.Popen[str]) -> int:
    process.communicate(timeout=PATIENCE)
    return process.returncode


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file() and FILE not in path.name}


@pytest.mark.jax
def test_a_second_execution_leaves_with_3_and_touches_nothing(trainer: Trainer) -> None:
    holder = trainer.start(HOLDFAST_STEP_SECONDS_MIN="600", HOLDFAST_LEASE_SECONDS="3")
    until(lambda: of(read_events(trainer.task_dir / "events.jsonl"), "compiled", "seconds") != [])
    before = contents(trainer.task_dir)
    code, events = trainer.run(CLOUD_RUN_EXECUTION="job-fghij", HOLDFAST_LEASE_SECONDS="3")
    assert code == 3, trainer.errors()
    assert [each["event"] for each in events] == ["start", "lease_waiting", "lease_refused", "exit"]
    assert contents(trainer.task_dir) == before
    holder.send_signal(signal.SIGTERM)
    assert leave(holder) == 143


@pytest.mark.jax
def test_who_slept_through_its_lease_writes_nothing_more(trainer: Trainer) -> None:
    sleeper = trainer.start(HOLDFAST_STEP_SECONDS_MIN="600", HOLDFAST_LEASE_SECONDS="1")
    event(sleeper, lambda each: each["event"] == "compiled")
    time.sleep(0.3)
    sleeper.send_signal(signal.SIGSTOP)
    code, events = trainer.run(CLOUD_RUN_EXECUTION="job-fghij")
    assert code == 0, trainer.errors()
    assert [each["event"] for each in events][:2] == ["start", "lease_waiting"]
    assert of(events, "step", "step") == list(range(1, STEPS + 1))
    # Released by now; with its own lease gone the sleeper takes it back only if nobody else has it.
    abandon(trainer.task_dir, "job-fghij", 600)
    before = contents(trainer.task_dir)
    sleeper.send_signal(signal.SIGCONT)
    assert leave(sleeper) == 3, trainer.errors()
    assert contents(trainer.task_dir) == before


@pytest.mark.jax
def test_a_killed_attempt_is_followed_by_its_own_execution_at_once_by_another_after_the_lease(trainer: Trainer) -> None:
    first = trainer.start(HOLDFAST_STEP_SECONDS_MIN="600", HOLDFAST_LEASE_SECONDS="600")
    until(lambda: read_events(trainer.task_dir / "events.jsonl") != [])
    first.kill()
    assert leave(first) == -signal.SIGKILL
    second = trainer.start(CLOUD_RUN_TASK_ATTEMPT="1", HOLDFAST_LEASE_SECONDS="3")
    event(second, lambda each: each["event"] == "imported")
    second.kill()
    assert leave(second) == -signal.SIGKILL
    code, events = trainer.run(CLOUD_RUN_EXECUTION="job-fghij")
    assert code == 0, trainer.errors()
    assert len(of(events, "lease_waiting", "holder")) == 1
    assert [each["attempt"] for each in read_events(trainer.task_dir / "events.jsonl") if each["event"] == "start"] == [
        *(0, 1, 0)
    ]
