"""What a rehearsal runs in a RayJob's place. That it runs is tests/workloads/test_ray_local.py's to show."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from holdfast.rehearsal import ray_training
from holdfast.rehearsal.ray_training import local_command, local_programs
from infra import catalog
from infra.ray_job import train_command
from mockgcp.planes.cloud_run import Launch, Mount

_SLICE = catalog.tpu_slice("ct6e-standard-4t", "4x4")


@pytest.mark.parametrize("program", ["linear_regression.py", "trainer.py"])
def test_the_applied_program_runs_on_this_machine_with_its_own_arguments(program: str) -> None:
    entrypoint = [*train_command(program, _SLICE).split(), "--epochs", "20"]
    ray = [sys.executable, "-m", "workloads.ray.local", "--cpus", "2"]
    assert local_command(entrypoint) == [*ray, f"/app/{program}", "--workers", "2", "--epochs", "20"]


@pytest.mark.parametrize("entrypoint", ["", "python", "python /app/mine.py", "bash trainer.py"])
def test_other_programs_are_scripted(entrypoint: str) -> None:
    assert local_command(entrypoint.split()) is None


def test_each_job_has_its_bucket_and_a_ray_of_its_own(tmp_path: Path) -> None:
    mounts = {"/app": Mount(tmp_path / "app"), "/checkpoints": Mount(tmp_path / "bucket")}
    env = {"CHECKPOINT_DIR": "/checkpoints", "HOLDFAST_RUN_ID": "job1"}
    command = train_command("trainer.py", _SLICE).split()
    launch = Launch(command, (), env, mounts, tmp_path)
    with local_programs(tmp_path) as run:
        started = [run({"metadata": {"name": name}}, launch) for name in ("job1", "job2")]
        environs = []
        for each in started:
            assert each is not None
            argv, environ = each
            assert str(tmp_path / "app" / "trainer.py") in argv
            assert environ["CHECKPOINT_DIR"] == str(tmp_path / "bucket")
            assert (environ["HOLDFAST_RUN_ID"], environ["JAX_PLATFORMS"]) == ("job1", "cpu")
            environs.append(environ)
        sockets = [Path(environ["RAY_TMPDIR"]) for environ in environs]
        assert len(set(sockets)) == 2
        # Linux's longest path of a socket, and what Ray puts below its folder.
        assert all(
            len(f"{each}/session_2026-11-29_23-23-45_123456_1234567/sockets/plasma_store") < 107 for each in sockets
        )
    assert not sockets[0].parent.exists()


def test_the_report_says_what_stands_in() -> None:
    names = [each.name for each in ray_training.overrides()]
    assert names == ["a job's workers", "a killed writer's lease of its folder"]
    assert ray_training.overrides()[1].rehearsal == f"{ray_training.SETTINGS['HOLDFAST_LEASE_SECONDS']} s"
