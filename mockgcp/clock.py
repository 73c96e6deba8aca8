"""The emulated cloud's time: held still, advanced by a test, or running with the wall clock.

Work that takes time is an event on the clock. Events fire in order of their time, in the thread that moves the clock
(or, on a running clock, in whichever thread calls `run_due`), with `lock` held; the clock starts no thread of its own.
"""

from __future__ import annotations

import heapq
import itertools
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)


class Clock:
    """Virtual UTC time. `running=False` holds it still until `advance`; `running=True` follows the wall clock."""

    def __init__(self, *, start: datetime = EPOCH, running: bool = False) -> None:
        self._running = running
        self._start = start
        self._offset = 0.0
        self._real_start = time.monotonic()
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._order = itertools.count()
        self.lock = threading.RLock()

    @classmethod
    def wall(cls) -> Clock:
        """A clock that shows the real time and runs with it."""
        return cls(start=datetime.now(UTC), running=True)

    @property
    def running(self) -> bool:
        return self._running

    def seconds(self) -> float:
        """Virtual seconds since the clock was made."""
        return self._offset + (time.monotonic() - self._real_start if self._running else 0.0)

    def now(self) -> datetime:
        return self._start + timedelta(seconds=self.seconds())

    def timestamp(self) -> str:
        """Now in RFC 3339 with microseconds, as Google's APIs write it."""
        return self.now().strftime("%Y-%m-%dT%H:%M:%S.%fZ")

    def schedule(self, delay_s: float, action: Callable[[], None]) -> None:
        """Runs `action` when `delay_s` more seconds have passed."""
        with self.lock:
            heapq.heappush(self._events, (self.seconds() + delay_s, next(self._order), action))

    def next_due(self) -> float | None:
        """The time, in `seconds()`, of the next event; None when nothing is scheduled."""
        with self.lock:
            return self._events[0][0] if self._events else None

    def run_due(self) -> None:
        """Fires every event whose time has come, in order."""
        with self.lock:
            while self._events and self._events[0][0] <= self.seconds():
                heapq.heappop(self._events)[2]()

    def advance(self, seconds: float) -> None:
        """Moves the time on, stopping at each event on the way so that it sees its own time."""
        if seconds < 0:
            raise ValueError(f"time only moves forward; advance() got {seconds} s")
        with self.lock:
            target = self.seconds() + seconds
            while (due := self.next_due()) is not None and due <= target:
                self._offset += max(0.0, due - self.seconds())
                self.run_due()
            self._offset += max(0.0, target - self.seconds())

    def sleep(self, seconds: float) -> None:
        """Waits: a running clock really does, a held one jumps ahead."""
        if self._running:
            time.sleep(seconds)
            self.run_due()
        else:
            self.advance(seconds)

    def clear(self) -> None:
        """Forgets every scheduled event."""
        with self.lock:
            self._events.clear()
