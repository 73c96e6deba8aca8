"""What the verbs read from the command line, how far a task is, and how it looks."""

from __future__ import annotations

import io
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from rich.console import Console

from holdfast.errors import OperatorError
from holdfast.runs import display, options
from holdfast.runs.backend import LogLine, Run, State, Task
from holdfast.runs.progress import Progress, Tracker

NOW = datetime(2026, 11, 29, 20, 0, tzinfo=UTC)


def line(at: float, event: str = "", *, attempt: int = 0, platform: bool = False, **payload: Any) -> LogLine:
    said = {"event": event, "message": event, **payload} if event else {"message": "plain", **payload}
    when, source = NOW + timedelta(seconds=at), "platform" if platform else "task"
    return LogLine(when, "INFO", source, 0, attempt, str(said["message"]), said, {})  # type: ignore[arg-type]


def fed(*lines: LogLine) -> Progress:
    progress = Progress(0)
    for each in lines:
        progress.take(each)
    return progress


def run(state: State, *tasks: Task) -> Run:
    return Run("job-x", "projects/p/x", state, "job", NOW, len(tasks), tasks=tasks)


# -- options -------------------------------------------------------------------------------------------------------


def test_settings_are_names_and_values() -> None:
    assert options.settings(["A=1", "B=x=y", "C="]) == {"A": "1", "B": "x=y", "C": ""}


@pytest.mark.parametrize(
    ("given", "why"),
    [
        (["A"], "NAME=VALUE"),
        (["=1"], "NAME=VALUE"),
        (["A=1", "A=2"], "given twice"),
        (["CLOUD_RUN_JOB=x"], "reserved"),
    ],
)
def test_a_setting_that_cannot_work_is_refused(given: list[str], why: str) -> None:
    with pytest.raises(OperatorError, match=why):
        options.settings(given)


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        (None, None),
        ("90s", NOW - timedelta(seconds=90)),
        ("2h", NOW - timedelta(hours=2)),
        ("2026-11-28", datetime(2026, 11, 28, tzinfo=UTC)),
        ("2026-11-29T19:00:00Z", NOW - timedelta(hours=1)),
    ],
)
def test_since_is_a_moment_or_how_long_ago(text: str | None, moment: datetime | None) -> None:
    assert options.since(text, NOW) == moment


def test_other_options_say_how_they_are_written() -> None:
    with pytest.raises(OperatorError, match="20m"):
        options.since("yesterday", NOW)
    with pytest.raises(OperatorError, match="WARNING"):
        options.severity("loud")
    with pytest.raises(OperatorError, match=r"--timeout.*43200s"):
        options.timeout_s("12h")
    assert (options.severity("warning"), options.timeout_s("90s"), options.timeout_s(None)) == ("WARNING", 90.0, None)


# -- progress ------------------------------------------------------------------------------------------------------


def test_rate_and_time_left_follow_from_this_attempts_steps() -> None:
    begun = [line(0, "start", steps_total=100), *(line(10 * n, "step", step=n) for n in range(1, 5))]
    progress = fed(*begun)
    assert (progress.steps_per_s, progress.left_s) == (0.1, 960.0)
    progress = fed(*begun, line(100, "start", attempt=1, steps_total=100), line(110, "resumed", attempt=1, from_step=2))
    assert (progress.step, progress.saved, progress.steps_per_s, progress.left_s) == (2, 2, None, None)
    progress.take(line(45, "step", step=5))  # late, of the attempt before
    assert progress.step == 2


def test_preemptions_count_whenever_they_are_heard_of() -> None:
    lost = {"platform": True, "reason": "INSTANCE_PREEMPTED"}
    assert fed(line(1, **lost), line(5, "start", attempt=1), line(2, **lost)).preemptions == 2
    assert fed(line(1, reason="INSTANCE_PREEMPTED")).preemptions == 0


def test_a_checkpoint_is_what_was_saved_or_resumed_from() -> None:
    assert fed(line(1, "step", step=3)).saved is None
    assert fed(line(1, "step", step=3), line(2, "saved", step=3), line(3, "step", step=4)).saved == 3


# -- display -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "0s"), (59.6, "1m00s"), (750, "12m30s"), (3600, "1h00m"), (11100, "3h05m")]
)
def test_durations_are_short(seconds: float, text: str) -> None:
    assert display.duration(seconds) == text


def test_a_sentence_has_what_is_known() -> None:
    assert display.sentence(Progress(0)) == "no step yet"
    assert display.sentence(fed(line(0, "start", steps_total=9))) == "start"
    steps = [line(0, "start", steps_total=12), *(line(2 * n, "step", step=n, loss=0.5) for n in (1, 2))]
    assert display.sentence(fed(*steps)) == "step 2 of 12, loss 0.5, 2 s a step, 20s to go"


def test_without_a_terminal_states_lines_and_progress_are_told_as_lines() -> None:
    clock, told = [0.0], io.StringIO()
    console = Console(file=told, width=200, soft_wrap=True, highlight=False)
    watcher = display.Watcher(console, Tracker(), clock=lambda: clock[0])
    running, over = run("running", Task(0, "running")), run("succeeded", Task(0, "succeeded"))
    with watcher:
        watcher.tell(running, [line(0, "start", steps_total=4), line(1, "step", step=1)])
        watcher.tell(running, [line(2, "[step]", step=2)])
        clock[0] = 31.0
        watcher.tell(running, [line(3, "step", step=2)])
        watcher.tell(over, [line(4, "saved", step=2)])
    assert told.getvalue().startswith("11-29T20:00:00Z  task 0 attempt 0  task      start")
    assert [text.split("  ")[-1] for text in told.getvalue().splitlines()] == [
        "start",
        "job-x: running",
        "[step]",
        "task 0: step 2 of 4, 2 s a step, 4s to go",
        "saved",
        "job-x: succeeded",
        "task 0: step 2 of 4, saved at 2",
    ]


def test_on_a_terminal_a_table_follows_the_lines() -> None:
    told = io.StringIO()
    with display.Watcher(Console(file=told, width=120, force_terminal=True, highlight=False), Tracker()) as watcher:
        watcher.tell(run("running", Task(0, "running", max_retries=3)), [line(0, "start"), line(1, "step", step=1)])
    assert told.getvalue().index("start") < told.getvalue().index("job-x: running, run id job")
    assert "0 of 3" in told.getvalue()


def test_a_table_shows_who_is_under_way_and_counts_the_rest() -> None:
    tasks = [Task(n, "succeeded" if n < 25 else "running", retries=1, max_retries=3) for n in range(30)]
    console = Console(file=io.StringIO(), width=120)
    console.print(display.table(run("running", *tasks), Tracker()))
    assert isinstance(console.file, io.StringIO)
    rows = [row for row in console.file.getvalue().splitlines() if "1 of 3" in row]
    assert ["running" in row for row in rows] == [True] * 5 + [False] * 15
    assert "10 more" in console.file.getvalue()


def test_what_a_run_waits_for_is_told_when_it_changes() -> None:
    out = io.StringIO()
    watcher = display.Watcher(Console(file=out, width=200), Tracker())
    first = replace(run("pending"), doing="no quota yet", facts=(("queue", "q, 1 ahead"), ("pods", "0 of 5 ready")))
    for each in (first, first, replace(first, doing="it waits for nodes"), run("running")):
        watcher.tell(each, [])
    assert out.getvalue().splitlines() == [
        "job-x: pending: no quota yet",
        "  queue: q, 1 ahead",
        "  pods: 0 of 5 ready",
        "job-x: pending: it waits for nodes",
        "job-x: running",
    ]
    assert "it waits for nodes\nqueue: q, 1 ahead" in str(
        display.table(replace(first, doing="it waits for nodes"), Tracker()).title
    )
