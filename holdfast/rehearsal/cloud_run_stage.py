"""The stage of `holdfast rehearse cloud-run`: its options, the stacks' configuration, and the cloud that they meet."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from pydantic import ValidationError

from holdfast.engine import Engine
from holdfast.image import local as container
from holdfast.rehearsal import training
from holdfast.rehearsal.frame import Frame
from holdfast.rehearsal.pulumi_cli import Pulumi
from holdfast.rehearsal.report import CloudRunReport, TimeOverride
from holdfast.rehearsal.sealed import StackFile, sealed_environment
from holdfast.rehearsal.stage import RehearsalError, emulated_cloud, operations_override, shipped
from holdfast.toolcache import Progress
from infra import catalog
from infra.job_alerts import JobAlertsArgs
from mockgcp.cloud import Cloud
from mockgcp.frontends.pulumi.grpc import serve
from mockgcp.planes.cloud_run import CloudRunPlane, Image, LocalImage
from mockgcp.planes.maintenance import AtSteps
from mockgcp.planes.processes import ProcessLedger
from stacks.config import CloudRunConfig

_LIMIT = "holdfast:preemptionsPerDay"
# A step lasts at least this long, so that maintenance can strike between two.
_STEP_S = 0.1


@dataclass(frozen=True)
class Options:
    """What to rehearse.

    Attributes:
        environment: prefix of the stacks' names (`dev` for dev-foundation and dev-cloud-run).
        seed: of the weights, the data, the emulated cloud's ids and the steps at which maintenance strikes.
        preemptions: how often maintenance strikes each task.
        steps: length of the training run.
        keep: leave the rehearsal's folder.
        container: build the image with buildah and run the tasks in it, instead of standing in for both.
    """

    environment: str = "dev"
    seed: int = 0
    preemptions: int = 1
    steps: int = 24
    keep: bool = False
    container: bool = False

    @property
    def job(self) -> str:
        return f"{self.environment}-cloud-run"


@dataclass(frozen=True)
class Stage:
    """A rehearsal that is set up.

    Attributes:
        local: what stands in for the trainer's image.
        images: what each image reference runs, as the plane sees it; the image's build fills it.
    """

    frame: Frame
    local: LocalImage
    images: dict[str, Image]


@contextmanager
def staged(
    options: Options,
    files: dict[str, StackFile],
    strikes: tuple[int, ...],
    engine: Engine,
    report: CloudRunReport,
    say: Progress,
) -> Iterator[Stage]:
    """The sealed environment with the emulated cloud, its provider and the Cloud Run plane running in it."""
    with sealed_environment(keep=options.keep) as sealed:
        cloud = emulated_cloud(files, options.seed, sealed.state)
        _grant_gpus(cloud, files[options.job])
        images: dict[str, Image] = {}
        plane = CloudRunPlane(cloud, state_dir=sealed.state / "cloud-run", images=images, maintenance=AtSteps(strikes))
        processes = ProcessLedger(sealed.root / "processes.jsonl")
        say(f"sealed environment: {sealed.root}")
        plane.start()
        try:
            if options.container:
                cloud.builder = container.builder(sealed.state / "images", processes, say)
            with serve(cloud) as port:
                pulumi = Pulumi(engine, sealed.project, sealed.environ(engine, port), processes)
                stage = Frame(sealed, cloud, (plane,), pulumi, files, report, say)
                yield Stage(stage, training.image(sealed.state), images)
        finally:
            processes.kill()
            plane.stop()


def _grant_gpus(cloud: Cloud, job: StackFile) -> None:
    """The quota that the job asks for, as if it had been requested: a project has none by default."""
    config = _settings(job)
    if config is not None and config.accelerator in catalog.cloud_run().gpus:
        quota = catalog.gpu_quota(config.accelerator, config.gpu_zonal_redundancy)
        at_once = config.parallelism or config.task_count
        cloud.quotas.set(str(job.config["gcp:project"]), quota.quota_id, "*", at_once)


def configuration(options: Options) -> dict[str, StackFile]:
    """The two stacks' configuration, with what a rehearsal sets: a short run, and nothing that keeps destroy back.

    The foundation comes first, as it does in `up`.
    """
    job_file = shipped(options.job)
    job = job_file.config
    job["holdfast:deletionProtection"] = False
    foundation = job.get("holdfast:foundation") or f"{options.environment}-foundation"
    files = {foundation: shipped(foundation), options.job: job_file}
    files[foundation].config["holdfast:forceDestroy"] = True
    config = _settings(job_file)
    if config is None:
        return files  # the stack refuses it in its own words, with the place and the way out
    if options.preemptions > config.max_retries:
        raise RehearsalError(
            f"{options.preemptions} preemptions are more than the job's {config.max_retries} retries, so it would "
            f"fail, as it would on the platform: set holdfast:maxRetries in stacks/Pulumi.{options.job}.yaml to at "
            f"least {options.preemptions}, or ask for at most {config.max_retries} with --preemptions"
        )
    # One less than there will be: the alert on preemptions has to fire.
    job[_LIMIT] = max(0, options.preemptions - 1)
    job["holdfast:env"] = {**config.env, **training.settings(options.seed, options.steps, _STEP_S)}
    return files


def _settings(job: StackFile) -> CloudRunConfig | None:
    """The job's configuration; None for one that the stack refuses."""
    mine = {key.partition(":")[2]: value for key, value in job.config.items() if key.startswith("holdfast:")}
    try:
        return CloudRunConfig.model_validate(mine)
    except ValidationError:
        return None


def overrides(options: Options, job: StackFile) -> list[TimeOverride]:
    configured, set_here = (file.config.get("holdfast:env") for file in (shipped(options.job), job))
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
            name="preemptions a day before an alert",
            platform=str(shipped(options.job).config.get(_LIMIT, JobAlertsArgs.preemptions_per_day)),
            rehearsal=str(job.config.get(_LIMIT)),
        ),
        operations_override(),
    ]
