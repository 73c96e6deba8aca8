"""The trainer as a process, in an environment of its own."""

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).parents[2]
STEPS, EVERY = 12, 4
LONG = 40  # steps
# The trainer, which does not open checkpoints/HOLD before file RELEASE exists: a save or a restore without end.
HOLDING = """
import os, runpy, sys, time

def hold(event, args):
    if event == "open" and str(args[0]).endswith("/checkpoints/" + os.environ["HOLD"]):
        while not os.path.exists(os.environ["RELEASE"]):
            time.sleep(0.002)

sys.addaudithook(hold)
runpy.run_module("workloads.trainer", run_name="__main__", alter_sys=True)
"""
PATIENCE = 120.0  # seconds until a test gives up on a process; far above what a loaded machine needs


class Trainer:
    """Starts attempts of one task (job `job`, index 0) of one execution; its files are in `task_dir`."""

    def __init__(self, root: Path, cache: Path, run_id: str = "job"):
        self.root = root
        self.cache = cache
        self.run_id = run_id
        self.task_dir = root / "checkpoints" / "job" / run_id / "0"
        self.release = root / "release"
        self.processes: list[subprocess.Popen[str]] = []

    def environ(self) -> dict[str, str]:
        """The trainer's environment."""
        return {
            "PATH": os.defpath,
            "HOME": str(self.root),
            "JAX_PLATFORMS": "cpu",
            # A sixth of the compilation time; every run that is compared has the same.
            "XLA_FLAGS": "--xla_backend_optimization_level=0 --xla_cpu_use_fusion_emitters=false",
            "JAX_COMPILATION_CACHE_DIR": str(self.cache),
            "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
            "CHECKPOINT_DIR": str(self.root / "checkpoints"),
            "CLOUD_RUN_JOB": "job",
            "CLOUD_RUN_EXECUTION": "job-abcde",
            "HOLDFAST_RUN_ID": self.run_id,
            "HOLDFAST_SEED": "7",
            "HOLDFAST_STEPS": str(STEPS),
            "HOLDFAST_CHECKPOINT_EVERY": str(EVERY),
            "HOLDFAST_BATCH_SIZE": "2",
            "HOLDFAST_SEQUENCE_LENGTH": "16",
            "HOLDFAST_VOCABULARY": "32",
            "HOLDFAST_MODEL_DIM": "16",
        }

    def command(self, *args: str, **variables: str) -> subprocess.Popen[str]:
        """Starts Python with `args` and the trainer's environment changed by `variables`."""
        process = subprocess.Popen(
            [sys.executable, *args],
            cwd=REPOSITORY,
            env=self.environ() | variables,
            stdout=subprocess.PIPE,
            stderr=(self.root / f"stderr-{self.run_id}-{len(self.processes)}.txt").open("w"),
            text=True,
        )
        self.processes.append(process)
        return process

    def start(self, **variables: str) -> subprocess.Popen[str]:
        return self.command("-m", "workloads.trainer", **variables)

    def start_holding_save(self, step: int, **variables: str) -> subprocess.Popen[str]:
        """An attempt that stays in the save of `step` until file `release` exists."""
        return self.start_holding(f"{step}/commit_success.txt", **variables)

    def start_holding(self, file: str, **variables: str) -> subprocess.Popen[str]:
        """An attempt that waits for file `release` before it opens checkpoints/`file`."""
        return self.command("-c", HOLDING, HOLD=file, RELEASE=str(self.release), **variables)

    def start_pair(self, **variables: str) -> list[subprocess.Popen[str]]:
        """Two processes of one run."""
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            address = f"127.0.0.1:{probe.getsockname()[1]}"
        common = {
            "HOLDFAST_COORDINATOR": address,
            "JAX_COORDINATOR_BIND_ADDRESS": address,
            "HOLDFAST_PROCESS_COUNT": "2",
            **variables,
        }
        return [self.start(HOLDFAST_PROCESS_ID=str(number), **common) for number in range(2)]

    def run(self, **variables: str) -> tuple[int, list[dict[str, Any]]]:
        """One attempt to its end: the exit code and its events as seen on stdout."""
        process = self.start(**variables)
        out, _ = process.communicate(timeout=PATIENCE)
        return process.returncode, parse(out)

    def errors(self) -> str:
        return "\n".join(path.read_text() for path in sorted(self.root.glob("stderr-*.txt")))

    def close(self) -> None:
        for process in self.processes:
            process.kill()
            process.wait()
            if process.stdout:
                process.stdout.close()


def parse(out: str) -> list[dict[str, Any]]:
    """The events of a whole output; libraries say things there, too."""
    return [json.loads(line) for line in out.splitlines() if line.startswith("{")]


def of(events: list[dict[str, Any]], name: str, key: str) -> list[Any]:
    """What `key` is in each event of that name."""
    return [each[key] for each in events if each["event"] == name]


def event(process: subprocess.Popen[str], matches: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    """Reads the process's events until one matches."""
    assert process.stdout
    for line in process.stdout:
        if any(map(matches, found := parse(line))):
            return found[0]
    raise AssertionError("the process ended before the event")


def until(condition: Callable[[], object], patience: float = PATIENCE) -> None:
    """Looks every 2 ms until the condition holds."""
    end = time.monotonic() + patience
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.002)
