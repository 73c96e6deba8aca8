"""`python -m workloads.trainer`: one attempt of one task. See `--help`."""

import argparse
import os
import sys
import threading
import traceback
from collections.abc import Mapping

from workloads.trainer import config as configuration
from workloads.trainer import result, signals
from workloads.trainer.config import EXIT_CONFIG, EXIT_DONE, EXIT_ERROR, EXIT_PREEMPTED, Config, ConfigError
from workloads.trainer.events import EventLog


def main(environ: Mapping[str, str]) -> int:
    """Runs the attempt and returns the exit code. Everything slow comes after the signal handler."""
    try:
        config = configuration.from_env(environ)
    except ConfigError as error:
        EventLog(None).emit("exit", f"bad configuration: {error}", "ERROR", code=EXIT_CONFIG)
        return EXIT_CONFIG
    log = EventLog(
        config.task_dir / "events.jsonl",
        job=config.job,
        execution=config.execution,
        task_index=config.task_index,
        attempt=config.task_attempt,
    )
    stop = signals.install(
        config.grace_seconds,
        on_sigterm=lambda: log.emit("sigterm", "SIGTERM received", "WARNING", grace_seconds=config.grace_seconds),
        on_deadline=lambda: log.emit(
            "exit", "left before the end of the grace, without a last save", "WARNING", code=EXIT_PREEMPTED
        ),
    )
    try:
        log.emit("start", f"attempt {config.task_attempt} starts", steps_total=config.steps)
        code = _attempt(config, log, stop)
        message = "done" if code == EXIT_DONE else "preempted; a retry resumes"
        log.emit("exit", message, "INFO" if code == EXIT_DONE else "WARNING", code=code)
    except ConfigError as error:
        code = EXIT_CONFIG
        log.emit("exit", f"bad configuration: {error}", "ERROR", code=code)
    except Exception as error:
        code = EXIT_ERROR
        traceback.print_exc()
        log.emit("exit", f"{type(error).__name__}: {error}", "ERROR", code=code)
    return code


def _attempt(config: Config, log: EventLog, stop: threading.Event) -> int:
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
    from workloads.trainer import train  # JAX and Orbax take seconds to import

    return train.run(config, log, stop)


if __name__ == "__main__":
    argparse.ArgumentParser(
        prog="python -m workloads.trainer",
        description="Trains one task to its last step, resuming from its last complete checkpoint.",
        epilog=configuration.contract(),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    ).parse_args()
    code = main(os.environ)
    sys.stdout.flush()
    sys.stderr.flush()
    # The interpreter's shutdown may wait for threads of JAX and Orbax when the one that guards the deadline is gone.
    os._exit(code)
