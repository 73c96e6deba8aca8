"""The programs of workloads/ray on a real Ray cluster of this machine, with two workers."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from trainer_process import STEPS, Trainer, of, until

from mockgcp.planes.processes import ProcessLedger
from workloads.ray import programs
from workloads.trainer.compare import compare
from workloads.trainer.events import read_events

# Ray and what it starts are ten processes: one test at a time.
pytestmark = [
    pytest.mark.jax,
    pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="no Ray here; the group `ray` brings it"),
]

PATIENCE = 300.0  # seconds; a run is 17 s of CPU time on an idle machine, twice that on a busy one


class Ray:
    """Starts programs, as a ConfigMap ships them, each on a cluster of its own."""

    def __init__(self, folder: Path, sockets: Path, trainer: Trainer) -> None:
        self.ledger = ProcessLedger(folder / "processes.jsonl")
        self.folder, self.sockets, self.trainer = folder, sockets, trainer
        self.log = folder / "log.txt"

    def start(self, program: str, *arguments: str, **variables: str) -> subprocess.Popen[bytes]:
        app = self.folder / "app"
        app.mkdir(exist_ok=True)
        for name, text in programs.files(program).items():
            (app / name).write_text(text)
        argv = [
            sys.executable,
            "-m",
            "workloads.ray.local",
            "--cpus",
            "2",
            str(app / f"{program}.py"),
            "--workers",
            "2",
        ]
        env = self.trainer.environ() | {"RAY_TMPDIR": str(self.sockets), **variables}
        with self.log.open("wb") as out:
            return self.ledger.spawn([*argv, *arguments], env=env, cwd=self.folder, stdout=out, stderr=out)

    def said(self) -> str:
        return self.log.read_text(errors="replace")


@pytest.fixture
def ray(tmp_path: Path, trainer: Trainer) -> Iterator[Ray]:
    with tempfile.TemporaryDirectory(prefix="ray-", ignore_cleanup_errors=True) as sockets:  # of a short name
        made = Ray(tmp_path, Path(sockets), trainer)
        yield made
        made.ledger.kill()


def test_the_regression_ends_with_a_lower_loss(ray: Ray) -> None:
    assert ray.start("linear_regression").wait(PATIENCE) == 0, ray.said()
    told = re.findall(r"\{'epoch': (\d+), 'loss': ([\d.e-]+), 'devices': (\d+)\}", ray.said())
    losses = {int(epoch): float(loss) for epoch, loss, devices in told if devices == "2"}
    assert list(losses) == [10, 20, 30, 40, 50]
    assert losses[50] < losses[10] / 100
    assert ray.said().rstrip().endswith("Training Complete!")
    until(lambda: not ray.ledger.alive())


def test_a_killed_run_that_then_loses_a_worker_ends_as_an_undisturbed_one(ray: Ray, trainer: Trainer) -> None:
    settings = {
        "HOLDFAST_RUN_ID": "ray",
        "CLOUD_RUN_EXECUTION": "",
        "HOLDFAST_LEASE_SECONDS": "3",
        "HOLDFAST_STEP_SECONDS_MIN": "0.5",
    }
    task_dir = trainer.root / "checkpoints" / "job" / "ray" / "0"

    def told(name: str, key: str) -> list[Any]:
        return of(read_events(task_dir / "events.jsonl"), name, key)

    before = trainer.start_pair(**settings)  # without Ray, which takes its time
    until(lambda: told("saved", "step"))
    for process in before:
        process.kill()

    process = ray.start("trainer", "--retries", "1", **settings)
    until(lambda: told("resumed", "from_step") or process.poll() is not None, PATIENCE)
    done = len(told("step", "step"))
    until(lambda: len(told("step", "step")) > done or process.poll() is not None, PATIENCE)
    workers = [each for each in ray.ledger.alive() if "RayTrainWorker" in " ".join(each.cmdline())]
    assert len(workers) == 2, ray.said()
    workers[0].kill()
    assert process.wait(PATIENCE) == 0, ray.said()
    assert "Training Complete!" in ray.said()
    first, second = told("resumed", "from_step")
    assert first == 4
    assert first <= second < STEPS  # the processes were told to stop, but Ray kills those that it finds
    assert told("done", "step") == [STEPS]

    undisturbed = Trainer(ray.folder, trainer.cache, "undisturbed")
    pair = undisturbed.start_pair()
    assert [each.communicate(timeout=PATIENCE) and each.returncode for each in pair] == [0, 0], undisturbed.errors()
    assert compare(task_dir, undisturbed.task_dir)["bit_exact"]


def test_the_shipped_files_are_the_package(tmp_path: Path) -> None:
    from workloads.ray.trainer import shipped

    for name, text in programs.files("trainer").items():
        (tmp_path / name).write_text(text)
    with shipped(tmp_path) as [root]:
        argv = [sys.executable, "-c", "import workloads.trainer.__main__ as main; print(main.__file__)"]
        found = subprocess.run(argv, env={"PYTHONPATH": root}, cwd=tmp_path, capture_output=True, text=True, check=True)
        assert found.stdout.strip() == f"{root}/workloads/trainer/__main__.py"
    with shipped(tmp_path / "none") as paths:
        assert paths == []


def test_packages_are_those_that_were_tested() -> None:
    lock = (Path(__file__).parents[2] / "requirements" / "trainer.lock").read_text()
    for wanted in programs.PACKAGES["trainer"]:
        if not wanted.startswith("pandas"):
            assert wanted.replace("[tpu]", "") in lock.split()


@pytest.mark.parametrize(
    ("failures", "code"),
    [({1: SystemExit(1), 0: SystemExit(2)}, 2), ({1: SystemExit(143)}, 143), ({0: RuntimeError("lost")}, 1)],
)
def test_the_driver_leaves_with_the_first_process_s_code(
    failures: dict[int, BaseException], code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    import ray.train.v2.jax
    from ray.train.v2.api.exceptions import WorkerGroupError

    from workloads.ray import trainer

    class Failing:
        def __init__(self, *_: object, **__: object) -> None: ...

        def fit(self) -> None:
            raise WorkerGroupError("one failed", failures)

    monkeypatch.setattr(ray.train.v2.jax, "JaxTrainer", Failing)
    assert trainer.main(["--workers", "2"]) == code
