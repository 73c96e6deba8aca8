"""The trainer's configuration: environment variables only, because that is how a Cloud Run job is configured."""

import dataclasses
import difflib
import math
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

EXIT_DONE = 0
EXIT_ERROR = 1
EXIT_CONFIG = 2
EXIT_ANOTHER_WRITER = 3
EXIT_PREEMPTED = 143  # 128 + SIGTERM

PREFIX = "HOLDFAST_"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
_ADDRESS = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+):[0-9]{1,5}")


class ConfigError(Exception):
    """The configuration is wrong, so a retry cannot help: exit code 2."""


def _integer(low: int, high: int = 2**31 - 1) -> Callable[[str], int]:
    def parse(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            raise ValueError(f"is not a whole number; use {low} to {high}") from None
        if not low <= value <= high:
            raise ValueError(f"is out of range; use {low} to {high}")
        return value

    return parse


def _number(low: float, high: float) -> Callable[[str], float]:
    def parse(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            raise ValueError(f"is not a number; use {low:g} to {high:g}") from None
        if not (math.isfinite(value) and low <= value <= high):
            raise ValueError(f"is out of range; use {low:g} to {high:g}")
        return value

    return parse


def _name(text: str) -> str:
    if not _NAME.fullmatch(text):
        raise ValueError("becomes a folder's name; use 1 to 63 letters, digits, '.', '_' and '-'")
    return text


def _address(text: str) -> str:
    if not _ADDRESS.fullmatch(text):
        raise ValueError("is not an address; use <host>:<port>")
    return text


def _directory(text: str) -> Path:
    path = Path(text)
    if not path.is_absolute():
        raise ValueError("is not an absolute path; use the volume's mount path, for example /checkpoints")
    return path


def _var(
    name: str, help: str, parse: Callable[[str], Any], default: Any = dataclasses.MISSING, run: bool = False
) -> Any:
    """A field read from variable `name`; `run` marks what determines the weights and so must not change on a resume."""
    return dataclasses.field(default=default, metadata={"name": name, "help": help, "parse": parse, "run": run})


@dataclasses.dataclass(frozen=True, kw_only=True)
class Config:
    """One attempt of one task. Each field's variable, meaning and unit are in its declaration (and in `--help`)."""

    checkpoint_dir: Path = _var("CHECKPOINT_DIR", "where the checkpoint bucket is mounted", _directory)  # noqa: RUF009  (it is a field)

    job: str = _var("CLOUD_RUN_JOB", "the job's name", _name, "local")
    run_id: str = _var("HOLDFAST_RUN_ID", "names the run within the job (default: the job's name)", _name, "")
    execution: str = _var(
        "CLOUD_RUN_EXECUTION", "the execution's name; its later attempts follow an earlier one at once", str, ""
    )
    task_index: int = _var("CLOUD_RUN_TASK_INDEX", "which task this is; each task is a run of its own", _integer(0), 0)
    task_attempt: int = _var("CLOUD_RUN_TASK_ATTEMPT", "how often the task was retried", _integer(0), 0)
    task_count: int = _var("CLOUD_RUN_TASK_COUNT", "how many tasks the execution has", _integer(1), 1)

    steps: int = _var("HOLDFAST_STEPS", "steps until the run is done; may be raised later", _integer(1), 100)
    checkpoint_every: int = _var("HOLDFAST_CHECKPOINT_EVERY", "steps between two checkpoints", _integer(1), 10)
    step_seconds_min: float = _var(
        "HOLDFAST_STEP_SECONDS_MIN", "seconds a step lasts at least, to rehearse a longer job", _number(0, 3600), 0.0
    )
    # Cloud Run sends SIGKILL 10 s after SIGTERM (cloud.google.com/run/docs/container-contract#jobs-shutdown).
    grace_seconds: float = _var(
        "HOLDFAST_GRACE_SECONDS", "seconds from SIGTERM to the platform's SIGKILL", _number(0.1, 3600), 10.0
    )

    # Safe with a stat cache of 60 s: see workloads/trainer/lease.py.
    lease_seconds: float = _var(
        "HOLDFAST_LEASE_SECONDS",
        "seconds a killed writer keeps others out; at least 120 on a bucket",
        _number(0.1, 3600),
        180.0,
    )
    eval_every: int = _var("HOLDFAST_EVAL_EVERY", "steps between two evaluations; 0: none", _integer(0), 0)
    eval_batches: int = _var("HOLDFAST_EVAL_BATCHES", "batches an evaluation", _integer(1), 1)

    coordinator: str = _var("HOLDFAST_COORDINATOR", "process 0's <host>:<port>, with several processes", _address, "")
    process_id: int = _var("HOLDFAST_PROCESS_ID", "which process this is; 0 alone writes files", _integer(0), 0)
    process_count: int = _var("HOLDFAST_PROCESS_COUNT", "processes that train this run together", _integer(1), 1)

    seed: int = _var("HOLDFAST_SEED", "seed of the weights and the data", _integer(0), 0, run=True)
    batch_size: int = _var("HOLDFAST_BATCH_SIZE", "sequences a step, over all devices", _integer(1, 2**16), 8, run=True)
    sequence_length: int = _var("HOLDFAST_SEQUENCE_LENGTH", "tokens a sequence", _integer(2, 2**16), 64, run=True)
    vocabulary: int = _var("HOLDFAST_VOCABULARY", "number of tokens", _integer(2, 2**20), 256, run=True)
    model_dim: int = _var("HOLDFAST_MODEL_DIM", "width of the model", _integer(1, 2**16), 64, run=True)
    layers: int = _var("HOLDFAST_LAYERS", "decoder blocks", _integer(1, 1024), 2, run=True)
    heads: int = _var("HOLDFAST_HEADS", "attention heads; divides the width", _integer(1, 1024), 4, run=True)
    learning_rate: float = _var(
        "HOLDFAST_LEARNING_RATE", "AdamW's rate after its warm-up", _number(0, 1), 1e-3, run=True
    )

    @property
    def task_dir(self) -> Path:
        """The task's own folder: `CHECKPOINT_DIR/<job>/<run id>/<task index>`."""
        return self.checkpoint_dir / self.job / self.run_name / str(self.task_index)

    @property
    def run_name(self) -> str:
        """The run id."""
        return self.run_id or self.job

    @property
    def run(self) -> dict[str, int | float]:
        """What determines the weights: stored in every checkpoint, compared on every resume."""
        return {field.name: getattr(self, field.name) for field in dataclasses.fields(self) if field.metadata["run"]}


def from_env(environ: Mapping[str, str]) -> Config:
    """Reads the configuration. An empty variable counts as unset.

    Raises ConfigError with one line for each thing wrong: the variable, its value, why, and what to use instead.
    """
    values: dict[str, Any] = {}
    problems: list[str] = []
    fields = {field.metadata["name"]: field for field in dataclasses.fields(Config)}
    for name, field in fields.items():
        text = environ.get(name, "")
        if text:
            try:
                values[field.name] = field.metadata["parse"](text)
            except ValueError as error:
                problems.append(f"{name}={text!r} {error}")
        elif field.default is dataclasses.MISSING:
            problems.append(f"{name} is not set: {field.metadata['help']}; set it, for example to /checkpoints")
    for name in sorted(name for name in environ if name.startswith(PREFIX) and name not in fields):
        known = [each for each in fields if each.startswith(PREFIX)]
        near = difflib.get_close_matches(name, known, 1, 0.0)[0]
        problems.append(f"{name} is no variable of the trainer, so it would have no effect; did you mean {near}?")
    if not problems:
        config = Config(**values)
        if config.model_dim % config.heads:
            problems.append(
                f"HOLDFAST_MODEL_DIM={config.model_dim} cannot be split over HOLDFAST_HEADS={config.heads} heads; "
                "make the width a multiple of the heads"
            )
        if config.task_index >= config.task_count:
            problems.append(
                f"CLOUD_RUN_TASK_INDEX={config.task_index} is not below CLOUD_RUN_TASK_COUNT={config.task_count}; "
                "set both or neither"
            )
        if config.process_id >= config.process_count:
            problems.append(
                f"HOLDFAST_PROCESS_ID={config.process_id} is not below HOLDFAST_PROCESS_COUNT={config.process_count}; "
                "set both or neither"
            )
        if config.process_count > 1 and not config.coordinator:
            problems.append(
                f"HOLDFAST_COORDINATOR is not set, but HOLDFAST_PROCESS_COUNT={config.process_count} processes must "
                "find each other; set it to <host>:<port> of process 0, the same in all"
            )
        if not problems:
            return config
    raise ConfigError("\n".join(problems))
