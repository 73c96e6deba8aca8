"""A Cloud Run job with a GPU and a mounted checkpoint bucket."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

import pulumi
import pulumi_gcp as gcp

from infra import catalog, names
from infra.catalog import Problem, Universe
from infra.errors import refuse

CHECKPOINT_DIR = "CHECKPOINT_DIR"
"""The environment variable that tells the trainer where the bucket is mounted."""
RUN_ID = "HOLDFAST_RUN_ID"
"""The environment variable that names the run, and with it the folder of its checkpoints."""

IMAGE_USER = 65532
"""The user and the group that the trainer's image runs as (workloads/Dockerfile). They own the mounted bucket, or only
root could write checkpoints: https://docs.cloud.google.com/run/docs/configuring/jobs/cloud-storage-volume-mounts."""

_T = TypeVar("_T")
_SETTING = {"memory_gib": "memory", "timeout_s": "task_timeout", "gpu_count": "accelerator", "region": "location"}
_RUN_ID = re.compile(r"[A-Za-z0-9][-_.A-Za-z0-9]{0,62}")


@dataclass(frozen=True)
class GpuJobNetwork:
    """Direct VPC egress. The subnet cannot be deleted for one to two hours after the job
    (https://docs.cloud.google.com/run/docs/configuring/vpc-direct-vpc)."""

    network: pulumi.Input[str]
    """The network's name."""
    subnetwork: pulumi.Input[str]
    """The subnet's name, in the job's region."""
    egress: str = "PRIVATE_RANGES_ONLY"
    """Which traffic goes through it: PRIVATE_RANGES_ONLY, or ALL_TRAFFIC, which needs a NAT to reach the Internet."""


@dataclass(frozen=True)
class GpuJobArgs:
    """Arguments of GpuJob. The defaults are those of scenario A; the platform's limits are the catalog's."""

    project: str
    """The project's id."""
    location: str
    """The region, which is the bucket's too."""
    job_name: str
    """The job's name, at most 56 characters: executions add a suffix of 6."""
    image: str
    """The container image, pinned by digest."""
    bucket: pulumi.Input[str]
    """The name of the checkpoint bucket."""
    service_account: pulumi.Input[str]
    """The e-mail that the tasks run as."""
    accelerator: str = "nvidia-l4"
    """The GPU, one an instance."""
    cpu: str = "8"
    """CPUs an instance. 4, an L4's minimum, allows 16 GiB and leaves the mount no headroom."""
    memory: str = "32Gi"
    """Memory an instance, in Gi. The mount stages writes in it: leave at least the largest file free."""
    task_timeout: str = "43200s"
    """Seconds a task attempt may take, followed by `s`; with a GPU at most 43200s (12 hours)."""
    max_retries: int = 3
    """Retries a task, 1 to 10: maintenance takes one, the application's own failures take the others."""
    task_count: int = 1
    """Tasks an execution, each with its own GPU and its own checkpoints."""
    parallelism: int | None = None
    """Tasks at once, at least 1: as many GPUs must be in the quota. None: all of them."""
    mount_path: str = "/checkpoints"
    """Where the bucket is mounted; the trainer finds it in CHECKPOINT_DIR."""
    mount_options: Sequence[str] = ()
    """Flags of Cloud Storage FUSE without their hyphens, such as metadata-cache-ttl-secs=60; without uid and gid, those
    are IMAGE_USER."""
    run_id: str | None = None
    """The run's name, a folder in the bucket; another one begins anew. None: the trainer uses the job's name."""
    env: Mapping[str, str] = field(default_factory=dict)
    """The trainer's settings."""
    secret_env: Mapping[str, pulumi.Input[str]] = field(default_factory=dict)
    """Settings that Pulumi's state keeps encrypted. Whoever may view the job sees them."""
    gpu_zonal_redundancy: bool = False
    """Whether capacity in a second zone is kept for the job: dearer, and another quota. People report that Cloud Run
    refuses it for jobs, for want of capacity."""
    network: GpuJobNetwork | None = None
    """The network that the tasks are in; None for the platform's own, which starts faster."""
    deletion_protection: bool = True
    """Whether the job refuses to be deleted, or replaced."""
    labels: Mapping[str, str] = field(default_factory=names.labels)
    """The job's labels."""
    universe: Universe = field(default_factory=catalog.universe)
    """The universe that the project is in, by default the public one: limits differ."""


class GpuJob(pulumi.ComponentResource):
    """A Cloud Run job whose tasks survive losing their GPU: they checkpoint to the bucket and are retried.

    Raises InputError, before anything is registered, for what the platform or this project refuses. Child: NAME, under
    which an existing job can be imported.
    """

    job_name: pulumi.Output[str]
    """The job's name."""
    job_id: pulumi.Output[str]
    """projects/PROJECT/locations/REGION/jobs/NAME"""

    def __init__(self, name: str, args: GpuJobArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        refuse(f"GpuJob {name}", *gpu_job_problems(args, args.location, args.universe), *_network_problems(args))
        super().__init__("holdfast:gpu_job:GpuJob", name, None, opts)
        headroom = catalog.mount_headroom_problem(
            accelerator=args.accelerator, memory_gib=catalog.parse_memory_gib(args.memory)
        )
        if headroom is not None:
            pulumi.log.warn(f"GpuJob {name}, memory: {headroom.message}", self)
        preview = catalog.needs_preview(args.accelerator, catalog.parse_duration_s(args.task_timeout))
        job = gcp.cloudrunv2.Job(
            name,
            project=args.project,
            location=args.location,
            name=args.job_name,
            launch_stage="BETA" if preview else "GA",
            deletion_protection=args.deletion_protection,
            labels=args.labels,
            template=gcp.cloudrunv2.JobTemplateArgs(
                task_count=args.task_count, parallelism=args.parallelism, template=_task(args)
            ),
            opts=pulumi.ResourceOptions(parent=self),
        )
        self.job_name = job.name
        self.job_id = job.id
        self.register_outputs({"jobName": self.job_name, "jobId": self.job_id})


class GpuJobSettings(Protocol):
    """What can be wrong with a job before anything exists: GpuJobArgs have it, and so has a stack's configuration."""

    @property
    def job_name(self) -> str: ...
    @property
    def image(self) -> str: ...
    @property
    def accelerator(self) -> str: ...
    @property
    def cpu(self) -> str: ...
    @property
    def memory(self) -> str: ...
    @property
    def task_timeout(self) -> str: ...
    @property
    def max_retries(self) -> int: ...
    @property
    def task_count(self) -> int: ...
    @property
    def parallelism(self) -> int | None: ...
    @property
    def mount_options(self) -> Sequence[str]: ...
    @property
    def run_id(self) -> str | None: ...
    @property
    def env(self) -> Mapping[str, str]: ...
    @property
    def secret_env(self) -> Mapping[str, pulumi.Input[str]]: ...


def gpu_job_problems(settings: GpuJobSettings, location: str, universe: Universe) -> list[Problem]:
    """Everything that the platform or this project refuses of a job there, each problem under its setting's name."""
    problems: list[Problem] = []
    named = (catalog.job_name_problem(settings.job_name), catalog.image_problem(settings.image))
    problems += [each for each in named if each is not None]
    refused = catalog.gpu_job_problems(
        cpu=_read(problems, "cpu", catalog.parse_cpu, settings.cpu),
        memory_gib=_read(problems, "memory", catalog.parse_memory_gib, settings.memory),
        accelerator=settings.accelerator,
        gpu_count=_gpus(settings.accelerator),
        timeout_s=_timeout_s(problems, settings.task_timeout, universe.gpu_task_timeout_max_s),
        max_retries=settings.max_retries,
        universe=universe,
    )
    more = (
        catalog.gpu_region_problem(settings.accelerator, location, universe),
        catalog.preemption_problem(max_retries=settings.max_retries),
        catalog.task_count_problem(settings.task_count),
        catalog.parallelism_problem(settings.parallelism),
        *catalog.mount_option_problems(settings.mount_options),
        _run_id_problem(settings),
    )
    refused += [each for each in more if each is not None]
    problems += [Problem(_SETTING.get(each.field, each.field), each.message) for each in refused]
    for setting, chosen in (("env", settings.env), ("secret_env", settings.secret_env)):
        reserved = [each for each in map(catalog.env_name_problem, chosen) if each is not None]
        problems += [Problem(setting, each.message) for each in reserved]
        if CHECKPOINT_DIR in chosen:
            problems.append(Problem(setting, f"{CHECKPOINT_DIR} is set by this component. Choose another name"))
    problems += [
        Problem("secret_env", f"{variable} is in env too. Leave it in one of them")
        for variable in sorted(settings.env.keys() & settings.secret_env.keys())
    ]
    return problems


def _run_id_problem(settings: GpuJobSettings) -> Problem | None:
    if settings.run_id is None:
        return None
    if RUN_ID in settings.env or RUN_ID in settings.secret_env:
        return Problem("run_id", f"{RUN_ID} is set as a variable too. Leave it in one of them")
    if not _RUN_ID.fullmatch(settings.run_id):
        message = f"{settings.run_id!r} is no folder name: use letters, digits, -, _ and ., a letter or a digit first"
        return Problem("run_id", message)
    return None


def _network_problems(args: GpuJobArgs) -> list[Problem | None]:
    return [catalog.egress_problem(args.network.egress)] if args.network else []


def _gpus(accelerator: str) -> int:
    """GPUs an instance has: all that Cloud Run gives it; 0 of an accelerator that there is not."""
    gpu = catalog.cloud_run().gpus.get(accelerator)
    return gpu.max_per_instance if gpu else 0


def _read(problems: list[Problem], setting: str, reader: Callable[[str], _T], text: str) -> _T | None:
    try:
        return reader(text)
    except ValueError as error:
        problems.append(Problem(setting, str(error)))
        return None


def _timeout_s(problems: list[Problem], text: str, cap_s: int) -> float | None:
    try:
        return catalog.parse_duration_s(text)
    except catalog.DurationError as error:
        # A wrong spelling of a duration that is too long as well is one mistake: the limit's message covers both.
        if error.seconds is None or error.seconds <= cap_s:
            problems.append(Problem("task_timeout", str(error)))
        return error.seconds


def _task(args: GpuJobArgs) -> gcp.cloudrunv2.JobTemplateTemplateArgs:
    volume = "checkpoints"
    settings: dict[str, pulumi.Input[str]] = {CHECKPOINT_DIR: args.mount_path, **args.env}
    if args.run_id is not None:
        settings[RUN_ID] = args.run_id
    settings |= {key: pulumi.Output.secret(value) for key, value in args.secret_env.items()}
    return gcp.cloudrunv2.JobTemplateTemplateArgs(
        # The bucket's mount needs the second generation, and so does the GPU.
        execution_environment="EXECUTION_ENVIRONMENT_GEN2",
        service_account=args.service_account,
        timeout=args.task_timeout,
        vpc_access=_vpc_access(args.network) if args.network else None,
        max_retries=args.max_retries,
        gpu_zonal_redundancy_disabled=not args.gpu_zonal_redundancy,
        node_selector=gcp.cloudrunv2.JobTemplateTemplateNodeSelectorArgs(accelerator=args.accelerator),
        containers=[
            gcp.cloudrunv2.JobTemplateTemplateContainerArgs(
                image=args.image,
                resources=gcp.cloudrunv2.JobTemplateTemplateContainerResourcesArgs(
                    limits={"cpu": args.cpu, "memory": args.memory, "nvidia.com/gpu": str(_gpus(args.accelerator))}
                ),
                envs=[
                    gcp.cloudrunv2.JobTemplateTemplateContainerEnvArgs(name=key, value=value)
                    for key, value in sorted(settings.items())
                ],
                volume_mounts=[
                    gcp.cloudrunv2.JobTemplateTemplateContainerVolumeMountArgs(name=volume, mount_path=args.mount_path)
                ],
            )
        ],
        volumes=[
            gcp.cloudrunv2.JobTemplateTemplateVolumeArgs(
                name=volume,
                gcs=gcp.cloudrunv2.JobTemplateTemplateVolumeGcsArgs(
                    bucket=args.bucket, read_only=False, mount_options=_mount_options(args.mount_options)
                ),
            )
        ],
    )


def _vpc_access(network: GpuJobNetwork) -> gcp.cloudrunv2.JobTemplateTemplateVpcAccessArgs:
    return gcp.cloudrunv2.JobTemplateTemplateVpcAccessArgs(
        egress=network.egress,
        network_interfaces=[
            gcp.cloudrunv2.JobTemplateTemplateVpcAccessNetworkInterfaceArgs(
                network=network.network, subnetwork=network.subnetwork
            )
        ],
    )


def _mount_options(chosen: Sequence[str]) -> list[str]:
    named = {option.partition("=")[0] for option in chosen}
    return [*(f"{name}={IMAGE_USER}" for name in ("uid", "gid") if name not in named), *chosen]
