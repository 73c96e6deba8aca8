"""What `submit gke` orders: manifests, run ids and refusals; no cluster is asked."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from holdfast import stackfile
from holdfast.cli import app
from holdfast.errors import OperatorError
from holdfast.runs import gke_job
from holdfast.runs.gke_job import APPLIED, JobOrder
from infra.ray_job import ElasticRange, RayJobSpec
from stacks.gke_config import GkeTpuConfig

CONFIG, TARGET = stackfile.read(GkeTpuConfig, "dev-gke-tpu")
NOWHERE = {"HOLDFAST_API_ENDPOINT": "http://127.0.0.1:9"}


def ordered(**fields: Any) -> RayJobSpec:
    return gke_job.spec(CONFIG, TARGET, JobOrder(**fields))


def env(manifest: Mapping[str, Any], group: str) -> dict[str, str]:
    cluster = manifest["spec"]["rayClusterSpec"]
    template = (cluster["headGroupSpec"] if group == "head" else cluster["workerGroupSpecs"][0])["template"]
    return {each["name"]: each["value"] for each in template["spec"]["containers"][0]["env"]}


def test_the_stacks_job_by_default() -> None:
    job = ordered()
    files, manifest = gke_job.manifests(job)
    assert (job.name, job.slices, gke_job.run_id(manifest)) == ("jax-train", 1, "jax-train")
    assert list(files["data"]) == ["linear_regression.py"]
    assert job.entrypoint.startswith("python /app/linear_regression.py --workers 4 --chips 4 --topology 4x4")
    for group in ("head", "workers"):
        assert env(manifest, group) == {"CHECKPOINT_DIR": "/checkpoints", "HOLDFAST_RUN_ID": "jax-train"}


def test_the_trainer_ships_with_its_modules_and_packages() -> None:
    job = ordered(program="trainer")
    assert {"trainer.py", "workloads.trainer.__main__.py"} <= job.files.keys()
    assert any(package.startswith("orbax-checkpoint==") for package in job.packages)
    gke_job.check(CONFIG, job)


def test_a_program_of_ones_own(tmp_path: Path) -> None:
    mine = tmp_path / "mine.py"
    mine.write_text("print(1)\n")
    job = ordered(program=str(mine), name="mine", env={"HOLDFAST_RUN_ID": "old", "A": "b"})
    assert (job.entrypoint, job.files) == ("python /app/mine.py", {"mine.py": "print(1)\n"})
    assert gke_job.run_id(gke_job.manifests(job)[1]) == "old"


@pytest.mark.parametrize("program", ["no_such", "no/such.py", "README.md"])
def test_a_program_that_is_none(program: str) -> None:
    with pytest.raises(OperatorError, match=rf"--program {program}: choose one of linear_regression, trainer"):
        ordered(program=program)


def test_a_job_keeps_itself_as_it_was_applied() -> None:
    _, manifest = gke_job.manifests(ordered(elastic=ElasticRange(1, 1)))
    kept = json.loads(manifest["metadata"]["annotations"][APPLIED])
    assert APPLIED not in kept["metadata"]["annotations"]
    assert gke_job.with_applied(kept) == manifest


def test_a_run_id_of_a_job_that_somebody_else_applied() -> None:
    assert gke_job.run_id({"metadata": {"name": "x"}, "spec": {"rayClusterSpec": {"headGroupSpec": {}}}}) == "x"


@pytest.mark.parametrize("text", ["2", "1-2", "a:b", "1:2:3"])
def test_an_elastic_range_that_is_none(text: str) -> None:
    with pytest.raises(OperatorError, match=f"--elastic {text}: write the fewest and the most slices as MIN:MAX"):
        gke_job.elastic(text)


def test_all_that_is_wrong_is_said_at_once(tmp_path: Path) -> None:
    large = tmp_path / "large.py"
    large.write_text("#" * (1 << 20) + "\n")
    job = ordered(name="x" * 60, program=str(large), slices=9)
    with pytest.raises(OperatorError) as caught:
        gke_job.check(CONFIG, job)
    said = str(caught.value)
    for words in (
        "--name: 'xxx",
        "at most 47",
        "--slices: 9 slices of 4 hosts are 144 chips",
        "--program: 1048577 bytes",
    ):
        assert words in said


def holdfast(*words: str) -> Any:
    return CliRunner().invoke(app, list(words), env=NOWHERE)


def test_a_dry_run_prints_the_manifests_and_asks_nobody() -> None:
    result = holdfast("submit", "gke", "--dry-run", "--name", "dry", "--set", "HOLDFAST_STEPS=9")
    assert (result.exit_code, result.stderr) == (0, "")
    files, job = yaml.safe_load_all(result.stdout)
    assert (files["kind"], job["kind"], job["metadata"]["name"]) == ("ConfigMap", "RayJob", "dry")
    assert env(job, "workers")["HOLDFAST_STEPS"] == "9"


def test_what_an_elastic_job_risks_is_said() -> None:
    result = holdfast("submit", "gke", "--dry-run", "--elastic", "1:1")
    assert result.exit_code == 0
    assert "risk: its flavor is fixed when it is first admitted" in result.stderr
    assert "elastic-job" in result.stdout


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("submit", "gke", "--dry-run", "--slices", "3"), "--slices: 3 slices"),
        (("submit", "gke", "--stack", "dev-cloud-run"), "stack dev-cloud-run (cloud-run) runs no such job"),
        (("submit", "cloud-run", "--stack", "dev-gke-tpu"), "stack dev-gke-tpu (gke-tpu) runs no such job"),
        (("resubmit", "x", "--stack", "dev-cloud-run"), "where a run is not kept: `holdfast submit cloud-run`"),
    ],
)
def test_refusals_before_any_cluster_is_asked(words: tuple[str, ...], said: str) -> None:
    error = holdfast(*words).exception
    assert isinstance(error, OperatorError)
    assert said in str(error)
