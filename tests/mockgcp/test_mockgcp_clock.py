"""Time: held, advanced past events one by one, or running."""

from __future__ import annotations

import threading
from datetime import timedelta
from functools import partial

import pytest

from mockgcp.clock import EPOCH, Clock


def test_a_held_clock_stands_still() -> None:
    clock = Clock()
    assert (clock.seconds(), clock.now(), clock.running) == (0.0, EPOCH, False)
    assert clock.timestamp() == "2026-01-01T00:00:00.000000Z"


def test_advance_stops_at_each_event_so_that_it_sees_its_own_time() -> None:
    clock, seen = Clock(), []
    for delay in (5.0, 1.0, 3.0):
        clock.schedule(delay, lambda: seen.append(clock.seconds()))
    clock.advance(4.0)
    assert seen == [1.0, 3.0]
    assert clock.seconds() == 4.0
    clock.advance(1.0)
    assert seen == [1.0, 3.0, 5.0]


def test_events_of_one_moment_fire_in_the_order_they_were_scheduled() -> None:
    clock, seen = Clock(), list[str]()
    for name in "abc":
        clock.schedule(1.0, partial(seen.append, name))
    clock.advance(1.0)
    assert seen == ["a", "b", "c"]


def test_an_event_may_schedule_another_within_the_same_advance() -> None:
    clock, seen = Clock(), []
    clock.schedule(1.0, lambda: clock.schedule(0.3, lambda: seen.append(clock.now() - EPOCH)))
    clock.advance(2.0)
    assert seen == [timedelta(seconds=1.3)]


def test_what_is_due_now_waits_for_somebody_to_look() -> None:
    clock, seen = Clock(), []
    clock.schedule(0.0, lambda: seen.append(1))
    assert seen == []
    assert clock.next_due() == 0.0
    clock.run_due()
    assert seen == [1]
    assert clock.next_due() is None


def test_time_does_not_go_back() -> None:
    with pytest.raises(ValueError, match="only moves forward"):
        Clock().advance(-1)


def test_sleep_on_a_held_clock_jumps_and_fires_what_is_due() -> None:
    clock, seen = Clock(), []
    clock.schedule(3600, lambda: seen.append(1))
    clock.sleep(7200)
    assert (clock.seconds(), seen) == (7200.0, [1])


def test_a_running_clock_follows_the_wall_and_fires_after_a_sleep() -> None:
    clock, seen = Clock(running=True), []
    clock.schedule(0.01, lambda: seen.append(1))
    before = clock.seconds()
    clock.sleep(0.02)
    assert clock.seconds() - before >= 0.02
    assert seen == [1]


def test_a_running_clock_can_be_advanced_on_top() -> None:
    clock = Clock(running=True)
    clock.advance(1000)
    assert 1000 <= clock.seconds() < 1010


def test_clear_forgets_events_and_keeps_the_time() -> None:
    clock, seen = Clock(), []
    clock.advance(5)
    clock.schedule(1, lambda: seen.append(1))
    clock.clear()
    clock.advance(10)
    assert (seen, clock.seconds()) == ([], 15.0)


def test_an_event_fires_once_and_alone_when_two_threads_move_the_clock() -> None:
    clock, inside, seen = Clock(), [], []

    def event() -> None:
        inside.append(1)
        seen.append(len(inside))
        threading.Event().wait(0.001)
        inside.pop()

    for delay in range(1, 11):
        clock.schedule(float(delay), event)
    threads = [threading.Thread(target=clock.advance, args=(10.0,)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seen == [1] * 10
    assert clock.seconds() == 20.0
