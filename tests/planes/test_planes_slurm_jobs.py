"""The operator's commands on a real Slurm: jobs that are preempted, cancelled or out of time, accounting and usage."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from slurm_rig import NAME, Slurm, scenario, started, until

from holdfast import slurm_accounting, slurm_usage, stackfile
from holdfast.planes import slurm as recipe
from holdfast.runs import slurm as runs
from holdfast.runs import slurm_job, verbs
from holdfast.runs.backend import LogLine, Run, Selection
from holdfast.runs.slurm_job import SlurmOrder
from holdfast.slurm_login import Login
from stacks.slurm_config import Partition, Pool, SlurmConfig

pytestmark = pytest.mark.planes

CHECKS = Path(__file__).parents[2] / "workloads" / "slurm"
PARTITIONS = {
    "a3u": {"PriorityTier": "1"},
    "grace": {"PriorityTier": "1", "GraceTime": "20"},
    "high": {"PriorityTier": "10", "PreemptMode": "OFF"},
}
# As the trainer does: a step, at SIGTERM a checkpoint and 143, and later on from there.
PROGRAM = """#!/bin/bash
saved="$CHECKPOINT_DIR/$CLOUD_RUN_JOB/$HOLDFAST_RUN_ID/0-$HOLDFAST_PROCESS_ID"
line='{"event": "%s", "step": %s, "attempt": %s, "message": "%s"}'
say() { printf "$line\\n" "$1" "$2" "$CLOUD_RUN_TASK_ATTEMPT" "$*"; }
stop() { sleep 0.5; mkdir -p "${saved%/*}"; echo 3 >"$saved"; say saved 3; exit 143; }
trap stop TERM
say start 0 "$HOLDFAST_PROCESS_ID of $HOLDFAST_PROCESS_COUNT by $HOLDFAST_COORDINATOR"
[ -e "$saved" ] && { say done "$(cat "$saved")"; exit 0; }
say step 3
for _ in $(seq 1200); do sleep 0.1; done
"""


@dataclass(frozen=True)
class Service:
    """The service, as far as it passes a request on."""

    slurm: Slurm

    def call(self, method_id: str, params: Any = None, body: Any = None, media: bytes | None = None) -> dict[str, Any]:
        method = body["method"].removeprefix("HTTP_METHOD_")
        answer = self.slurm.plane.rest(NAME, method, body["path"], body.get("body"), "user:ada@example.com")
        return {"status": answer.status, "body": json.dumps(answer.body)}


@pytest.fixture(scope="module")
def slurm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Slurm]:
    can = recipe.availability()
    if not can.usable:
        pytest.skip(f"{can.why}; {can.how}")
    programs = recipe.find()
    assert programs is not None
    stored = scenario()
    spec = stored["orchestratorSpec"]["slurmSpec"]
    stored["nodePools"] = [pool for pool in stored["nodePools"] if pool["id"] != "dyn"]
    spec["partitions"] = [{"id": each, "nodePoolIds": ["a3u"], "config": keys} for each, keys in PARTITIONS.items()]
    spec["config"]["PreemptExemptTime"] = "00:00:01"
    checks = [path.read_text() for path in sorted(CHECKS.glob("*.sh"))]
    spec["prologBashScripts"], spec["epilogBashScripts"] = checks, checks
    with started(programs, tmp_path_factory.mktemp("slurm"), stored) as running:
        program = running.home / "program"
        program.write_text(PROGRAM)
        program.chmod(0o755)
        yield running


@pytest.fixture(scope="module")
def login(slurm: Slurm) -> Login:
    return Login(lambda argv: slurm.plane.run(NAME, argv, timeout_s=60), sudo=False)


@pytest.fixture(scope="module")
def backend(slurm: Slurm, login: Login) -> runs.Slurm:
    config = SlurmConfig(
        pools=(Pool(id="login", machine="n2-standard-8"), Pool(id="a3u", machine="a3-ultragpu-8g", max_nodes=2)),
        partitions=tuple(Partition(id=each, pools=["a3u"], config=keys) for each, keys in PARTITIONS.items()),
    )
    target = stackfile.read(SlurmConfig, "dev-slurm")[1]
    return runs.Slurm(Service(slurm), NAME, config, target, login, "dev-slurm")


def start(backend: runs.Slurm, name: str, **fields: Any) -> Run:
    """A job of two processes whose program runs."""
    run = verbs.submit(backend, SlurmOrder(name, program="/home/program", nodes=2, **fields), pytest.fail)
    until(lambda: "step" in events(backend, run), lambda: backend.run(run.name))
    return backend.run(run.name)


def events(backend: runs.Slurm, run: Run) -> list[str]:
    return [line.event for line in backend.log(run, Selection()).read() if line.event]


def followed(backend: runs.Slurm, run: Run) -> tuple[Run, list[LogLine]]:
    lines: list[LogLine] = []
    log = backend.log(run, Selection())
    return verbs.follow(backend, run, log, lambda _, new: lines.extend(new), poll_s=0.5, limit_s=90), lines


@pytest.mark.parametrize("partition", ["a3u", "grace"])
def test_a_preempted_job_saves_and_goes_on(slurm: Slurm, backend: runs.Slurm, partition: str) -> None:
    run = start(backend, f"preempted-{partition}", partition=partition)
    slurm.submit("true", "-p", "high", "-N2", "--gres=gpu:8", "-o", "/dev/null", user="bob")
    over, lines = followed(backend, run)
    assert (over.state, over.retries) == ("succeeded", 1)
    told = [(line.event, line.attempt) for line in lines if line.event in ("saved", "done")]
    assert told == [("saved", 0)] * 2 + [("done", 1)] * 2
    first = [line.message for line in lines if line.event == "start"]
    assert sorted(first)[0] == f"start 0 0 of 2 by flexvm-a3u-0:{20000 + int(run.name)}"
    assert backend.last_step(over) == 3


def test_a_job_whose_time_is_over_saves_and_is_requeued(backend: runs.Slurm, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slurm_job, "LEAD_S", 50)
    over, lines = followed(backend, start(backend, "limit", time="1"))
    assert (over.state, over.retries) == ("succeeded", 1)
    assert "holdfast: exit code 143: the job is requeued" in [line.message for line in lines]


def test_a_cancelled_job_saves_and_stays_cancelled(slurm: Slurm, backend: runs.Slurm) -> None:
    run = start(backend, "cancelled")
    backend.cancel(run)
    over, lines = followed(backend, run)
    assert (over.state, over.retries) == ("cancelled", 0)
    assert [line.event for line in lines].count("saved") == 2
    slurm.until_node("flexvm-a3u-0", "IDLE ")
    assert backend.run(run.name).state == "cancelled"
    # Another job of the run id goes on from there.
    said: list[str] = []
    again = verbs.submit(backend, SlurmOrder("cancelled", program="/home/program", nodes=2), said.append)
    assert "resumes from its latest checkpoint" in said[0]
    assert followed(backend, again)[0].state == "succeeded"
    assert [each.name for each in backend.runs()][:2] == [again.name, run.name]


def test_a_waiting_job_says_why(slurm: Slurm, backend: runs.Slurm) -> None:
    busy = slurm.submit("sleep 300", "-N2", "--gres=gpu:8", "-o", "/dev/null")
    slurm.until_job(busy, "RUNNING")
    run = verbs.submit(backend, SlurmOrder("waits", program="/home/program"), pytest.fail)
    try:
        until(lambda: "Resources" in backend.run(run.name).doing, lambda: backend.run(run.name))
        facts = dict(backend.run(run.name).facts)
        assert facts["queue"] == "0 of 1 jobs that wait in a3u have a higher priority"
        assert re.fullmatch(r"\d+ \(age \d+, fair-share \d+, .*\)", facts["priority"]), facts
    finally:
        slurm.ask("scancel", busy, run.name)


def test_accounting_is_what_the_file_says_and_a_second_time_nothing_changes(
    slurm: Slurm, login: Login, tmp_path: Path
) -> None:
    file = tmp_path / "accounts.yaml"

    def made(text: str, **options: bool) -> list[str]:
        file.write_text(text)
        wanted = slurm_accounting.read(file)
        changes = slurm_accounting.plan(wanted, slurm_accounting.look(login, "flexvm"), **options)
        slurm_accounting.apply(login, changes)
        assert slurm_accounting.plan(wanted, slurm_accounting.look(login, "flexvm"), **options) == []
        return [str(each) for each in changes]

    users = "users: [{name: ada, account: research}, {name: bob, account: research}, {name: eve, account: research}"
    first = (
        "qos:\n"
        "  fast: {priority: 5, graceS: 90, preempts: [normal], maxWall: '1-00:00:00', maxTresPerUser: 'gres/gpu=8'}\n"
        "accounts:\n"
        "  research: {shares: 3, qos: [normal, fast], maxTres: 'gres/gpu=16,cpu=64'}\n"
        "  team: {parent: research}\n"
        f"{users}, {{name: zoe, account: team, partition: high}}, {{name: ada, account: team, default: true}}]\n"
    )
    assert len(made(first)) > 5
    assert slurm.plane.run(NAME, ["sbatch", "-p", "a3u", "--wrap=true"], user="zoe").returncode
    slurm.until_job(slurm.submit("true", "-p", "high", "-o", "/dev/null", user="zoe"), "COMPLETED")
    changed = made(first.replace("shares: 3", "shares: 4").replace("graceS: 90, preempts: [normal], ", ""))
    assert changed == [
        "~ qos fast: GraceTime 90 -> 0, Preempt normal -> unset",
        "~ account research: Fairshare 3 -> 4",
    ]
    removed = made(
        f"accounts: {{research: {{}}}}\n{users}]\n".replace("account: research}", "account: research, default: true}"),
        remove=True,
    )
    assert [each for each in removed if each.startswith("-")] == [
        "- user ada in account team",
        "- user zoe in account team, partition high",
        "- account team",
        "- qos fast",
    ]


def test_usage_adds_up_the_runs_of_a_job(backend: runs.Slurm, login: Login) -> None:
    preempted = next(run for run in backend.runs() if run.run_id == "preempted-a3u")

    def both() -> list[slurm_usage.Usage]:
        found = slurm_usage.look(login, job=preempted.name)
        return found if found and found[0].runs == 2 else []

    (used,) = until(both)
    assert (used.user, used.account, used.partition, used.name) == ("ada", "research", "a3u", "preempted-a3u")
    assert (used.state, used.gpu_s) == ("COMPLETED", used.elapsed_s * 16)
    sums = slurm_usage.by_user(slurm_usage.look(login, user="ada", since="1h"))
    assert sums[0].user == "ada"
    assert sums[0].gpu_s >= used.gpu_s


def test_the_health_checks_ran_and_drained_nothing(slurm: Slurm) -> None:
    assert slurm.plane.status(NAME).events == []
