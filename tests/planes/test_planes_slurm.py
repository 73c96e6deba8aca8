"""A real Slurm behind a training cluster: nodes that expire, fail and come back, checks, updates, preemption."""

from __future__ import annotations

import concurrent.futures
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from slurm_rig import NAME, USERS, Slurm, pool, started, until

from holdfast.planes import slurm as recipe
from mockgcp.clock import Clock
from mockgcp.planes.slurm import SlurmPlane
from mockgcp.planes.slurm_.times import QUICK

pytestmark = pytest.mark.planes

A, B = "flexvm-a3u-0", "flexvm-a3u-1"
RUNS = "echo run ${SLURM_RESTART_COUNT:-0} on $(hostname)"
# It ends by itself only when it was requeued.
LONG = f'{RUNS}; [ -n "$SLURM_RESTART_COUNT" ] || sleep 300'
APPEND = ("--open-mode=append", "--requeue")


@pytest.fixture(scope="module")
def programs() -> Any:
    can = recipe.availability()
    if not can.usable:
        pytest.skip(f"{can.why}; {can.how}")
    return recipe.find()


@pytest.fixture(scope="module")
def slurm(programs: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Slurm]:
    with started(programs, tmp_path_factory.mktemp("slurm")) as running:
        (running.home / "bad").mkdir()
        yield running


@pytest.fixture(scope="module")
def dynamic(slurm: Slurm) -> Iterator[concurrent.futures.Future[dict[str, Any]]]:
    """What becomes of a job on dynamic nodes; it takes most of a minute, beside the other tests.

    slurmctld looks every 30 s only whether a node that it powered up is ready for a job.
    """

    def story() -> dict[str, Any]:
        job = slurm.submit(LONG, "-p", "dyn", "-o", "/home/eve/dyn", *APPEND, user="eve")
        slurm.until_text("eve/dyn", "run 0")
        node = slurm.job(job)["NodeList"]
        slurm.cluster.nodes.expire(node)
        after = slurm.until_job(job, "COMPLETED", 90)
        names = [f"flexvm-dyn-{index}" for index in (0, 1)]
        down = [slurm.until_node(each, r"IDLE\+CLOUD\+POWERED_DOWN") for each in names]
        return {"job": after, "text": (slurm.home / "eve/dyn").read_text(), "first": node, "down": down}

    with concurrent.futures.ThreadPoolExecutor(1) as background:
        yield background.submit(story)


@pytest.fixture(autouse=True)
def clean(slurm: Slurm, dynamic: object) -> Iterator[None]:
    yield
    for user in USERS[:2]:
        slurm.ask("scancel", "-u", user)
    for file in (slurm.home / "bad").iterdir():
        file.unlink()
    for node in (A, B):
        if "DRAIN" in slurm.node(node):
            slurm.ask("scontrol", "update", f"nodename={node}", "state=resume")
        slurm.until_node(node, r"IDLE ")


def test_it_is_up_in_time(slurm: Slurm) -> None:
    assert slurm.up_s < 15
    assert slurm.ask("scontrol", "ping").startswith("Slurmctld(primary) at flexvm-controller is UP")
    assert slurm.cluster.notices == ("MaxBatchRequeue is left out: the plane's Slurm is 22.05, which does not know it",)


def test_a_job_runs_on_two_nodes_with_gpus_a_home_and_prologs_in_order(slurm: Slurm) -> None:
    script = "srun bash -c 'echo $(hostname) $CUDA_VISIBLE_DEVICES >>/home/ada/seen-$SLURM_PROCID'; id -un; pwd"
    job = slurm.submit(script, "-N2", "--gres=gpu:8", "-o", "job-%j")
    done = slurm.until_job(job, "COMPLETED")
    assert done["Partition"] == "a3u"  # the default one
    assert (slurm.home / f"ada/job-{job}").read_text() == "ada\n/home/ada\n"
    assert [(slurm.home / f"ada/seen-{rank}").read_text() for rank in (0, 1)] == [
        f"{node} 0,1,2,3,4,5,6,7\n" for node in (A, B)
    ]
    lines = [line.split() for line in (slurm.home / "prologs").read_text().splitlines()]
    for node in (A, B):
        assert [which for of, which, where in lines if (of, where) == (job, node)] == ["one", "two"]
    until(lambda: "COMPLETED" in slurm.ask("sacct", "-nX", "-j", job, "-o", "state"))


def test_an_expired_static_node_is_made_again_and_its_job_runs_again(slurm: Slurm) -> None:
    job = slurm.submit(LONG, "-o", "expired", *APPEND)
    slurm.until_text("ada/expired", "run 0")
    node = slurm.job(job)["NodeList"]
    made = {each.name: each.created for each in slurm.plane.status(NAME).nodes}[node]
    slurm.cluster.nodes.expire(node)
    assert slurm.until_job(job, "COMPLETED")["Restarts"] == "1"
    assert "run 1" in (slurm.home / "ada/expired").read_text()
    again = {each.name: each for each in slurm.plane.status(NAME).nodes}[node]
    assert (again.state, again.created > made) == ("RUNNING", True)
    assert ("VM_DELETION", f"{node}: its maximum duration is over") in events(slurm)
    # Whether or not a job waits:
    slurm.cluster.nodes.expire(B)
    slurm.until_node(B, "DOWN")
    slurm.until_node(B, "IDLE ")


def test_a_node_reported_faulty_is_repaired_and_its_job_runs_again(slurm: Slurm) -> None:
    job = slurm.submit(LONG, "-w", A, "-o", "fault", *APPEND)
    slurm.until_text("ada/fault", "run 0")
    slurm.plane.report_faulty(NAME, A, [{"behavior": "UNRECOVERABLE_GPU_ERROR"}], host=True)
    assert {each.name: each.state for each in slurm.plane.status(NAME).nodes}[A] == "UPDATING"
    assert slurm.until_job(job, "COMPLETED")["Restarts"] == "1"
    assert any(
        kind == "VM_REPORT_AND_REPLACEMENT" and "UNRECOVERABLE_GPU_ERROR" in said for kind, said in events(slurm)
    )
    with pytest.raises(RuntimeError, match="flexvm-a3u-9 is not there"):
        slurm.plane.report_faulty(NAME, "flexvm-a3u-9", [], host=False)


def test_a_failing_prolog_drains_the_node_and_the_job_runs_elsewhere(slurm: Slurm) -> None:
    (slurm.home / "bad" / f"prolog-{A}").touch()
    jobs = [slurm.submit(RUNS, "--exclusive", "-o", "/dev/null") for _ in range(2)]
    done = [slurm.until_job(job, "COMPLETED") for job in jobs]
    assert [job["NodeList"] for job in done] == [B, B]
    assert sorted(job["Restarts"] for job in done) == ["0", "1"]
    assert "DRAIN Prolog error" in slurm.node(A)
    until(lambda: {"VM_PROLOG_ERROR", "VM_SLURM_DRAIN"} <= {kind for kind, _ in events(slurm)})


def test_a_failing_epilog_drains_the_node_and_the_job_is_done(slurm: Slurm) -> None:
    (slurm.home / "bad" / f"epilog-{B}").touch()
    job = slurm.submit("true", "-w", B, "-o", "/dev/null")
    slurm.until_node(B, r"IDLE\+DRAIN Epilog error")
    assert slurm.job(job)["JobState"] == "COMPLETED"
    # A new machine is not to blame for the old one.
    slurm.plane.report_faulty(NAME, B, [], host=False)
    slurm.until_node(B, "IDLE ")


def test_an_update_adds_a_partition_removes_a_key_resizes_a_pool_and_loses_no_job(slurm: Slurm) -> None:
    job = slurm.submit("sleep 6", "-w", A, "-o", "/dev/null")
    slurm.until_job(job, "RUNNING")

    def more(stored: dict[str, Any]) -> None:
        spec = stored["orchestratorSpec"]["slurmSpec"]
        spec["partitions"].append({"id": "extra", "nodePoolIds": ["a3u"]})
        del spec["config"]["PriorityWeightAge"]
        stored["nodePools"][1] = pool("a3u", 3, 3)

    slurm.update(more)
    assert "extra" in slurm.ask("sinfo", "-ho", "%R").split()
    assert "PriorityWeightAge       = 0\n" in slurm.ask("scontrol", "show", "config")
    slurm.until_node("flexvm-a3u-2", "IDLE ")
    assert slurm.until_job(job, "COMPLETED")["Restarts"] == "0"

    moved = slurm.submit(LONG, "-p", "extra", "-x", f"{A},{B}", "-o", "moved", *APPEND)
    slurm.until_text("ada/moved", "run 0 on flexvm-a3u-2")

    def less(stored: dict[str, Any]) -> None:
        stored["nodePools"][1] = pool("a3u", 2, 2)

    slurm.update(less)
    assert "flexvm-a3u-2" not in [each.name for each in slurm.plane.status(NAME).nodes]
    slurm.until_job(moved, "PENDING")


@pytest.mark.parametrize(
    ("where", "key", "value", "why"),
    [
        ("cluster", "PriorityWeightAge", "abc", "is no whole number"),
        ("cluster", "PriorityWeightAgee", "1", "is no key of slurm.conf"),
        # What only slurmctld itself finds out, by ending.
        ("partition", "QOS", "nobody", "slurmctld ended with"),
    ],
)
def test_an_update_that_slurm_refuses_changes_nothing(slurm: Slurm, where: str, key: str, value: str, why: str) -> None:
    job = slurm.submit("sleep 4", "-o", "/dev/null")
    slurm.until_job(job, "RUNNING")

    def wrong(stored: dict[str, Any]) -> None:
        spec = stored["orchestratorSpec"]["slurmSpec"]
        config = spec["config"] if where == "cluster" else spec["partitions"][0]["config"]
        config[key] = value

    with pytest.raises(RuntimeError, match=why):
        slurm.update(wrong)
    assert slurm.until_job(job, "COMPLETED")["Restarts"] == "0"


def test_an_exclusive_job_shares_its_node_with_nobody(slurm: Slurm) -> None:
    alone = slurm.submit("sleep 300", "-p", "alone", "-w", A, "-n1", "-o", "/dev/null")
    slurm.until_job(alone, "RUNNING")
    others = [slurm.submit("sleep 1", "-n1", "-o", "/dev/null") for _ in range(2)]
    assert [slurm.until_job(job, "COMPLETED")["NodeList"] for job in others] == [B, B]
    waits = slurm.submit("true", "-w", A, "-n1", "-o", "/dev/null")
    assert slurm.until_job(waits, "PENDING")["Reason"] in ("None", "Priority", "Resources", "ReqNodeNotAvail")
    slurm.ask("scancel", alone)
    slurm.until_job(waits, "COMPLETED")


def test_a_higher_partition_preempts_after_the_exempt_time(slurm: Slurm) -> None:
    low = slurm.submit(LONG, "-N2", "--gres=gpu:8", "-o", "low", *APPEND)
    slurm.until_text("ada/low", "run 0")
    high = slurm.submit("true", "-p", "high", "-N1", "--gres=gpu:8", "-o", "/dev/null", user="bob")
    assert slurm.until_job(high, "COMPLETED")["Partition"] == "high"
    assert slurm.until_job(low, "COMPLETED")["Restarts"] == "1"
    # What accounting has of the run that was preempted.
    env = {"SLURM_TIME_FORMAT": "%s"}

    def preempted() -> list[list[str]]:
        said = slurm.plane.run(NAME, ["sacct", "-DXnP", "-j", low, "-o", "state,start,end"], env=env).stdout
        return [row for line in said.splitlines() if (row := line.split("|"))[0] == "PREEMPTED"]

    ((_, start, end),) = until(preempted)
    assert int(end) - int(start) >= 5


def test_a_user_without_an_association_is_refused(slurm: Slurm) -> None:
    refused = slurm.plane.run(NAME, ["sbatch", "--wrap=true"], user="mallory")
    assert refused.returncode
    assert "Invalid account or account/partition combination" in refused.stderr
    # One who had been there before the account was made.
    slurm.ask("sacctmgr", "-i", "add", "user", "mallory", "account=research", "partition=high")
    assert slurm.plane.run(NAME, ["sbatch", "-p", "a3u", "--wrap=true"], user="mallory").returncode
    slurm.until_job(slurm.submit("true", "-p", "high", "-o", "/dev/null", user="mallory"), "COMPLETED")


def test_jobs_by_the_rest_api(slurm: Slurm) -> None:
    def call(method: str, path: str, body: dict[str, Any] | None = None) -> tuple[int, Any]:
        answer = slurm.plane.rest(NAME, method, f"/slurm/v0.0.42/{path}", body, "user:bob@example.com")
        return answer.status, answer.body

    job = {
        "name": "by hand",
        "partition": "a3u",
        "current_working_directory": "/home/bob",
        "environment": ["COLOUR=red"],
        "minimum_nodes": 2,
        "tres_per_node": "gres/gpu:8",
        "time_limit": {"set": True, "number": 90},
        "requeue": True,
        "standard_output": "/home/bob/rest",
    }
    # As slurmrestd's, the script's #SBATCH lines say nothing.
    script = "#!/bin/bash\n#SBATCH --partition=high\necho $COLOUR; sleep 300\n"
    status, made = call("POST", "job/submit", {"script": script, "job": job})
    assert (status, made["errors"]) == (200, [])
    slurm.until_text("bob/rest", "red")
    status, got = call("GET", f"job/{made['job_id']}")
    (shown,) = got["jobs"]
    assert (status, shown["job_state"], shown["name"], shown["user_name"]) == (200, ["RUNNING"], "by hand", "bob")
    assert (shown["partition"], shown["nodes"], shown["time_limit"]["number"]) == ("a3u", "flexvm-a3u-[0-1]", 90)
    assert made["job_id"] in [each["job_id"] for each in call("GET", "jobs/")[1]["jobs"]]
    assert call("DELETE", f"job/{made['job_id']}")[0] == 200
    slurm.until_job(str(made["job_id"]), "CANCELLED")
    assert call("GET", "job/9999")[0] == 404
    assert call("GET", "nodes")[0] == 501
    assert (
        "job.colour"
        in call("POST", "job/submit", {"script": script, "job": {**job, "colour": 1}})[1]["errors"][0]["error"]
    )
    status, refused = call("POST", "job/submit", {"script": script, "job": {**job, "partition": "none"}})
    assert (status, "Invalid partition name" in refused["errors"][0]["error"]) == (500, True)


def test_a_second_plane_beside_it_and_nothing_is_left(slurm: Slurm, programs: Any, tmp_path: Path) -> None:
    other = SlurmPlane(Clock.wall(), state_dir=tmp_path, programs=programs, times=QUICK)
    other.start()
    try:
        other.create(NAME, slurm.stored)
        assert other.run(NAME, ["sinfo", "-ho", "%n"]).stdout.split().count(A) == 1
        assert other.run(NAME, ["squeue"]).returncode == 0
        other.run(NAME, ["sh", "-c", "setsid sleep 300 >/dev/null 2>&1 &"])
        assert other.processes.alive()
    finally:
        other.stop()
    assert other.processes.alive() == []
    assert "UP" in slurm.ask("scontrol", "ping")


def test_an_expired_dynamic_node_is_followed_by_another_only_for_the_job(
    slurm: Slurm, dynamic: concurrent.futures.Future[dict[str, Any]]
) -> None:
    seen = dynamic.result(120)
    assert seen["job"]["Restarts"] == "1"
    assert f"run 0 on {seen['first']}" in seen["text"]
    assert f"run 1 on {seen['job']['NodeList']}" in seen["text"]
    kinds = [kind for kind, said in events(slurm) if "flexvm-dyn" in said]
    assert kinds == ["VM_DELETION", "VM_SLURM_POWER_DOWN"]  # expired, then idle; and none after these
    assert not [each for each in slurm.plane.status(NAME).nodes if each.pool_id == "dyn"]


def events(slurm: Slurm) -> list[tuple[str, str]]:
    return [(each.type, each.message) for each in slurm.plane.status(NAME).events]
