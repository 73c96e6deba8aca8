"""`holdfast rehearse cloud-run`: scenario A from preview to destroy, with maintenance in the middle of the training."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from pydantic import ValidationError

from holdfast.engine import Engine
from holdfast.errors import OperatorError
from holdfast.rehearsal import frame, job_execution, training
from holdfast.rehearsal.frame import Frame
from holdfast.rehearsal.job_execution import Evidence
from holdfast.rehearsal.pulumi_cli import Pulumi
from holdfast.rehearsal.report import CloudRunReport, Story, TimeOverride, phase
from holdfast.rehearsal.sealed import REPOSITORY, StackFile, read_stack, sealed_environment
from holdfast.toolcache import Progress
from infra import catalog
from mockgcp.clock import Clock
from mockgcp.cloud import Cloud
from mockgcp.durations import NOMINAL
from mockgcp.errors import ApiError
from mockgcp.frontends.pulumi.grpc import serve
from mockgcp.planes.cloud_run import CloudRunPlane, LocalImage
from mockgcp.planes.maintenance import AtSteps, seeded_steps
from mockgcp.planes.processes import ProcessLedger
from mockgcp.services import storage
from stacks.config import CloudRunConfig

# An operation of the emulated cloud takes this long instead of its nominal seconds.
_OPERATION_S = 0.05
# A step lasts at least this long, so that maintenance can strike between two.
_STEP_S = 0.1
# How long an execution may take on a busy machine: a step, and an attempt's start-up.
_STEP_LIMIT_S, _ATTEMPT_LIMIT_S = 2.0, 120.0


class RehearsalError(OperatorError):
    """The rehearsal cannot be run as asked; the message says the way out."""


@dataclass(frozen=True)
class Options:
    """What to rehearse.

    Attributes:
        environment: prefix of the stacks' names (`dev` for dev-foundation and dev-cloud-run).
        seed: of the weights, the data, the emulated cloud's ids and the steps at which maintenance strikes.
        preemptions: how often maintenance strikes each task.
        steps: length of the training run.
        keep: leave the rehearsal's folder.
    """

    environment: str = "dev"
    seed: int = 0
    preemptions: int = 1
    steps: int = 24
    keep: bool = False

    @property
    def job(self) -> str:
        return f"{self.environment}-cloud-run"


def rehearse(options: Options, engine: Engine, say: Progress) -> CloudRunReport:
    """Runs the whole rehearsal and returns its report; `say` takes a line for each thing that happens.

    What goes wrong after the start ends up in the report's `error`, with the stories so far.

    Raises:
        RehearsalError: the options or the stacks' files do not allow a start.
    """
    files = _configuration(options)
    try:
        strikes = seeded_steps(options.seed, options.preemptions, options.steps)
    except ValueError as error:
        raise RehearsalError(f"{error}: raise --steps or lower --preemptions") from error
    report = CloudRunReport(
        scenario="cloud-run", seed=options.seed, engine=engine.source, engine_version=engine.version
    )
    report.time_overrides = _overrides(options, files[options.job])
    with _stage(options, files, strikes, engine, report, say) as (stage, image):
        try:
            frame.deploy(stage)
            evidence = _execute(stage, options, strikes, report)
            _verify(stage, options, image, evidence, report)
            frame.second_up(stage)
            frame.destroy(stage)
        except ApiError as error:
            report.error = f"the emulated cloud refused: {error}"
        except OperatorError as error:
            report.error = str(error)
    return report


@contextmanager
def _stage(
    options: Options,
    files: dict[str, StackFile],
    strikes: tuple[int, ...],
    engine: Engine,
    report: CloudRunReport,
    say: Progress,
) -> Iterator[tuple[Frame, LocalImage]]:
    """The sealed environment with the emulated cloud, its provider and the Cloud Run plane running in it."""
    with sealed_environment(keep=options.keep) as sealed:
        cloud = _cloud(options.seed, files, sealed.state)
        image = training.image(sealed.state)
        plane = CloudRunPlane(
            cloud,
            state_dir=sealed.state / "cloud-run",
            images={_needed(files, options.job, "holdfast:image"): image},
            maintenance=AtSteps(strikes),
        )
        processes = ProcessLedger(sealed.root / "processes.jsonl")
        say(f"sealed environment: {sealed.root}")
        plane.start()
        try:
            with serve(cloud) as port:
                pulumi = Pulumi(engine, sealed.project, sealed.environ(engine, port), processes)
                yield Frame(sealed, cloud, (plane,), pulumi, files, report, say), image
        finally:
            processes.kill()
            plane.stop()


def _cloud(seed: int, files: dict[str, StackFile], state: Path) -> Cloud:
    foundation = next(iter(files))
    try:
        cloud = Cloud(
            clock=Clock.wall(),
            seed=seed,
            state_dir=state,
            durations=dict.fromkeys(NOMINAL, _OPERATION_S),
            universe=files[foundation].config.get("gcp:universeDomain") or catalog.universe().domain,
        )
    except ValueError as error:
        raise RehearsalError(f"stacks/Pulumi.{foundation}.yaml, gcp:universeDomain: {error}") from error
    for project in sorted({_needed(files, stack, "gcp:project") for stack in files}):
        cloud.seed_project(project)
    return cloud


# -- configuration -------------------------------------------------------------------------------------------------


def _configuration(options: Options) -> dict[str, StackFile]:
    """The two stacks' configuration, with what a rehearsal sets: a short run, and nothing that keeps destroy back.

    The foundation comes first, as it does in `up`.
    """
    job_file = _read(options.job)
    job = job_file.config
    job["holdfast:deletionProtection"] = False
    mine = {key.partition(":")[2]: value for key, value in job.items() if key.startswith("holdfast:")}
    foundation = mine.get("foundation") or f"{options.environment}-foundation"
    files = {foundation: _read(foundation), options.job: job_file}
    files[foundation].config["holdfast:forceDestroy"] = True
    try:
        config = CloudRunConfig.model_validate(mine)
    except ValidationError:
        return files  # the stack refuses it in its own words, with the place and the way out
    if options.preemptions > config.max_retries:
        raise RehearsalError(
            f"{options.preemptions} preemptions are more than the job's {config.max_retries} retries, so it would "
            f"fail, as it would on the platform: set holdfast:maxRetries in stacks/Pulumi.{options.job}.yaml to at "
            f"least {options.preemptions}, or ask for at most {config.max_retries} with --preemptions"
        )
    job["holdfast:env"] = {**config.env, **training.settings(options.seed, options.steps, _STEP_S)}
    return files


def _read(stack: str) -> StackFile:
    path = REPOSITORY / "stacks" / f"Pulumi.{stack}.yaml"
    if not path.exists():
        raise RehearsalError(f"no stack {stack}: {path} does not exist; choose another --environment or add the file")
    return read_stack(path)


def _needed(files: dict[str, StackFile], stack: str, key: str) -> str:
    value = files[stack].config.get(key)
    if not value:
        raise RehearsalError(f"stacks/Pulumi.{stack}.yaml has no {key}, and nothing can be rehearsed without; set it")
    return str(value)


def _overrides(options: Options, job: StackFile) -> list[TimeOverride]:
    configured, set_here = (file.config.get("holdfast:env") for file in (_read(options.job), job))
    before, after = (env if isinstance(env, dict) else {} for env in (configured, set_here))
    settings = [
        TimeOverride(name=name, platform=str(before.get(name, "default")), rehearsal=str(after[name]))
        for name in training.settings(options.seed, options.steps, _STEP_S)
        if name != "HOLDFAST_SEED" and name in after
    ]
    return [
        TimeOverride(
            name="maintenance", platform="about weekly", rehearsal=f"{options.preemptions} times at seeded steps"
        ),
        *settings,
        TimeOverride(
            name="long-running operations",
            platform=f"{min(NOMINAL.values()):g} to {max(NOMINAL.values()):g} s (nominal)",
            rehearsal=f"{_OPERATION_S:g} s",
        ),
    ]


# -- the scenario --------------------------------------------------------------------------------------------------


def _execute(stage: Frame, options: Options, strikes: tuple[int, ...], report: CloudRunReport) -> Evidence:
    outputs = stage.pulumi.outputs(options.job)
    stage.say(f"execute {outputs['jobName']}: maintenance at steps {', '.join(map(str, strikes)) or 'none'}")
    with phase(report.phases, "execute"):
        evidence = job_execution.execute(
            stage.cloud,
            outputs["project"],
            outputs["region"],
            outputs["jobName"],
            storage.folder(stage.cloud.state_dir, outputs["checkpointBucket"]),
            options.steps * _STEP_LIMIT_S + (options.preemptions + 1) * _ATTEMPT_LIMIT_S,
            stage.say,
        )
    found = job_execution.figures(evidence)
    report.attempts, report.preemptions = found.attempts, found.preemptions
    report.steps_total, report.steps_repeated = found.steps_total, found.steps_repeated
    report.goodput = found.goodput
    report.stories.append(execution_story(evidence, options.steps, strikes))
    return evidence


def execution_story(evidence: Evidence, steps: int, strikes: tuple[int, ...]) -> Story:
    """Every task was struck as often as planned, went on after each strike, and did all its steps."""
    found, tasks = job_execution.figures(evidence), len(evidence.tasks)
    held = (
        found.succeeded
        and found.preemptions == found.resumes == len(strikes) * tasks
        and found.attempts == (len(strikes) + 1) * tasks
        and found.steps_total == steps * tasks
    )
    return Story(name="preempted-and-resumed", held=held, evidence={**asdict(evidence), "strikes": list(strikes)})


def _verify(stage: Frame, options: Options, image: LocalImage, evidence: Evidence, report: CloudRunReport) -> None:
    if not job_execution.figures(evidence).succeeded:
        why = {"not_compared": "the execution did not succeed, so there is no final checkpoint to compare"}
        report.stories.append(Story(name="bit-exact", held=False, evidence=why))
        stage.say("verify: not compared, since the execution did not succeed")
        return
    stage.say("verify: an undisturbed run of the same seed, and the final checkpoints compared bit for bit")
    with phase(report.phases, "verify"):
        compared = training.compare_with_undisturbed(
            [Path(folder) for folder in evidence.task_dirs],
            stage.files[options.job].config["holdfast:env"],
            stage.sealed.state / "undisturbed",
            image,
            stage.pulumi.processes,
        )
    report.bit_exact = bool(compared) and all(found.get("bit_exact") is True for found in compared)
    report.stories.append(Story(name="bit-exact", held=report.bit_exact, evidence={"comparisons": compared}))
    arrays = sum(found.get("leaves", 0) for found in compared)
    stage.say(f"verify: bit_exact {str(report.bit_exact).lower()} over {arrays} arrays")
