"""SIGTERM, heard at any moment: while importing, inside an XLA compilation, in a save.

Python runs a signal's handler only between two bytecodes of the main thread, half a minute away inside XLA.
The C handler writes to the wake-up descriptor at once, and a thread that reads it needs the main thread for nothing.
"""

import os
import signal
import socket
import threading
from collections.abc import Callable

from workloads.trainer.config import EXIT_PREEMPTED


def install(grace_seconds: float, on_sigterm: Callable[[], None], on_deadline: Callable[[], None]) -> threading.Event:
    """Installs the handler (main thread only) and returns the flag that the first SIGTERM sets; others change nothing.

    grace_seconds: from SIGTERM to the platform's SIGKILL. A process still there 2 s before it ends (or half of it, if
    that is less) calls `on_deadline` and leaves with 143, whatever the main thread is doing: a save that is under way
    stays incomplete and is ignored by the next attempt. Both callbacks run in other threads than the main one.
    """
    requested = threading.Event()
    margin = min(2.0, 0.5 * grace_seconds)
    ear, mouth = socket.socketpair()
    mouth.setblocking(False)

    def leave() -> None:
        try:
            on_deadline()
        finally:
            os._exit(EXIT_PREEMPTED)

    def start_timer(seconds: float, act: Callable[[], None]) -> None:
        timer = threading.Timer(seconds, act)
        timer.daemon = True
        timer.start()

    def watch(_mouth: socket.socket) -> None:
        # Never returns: a closed socket's number could go to another file, and a second SIGTERM's byte into it.
        while True:
            if signal.SIGTERM in ear.recv(64) and not requested.is_set():
                requested.set()
                start_timer(grace_seconds - margin, leave)
                # For a log that cannot be written: it must not keep us here.
                start_timer(grace_seconds - margin / 10, lambda: os._exit(EXIT_PREEMPTED))
                on_sigterm()

    signal.set_wakeup_fd(mouth.fileno(), warn_on_full_buffer=False)
    threading.Thread(target=watch, args=(mouth,), name="sigterm", daemon=True).start()
    # Without a handler the process would die at once, or as PID 1 not react at all.
    signal.signal(signal.SIGTERM, lambda _signal, _frame: None)
    return requested
