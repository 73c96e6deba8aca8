"""`python -m workloads.trainer`: one attempt of one task. See `--help`."""

import argparse
import contextlib
import os
import sys
import threading
import time
import traceback
from collections.abc import Mapping

from workloads.trainer import config as configuration
from workloads.trainer import lease as leases
from workloads.trainer import result, signals
from workloads.trainer.config import (
    EXIT_ANOTHER_WRITER,
    EXIT_CONFIG,
    EXIT_DONE,
    EXIT_ERROR,
    EXIT_PREEMPTED,
    Config,
    ConfigError,
)
from workloads.trainer.events import EventLog, Severity
from workloads.trainer.lease import AnotherWriter, Lease

_EXITS: Mapping[int, tuple[str, Severity]] = {
    EXIT_DONE: ("done", "INFO"),
    EXIT_PREEMPTED: (
        "preempted; a retry resumes from the newest checkpoint; none yet means from step 0",
        "WARNING",
    ),
    EXIT_ANOTHER_WRITER: ("another writer has the folder; a retry may help later", "WARNING"),
    EXIT_ERROR: ("the last save failed twice; a retry resumes from the one before", "ERROR"),
}


def main(environ: Mapping[str, str]) -> int:
    """Runs the attempt and returns the exit code. Everything slow comes after the signal handler."""
    try:
        config = configuration.from_env(environ)
    except ConfigError as error:
        EventLog().emit("exit", f"bad configuration: {error}", "ERROR", code=EXIT_CONFIG)
        return EXIT_CONFIG
    log = EventLog(
        job=config.job,
        run_id=config.run_name,
        execution=config.execution,
        task_index=config.task_index,
        attempt=config.task_attempt,
        **({"process": config.process_id} if config.process_count > 1 else {}),
    )
    stop = signals.install(
        config.grace_seconds,
        on_sigterm=lambda: log.emit("sigterm", "SIGTERM received", "WARNING", grace_seconds=config.grace_seconds),
        on_deadline=lambda: log.emit(
            "exit", "left before the end of the grace, without a last save", "WARNING", code=EXIT_PREEMPTED
        ),
    )

    def on_lost(message: str) -> None:
        log.write_no_more()
        log.emit("lease_lost", message, "ERROR")
        stop.set()

    lease = Lease(
        config.task_dir / leases.FILE,
        execution=config.execution,
        attempt=config.task_attempt,
        seconds=config.lease_seconds,
        on_lost=on_lost,
    )
    try:
        log.emit("start", f"attempt {config.task_attempt} starts", steps_total=config.steps)
        code = _attempt(config, log, stop, lease)
        message, severity = _EXITS[code]
        log.emit("exit", message, severity, code=code)
    except AnotherWriter as error:
        code = EXIT_ANOTHER_WRITER
        if not lease.lost.is_set():  # that was told
            log.emit("lease_refused", str(error), "ERROR")
        log.emit("exit", *_EXITS[code], code=code)
    except ConfigError as error:
        code = EXIT_CONFIG
        log.emit("exit", f"bad configuration: {error}", "ERROR", code=code)
    except Exception as error:
        code = EXIT_ERROR
        traceback.print_exc()
        log.emit("exit", f"{type(error).__name__}: {error}", "ERROR", code=code)
    lease.release()
    return code


def _attempt(config: Config, log: EventLog, stop: threading.Event, lease: Lease) -> int:
    if config.process_id == 0:

        def on_wait(holder: str, seconds: float) -> None:
            message = f"{holder} has not released {config.task_dir}: waiting {seconds:.0f} s for its lease to run out"
            log.emit("lease_waiting", message, "WARNING", holder=holder, seconds=seconds)

        if not lease.acquire(stop, on_wait):
            return EXIT_PREEMPTED
        log.write_to(config.task_dir / "events.jsonl")
    else:
        log.write_no_more()
    before = result.read(config.task_dir / result.FILE)
    if before and (before["run"], before["step"]) == (config.run, config.steps):
        log.emit(
            "done",
            f"was done before: {before['step']} steps",
            step=before["step"],
            steps_total=before["steps_total"],
            loss=before["loss"],
            productive_seconds=before["productive_seconds"],
            digest=before["digest"],
        )
        return EXIT_DONE
    began = time.monotonic()
    from workloads.trainer import train  # JAX and Orbax take seconds to import

    if stop.is_set():
        return EXIT_PREEMPTED
    seconds = time.monotonic() - began
    log.emit("imported", f"imported JAX and Orbax in {seconds:.1f} s", seconds=seconds)
    return train.run(train.Attempt(config, log, stop, lease))


if __name__ == "__main__":
    argparse.ArgumentParser(
        prog="python -m workloads.trainer",
        description="Trains one task to its last step, resuming from its last complete checkpoint.",
        epilog=configuration.contract(),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    ).parse_args()
    code = main(os.environ)
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError):  # where nobody can read it, the exit code still counts
            stream.flush()
    # The interpreter's shutdown may wait for threads of JAX and Orbax when the one that guards the deadline is gone.
    os._exit(code)
