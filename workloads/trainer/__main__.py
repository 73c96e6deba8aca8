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
from workloads.trainer.contract import contract
from workloads.trainer.events import EventLog, Severity
from workloads.trainer.folder import Outlook, newest_checkpoint
from workloads.trainer.lease import AnotherWriter, Lease


class UnusableFolder(Exception):
    """The task's folder cannot be read or written."""


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
    outlook = Outlook(
        "process 0 says what is saved"
        if config.process_id
        else "nothing was touched, so a retry starts as this one did"
    )
    stop = signals.install(
        config.grace_seconds,
        on_sigterm=lambda: log.emit("sigterm", "SIGTERM received", "WARNING", grace_seconds=config.grace_seconds),
        on_deadline=lambda: log.emit(
            "exit",
            f"left before the end of the grace, without a last save; {outlook.text}",
            "WARNING",
            code=EXIT_PREEMPTED,
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
    log.emit("start", f"attempt {config.task_attempt} starts", steps_total=config.steps)
    code, message, severity = _outcome(config, log, stop, lease, outlook)
    log.emit("exit", message, severity, code=code)
    lease.release()
    return code


def _outcome(
    config: Config, log: EventLog, stop: threading.Event, lease: Lease, outlook: Outlook
) -> tuple[int, str, Severity]:
    """The attempt, and how it ended: the exit code, and the last line."""
    try:
        code = _attempt(config, log, stop, lease, outlook)
    except AnotherWriter as error:
        code = EXIT_ANOTHER_WRITER
        if not lease.lost.is_set():  # that was told
            log.emit("lease_refused", str(error), "ERROR")
    except ConfigError as error:
        return EXIT_CONFIG, f"bad configuration: {error}", "ERROR"
    except Exception as error:
        traceback.print_exc()
        if not stop.is_set():
            return EXIT_ERROR, f"{type(error).__name__}: {error}", "ERROR"
        code = EXIT_PREEMPTED  # peers and mounts are taken away as well
    if lease.lost.is_set():  # which sets `stop` in passing
        code = EXIT_ANOTHER_WRITER
    endings: dict[int, tuple[str, Severity]] = {
        EXIT_DONE: ("done", "INFO"),
        EXIT_PREEMPTED: (f"preempted; {outlook.text}", "WARNING"),
        EXIT_ANOTHER_WRITER: ("another writer has the folder; a retry may help later", "WARNING"),
        EXIT_ERROR: (f"the last save failed twice; {outlook.text}", "ERROR"),
    }
    return code, *endings[code]


def _attempt(config: Config, log: EventLog, stop: threading.Event, lease: Lease, outlook: Outlook) -> int:
    if config.process_id != 0:
        log.write_no_more()
    elif not _take_folder(config, log, stop, lease, outlook):
        return EXIT_PREEMPTED
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
    # JAX and Orbax take seconds to import.
    from workloads.trainer import train
    from workloads.trainer.attempt import Attempt

    if stop.is_set() and config.process_count == 1:  # several stop together, or one would wait for the others
        return EXIT_PREEMPTED
    seconds = time.monotonic() - began
    log.emit("imported", f"imported JAX and Orbax in {seconds:.1f} s", seconds=seconds)
    return train.run(Attempt(config, log, stop, lease, outlook))


def _take_folder(config: Config, log: EventLog, stop: threading.Event, lease: Lease, outlook: Outlook) -> bool:
    """The lease, the log's file and a first look at what is saved; False when `stop` came first."""

    def on_wait(holder: str, seconds: float) -> None:
        message = f"{holder} has not released {config.task_dir}: waiting {seconds:.0f} s for its lease to run out"
        log.emit("lease_waiting", message, "WARNING", holder=holder, seconds=seconds)

    try:
        if not lease.acquire(stop, on_wait):
            return False
        log.write_to(config.task_dir / "events.jsonl")
        outlook.saved(newest_checkpoint(config.task_dir))
    except OSError as error:
        raise UnusableFolder(
            f"{config.task_dir} cannot be used ({error}), and there is nowhere else to save; mount the volume "
            "read-write, owned by the container's user (mount option uid), with room to write"
        ) from error
    return True


if __name__ == "__main__":
    argparse.ArgumentParser(
        prog="python -m workloads.trainer",
        description="Trains one task to its last step, resuming from its last complete checkpoint.",
        epilog=contract(),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    ).parse_args()
    code = main(os.environ)
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError):  # where nobody can read it, the exit code still counts
            stream.flush()
    # The interpreter's shutdown may wait for threads of JAX and Orbax when the one that guards the deadline is gone.
    os._exit(code)
