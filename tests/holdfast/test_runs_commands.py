"""The verbs as they are typed, against the emulated cloud over HTTP."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import Result
from runs_rig import JOB, POLL_S, Rig
from typer.testing import CliRunner

from holdfast.cli import app
from holdfast.errors import OperatorError
from holdfast.runs.backend import Order
from mockgcp.frontends import rest
from mockgcp.planes.maintenance import AtSteps

EVERY = ("--every", str(POLL_S))


@pytest.fixture
def rig(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Rig]:
    rig = Rig(tmp_path)
    with rest.serve(rig.cloud, anonymous=rig.api.principal) as port:
        monkeypatch.setenv("HOLDFAST_API_ENDPOINT", f"http://127.0.0.1:{port}")
        yield rig
        rig.stop()


def holdfast(*words: str, answer: str = "", code: int = 0) -> str:
    """What the command prints. Whenever it calls the emulated cloud it says so on stderr."""
    result: Result = CliRunner().invoke(app, list(words), input=answer)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == code, result.output
    assert "this is the emulated cloud at http://127.0.0.1:" in result.stderr
    return str(result.stdout)


def test_submit_watches_a_preempted_run_to_its_end(rig: Rig) -> None:
    rig.make_job({"HOLD": "3"})
    rig.start(AtSteps((3,)))
    told = holdfast("submit", "cloud-run", "--watch", *EVERY)
    name = rig.backend.runs(1)[0].name
    assert f"started {name}: 1 task(s), run id {JOB}" in told
    for words in (f"holdfast cancel {name} --stack dev-cloud-run", f"/executions/details/us-central1/{name}/tasks"):
        assert words in told
    seen = [
        told.index(words) for words in ("due to underlying hardware maintenance", "sigterm", "resumed", "succeeded:")
    ]
    assert seen == sorted(seen)
    assert "task 0: step 6 of 6, saved at 6" in told
    listed = holdfast("runs")
    assert re.search(rf"{name} .* succeeded .* {JOB} .* 1 .* 2 .* 6 ", listed)


def test_watch_ends_with_1_when_retries_are_used_up(rig: Rig) -> None:
    rig.make_job({"FAIL": "3"}, max_retries=0)
    rig.start()
    told = holdfast("submit", "cloud-run", "--set", "HOLDFAST_STEPS=5", "--watch", *EVERY, code=1)
    assert "task 0: the checkpoint is at step 2" in told
    again = "holdfast submit cloud-run --set HOLDFAST_STEPS=5 --stack dev-cloud-run"
    assert f"`{again}` resumes from the checkpoints" in told


def test_logs_are_in_order_and_can_be_narrowed(rig: Rig) -> None:
    rig.make_job(tasks=2)
    rig.start()
    holdfast("submit", "cloud-run", "--watch", *EVERY)
    entries = [json.loads(line) for line in holdfast("logs", "--json").splitlines()]
    assert [entry["timestamp"] for entry in entries] == sorted(entry["timestamp"] for entry in entries)
    steps = [entry["jsonPayload"]["step"] for entry in entries if entry["jsonPayload"]["event"] == "step"]
    assert sorted(steps) == sorted([1, 2, 3, 4, 5, 6] * 2)
    assert {line.split()[2] for line in holdfast("logs", "--task", "1").splitlines()} == {"1"}
    assert holdfast("logs", "--follow", *EVERY).count(" done") == 2
    assert holdfast("logs", "--severity", "error") == ""


def test_cancel_asks_and_says_what_happens(rig: Rig) -> None:
    rig.make_job({"HOLD": "3"})
    rig.start()
    holdfast("submit", "cloud-run")
    rig.logged("saved")
    assert "[y/N]" in holdfast("cancel", answer="n\n", code=1)
    assert rig.backend.runs(1)[0].active
    told = holdfast("cancel", "--yes")
    assert "Its tasks get SIGTERM" in told
    assert "was cancelled" in holdfast("watch", *EVERY, code=1)
    with pytest.raises(OperatorError, match="is over already: cancelled"):
        holdfast("cancel", "--yes")


def test_ctrl_c_ends_the_watching_only(rig: Rig) -> None:
    rig.make_job({"HOLD": "3"})
    rig.start()
    run = rig.backend.submit(Order())
    command = [sys.executable, "-m", "holdfast.cli", "watch", *EVERY]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=os.environ) as watch:
        try:
            assert watch.stdout is not None
            assert any("saved" in line for line in watch.stdout), "it follows"
            watch.send_signal(signal.SIGINT)
            _, said = watch.communicate(timeout=20)
        finally:
            watch.kill()
    assert (watch.returncode, f"{run.name} goes on. `holdfast watch {run.name}" in said) == (130, True)
    assert "everything it started was ended" not in said
    assert rig.backend.run(run.name).state == "running"
    rig.backend.cancel(run)
    assert rig.follow(rig.backend.run(run.name))[0].state == "cancelled"


def test_a_stack_without_a_job_is_refused(rig: Rig) -> None:
    with pytest.raises(OperatorError, match=r"dev-foundation \(foundation\) runs no job; .*cloud-run"):
        holdfast("watch", "--stack", "dev-foundation")
    with pytest.raises(OperatorError, match="no-such is no stack of this checkout, which has dev-cloud-run"):
        holdfast("watch", "--stack", "no-such")


def test_preflight_prints_a_table_or_json_and_ends_with_its_code(rig: Rig) -> None:
    told = holdfast("preflight", "dev-cloud-run", code=1)
    assert re.search(r"foundation .* failed .* there is no bucket", told)
    report = json.loads(holdfast("preflight", "dev-cloud-run", "--json", "--skip", "billing", code=1))
    assert [check["status"] for check in report["checks"] if check["name"] == "image"] == ["failed"]
    assert (report["principal"], report["skipped"]) == (rig.api.principal, ["billing"])
