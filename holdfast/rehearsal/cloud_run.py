"""`holdfast rehearse cloud-run`: scenario A from preview to destroy, with maintenance in the middle of the training."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from holdfast.engine import Engine
from holdfast.errors import OperatorError
from holdfast.rehearsal import execution, training
from holdfast.rehearsal.execution import Evidence, Say
from holdfast.rehearsal.pulumi_cli import Outcome, Pulumi
from holdfast.rehearsal.report import CloudRunReport, Story, TimeOverride, phase
from holdfast.rehearsal.sealed import REPOSITORY, Sealed, StackFile, read_stack, sealed_environment, write_stack
from infra import catalog
from mockgcp.clock import Clock
from mockgcp.cloud import Cloud
from mockgcp.durations import NOMINAL
from mockgcp.errors import ApiError
from mockgcp.frontends.pulumi.grpc import serve
from mockgcp.planes.cloud_run import CloudRunPlane, LocalImage
from mockgcp.planes.maintenance import AtSteps, seeded_steps
from mockgcp.planes.protocol import Plane

# An operation of the emulated cloud takes this long instead of its nominal seconds.
_OPERATION_S = 0.05
# A step lasts at least this long, so that maintenance can strike between two.
_STEP_S = 0.1


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
    report.time_overrides = _overrides(options)
    with sealed_environment(keep=options.keep) as sealed:
        cloud = Cloud(
            clock=Clock.wall(),
            seed=options.seed,
            state_dir=sealed.state,
            durations=dict.fromkeys(NOMINAL, _OPERATION_S),
            universe=files[options.foundation].config.get("gcp:universeDomain", "googleapis.com"),
        )
        for project in sorted({_needed(files, stack, "gcp:project") for stack in files}):
            cloud.seed_project(project)
        image = training.image(sealed.state)
        plane = CloudRunPlane(
            cloud,
            state_dir=sealed.state / "cloud-run",
            images={_needed(files, options.job, "holdfast:image"): image},
            maintenance=AtSteps(strikes),
        )
        say(f"sealed environment: {sealed.root}")
        plane.start()
        try:
            with serve(cloud) as port:
                pulumi = Pulumi(engine, sealed.project, sealed.environ(engine, port))
                _run(options, report, _Stage(sealed, cloud, plane, pulumi, files, image, strikes, say))
        except ApiError as error:
            raise RehearsalError(f"the emulated cloud refused: {error}") from error
        finally:
            plane.stop()
    return report


@dataclass(frozen=True)
class _Stage:
    """Everything a rehearsal stands on once it is set up."""

    sealed: Sealed
    cloud: Cloud
    plane: Plane
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

    outputs = pulumi.outputs(options.job)
    say(f"execute {outputs['jobName']}: maintenance at steps {', '.join(map(str, stage.strikes)) or 'none'}")
    with phase(report.phases, "execute"):
        evidence = execution.execute(
            stage.cloud,
            outputs["project"],
            outputs["region"],
            outputs["jobName"],
            outputs["checkpointBucket"],
            say,
        )
    report.stories.append(_execution_story(report, evidence, options, stage.strikes))

    say("verify: an undisturbed run of the same seed, and both final checkpoints compared bit for bit")
    with phase(report.phases, "verify"):
        comparison = training.compare_with_undisturbed(
            Path(evidence.task_dir),
            stage.files[options.job].config["holdfast:env"],
            stage.sealed.state / "undisturbed",
            stage.image,
        )
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
    report.leftover_resources = [f"{kind} {name}" for kind, name in stage.cloud.resources()]
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
    judged = f"; policies: {len(outcome.policy_violations)} violations" if outcome.policy_packs else ""
    say(f"pulumi {verb} {stack}: {counts}{judged} ({time.monotonic() - began:.1f} s)")
    return outcome


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
    retries = job.get("holdfast:maxRetries", catalog.cloud_run().max_retries_default)
    # Anything but a number is the stack's to refuse, in its own words.
    if isinstance(retries, int) and options.preemptions > retries:
        raise RehearsalError(
            f"{options.preemptions} preemptions are more than the job's {retries} retries, so it would fail, as "
            f"it would on the platform: set holdfast:maxRetries in stacks/Pulumi.{options.job}.yaml to at least "
            f"{options.preemptions}, or ask for at most {retries} with --preemptions"
        )
    trainer = training.settings(options.seed, options.steps, _STEP_S)
    job["holdfast:env"] = {**job.get("holdfast:env", {}), **trainer}
    return files


def _needed(files: Mapping[str, StackFile], stack: str, key: str) -> str:
    value = files[stack].config.get(key)
    if not value:
        raise RehearsalError(f"stacks/Pulumi.{stack}.yaml has no {key}, and nothing can be rehearsed without; set it")
    return str(value)


def _overrides(options: Options) -> list[TimeOverride]:
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


# -- stories ---------------------------------------------------------------------------------------------------------


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


def _execution_story(report: CloudRunReport, evidence: Evidence, options: Options, strikes: tuple[int, ...]) -> Story:
    """Puts the execution's figures into the report; the story holds if the run went on after every strike."""
    found = execution.figures(evidence)
    report.attempts, report.preemptions = found.attempts, found.preemptions
    report.steps_total, report.steps_repeated = found.steps_total, found.steps_repeated
    report.goodput = found.goodput
    held = (
        found.succeeded
        and found.preemptions == found.resumes == len(strikes)
        and found.attempts == len(strikes) + 1
        and found.steps_total == options.steps
    )
    return Story(name="preempted-and-resumed", held=held, evidence={**asdict(evidence), "strikes": list(strikes)})
