"""`holdfast rehearse cloud-run`: scenario A from preview to destroy, with maintenance in the middle of the training."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from holdfast.engine import Engine
from holdfast.errors import OperatorError
from holdfast.rehearsal.pulumi_cli import Outcome, Pulumi, PulumiError
from holdfast.rehearsal.report import CloudRunReport, Story, TimeOverride, phase
from holdfast.rehearsal.sealed import REPOSITORY, Sealed, StackFile, read_stack, sealed_environment, write_stack
from infra import catalog
from mockgcp.clock import Clock
from mockgcp.cloud import DEFAULT_OWNER, Cloud
from mockgcp.durations import NOMINAL
from mockgcp.frontends.pulumi.grpc import serve
from mockgcp.operations import Operation
from mockgcp.planes.cloud_run import CloudRunPlane, LocalImage
from mockgcp.planes.maintenance import AtSteps, seeded_steps

Say = Callable[[str], None]

# An operation of the emulated cloud takes this long instead of its nominal seconds.
_OPERATION_S = 0.05
# A step lasts at least this long, so that maintenance can strike between two.
_STEP_S = 0.1
_EXECUTION_TIMEOUT_S = 900.0
# Compiles several times faster on a CPU; the undisturbed run uses the same, so that the weights can be compared.
_XLA_FLAGS = "--xla_backend_optimization_level=0 --xla_cpu_use_fusion_emitters=false"


class RehearsalError(OperatorError):
    """The rehearsal cannot be run as asked, or something it needs failed; the message says the way out."""


@dataclass(frozen=True)
class Options:
    """What to rehearse.

    Attributes:
        environment: prefix of the stacks' names (`dev` for dev-foundation and dev-cloud-run).
        seed: of the weights, the data, the emulated cloud's ids and the steps at which maintenance strikes.
        preemptions: how often maintenance strikes.
        steps: length of the training run.
        keep: leave the rehearsal's folder.
    """

    environment: str = "dev"
    seed: int = 0
    preemptions: int = 1
    steps: int = 24
    keep: bool = False

    @property
    def foundation(self) -> str:
        return f"{self.environment}-foundation"

    @property
    def job(self) -> str:
        return f"{self.environment}-cloud-run"


def rehearse(options: Options, engine: Engine, say: Say) -> CloudRunReport:
    """Runs the whole rehearsal and returns its report; `say` takes a line for each thing that happens.

    Raises:
        RehearsalError: the options or the stacks' configuration do not allow it.
        PulumiError: a Pulumi command failed.
    """
    files = _configuration(options)
    try:
        strikes = seeded_steps(options.seed, options.preemptions, options.steps)
    except ValueError as error:
        raise RehearsalError(f"{error}: raise --steps or lower --preemptions") from error
    report = CloudRunReport(
        scenario="cloud-run", seed=options.seed, engine=engine.source, engine_version=engine.version
    )
    report.time_overrides = _overrides(options, files)
    with sealed_environment(keep=options.keep) as sealed:
        cloud = Cloud(
            clock=Clock.wall(),
            seed=options.seed,
            state_dir=sealed.state,
            durations=dict.fromkeys(NOMINAL, _OPERATION_S),
        )
        for project in {file.config["gcp:project"] for file in files.values()}:
            cloud.seed_project(project)
        image = _trainer(sealed.state)
        plane = CloudRunPlane(
            cloud,
            state_dir=sealed.state / "cloud-run",
            images={files[options.job].config["holdfast:image"]: image},
            maintenance=AtSteps(strikes),
        )
        say(f"sealed environment: {sealed.root}")
        plane.start()
        try:
            with serve(cloud) as port:
                pulumi = Pulumi(engine, sealed.project, sealed.environ(engine, port))
                _run(options, report, _Stage(sealed, cloud, plane, pulumi, files, image, strikes, say))
        finally:
            plane.stop()
    return report


@dataclass(frozen=True)
class _Stage:
    """Everything a rehearsal stands on once it is set up."""

    sealed: Sealed
    cloud: Cloud
    plane: CloudRunPlane
    pulumi: Pulumi
    files: Mapping[str, StackFile]
    image: LocalImage
    strikes: tuple[int, ...]
    say: Say


def _run(options: Options, report: CloudRunReport, stage: _Stage) -> None:
    stacks, say, pulumi = (options.foundation, options.job), stage.say, stage.pulumi
    packs = ("--policy-pack", str(stage.sealed.policies))
    deployed: list[Outcome] = []
    with phase(report.phases, "init"):
        for stack in stacks:
            write_stack(stage.sealed, stack, stage.files[stack])
            pulumi.run("stack", "init", stack)
            for path in stage.files[stack].secrets:
                pulumi.run("config", "set", "--stack", stack, "--secret", "--path", path, "rehearsal")
    for stack in stacks:
        with phase(report.phases, "preview"):
            deployed.append(_operate(pulumi, say, "preview", stack, *packs))
        with phase(report.phases, "up"):
            deployed.append(_operate(pulumi, say, "up", stack, *packs))
    ups = [outcome for outcome in deployed if outcome.command.startswith("up ")]
    report.resources_created = sum(outcome.changes.get("create", 0) for outcome in ups)
    report.stories.append(_deployed_story(deployed, stage.cloud))
    report.policy_violations = sum(len(outcome.policy_violations) for outcome in deployed)
    report.stories.append(_policy_story(deployed))

    with phase(report.phases, "execute"):
        evidence = _execute(pulumi.outputs(options.job), stage)
    _judge(report, evidence, options, stage.strikes)

    with phase(report.phases, "verify"):
        say("verify: an undisturbed run of the same seed, and both final checkpoints compared bit for bit")
        comparison = _verify(options, stage, Path(evidence["task_dir"]))
    report.bit_exact = bool(comparison.get("bit_exact"))
    report.stories.append(Story(name="bit-exact", held=report.bit_exact, evidence=comparison))
    say(f"verify: bit_exact {str(report.bit_exact).lower()} over {comparison.get('leaves')} arrays")

    with phase(report.phases, "second up"):
        again = [_operate(pulumi, say, "up", stack, *packs) for stack in stacks]
    report.second_up_changes = sum(outcome.changed for outcome in again)
    report.stories.append(
        Story(
            name="second-up-changes-nothing",
            held=report.second_up_changes == 0,
            evidence={outcome.command: dict(outcome.changes) for outcome in again},
        )
    )
    with phase(report.phases, "destroy"):
        gone = [_operate(pulumi, say, "destroy", stack) for stack in reversed(stacks)]
        stage.plane.stop()
    report.leftover_resources = leftover_resources(stage.cloud)
    report.leftover_processes = [f"{p.pid} {' '.join(p.cmdline())}" for p in stage.plane.processes.alive()]
    report.stories.append(
        Story(
            name="nothing-left-over",
            held=not report.leftover_resources and not report.leftover_processes,
            evidence={outcome.command: dict(outcome.changes) for outcome in gone},
        )
    )


def _operate(pulumi: Pulumi, say: Say, verb: str, stack: str, *args: str) -> Outcome:
    began = time.monotonic()
    outcome = pulumi.operate(verb, stack, *args)
    counts = ", ".join(f"{count} {operation}" for operation, count in outcome.changes.items()) or "nothing to do"
    say(f"pulumi {verb} {stack}: {counts} ({time.monotonic() - began:.1f} s)")
    return outcome


def leftover_resources(cloud: Cloud) -> list[str]:
    """What a destroy should have taken along: every resource but log entries and enabled APIs, which projects keep."""
    kinds = ("storage.bucket", "iam.serviceAccount", "run.job", "run.execution", "run.task")
    return [f"{kind} {name}" for kind in kinds for name in cloud.table(kind)]


# -- set-up --------------------------------------------------------------------------------------------------------


def _configuration(options: Options) -> dict[str, StackFile]:
    """The two stacks' configuration, the job's environment set for a rehearsal."""
    files = {}
    for stack in (options.foundation, options.job):
        path = REPOSITORY / "stacks" / f"Pulumi.{stack}.yaml"
        if not path.exists():
            raise RehearsalError(
                f"no stack {stack}: {path} does not exist; choose another --environment or add the file"
            )
        files[stack] = read_stack(path)
    job = files[options.job].config
    retries = int(job.get("holdfast:maxRetries", catalog.cloud_run().max_retries_default))
    if options.preemptions > retries:
        raise RehearsalError(
            f"{options.preemptions} preemptions are more than the job's {retries} retries, so it would fail, as "
            f"it would on the platform: set holdfast:maxRetries in stacks/Pulumi.{options.job}.yaml to at least "
            f"{options.preemptions}, or ask for at most {retries} with --preemptions"
        )
    job["holdfast:env"] = {
        **job.get("holdfast:env", {}),
        "HOLDFAST_SEED": str(options.seed),
        "HOLDFAST_STEPS": str(options.steps),
        "HOLDFAST_CHECKPOINT_EVERY": str(max(1, options.steps // 5)),
        "HOLDFAST_STEP_SECONDS_MIN": str(_STEP_S),
    }
    return files


def _overrides(options: Options, files: Mapping[str, StackFile]) -> list[TimeOverride]:
    configured = read_stack(REPOSITORY / "stacks" / f"Pulumi.{options.job}.yaml").config.get("holdfast:env", {})
    return [
        TimeOverride(
            name="maintenance", platform="about weekly", rehearsal=f"{options.preemptions} times at seeded steps"
        ),
        TimeOverride(
            name="HOLDFAST_STEPS", platform=str(configured.get("HOLDFAST_STEPS", "")), rehearsal=str(options.steps)
        ),
        TimeOverride(
            name="long-running operations",
            platform=f"{min(NOMINAL.values()):g} to {max(NOMINAL.values()):g} s (nominal)",
            rehearsal=f"{_OPERATION_S:g} s",
        ),
    ]


def _trainer(state: Path) -> LocalImage:
    """The trainer's image as this machine runs it: the same package, on the CPU."""
    return LocalImage(
        entrypoint=(sys.executable, "-m", "workloads.trainer"),
        env={
            "JAX_PLATFORMS": "cpu",
            "XLA_FLAGS": _XLA_FLAGS,
            "JAX_COMPILATION_CACHE_DIR": str(state / "jax-cache"),
            "PYTHONDONTWRITEBYTECODE": "1",
        },
    )


# -- the execution -------------------------------------------------------------------------------------------------


def _execute(outputs: Mapping[str, Any], stage: _Stage) -> dict[str, Any]:
    """Runs the job and returns the raw evidence of what happened."""
    cloud, say = stage.cloud, stage.say
    name = f"projects/{outputs['project']}/locations/{outputs['region']}/jobs/{outputs['jobName']}"
    began = time.monotonic()
    operation = cloud.call("run.projects.locations.jobs.run", {"name": name}, {}, DEFAULT_OWNER)
    assert isinstance(operation, Operation)
    execution_name = operation.metadata["name"]
    say(
        f"execute: {execution_name.split('/')[-1]}, maintenance at steps {', '.join(map(str, stage.strikes)) or 'none'}"
    )
    told = _Teller(say, began)
    deadline = began + _EXECUTION_TIMEOUT_S
    while not operation.done and time.monotonic() < deadline:
        with cloud.changed:
            cloud.changed.wait(timeout=0.2)
        told.tell(_log(cloud, outputs["project"]))
    entries = _log(cloud, outputs["project"])
    told.tell(entries)
    execution = _get(cloud, "run.projects.locations.jobs.executions.get", {"name": execution_name})
    tasks = _get(cloud, "run.projects.locations.jobs.executions.tasks.list", {"parent": execution_name})["tasks"]
    task_dir = cloud.state_dir / "buckets" / outputs["checkpointBucket"] / outputs["jobName"] / "0"
    events = task_dir / "events.jsonl"
    return {
        "execution": execution,
        "tasks": tasks,
        "log": entries,
        "events": [json.loads(line) for line in events.read_text().splitlines()] if events.exists() else [],
        "task_dir": str(task_dir),
    }


def _log(cloud: Cloud, project: str) -> list[dict[str, Any]]:
    """The job's log but for its steps, oldest first."""
    body = {"resourceNames": [f"projects/{project}"], "filter": 'resource.type="cloud_run_job"', "pageSize": 1000}
    entries: list[dict[str, Any]] = _get(cloud, "logging.entries.list", {}, body)["entries"]
    return entries


def _get(cloud: Cloud, method: str, params: Mapping[str, Any], body: Any = None) -> dict[str, Any]:
    return cloud.answer(method, params, body, DEFAULT_OWNER)


class _Teller:
    """Says each new line of the job's log that matters."""

    def __init__(self, say: Say, began: float) -> None:
        self._say, self._began, self._seen = say, began, 0

    def tell(self, entries: list[dict[str, Any]]) -> None:
        for entry in entries[self._seen :]:
            payload = entry.get("jsonPayload", {})
            event = payload.get("event", "")
            if event == "step" or not payload.get("message"):
                continue
            source = "platform" if "varlog" in entry["logName"] else "task"
            attempt = entry["labels"]["run.googleapis.com/task_attempt"]
            self._say(
                f"  {time.monotonic() - self._began:5.1f} s  attempt {attempt}  {source:<8}  {payload['message']}"
            )
        self._seen = len(entries)


def _judge(report: CloudRunReport, evidence: Mapping[str, Any], options: Options, strikes: tuple[int, ...]) -> None:
    """Derives the execution's figures from its evidence alone."""
    events = evidence["events"]
    steps = [event["step"] for event in events if event["event"] == "step"]
    report.attempts = len({event["attempt"] for event in events if event["event"] == "start"})
    preempted = [e for e in evidence["log"] if e.get("jsonPayload", {}).get("reason") == "INSTANCE_PREEMPTED"]
    report.preemptions = len(preempted)
    report.steps_total = len(set(steps))
    report.steps_repeated = len(steps) - len(set(steps))
    done: dict[str, Any] = next((event for event in events if event["event"] == "done"), {})
    task = evidence["tasks"][0]
    if "startTime" in task and "completionTime" in task:
        report.goodput = round(done.get("productive_seconds", 0.0) / _seconds(task), 3)
    resumed = [event["from_step"] for event in events if event["event"] == "resumed"]
    held = (
        report.preemptions == len(strikes)
        and report.attempts == len(strikes) + 1
        and len(resumed) == len(strikes)
        and report.steps_total == options.steps
        and task["conditions"][0]["state"] == "CONDITION_SUCCEEDED"
    )
    log = [e for e in evidence["log"] if e.get("jsonPayload", {}).get("event") != "step"]
    report.stories.append(
        Story(name="preempted-and-resumed", held=held, evidence={**evidence, "log": log, "strikes": list(strikes)})
    )


def _seconds(task: Mapping[str, Any]) -> float:
    start, end = (datetime.fromisoformat(task[key]) for key in ("startTime", "completionTime"))
    return max((end - start).total_seconds(), 1e-9)


# -- verification --------------------------------------------------------------------------------------------------


def _verify(options: Options, stage: _Stage, task_dir: Path) -> dict[str, Any]:
    """Runs the same training undisturbed, on its own, and compares the final checkpoints."""
    reference = stage.sealed.state / "reference"
    env = stage.files[options.job].config["holdfast:env"]
    plain = {key: value for key, value in env.items() if key != "HOLDFAST_STEP_SECONDS_MIN"}
    _python(stage, "workloads.trainer", env={**plain, "CHECKPOINT_DIR": str(reference)})
    done = _python(stage, "workloads.trainer.compare", str(task_dir), str(reference / "local" / "0"), check=False)
    found: dict[str, Any] = json.loads(done.splitlines()[-1])
    return found


def _python(stage: _Stage, module: str, *args: str, env: Mapping[str, str] | None = None, check: bool = True) -> str:
    whole = {
        "PATH": os.environ.get("PATH", ""),
        "HOME": str(stage.sealed.root / "home"),
        **stage.image.env,
        **{key: str(value) for key, value in (env or {}).items()},
    }
    done = subprocess.run(
        [sys.executable, "-m", module, *args],
        env=whole,
        cwd=stage.sealed.state,
        capture_output=True,
        text=True,
        check=False,
    )
    if check and done.returncode != 0:
        raise RehearsalError(f"python -m {module} failed with exit code {done.returncode}:\n{done.stderr.strip()}")
    return done.stdout


def _deployed_story(outcomes: list[Outcome], cloud: Cloud) -> Story:
    made = [{"method": e.method, "code": e.code, "time": e.time} for e in cloud.audit.entries() if _creates(e.method)]
    return Story(
        name="deployed",
        held=all(outcome.changes for outcome in outcomes) and all(entry["code"] == 200 for entry in made),
        evidence={"summaries": {o.command: dict(o.changes) for o in outcomes}, "requests": made},
    )


def _creates(method: str) -> bool:
    return method.endswith((".create", ".insert", ".enable", ".setIamPolicy"))


def _policy_story(outcomes: list[Outcome]) -> Story:
    violations = [dict(event) for outcome in outcomes for event in outcome.policy_violations]
    packs = {outcome.command: dict(outcome.policy_packs) for outcome in outcomes}
    return Story(
        name="policies",
        held=not violations and all("holdfast" in " ".join(found) for found in packs.values()),
        evidence={"packs": packs, "violations": violations},
    )


__all__ = ["Options", "PulumiError", "RehearsalError", "leftover_resources", "rehearse"]
