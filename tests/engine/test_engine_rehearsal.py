"""`holdfast rehearse cloud-run` as a user runs it: what it claims is derived again from its raw evidence."""

import json
import os
import signal
import time
from collections import defaultdict
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from rehearsal_rig import Start, checkout, end, left_over, processes_of, story, until

from holdfast import toolcache

pytestmark = [pytest.mark.engine, pytest.mark.jax]

HEADER = {
    "engine",
    "engine_version",
    "leftover_processes",
    "leftover_resources",
    "phases",
    "scenario",
    "seed",
    "stories",
    "time_overrides",
}
STEPS = 24


def test_two_rehearsals_at_once(start: Start, cache: Path, tmp_path: Path) -> None:
    before = checkout()
    files = {7: tmp_path / "seven.json", 11: tmp_path / "eleven.json"}
    seven = start("cloud-run", "--seed", "7", "--preemptions", "3", "--json", str(files[7]))
    eleven = start("cloud-run", "--seed", "11", "--json", str(files[11]))
    said = {process: process.communicate(timeout=240)[0] for process in (seven, eleven)}
    assert [process.returncode for process in (seven, eleven)] == [0, 0], "\n".join(said.values())
    assert left_over(cache) == []
    assert checkout() == before
    seen = {}
    for seed, preemptions in ((7, 3), (11, 1)):
        report = json.loads(files[seed].read_text(encoding="utf-8"))
        assert (report["seed"], report["scenario"]) == (seed, "cloud-run")
        judge(report, preemptions)
        seen[seed] = story(report, "preempted-and-resumed")["events"][-2]["digest"]
    assert seen[7] != seen[11]
    for told in ("sealed environment", "pulumi preview dev-foundation: 29 create", "bit_exact true", "story policies"):
        assert told in said[seven]


def judge(report: dict[str, Any], preemptions: int) -> None:
    """Every figure of the report, from the evidence in it."""
    assert report.keys() >= HEADER
    assert report["engine"] in ("path", "cache")
    assert toolcache.version_key(report["engine_version"]) >= (3,)
    assert (report["leftover_resources"], report["leftover_processes"]) == ([], [])
    in_order = ["init", "preflight", "preview", "up", "image", "execute", "verify", "second up", "destroy"]
    assert list(report["phases"]) == in_order
    assert all(seconds > 0 for seconds in report["phases"].values())
    overrides = {each["name"]: each for each in report["time_overrides"]}
    assert overrides["maintenance"]["rehearsal"].startswith(str(preemptions))
    assert overrides["HOLDFAST_STEPS"]["rehearsal"] == str(STEPS)
    judge_readiness(report)
    judge_deployment(report)
    judge_execution(report, preemptions)


def judge_readiness(report: dict[str, Any]) -> None:
    checks = {
        (found["stack"], check["name"]): check
        for found in story(report, "preflight").values()
        for check in found["checks"]
    }
    assert {stack for stack, _ in checks} == {"dev-foundation", "dev-cloud-run"}
    assert {check["status"] for check in checks.values()} <= {"ok", "warn"}
    quota = checks["dev-cloud-run", "quota"]["figures"]
    assert (quota["requested"], quota["limit"], quota["usage"]) == (1, 1, 0)
    assert report["price_per_hour"] == checks["dev-cloud-run", "price"]["figures"]["hour"] > 0
    image = story(report, "image")
    [build] = image["builds"]
    assert image["first"] == {"reference": report["image"], "built": True}
    assert image["second"] == {"reference": report["image"], "built": False}
    assert build["request"]["images"][0].partition(":")[0] == report["image"].partition("@")[0]
    ran = story(report, "preempted-and-resumed")["execution"]["template"]["containers"][0]["image"]
    assert ran == report["image"]


def judge_deployment(report: dict[str, Any]) -> None:
    deployed = story(report, "deployed")
    stacks = ("dev-foundation", "dev-cloud-run")
    created = {stack: deployed["summaries"][f"up {stack}"]["create"] for stack in stacks}
    assert report["resources_created"] == sum(created.values())
    methods = [request["method"] for request in deployed["requests"] if request["code"] == 200]
    # Checkpoints and sources; who runs and who builds.
    made = {
        "storage.buckets.insert": 2,
        "iam.projects.serviceAccounts.create": 2,
        "run.projects.locations.jobs.create": 1,
    }
    assert {method: methods.count(method) for method in made} == made
    policies = story(report, "policies")
    assert report["policy_violations"] == len(policies["violations"]) == 0
    assert policies["packs"].keys() == {f"{verb} {stack}" for verb in ("preview", "up") for stack in stacks}
    assert all(any("holdfast" in pack for pack in packs) for packs in policies["packs"].values())
    again = story(report, "second-up-changes-nothing")
    assert again == {f"up {stack}": {"same": count} for stack, count in created.items()}
    assert report["second_up_changes"] == 0
    gone = story(report, "nothing-left-over")
    assert {command: counts["delete"] for command, counts in gone.items()} == {
        f"destroy {stack}": count for stack, count in created.items()
    }


def judge_execution(report: dict[str, Any], preemptions: int) -> None:
    evidence = story(report, "preempted-and-resumed")
    attempts = defaultdict(list)
    for event in evidence["events"]:
        attempts[event["attempt"]].append(event)
    assert report["attempts"] == len(attempts) == preemptions + 1

    system = [entry for entry in evidence["log"] if entry["jsonPayload"].get("reason") == "INSTANCE_PREEMPTED"]
    assert report["preemptions"] == len(system) == preemptions == len(evidence["strikes"])
    assert [entry["labels"]["run.googleapis.com/task_attempt"] for entry in system] == [
        str(attempt) for attempt in range(preemptions)
    ]
    assert all("varlog" in entry["logName"] for entry in system)

    for number, events in attempts.items():
        codes = [event["code"] for event in events if event["event"] == "exit"]
        assert codes == [143 if number < preemptions else 0]
        assert [event["event"] for event in events].count("sigterm") == (1 if number < preemptions else 0)
        resumed = [event for event in events if event["event"] == "resumed"]
        if number == 0:
            assert resumed == []
            continue
        # It goes on with exactly what the last attempt saved, not with something like it.
        saved = [event for event in attempts[number - 1] if event["event"] == "saved"][-1]
        assert [(event["from_step"], event["digest"]) for event in resumed] == [(saved["step"], saved["digest"])]
        steps = [event["step"] for event in events if event["event"] == "step"]
        assert steps[0] == saved["step"] + 1

    [incident] = story(report, "alerted")["incidents"]
    assert incident["condition"] == f"gpu-resilient-job: more than {preemptions - 1} preemptions in a day"
    assert float(incident["saw"]) == preemptions

    steps = [event["step"] for event in evidence["events"] if event["event"] == "step"]
    assert set(steps) == set(range(1, STEPS + 1))
    assert report["steps_total"] == STEPS
    assert report["steps_repeated"] == len(steps) - STEPS

    [task] = evidence["tasks"]
    assert task["retried"] == preemptions
    assert task["lastAttemptResult"]["exitCode"] == 0
    assert task["conditions"][0]["state"] == "CONDITION_SUCCEEDED"
    assert evidence["execution"]["succeededCount"] == 1
    began, ended = (datetime.fromisoformat(task[key]) for key in ("startTime", "completionTime"))
    [done] = [event for event in evidence["events"] if event["event"] == "done"]
    assert report["goodput"] == pytest.approx(done["productive_seconds"] / (ended - began).total_seconds(), abs=0.001)
    assert 0 < report["goodput"] < 1

    [compared] = story(report, "bit-exact")["comparisons"]
    assert (compared["differing"], compared["step_a"], compared["step_b"]) == ([], STEPS, STEPS)
    assert compared["leaves"] > 0
    assert report["bit_exact"] is True


def test_more_preemptions_than_retries_is_a_clear_error(start: Start, cache: Path) -> None:
    process = start("cloud-run", "--preemptions", "5")
    said, _ = process.communicate(timeout=60)
    assert process.returncode == 1
    message = " ".join(said.split())
    for part in (
        "5 preemptions are more than the job's 3 retries",
        "holdfast:maxRetries in stacks/Pulumi.dev-cloud-run.yaml to at least 5",
        "at most 3 with --preemptions",
    ):
        assert part in message
    assert "Traceback" not in said
    assert left_over(cache) == []


def test_a_sigterm_in_the_middle_of_an_up_leaves_nothing(start: Start, cache: Path) -> None:
    process = start("cloud-run")
    until(process, "pulumi preview dev-foundation: ")
    time.sleep(1)  # the engine has started its language host by now
    assert len(processes_of(cache)) > 1
    process.send_signal(signal.SIGTERM)
    assert "interrupted; everything it started was ended" in end(process)
    assert process.returncode == 128 + signal.SIGTERM
    assert left_over(cache) == []


def test_ctrl_c_in_the_middle_of_the_training_leaves_nothing(start: Start, cache: Path) -> None:
    process = start("cloud-run")
    until(process, "saved checkpoint at step")
    os.killpg(process.pid, signal.SIGINT)  # what a terminal does: the whole foreground group gets it
    said = end(process)
    assert process.returncode == 130
    assert "interrupted; everything it started was ended" in said
    assert left_over(cache) == []
