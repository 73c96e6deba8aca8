"""What an operator does with runs, whichever service runs them. Nothing here prints; `say` is told what matters."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from holdfast.errors import OperatorError
from holdfast.gcp.api import CloudError
from holdfast.runs.backend import Backend, Log, LogLine, OrderT, Run, Submits, command

POLL_S = 5.0
"""Seconds between two looks. Each is three calls, and Cloud Logging allows a project few reads a minute."""

_PASSING = frozenset({"UNAVAILABLE", "DEADLINE_EXCEEDED", "RESOURCE_EXHAUSTED", "INTERNAL", "ABORTED"})
# Seconds that looks may fail in a row, as they do when a laptop sleeps or changes its network.
_PATIENCE_S = 600.0


def submit(backend: Submits[OrderT], order: OrderT, say: Callable[[str], None]) -> Run:
    """Starts a run, unless one of the same run id is active: two writers would spoil each other's checkpoints.

    Two operators who submit within the same second both pass; the trainer's lease then refuses one of them.

    Raises:
        OperatorError: there is an active one. CloudError: the service refuses the run.
    """
    run_id = backend.run_id(order)
    earlier = [run for run in backend.runs() if run.run_id == run_id]
    active = next((run for run in earlier if run.active), None)
    if active is not None:
        raise OperatorError(
            f"{active.name} is {active.state} on run id {run_id!r}, and two writers would spoil the checkpoints they "
            f"share. `{command(backend, 'watch', active.name)}` follows it, "
            f"`{command(backend, 'cancel', active.name)}` ends it; or start a run with checkpoints of its own: "
            "--set HOLDFAST_RUN_ID=ANOTHER"
        )
    if earlier:
        last = earlier[0]
        found = (
            "the trainer finds it done, unless it now has more steps"
            if last.state == "succeeded"
            else "this one resumes from its latest checkpoint"
        )
        say(f"{last.name} of the same run id {run_id!r} {_ENDED[last.state]}: {found}")
    try:
        return backend.submit(order)
    except (CloudError, KeyboardInterrupt, SystemExit) as error:
        if isinstance(error, CloudError) and 0 < error.http_status < 500:
            raise
        what = error if isinstance(error, CloudError) else "interrupted"
        raise OperatorError(
            f"{what}. Whether the run has started is not known: look with `{command(backend, 'runs')}` before you try "
            "again"
        ) from error


_ENDED = {"succeeded": "succeeded", "failed": "failed", "cancelled": "was cancelled"}


def latest(backend: Backend, name: str | None) -> Run:
    """The run of that name, or the newest.

    Raises:
        OperatorError: there is none.
    """
    if name is not None:
        return backend.run(name)
    newest = backend.runs(1)
    if not newest:
        raise OperatorError(f"the job has not been run yet: `{command(backend, 'submit', backend.verb)}`")
    return backend.run(newest[0].name)


def follow(
    backend: Backend,
    run: Run,
    log: Log,
    tell: Callable[[Run, Sequence[LogLine]], None],
    *,
    say: Callable[[str], None] = lambda line: None,
    poll_s: float = POLL_S,
    limit_s: float | None = None,
) -> Run:
    """Follows a run to its end and returns it as it then is. `tell`: the run now, and its new lines, at every look.

    A look that fails for a passing reason is said, and tried again for 10 minutes.

    Args:
        limit_s: wall-clock seconds after which it is given up.

    Raises:
        CloudError: it cannot be looked at. OperatorError: it is not over after `limit_s`.
    """
    began = last_look = time.monotonic()
    while True:
        try:
            tell(run, log.read())
            if not run.active:
                # A task's last lines may come after the news of its end.
                time.sleep(poll_s)
                while lines := log.read():
                    tell(run, lines)
                return run
            time.sleep(poll_s)
            run = backend.run(run.name)
            last_look = time.monotonic()
        except CloudError as error:
            if error.status not in _PASSING or time.monotonic() - last_look > _PATIENCE_S:
                raise
            say(f"cannot look now, trying again: {error.message}")
            time.sleep(poll_s)
        if limit_s is not None and time.monotonic() > began + limit_s:
            raise OperatorError(f"{run.name} is not over after {limit_s:.0f} s")


def verdict(run: Run, saved: Callable[[int], int | None]) -> list[str]:
    """What to say of a run that is over. `saved`: the step of a task's newest checkpoint, as far as the log tells."""
    if run.state == "succeeded":
        return [f"{run.name} succeeded: {len(run.tasks)} task(s), {sum(task.retries for task in run.tasks)} retries"]
    lines = [f"{run.name} {_ENDED[run.state]}" + (f": {run.message}" if run.message else "")]
    for task in [task for task in run.tasks if task.state != "succeeded"][:_TOLD]:
        step = saved(task.index)
        kept = "the log tells of no checkpoint" if step is None else f"the checkpoint is at step {step}"
        gone = task.max_retries and task.retries_used_up and run.state == "failed"
        used = f"retries used up: {task.retries} of {task.max_retries}; " if gone else ""
        lines.append(f"task {task.index}: {used}{kept}")
    return lines


_TOLD = 10
