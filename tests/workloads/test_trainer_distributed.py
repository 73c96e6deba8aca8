"""Two processes that train one run together, on the CPU."""

import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from trainer_process import PATIENCE, STEPS, Trainer, event, of, parse

from workloads.trainer.compare import compare
from workloads.trainer.events import read_events

pytestmark = pytest.mark.jax

Pair = list[subprocess.Popen[str]]


def ends(pair: Pair) -> tuple[list[int], list[list[dict[str, Any]]]]:
    """The exit codes, and what each of them said from here on."""
    said = [parse(process.communicate(timeout=PATIENCE)[0]) for process in pair]
    return [process.returncode for process in pair], said


@pytest.fixture
def undisturbed(tmp_path: Path, shared: Path) -> Iterator[Trainer]:
    trainer = Trainer(tmp_path, shared / "compiled", "undisturbed")
    codes, said = ends(trainer.start_pair())
    assert codes == [0, 0], trainer.errors()
    assert of(said[0], "step", "step") == of(said[1], "step", "step") == list(range(1, STEPS + 1))
    yield trainer
    trainer.close()


def test_preempted_half_way_two_go_on_bit_for_bit_and_one_with_the_same_data(
    undisturbed: Trainer, trainer: Trainer, tmp_path: Path, reference: Path
) -> None:
    pair = trainer.start_pair(HOLDFAST_STEP_SECONDS_MIN="0.3")
    event(pair[0], lambda each: each["event"] == "step" and each["step"] == 2)
    pair[1].send_signal(signal.SIGTERM)  # the one that does not save
    codes, said = ends(pair)
    assert codes == [143, 143], trainer.errors()
    (reached,) = of(said[0], "saved", "step")
    assert reached < STEPS
    first = read_events(trainer.task_dir / "events.jsonl")
    assert of(first, "step", "step") == of(said[1], "step", "step") == list(range(1, reached + 1))
    assert {each["event"] for each in said[1]}.isdisjoint({"saved", "resumed", "fresh", "done"})
    alone = tmp_path / "checkpoints" / "job" / "alone" / "0"
    shutil.copytree(trainer.task_dir, alone)

    codes, _ = ends(trainer.start_pair(CLOUD_RUN_TASK_ATTEMPT="1"))
    assert codes == [0, 0], trainer.errors()
    assert compare(trainer.task_dir, undisturbed.task_dir)["bit_exact"]

    code, last = trainer.run(CLOUD_RUN_TASK_ATTEMPT="1", HOLDFAST_RUN_ID="alone")
    assert code == 0, trainer.errors()
    assert of(last, "resumed", "from_step") == [reached]
    assert of(last, "step", "step") == list(range(reached + 1, STEPS + 1))
    losses = of(read_events(alone / "events.jsonl"), "step", "loss")
    for other in (undisturbed.task_dir, reference):  # by two processes, and by one from the start
        assert losses == pytest.approx(of(read_events(other / "events.jsonl"), "step", "loss"), rel=1e-4)


def test_one_that_is_stopped_while_it_imports_leaves_none_waiting(trainer: Trainer) -> None:
    pair = trainer.start_pair(HOLDFAST_GRACE_SECONDS=str(PATIENCE))
    event(pair[1], lambda each: each["event"] == "start")
    pair[1].send_signal(signal.SIGTERM)
    codes, said = ends(pair)
    assert codes == [143, 143], trainer.errors()
    assert of(said[0], "step", "step") == []
    assert "process 0 says" in said[1][-1]["message"]


def test_a_dead_peer_ends_the_other_and_a_retry_resumes(trainer: Trainer) -> None:
    pair = trainer.start_pair(HOLDFAST_STEP_SECONDS_MIN="0.2", HOLDFAST_CHECKPOINT_EVERY="1")
    event(pair[0], lambda each: each["event"] == "saved")
    pair[1].kill()
    codes, _ = ends(pair)
    assert codes[1] == -signal.SIGKILL
    assert codes[0] in (1, -signal.SIGABRT), trainer.errors()
    code, events = trainer.run(CLOUD_RUN_TASK_ATTEMPT="1")
    assert code == 0, trainer.errors()
    assert of(events, "resumed", "from_step")[0] >= 1


def test_a_run_that_is_done_keeps_none_of_them_waiting(finished: Trainer) -> None:
    codes, said = ends(finished.start_pair())
    assert codes == [0, 0], finished.errors()
    assert [[each["event"] for each in events] for events in said] == [["start", "done", "exit"]] * 2


BROADCAST = """
import os
import numpy as np
from workloads.trainer import distributed
from workloads.trainer.config import from_env
config = from_env(os.environ)
distributed.join(config)
template = {"a": np.zeros((2, 2), np.float32), "b": np.int32(0)}
first = {"a": np.array([[-0.0, np.nan], [1e-45, 1.0]], np.float32), "b": np.int32(2**31 - 1)}
got = distributed.from_first(lambda: first, template)
print(got["a"].tobytes() == first["a"].tobytes(), got["a"].shape, got["b"], flush=True)
distributed.leave()
os._exit(0)
"""


def test_what_the_first_makes_arrives_bit_for_bit(trainer: Trainer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trainer, "start", lambda **variables: trainer.command("-c", BROADCAST, **variables))
    for process in trainer.start_pair():
        out, _ = process.communicate(timeout=PATIENCE)
        assert "True (2, 2) 2147483647" in out, trainer.errors()


DEVICES = {"JAX_NUM_CPU_DEVICES": "2"}


def test_one_process_with_two_devices_trains_the_same(trainer: Trainer, reference: Path) -> None:
    code, events = trainer.run(**DEVICES)
    assert code == 0, trainer.errors()
    undisturbed = of(read_events(reference / "events.jsonl"), "step", "loss")
    assert of(events, "step", "loss") == pytest.approx(undisturbed, rel=1e-4)
    code, events = trainer.run(**DEVICES, HOLDFAST_RUN_ID="odd", HOLDFAST_BATCH_SIZE="3")
    assert code == 2
    assert "HOLDFAST_BATCH_SIZE=3 cannot be split over 2 devices" in events[-1]["message"]
