"""Kills by the dozen: SIGTERM in each phase, and SIGTERM and SIGKILL at random times.

HOLDFAST_TEST_KILLS: how many random kills, default 60. `pytest -s -n 0` shows the figures.
"""

import collections
import dataclasses
import os
import random
import shutil
import signal
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from trainer_process import EVERY, LONG, PATIENCE, Trainer, of, parse, until

from workloads.trainer.compare import compare
from workloads.trainer.events import read_events

pytestmark = pytest.mark.jax

GRACE_S = 10.0  # Cloud Run's, and the trainer's default
EACH = 5  # kills in each phase
KILLS = int(os.environ.get("HOLDFAST_TEST_KILLS", "60"))
RANDOM_CHAINS = 2
KEPT = LONG - 2 * EVERY  # the oldest checkpoint of a finished run
EVALUATE = 3  # steps


@dataclasses.dataclass(frozen=True)
class Phase:
    """The phase that follows event `after` and ends with one of `ends`; `hold`: the file before which it waits."""

    after: str
    ends: tuple[str, ...]
    within_s: float = 0.0  # the kill comes at random within this time
    variables: Mapping[str, str] = dataclasses.field(default_factory=dict)
    hold: str = ""


# Attempts that get no further than the checkpoint that they find, and attempts that advance by one step.
CHAINS: dict[str, dict[str, Phase]] = {
    "from a checkpoint": {
        "import": Phase("start", ("imported",), within_s=0.4),
        "restore": Phase("imported", ("resumed",), hold=f"{KEPT}/progress/metadata"),
        "compile": Phase("resumed", ("compiled",), variables={"JAX_ENABLE_COMPILATION_CACHE": "false"}),
    },
    "step by step": {
        # The step's own event may come before that of the SIGTERM that has cut its 60 s short.
        "step": Phase("compiled", ("saved",), within_s=0.3, variables={"HOLDFAST_STEP_SECONDS_MIN": "60"}),
        "save": Phase(
            "step", ("saved",), variables={"HOLDFAST_CHECKPOINT_EVERY": "1"}, hold="{next}/commit_success.txt"
        ),
        "evaluation": Phase(
            "step", ("eval",), within_s=0.3, variables={"HOLDFAST_EVAL_EVERY": "1", "HOLDFAST_EVAL_BATCHES": "1000000"}
        ),
    },
}


def read_to(process: subprocess.Popen[str], name: str) -> list[dict[str, Any]]:
    """The events up to the first of that name, or to the end."""
    seen: list[dict[str, Any]] = []
    assert process.stdout
    for line in process.stdout:
        seen += parse(line)
        if seen and seen[-1]["event"] == name:
            break
    return seen


def kill_in(trainer: Trainer, phase: Phase, attempt: int, step: int, wait_s: float) -> None:
    """One attempt, which goes on from `step`, and its end by a SIGTERM in that phase."""
    variables = {"HOLDFAST_STEPS": str(LONG), "CLOUD_RUN_TASK_ATTEMPT": str(attempt), **phase.variables}
    hold = phase.hold.format(next=step + 1)
    trainer.release.unlink(missing_ok=True)
    process = trainer.start_holding(hold, **variables) if hold else trainer.start(**variables)
    seen = read_to(process, phase.after)
    if hold:  # a save has its folder before it commits; to restore there is one
        folder = trainer.task_dir / "checkpoints" / hold.split("/")[0]
        until(lambda: folder.exists() or process.poll() is not None)
    time.sleep(0.05 + wait_s)  # beyond the check that comes before a step
    began = time.monotonic()
    process.send_signal(signal.SIGTERM)
    if hold:
        seen += read_to(process, "sigterm")
        trainer.release.touch()
    out, _ = process.communicate(timeout=PATIENCE)
    assert process.returncode == 143, trainer.errors()
    assert time.monotonic() - began < GRACE_S
    names = [each["event"] for each in [*seen, *parse(out)]]
    before = names[: names.index("sigterm")]
    assert phase.after in before, names
    assert not set(phase.ends) & set(before), names


@pytest.mark.parametrize("chain", CHAINS)
def test_sigterm_in_each_phase(chain: str, trainer: Trainer, long_reference: Path) -> None:
    advances = chain == "step by step"
    start = reached = 0 if advances else KEPT
    if start:
        kept = f"checkpoints/{start}"
        shutil.copytree(long_reference / kept, trainer.task_dir / kept)
    rng, attempt = random.Random(chain), 0
    for phase in CHAINS[chain].values():
        for _ in range(EACH):
            kill_in(trainer, phase, attempt, reached, rng.uniform(0, phase.within_s))
            attempt += 1
            reached += advances
    code, last = trainer.run(HOLDFAST_STEPS=str(LONG), CLOUD_RUN_TASK_ATTEMPT=str(attempt))
    assert code == 0, trainer.errors()
    assert of(last, "resumed", "from_step") == [reached]
    events = read_events(trainer.task_dir / "events.jsonl")
    assert of(events, "fallback", "step") == []
    assert of(events, "step", "step") == list(range(start + 1, LONG + 1))
    assert compare(trainer.task_dir, long_reference)["bit_exact"]


def phase_of(events: list[dict[str, Any]]) -> str:
    """In what phase an attempt was when the signal came, by its last event before it."""
    names = [each["event"] for each in events]
    before = events[: names.index("sigterm") if "sigterm" in names else None]
    if not before:
        return "python"
    last, step = before[-1]["event"], before[-1].get("step", 0)
    if last == "step" and step % EVALUATE == 0:
        return "evaluation"
    if last in ("step", "eval") and (step % EVERY == 0 or step == LONG):
        return "save"
    return {"start": "import", "imported": "restore", "resumed": "compile", "fresh": "compile"}.get(last, "step")


@pytest.mark.parametrize("chain", range(RANDOM_CHAINS))
def test_random_kills(chain: int, tmp_path: Path, shared: Path, long_reference: Path) -> None:
    rng, began = random.Random(chain), time.monotonic()
    kills: collections.Counter[tuple[str, str]] = collections.Counter()
    runs: list[Trainer] = []
    while (wanted := KILLS // RANDOM_CHAINS - kills.total()) > 0:
        trainer = Trainer(tmp_path, shared / "compiled", f"run-{len(runs)}")
        runs.append(trainer)
        try:
            kills += kill_at_random(trainer, rng, wanted)
        finally:
            trainer.close()
    events = [each for trainer in runs for each in read_events(trainer.task_dir / "events.jsonl")]
    for (kind, phase), count in sorted(kills.items()):
        print(f"chain {chain}: {kind} in {phase}: {count}")
    resumed, fallbacks = of(events, "resumed", "from_step"), of(events, "fallback", "step")
    seconds = time.monotonic() - began
    print(f"chain {chain}: {kills.total()} kills, {len(runs)} runs, {len(resumed)} restores, {seconds:.0f} s")
    assert fallbacks == []
    assert resumed or len(runs) > 1
    digests = collections.defaultdict(set)
    for each in events:
        if each["event"] in ("saved", "resumed"):
            digests[each.get("step", each.get("from_step"))].add(each["digest"])
    assert all(len(seen) == 1 for seen in digests.values())
    for trainer in runs:
        comparison = compare(trainer.task_dir, long_reference)
        assert comparison["bit_exact"], comparison
        assert comparison["step_a"] == LONG


def kill_at_random(trainer: Trainer, rng: random.Random, most: int) -> "collections.Counter[tuple[str, str]]":
    """Kills attempts of one run, up to `most`, until it is done; the kills by signal and phase."""
    kills: collections.Counter[tuple[str, str]] = collections.Counter()
    for attempt in range(10 * KILLS):
        variables = {"HOLDFAST_STEPS": str(LONG), "CLOUD_RUN_TASK_ATTEMPT": str(attempt)}
        if kills.total() == most:
            code, _ = trainer.run(**variables)
            assert code == 0, trainer.errors()
            return kills
        process = trainer.start(HOLDFAST_STEP_SECONDS_MIN="0.02", HOLDFAST_EVAL_EVERY=str(EVALUATE), **variables)
        kind = rng.choice((signal.SIGTERM, signal.SIGKILL))
        # A random time after one of these, not after the start, or a slow machine would never get to step.
        seen = read_to(process, rng.choice(("start", "imported", "compiled", "compiled")))
        time.sleep(rng.uniform(0, 0.6))
        process.send_signal(kind)
        out, _ = process.communicate(timeout=PATIENCE)
        if process.returncode == 0:
            return kills
        assert process.returncode == (143 if kind == signal.SIGTERM else -signal.SIGKILL), trainer.errors()
        kills[kind.name, phase_of([*seen, *parse(out)])] += 1
    raise AssertionError("the run does not get on")
