"""The two stacks on the real engine: from preview to destroy, drift, secrets, and what it takes to recover."""

from pathlib import Path

import pytest
from pulumi_rig import FOUNDATION, JOB, PROJECT, Rig, refusal

from holdfast import toolcache
from mockgcp.cloud import DEFAULT_OWNER
from mockgcp.errors import ApiError
from mockgcp.faults import Fault

pytestmark = pytest.mark.engine

SECRET = "correct-horse-battery-staple"
# The stack itself, its components, and what they make.
FOUNDATION_RESOURCES = 29
JOB_RESOURCES = 11


def holding(text: str, folder: Path) -> list[Path]:
    needle = text.encode()
    return [path for path in folder.rglob("*") if path.is_file() and needle in path.read_bytes()]


def test_the_life_of_the_stacks(fresh: Rig, tmp_path: Path) -> None:
    pulumi, cloud = fresh.pulumi, fresh.cloud
    fresh.stack(FOUNDATION)
    fresh.stack(JOB)
    fresh.init(FOUNDATION, JOB)
    pulumi.run("config", "set", "--stack", JOB, "--secret", "--path", "holdfast:secretEnv.TOKEN", SECRET)

    planned = pulumi.operate("preview", FOUNDATION)
    assert fresh.changed() == []
    made = pulumi.operate("up", FOUNDATION)
    assert planned.changes == made.changes == {"create": FOUNDATION_RESOURCES}
    assert "warning" not in made.stdout
    assert pulumi.operate("preview", JOB).changes == {"create": JOB_RESOURCES}
    fresh.push_image()

    log = tmp_path / "events.jsonl"
    said = pulumi.run("up", "--stack", JOB, "--yes", "--skip-preview", "--event-log", str(log), "--verbose", "3")
    [job] = cloud.table("run.job").values()
    assert {"name": "TOKEN", "value": SECRET} in job["template"]["template"]["containers"][0]["env"]
    assert SECRET not in said
    assert SECRET not in log.read_text(encoding="utf-8")
    assert holding(SECRET, fresh.sealed.root) == []

    before = fresh.changed()
    assert pulumi.operate("up", JOB).changes == {"same": JOB_RESOURCES}
    assert pulumi.operate("up", FOUNDATION).changed == 0
    assert fresh.changed() == before

    # Drift: somebody edits the job.
    job["template"]["template"]["maxRetries"] = 1
    assert pulumi.operate("refresh", JOB).changed == 1
    assert pulumi.operate("up", JOB).changes == {"same": JOB_RESOURCES - 1, "update": 1}
    assert cloud.table("run.job")[job["name"]]["template"]["template"]["maxRetries"] == 3
    # A refresh without drift leaves nothing to do either.
    assert pulumi.operate("refresh", FOUNDATION).changed == 0
    assert pulumi.operate("preview", FOUNDATION).changed == 0

    for stack in (JOB, FOUNDATION):
        pulumi.operate("destroy", stack)
    assert cloud.resources() == []


def test_an_up_that_broke_off_is_run_again(fresh: Rig) -> None:
    pulumi, cloud = fresh.pulumi, fresh.cloud
    cloud.seed_project("somebody-else").services.add("storage.googleapis.com")
    cloud.call("storage.buckets.insert", {"project": "somebody-else"}, {"name": "taken-name"}, DEFAULT_OWNER)
    fresh.stack(FOUNDATION, bucketName="taken-name")
    fresh.init(FOUNDATION)
    pulumi.operate("preview", FOUNDATION)
    said = refusal(pulumi, "up", FOUNDATION)
    assert "409 ALREADY_EXISTS: The requested bucket name is not available" in said
    assert "select a different name" in said
    assert "checkpoints:" in said

    pulumi.run("config", "set", "--stack", FOUNDATION, "holdfast:bucketName", "another-name")
    cloud.faults.inject(Fault("storage.buckets.insert", ApiError("UNAVAILABLE", "The service is unavailable.")))
    assert "503 UNAVAILABLE: The service is unavailable." in refusal(pulumi, "up", FOUNDATION)
    # Which bucket failed is chance.
    assert not {"another-name", f"{PROJECT}-build-source"} <= cloud.table("storage.bucket").keys()

    done = pulumi.operate("up", FOUNDATION)
    assert 0 < done.changes["create"] < done.changes["same"] + done.changes["create"]
    assert "another-name" in cloud.table("storage.bucket")
    assert pulumi.operate("up", FOUNDATION).changed == 0


def test_the_engine_is_the_one_that_was_found(stage: Rig) -> None:
    engine = stage.pulumi.engine
    assert toolcache.version_key(stage.pulumi.run("version")) == toolcache.version_key(engine.version)
    assert engine.language_host.is_file()
