"""Jobs of Slurm as runs, their output read from afar, and the commands as they are typed.

The service's answers are made up; tests/planes has all of it on a real Slurm.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from google.auth import credentials as auth
from typer.testing import CliRunner

from holdfast import slurm_login, stackfile
from holdfast.cli import app
from holdfast.errors import OperatorError
from holdfast.gcp.api import CloudError
from holdfast.gcp.google import GoogleApi
from holdfast.runs import verbs
from holdfast.runs.backend import Selection
from holdfast.runs.slurm import Slurm
from holdfast.runs.slurm_job import SlurmOrder
from holdfast.slurm_login import LOGIN, Login
from infra import catalog
from mockgcp.clock import Clock
from mockgcp.cloud import Cloud
from mockgcp.frontends.rest import serve
from stacks.slurm_config import SlurmConfig

CONFIG, TARGET = stackfile.read(SlurmConfig, "dev-slurm")
CLUSTER = "projects/holdfast-dev/locations/us-central1/modelDevelopmentClusters/flexvm"
CALL = "aiplatform.projects.locations.modelDevelopmentClusters.callSlurmRestApi"
T0 = 1_796_000_000


def number(value: int) -> dict[str, Any]:
    return {"set": True, "infinite": False, "number": value}


def job(job_id: int, *states: str, **fields: Any) -> dict[str, Any]:
    return {
        "job_id": job_id,
        "name": "llm",
        "comment": "holdfast run id first",
        "user_name": "ada",
        "account": "research",
        "partition": "a3u",
        "job_state": list(states),
        "state_reason": "None",
        "priority": number(100),
        "restart_cnt": 0,
        "submit_time": number(T0 + job_id),
        "end_time": number(T0 + 900),
        "time_limit": number(720),
        "nodes": "",
        "standard_output": "/home/%u/%x-%j.out",
        "exit_code": {"return_code": number(0), "signal": {"id": {"set": False, "number": 0}}},
        **fields,
    }


class FakeService:
    """Slurm behind the service. `refuses`: what a submission is answered."""

    def __init__(self, *jobs: dict[str, Any]) -> None:
        self.jobs = {each["job_id"]: each for each in jobs}
        self.asked: list[tuple[str, str, Any]] = []
        self.refuses: tuple[int, str] | None = None

    def call(self, method_id: str, params: Any = None, body: Any = None, media: bytes | None = None) -> dict[str, Any]:
        assert (method_id, params) == (CALL, {"name": CLUSTER})
        method, path = body["method"].removeprefix("HTTP_METHOD_"), body["path"].removeprefix("/slurm/v0.0.42/")
        self.asked.append((method, path, body.get("body")))
        status, said = self._answer(method, path)
        return {"status": status, "body": json.dumps({"errors": [], **said})}

    def _answer(self, method: str, path: str) -> tuple[int, Mapping[str, Any]]:
        if path == "job/submit":
            if self.refuses:
                return self.refuses[0], {"errors": [{"description": self.refuses[1]}]}
            self.jobs[9] = job(9, "PENDING")
            return 200, {"job_id": 9}
        if path == "jobs/":
            return 200, {"jobs": list(self.jobs.values())}
        found = self.jobs.get(int(path.rpartition("/")[2]))
        if found is None:
            return 404, {"errors": [{"description": "Invalid job id specified"}]}
        return 200, {"jobs": [found]} if method == "GET" else {}


def unreachable(argv: Sequence[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.CompletedProcess(argv, 255, "", "ssh: no route")


def here(argv: Sequence[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(argv, capture_output=True, encoding="utf-8", errors="replace", check=False)


def backend(service: FakeService, execute: slurm_login.Execute = unreachable) -> Slurm:
    return Slurm(service, CLUSTER, CONFIG, TARGET, Login(execute), "dev-slurm")


@pytest.mark.parametrize(
    ("states", "fields", "state", "said"),
    [
        (["PENDING"], {"state_reason": "Resources"}, "pending", "waits (Resources): its nodes are busy, or are being"),
        (["PENDING"], {"state_reason": "Odd"}, "pending", "waits: Odd"),
        (["CONFIGURING"], {}, "pending", "waits (None)"),
        (["RUNNING"], {"nodes": "n-[0-1]"}, "running", "on n-[0-1], 720 min at most before it is requeued"),
        (["COMPLETING"], {"nodes": "n-0", "time_limit": {"set": False, "infinite": True}}, "running", "on n-0"),
        (["COMPLETED"], {}, "succeeded", ""),
        (["CANCELLED", "COMPLETING"], {}, "cancelled", "CANCELLED+COMPLETING"),
        (
            ["FAILED"],
            {"exit_code": {"return_code": number(2)}, "state_reason": "NonZeroExitCode"},
            "failed",
            "FAILED, e",
        ),
        (["OUT_OF_MEMORY"], {"exit_code": {"signal": {"id": number(9)}}}, "failed", "OUT_OF_MEMORY, signal 9"),
        (["NODE_FAIL"], {}, "failed", "NODE_FAIL"),
    ],
)
def test_a_job_is_a_run(states: list[str], fields: dict[str, Any], state: str, said: str) -> None:
    run = backend(FakeService(job(7, *states, **fields))).run("7")
    assert (run.name, run.run_id, run.state) == ("7", "first", state)
    assert run.created == datetime.fromtimestamp(T0 + 7, UTC)
    assert (run.doing or run.message).startswith(said)
    assert bool(run.facts) is run.active is (run.ended is None)


def test_a_waiting_job_has_its_place_and_its_factors() -> None:
    others = [job(1, "PENDING", priority=number(500)), job(2, "PENDING", priority=number(1)), job(3, "RUNNING")]
    service = FakeService(job(7, "PENDING", restart_cnt=2), *others, job(4, "PENDING", partition="b"))
    asked: list[Sequence[str]] = []

    def execute(argv: Sequence[str]) -> subprocess.CompletedProcess[str]:
        asked.append(argv)
        return subprocess.CompletedProcess(argv, 0, "age=90 fair-share=10 size=0 TRES= nice=0\n", "")

    facts = dict(backend(service, execute).run("7").facts)
    assert facts["queue"] == "1 of 3 jobs that wait in a3u have a higher priority"
    assert facts["priority"] == "100 (age 90, fair-share 10, size 0, nice 0)"
    assert (facts["user"], facts["restarts"], facts["output"]) == ("research/ada", "2", "/home/ada/llm-7.out")
    assert list(asked[0][:4]) == ["sprio", "-h", "-j", "7"]


def test_without_a_login_node_the_priority_is_told_alone_and_it_is_asked_once() -> None:
    asked = []
    slurm = backend(FakeService(job(7, "PENDING")), lambda argv: asked.append(argv) or unreachable(argv))
    assert [dict(slurm.run("7").facts)["priority"] for _ in range(3)] == ["100"] * 3
    assert len(asked) == 1


def test_without_a_login_node_runs_are_listed_without_their_steps() -> None:
    slurm = backend(FakeService(job(7, "RUNNING")))
    assert [slurm.last_step(run) for run in slurm.runs()] == [None]


def test_runs_are_ours_newest_first() -> None:
    service = FakeService(job(1, "COMPLETED"), job(2, "RUNNING", comment="", name="other"), job(3, "PENDING"))
    assert [run.name for run in backend(service).runs()] == ["3", "1"]
    assert [run.name for run in backend(service).runs(1)] == ["3"]


def test_a_job_is_submitted_and_cancelled() -> None:
    service = FakeService()
    run = verbs.submit(backend(service), SlurmOrder("first"), pytest.fail)
    assert (run.name, run.state) == ("9", "pending")
    ((_, _, body),) = [each for each in service.asked if each[1] == "job/submit"]
    assert body["script"].startswith("#!/bin/bash\n#SBATCH --job-name=first\n")
    backend(service).cancel(run)
    assert service.asked[-1] == ("DELETE", "job/9", None)


def test_a_run_id_that_is_active_is_refused_and_an_old_one_told() -> None:
    with pytest.raises(OperatorError, match=r"7 is running on run id 'first'.*watch 7 --stack dev-slurm"):
        verbs.submit(backend(FakeService(job(7, "RUNNING"))), SlurmOrder("first"), pytest.fail)
    said: list[str] = []
    verbs.submit(backend(FakeService(job(7, "FAILED"))), SlurmOrder("first"), said.append)
    assert "resumes from its latest checkpoint" in said[0]


@pytest.mark.parametrize("status", [400, 500])
def test_what_slurm_refuses_was_not_started(status: int) -> None:
    service = FakeService()
    service.refuses = (status, "Invalid account or account/partition combination specified")
    with pytest.raises(CloudError, match=r"job/submit: INVALID_ARGUMENT: Invalid account"):
        verbs.submit(backend(service), SlurmOrder("first"), pytest.fail)


@pytest.mark.parametrize(("name", "why"), [("70", r"knows no job 70.*usage --job 70"), ("llm", "named by its number")])
def test_a_job_that_is_not_there(name: str, why: str) -> None:
    with pytest.raises(OperatorError, match=why):
        backend(FakeService()).run(name)


def event(kind: str, step: int, **fields: Any) -> str:
    at = {"time": f"2026-11-29T20:00:{step:02}Z", "severity": "INFO", "message": f"{kind} {step}"}
    return json.dumps({**at, "event": kind, "step": step, "attempt": 0, "task_index": 0, **fields}) + "\n"


def test_the_output_is_read_on_line_by_line(tmp_path: Path) -> None:
    file = tmp_path / "it's.out"
    service = FakeService(job(7, "RUNNING", standard_output=str(file)))
    slurm = backend(service, here)
    log = slurm.log(slurm.run("7"), Selection())
    assert log.read() == []  # not there yet
    file.write_bytes("Grüße \xff\n".encode("latin-1") + event("step", 1).encode() + b'{"half')
    assert [line.message for line in log.read()] == ["Gr\ufffd\ufffde \ufffd", "step 1"]
    with file.open("a") as out:
        out.write('": 1}\n')
        out.write("slurmstepd-n-0: error: *** JOB 7 ON n-0 CANCELLED AT 2026-11-29T20:00:02 DUE TO PREEMPTION ***\n")
        out.write(event("resumed", 1, from_step=1, attempt=1) + "last words")
    half, taken, resumed = log.read()
    assert (half.message, half.source, half.time) == (
        '{"half": 1}',
        "task",
        datetime(2026, 11, 29, 20, 0, 1, tzinfo=UTC),
    )
    assert (taken.source, taken.severity, taken.preemption, taken.attempt) == ("platform", "WARNING", True, 0)
    assert (resumed.event, resumed.attempt, resumed.task) == ("resumed", 1, 0)
    assert slurm.last_step(slurm.run("7")) == 1
    # What has no end of line is a line when the job is over.
    service.jobs[7]["job_state"] = ["FAILED"]
    assert slurm.log(slurm.run("7"), Selection()).read()[-1].message == "last words"


def test_a_selection(tmp_path: Path) -> None:
    file = tmp_path / "out"
    file.write_text(event("step", 1) + event("saved", 2, severity="WARNING") + event("step", 3))
    slurm = backend(FakeService(job(7, "RUNNING", standard_output=str(file))), here)
    run = slurm.run("7")
    assert [line.event for line in slurm.log(run, Selection(severity="WARNING")).read()] == ["saved"]
    since = datetime(2026, 11, 29, 20, 0, 2, tzinfo=UTC)
    assert [line.event for line in slurm.log(run, Selection(since=since)).read()] == ["saved", "step"]
    with pytest.raises(OperatorError, match="has task 0 alone"):
        slurm.log(run, Selection(task=1)).read()


def test_an_output_that_cannot_be_looked_at_is_not_taken_for_none(tmp_path: Path) -> None:
    slurm = backend(FakeService(job(7, "RUNNING", standard_output=str(tmp_path / "gone" / "out"))), here)
    with pytest.raises(OperatorError, match="on the login node"):
        slurm.log(slurm.run("7"), Selection()).read()


def test_google_is_called_in_the_clusters_region_by_a_document_that_has_the_method() -> None:
    api = GoogleApi("holdfast-dev", catalog.universe("s3nsapis.fr"), auth.AnonymousCredentials())
    service = api._service("aiplatform", "v1beta1", "us-central1")
    assert service._baseUrl == "https://us-central1-aiplatform.s3nsapis.fr/"


def test_the_commands_reach_an_emulated_cloud(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cloud = Cloud(clock=Clock.wall(), state_dir=tmp_path)
    cloud.seed_project("holdfast-dev").services.add("aiplatform.googleapis.com")
    with serve(cloud) as port:
        monkeypatch.setenv("HOLDFAST_API_ENDPOINT", f"http://127.0.0.1:{port}")
        for words in (["runs"], ["submit", "slurm", "llm"], ["watch", "7"]):
            done = CliRunner().invoke(app, [*words, "--stack", "dev-slurm"])
            assert isinstance(done.exception, CloudError)
            assert done.exception.status == "NOT_FOUND", done.exception
            assert "flexvm" in str(done.exception)


def test_a_dry_run_prints_the_script_and_warns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_API_ENDPOINT", "http://127.0.0.1:1")
    done = CliRunner().invoke(app, ["submit", "slurm", "llm", "--nodes", "2", "--time", "8-0", "--dry-run"])
    assert done.exit_code == 0
    assert done.stdout.startswith("#!/bin/bash\n#SBATCH --job-name=llm\n")
    assert "--time 8-0 is all that a node has, or more" in done.stderr


@pytest.mark.parametrize(
    ("way", "why"),
    [
        ("", "cannot be logged in to.*HOLDFAST_LOGIN"),
        ("no-such-program x", "no-such-program, which logs in to the cluster, is not on PATH"),
        ("false", "sacctmgr.*exit code 1"),
    ],
)
def test_without_a_way_to_the_login_node(monkeypatch: pytest.MonkeyPatch, way: str, why: str) -> None:
    monkeypatch.setenv("HOLDFAST_API_ENDPOINT", "http://127.0.0.1:1")
    monkeypatch.setenv(LOGIN, way)
    done = CliRunner().invoke(app, ["accounting", "--dry-run"])
    assert isinstance(done.exception, OperatorError)
    assert re.search(why, str(done.exception), re.DOTALL), done.exception


def test_gcloud_is_called_through_iap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(LOGIN, raising=False)
    monkeypatch.delenv("HOLDFAST_API_ENDPOINT", raising=False)
    gcloud = tmp_path / "gcloud"
    gcloud.write_text('#!/bin/sh\nfor each; do echo "$each"; done\n')
    gcloud.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    said = slurm_login.login(CONFIG, TARGET).run("sacctmgr", "it's", admin=True).splitlines()
    assert said[:3] == ["compute", "ssh", "flexvm-login-0"]
    assert said[-3:] == ["--tunnel-through-iap", "--quiet", """--command=sudo -n sacctmgr 'it'"'"'s'"""]


ROWS = {
    "qos": "normal|0|00:00:00|||",
    "account": "root|default\nresearch|research",
    "assoc": "root|||||normal|\nroot|root|||1|normal|\nresearch|||root|3|normal|\nresearch|ada|||1|normal|",
    "user": "root|root\nada|research",
}


def test_accounting_shows_what_it_would_change_and_changes_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file, fake = tmp_path / "accounts.yaml", tmp_path / "login.py"
    file.write_text("accounts: {research: {shares: 3}}\nusers: [{name: ada, account: research, shares: 2}]\n")
    fake.write_text(
        f"import pathlib, shlex, sys\nwords = shlex.split(sys.argv[1])\n"
        f"print({ROWS!r}[words[5]] if 'show' in words else '')\n"
        f"if 'show' not in words: pathlib.Path({str(tmp_path / 'done')!r}).open('a').write(sys.argv[1] + chr(10))\n"
    )
    monkeypatch.setenv(LOGIN, f"{sys.executable} {fake}")
    asked = ["accounting", "--file", str(file)]
    dry = CliRunner().invoke(app, [*asked, "--dry-run"])
    assert dry.stdout == "~ user ada in account research: Fairshare 1 -> 2\n1 change(s), none made\n"
    assert not (tmp_path / "done").exists()
    done = CliRunner().invoke(app, [*asked, "--yes"])
    assert done.exit_code == 0, done.output
    assert (tmp_path / "done").read_text() == (
        "sudo -n sacctmgr -i modify user where name=ada account=research partition= set Fairshare=2\n"
    )
