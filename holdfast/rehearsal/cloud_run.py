"""`holdfast rehearse cloud-run`: scenario A from preflight to destroy, with maintenance in the midst of training."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path

from holdfast.engine import Engine
from holdfast.gcp.emulated import EmulatedApi
from holdfast.preflight import PreflightReport
from holdfast.rehearsal import frame, job_execution, readiness, training
from holdfast.rehearsal.cloud_run_stage import Options, Stage, configuration, overrides, staged
from holdfast.rehearsal.frame import Frame
from holdfast.rehearsal.job_execution import Evidence
from holdfast.rehearsal.report import CloudRunReport, Story, phase
from holdfast.rehearsal.stage import RehearsalError
from holdfast.runs.cloud_run import CloudRun
from holdfast.toolcache import Progress
from mockgcp.planes.cloud_build import BuildahBuilder
from mockgcp.planes.cloud_run import Image
from mockgcp.planes.maintenance import seeded_steps
from mockgcp.services import storage
from mockgcp.services.monitoring_incidents import Incident, incidents

# How long an execution may take on a busy machine: a step, and an attempt's start-up.
_STEP_LIMIT_S, _ATTEMPT_LIMIT_S = 2.0, 120.0


def rehearse(options: Options, engine: Engine, say: Progress) -> CloudRunReport:
    """Runs the whole rehearsal and returns its report; `say` takes a line for each thing that happens.

    What goes wrong after the start ends up in the report's `error`, with the stories so far.

    Raises:
        RehearsalError: the options or the stacks' files do not allow a start.
    """
    files = configuration(options)
    try:
        strikes = seeded_steps(options.seed, options.preemptions, options.steps)
    except ValueError as error:
        raise RehearsalError(f"{error}: raise --steps or lower --preemptions") from error
    report = CloudRunReport(
        scenario="cloud-run", seed=options.seed, engine=engine.source, engine_version=engine.version
    )
    report.time_overrides = overrides(options, files[options.job])
    with staged(options, files, strikes, engine, report, say) as stage, frame.ends_in(report):
        _deploy(stage, options, report)
        evidence = _execute(stage.frame, options, strikes, report)
        _verify(stage, options, evidence, report)
        frame.second_up(stage.frame)
        frame.destroy(stage.frame)
    return report


def _deploy(stage: Stage, options: Options, report: CloudRunReport) -> None:
    """Brings up the stacks, each after its preflight, and the job's after its image too."""
    found: list[PreflightReport] = []

    def prepare(stack: str) -> None:
        if stack == options.job:
            image = readiness.image(stage.frame, stack)
            report.image = image.reference
            stage.images[image.reference] = _runs(stage, image.reference)
        found.append(readiness.preflight(stage.frame, stack))

    try:
        frame.deploy(stage.frame, prepare)
    finally:
        report.stories.insert(0, readiness.preflight_story(found, len(stage.frame.files)))
        report.price_per_hour, report.currency = readiness.price(found)


def _runs(stage: Stage, reference: str) -> Image:
    """What the image's tasks run here: what was really built, else the process that stands in for it."""
    builder = stage.frame.cloud.builder
    if not isinstance(builder, BuildahBuilder):
        return stage.local
    built = builder.images[reference]
    # With the undisturbed run's compiler settings: others give other bits.
    return replace(built, env={**built.env, **training.COMPILER})


def _execute(stage: Frame, options: Options, strikes: tuple[int, ...], report: CloudRunReport) -> Evidence:
    outputs = stage.pulumi.outputs(options.job)
    stage.say(f"execute {outputs['jobName']}: maintenance at steps {', '.join(map(str, strikes)) or 'none'}")
    with phase(report.phases, "execute"):
        evidence = job_execution.execute(
            CloudRun(EmulatedApi(stage.cloud), outputs["jobId"], stage.cloud.universe),
            storage.folder(stage.cloud.state_dir, outputs["checkpointBucket"]),
            options.steps * _STEP_LIMIT_S + (options.preemptions + 1) * _ATTEMPT_LIMIT_S,
            stage.say,
        )
    found = job_execution.figures(evidence)
    report.attempts, report.preemptions = found.attempts, found.preemptions
    report.steps_total, report.steps_repeated = found.steps_total, found.steps_repeated
    report.goodput = found.goodput
    report.stories.append(execution_story(evidence, options.steps, strikes))
    raised = incidents(stage.cloud, outputs["project"])
    for incident in raised:
        stage.say(f"alert: {incident.policy} ({incident.saw})")
    report.stories.append(alert_story(raised, found.preemptions))
    return evidence


def alert_story(raised: Sequence[Incident], preemptions: int) -> Story:
    """Whoever watches the job was told of the preemptions, and of nothing else."""
    told = [incident.condition for incident in raised]
    held = len(told) == 1 and "preemptions" in told[0] if preemptions else not told
    evidence = {"incidents": [{**asdict(each), "opened": str(each.opened)} for each in raised]}
    return Story(name="alerted", held=held, evidence=evidence)


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


def _verify(stage: Stage, options: Options, evidence: Evidence, report: CloudRunReport) -> None:
    if not job_execution.figures(evidence).succeeded:
        why = {"not_compared": "the execution did not succeed, so there is no final checkpoint to compare"}
        report.stories.append(Story(name="bit-exact", held=False, evidence=why))
        stage.frame.say("verify: not compared, since the execution did not succeed")
        return
    stage.frame.say("verify: an undisturbed run of the same seed, and the final checkpoints compared bit for bit")
    with phase(report.phases, "verify"):
        compared = training.compare_with_undisturbed(
            [Path(folder) for folder in evidence.task_dirs],
            stage.frame.files[options.job].config["holdfast:env"],
            stage.frame.sealed.state / "undisturbed",
            stage.local,
            stage.frame.pulumi.processes,
        )
    report.bit_exact = bool(compared) and all(found.get("bit_exact") is True for found in compared)
    report.stories.append(Story(name="bit-exact", held=report.bit_exact, evidence={"comparisons": compared}))
    arrays = sum(found.get("leaves", 0) for found in compared)
    stage.frame.say(f"verify: bit_exact {str(report.bit_exact).lower()} over {arrays} arrays")
