"""How a run that is watched looks: lines, and a table of its tasks. Knows no service."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Sequence

from rich.console import Console
from rich.live import Live
from rich.markup import escape
from rich.table import Table

from holdfast.runs.backend import LogLine, Run, Task
from holdfast.runs.progress import Progress, Tracker

_STYLE = {"WARNING": "yellow", "ERROR": "red", "CRITICAL": "red", "ALERT": "red", "EMERGENCY": "red"}
_ROWS = 20  # tasks of a table; the others are counted
# Without a terminal, how progress is told: every so many seconds, if there is any.
_TELL_S = 30.0


def text(line: LogLine) -> str:
    """A line of the log, as markup. With its date, since a run takes days, and in UTC."""
    attempt = "" if line.attempt is None else f" attempt {line.attempt}"
    where = f"task {line.task}{attempt}" if line.task is not None else "run"
    style = "bold magenta" if line.preemption else _STYLE.get(line.severity, "")
    said = escape(line.message.rstrip("\n"))
    return f"[dim]{line.time:%m-%dT%H:%M:%SZ}[/dim]  {where:<16}  {line.source:<8}  " + (
        f"[{style}]{said}[/]" if style else said
    )


def sentence(progress: Progress, over: bool = False) -> str:
    """Where a task is, as far as the log tells; its pace only while the run is not over."""
    if progress.step is None:
        return progress.doing or ("the log tells of no step" if over else "no step yet")
    of = f" of {progress.steps_total}" if progress.steps_total is not None else ""
    rate, left = (None, None) if over else (progress.steps_per_s, progress.left_s)
    return ", ".join(
        part
        for part in (
            f"step {progress.step}{of}",
            "" if progress.saved is None else f"saved at {progress.saved}",
            "" if progress.loss is None else f"loss {progress.loss:.4g}",
            "" if rate is None else f"{rate:.3g} steps/s" if rate >= 1 else f"{1 / rate:.3g} s a step",
            "" if not left else f"{duration(left)} to go",
        )
        if part
    )


def duration(seconds: float) -> str:
    """Seconds as 45s, 12m30s or 3h05m."""
    minutes, s = divmod(round(seconds), 60)
    hours, m = divmod(minutes, 60)
    return f"{hours}h{m:02d}m" if hours else f"{m}m{s:02d}s" if m else f"{s}s"


def table(run: Run, tracker: Tracker) -> Table:
    """What the run does now, and its tasks; those that are under way first."""
    about = [run.doing, *(f"{name}: {value}" for name, value in run.facts)]
    title = escape("\n".join(filter(None, [f"{run.name}: {run.state}, run id {run.run_id}", *about])))
    found = Table("task", "state", "retries", "preemptions", "progress", title=title, title_justify="left")
    order = {"running": 0, "failed": 1, "pending": 2, "cancelled": 3, "succeeded": 4}
    tasks = sorted(run.tasks, key=lambda task: order[task.state])
    for task in tasks[:_ROWS]:
        progress = tracker.of(task.index)
        found.add_row(
            str(task.index),
            task.state,
            _retries(task),
            str(progress.preemptions),
            escape(sentence(progress, not run.active)),
        )
    for state, more in itertools.groupby(tasks[_ROWS:], key=lambda task: task.state):
        found.add_row("…", state, "", "", f"{len(list(more))} more")
    return found


def _retries(task: Task) -> str:
    return f"{task.retries} of {task.max_retries}"


class Watcher:
    """Tells of a followed run: live on a terminal, as lines otherwise. A context; `tracker` learns on the way."""

    def __init__(self, out: Console, tracker: Tracker, clock: Callable[[], float] = time.monotonic) -> None:
        self._out, self.tracker, self._clock = out, tracker, clock
        self._live = Live(console=out, auto_refresh=False, transient=True) if out.is_terminal else None
        self._told: dict[int, str] = {}
        self._told_at = clock()
        self._known: set[str] = set()

    def __enter__(self) -> Watcher:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(self, *raised: object) -> None:
        if self._live is not None:
            self._live.stop()

    def tell(self, run: Run, lines: Sequence[LogLine]) -> None:
        for line in lines:
            self.tracker.take(line)
            if line.event != "step":
                self._out.print(text(line))
        if self._live is not None:
            self._live.update(table(run, self.tracker), refresh=True)
            return
        about = [f"{run.name}: {run.state}" + (f": {run.doing}" if run.doing else "")]
        about += [f"  {name}: {value}" for name, value in run.facts]
        for said in about:
            if said not in self._known:
                self._out.print(escape(said))
        self._known = set(about)
        if not run.active or self._clock() - self._told_at >= _TELL_S:
            self._told_at = self._clock()
            for task in run.tasks:
                self._tell_progress(self.tracker.of(task.index), not run.active)

    def _tell_progress(self, progress: Progress, over: bool) -> None:
        now = sentence(progress, over)
        if self._told.get(progress.task) != now:
            self._told[progress.task] = now
            self._out.print(f"task {progress.task}: {escape(now)}")

    def say(self, line: str) -> None:
        self._out.print(f"[dim]{escape(line)}[/dim]")
