import json
from datetime import datetime
from pathlib import Path

import pytest

from workloads.trainer.events import EventLog, read_events


def log_to(path: Path) -> EventLog:
    log = EventLog()
    log.write_to(path)
    return log


def test_stdout_and_file_carry_the_same_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "job" / "0" / "events.jsonl"
    log = EventLog(job="job", execution="job-abcde", task_index=0, attempt=2)
    log.emit("start", "before there is a file")
    assert not path.exists()
    log.write_to(path)
    log.emit("step", "completed", step=3, loss=1.5)
    log.write_no_more()
    log.emit("exit", "the file is another's")
    out = capsys.readouterr().out
    assert path.read_text().splitlines() == out.splitlines()[:2]
    event = json.loads(out.splitlines()[1])
    assert datetime.fromisoformat(event.pop("time")).utcoffset() is not None
    assert event == {
        "v": 1,
        "severity": "INFO",
        "message": "completed",
        "event": "step",
        "job": "job",
        "execution": "job-abcde",
        "task_index": 0,
        "attempt": 2,
        "step": 3,
        "loss": 1.5,
    }


@pytest.mark.parametrize(
    "torn", ['{"v": 1, "event": "st', '{"v": 1, "event": "step", "step": 9', '"', '{"message": "\udcc3']
)
def test_a_torn_last_line_costs_only_itself(tmp_path: Path, torn: str) -> None:
    path = tmp_path / "events.jsonl"
    log_to(path).emit("step", "first attempt", step=1)
    with path.open("ab") as file:
        file.write(torn.encode(errors="surrogateescape"))
    log = log_to(path)
    log.emit("start", "second attempt")
    log.emit("step", "second attempt", step=2)
    assert [event["event"] for event in read_events(path)] == ["step", "start", "step"]
    assert path.read_bytes().count(b"\n") == 4


def test_a_whole_last_line_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    for _ in range(2):
        log_to(path).emit("start", "attempt")
    assert path.read_text().count("\n") == len(read_events(path)) == 2


def test_a_full_disk_costs_lines_of_the_file_and_no_event_on_stdout(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "events.jsonl"
    path.symlink_to("/dev/full")  # every write is refused with ENOSPC
    log = log_to(path)
    for step in (1, 2):
        log.emit("step", "completed", step=step)
    said = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [each["event"] for each in said] == ["step", "log_failed", "step"]
    assert "No space left" in said[1]["message"]


def test_no_file_no_events(tmp_path: Path) -> None:
    assert read_events(tmp_path / "events.jsonl") == []
