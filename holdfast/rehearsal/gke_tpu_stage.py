"""The stage of `holdfast rehearse gke-tpu`: its options, the stack's configuration, the cloud that it meets."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from pydantic.alias_generators import to_camel

from holdfast import planes
from holdfast.engine import Engine
from holdfast.rehearsal import gke_stories, preview_kubernetes, ray_training
from holdfast.rehearsal.frame import Frame
from holdfast.rehearsal.pulumi_cli import Pulumi
from holdfast.rehearsal.report import GkeTpuReport, TimeOverride
from holdfast.rehearsal.sealed import Sealed, StackFile, sealed_environment
from holdfast.rehearsal.stage import RehearsalError, emulated_cloud, operations_override, shipped
from holdfast.toolcache import Progress
from infra import catalog
from mockgcp.clock import Clock
from mockgcp.cloud import Cloud
from mockgcp.frontends.pulumi.grpc import serve
from mockgcp.planes.k8s.cluster import Times
from mockgcp.planes.k8s.programs import Programs
from mockgcp.planes.k8s.ray import RayJobs, ScriptedJobs
from mockgcp.planes.k8s.ray_processes import ProcessJobs
from mockgcp.planes.kubernetes import KubernetesPlane
from mockgcp.planes.processes import ProcessLedger
from mockgcp.services import storage
from stacks.gke_config import GkeTpuConfig

# The control plane is reached by its address, since no name leads to it; the range is nobody's (RFC 5737).
_NETWORKS = {"rehearsal": "192.0.2.0/24"}
# Hours of waiting, shortened: fields of the stack's configuration.
_SHORTENED = {
    "retry_limit": 1,
    "retry_base_seconds": 1,
    "retry_max_seconds": 2,
    "pods_ready_seconds": 15,
    "pods_ready_retries": 1,
    "pods_ready_base_seconds": 1,
}
_TIMES = Times(node_boot_s=0.5, provisioning_s=2.0)


@dataclass(frozen=True)
class Options:
    """What to rehearse.

    Attributes:
        environment: prefix of the stack's name (`dev` for dev-gke-tpu).
        seed: of the emulated cloud's ids.
        keep: leave the rehearsal's folder.
    """

    environment: str = "dev"
    seed: int = 0
    keep: bool = False

    @property
    def stack(self) -> str:
        return f"{self.environment}-gke-tpu"


@dataclass(frozen=True)
class Stage:
    """A rehearsal that is set up. `jobs`: how the jobs on Ray clusters go; `real`: whether some of them really run."""

    frame: Frame
    plane: KubernetesPlane
    jobs: ScriptedJobs
    real: bool


@contextmanager
def staged(
    options: Options, files: Mapping[str, StackFile], engine: Engine, report: GkeTpuReport, say: Progress
) -> Iterator[Stage]:
    """The sealed environment with the emulated cloud, its provider and the Kubernetes plane running in it."""
    with sealed_environment(keep=options.keep) as sealed, ExitStack() as running:
        cloud = emulated_cloud(files, options.seed, sealed.state)
        real = gke_stories.real_jobs(sealed.state, lambda bucket: storage.folder(cloud.state_dir, bucket))
        jobs = running.enter_context(real) if can_train() else ScriptedJobs()
        plane = kubernetes_plane(cloud.clock, sealed, jobs)
        processes = ProcessLedger(sealed.root / "processes.jsonl")
        say(f"sealed environment: {sealed.root}")
        grant_tpus(cloud, files[options.stack])
        if not report.not_shown:
            plane.start()
            cloud.control_planes = plane
        try:
            with serve(cloud) as port, _provider(sealed.environ(engine, port, path(plane))) as environ:
                pulumi = Pulumi(engine, sealed.project, environ, processes)
                others = [jobs.processes] if isinstance(jobs, ProcessJobs) else []
                frame = Frame(sealed, cloud, (plane,), pulumi, files, report, say, others)
                yield Stage(frame, plane, jobs, real=bool(others))
        finally:
            processes.kill()
            plane.stop()


def can_train() -> bool:
    """Whether this environment can run the project's programs on Ray: the dependency groups `ray` and `trainer`."""
    return all(importlib.util.find_spec(module) for module in ("ray", "jax", "orbax"))


@contextmanager
def _provider(environ: dict[str, str]) -> Iterator[dict[str, str]]:
    """The environment with a Kubernetes provider; one for previews where the real one is not built."""
    if planes.provider():
        yield environ
        return
    with preview_kubernetes.serve() as port:
        attached = f"{environ['PULUMI_DEBUG_PROVIDERS']},kubernetes:{port}"
        yield {**environ, "PULUMI_DEBUG_PROVIDERS": attached}


def grant_tpus(cloud: Cloud, file: StackFile) -> None:
    """The quotas that the stack's pools draw on, as if they had been requested: a project has none by default."""
    config = settings(file)
    for shape in config.tpu_pools().values() if config else ():
        machine = catalog.machines().get(shape.machine)
        if machine is not None and machine.chips and catalog.tpu_slice_problem(machine.name, shape.topology) is None:
            quota = catalog.tpu_quota(machine.generation, preemptible=shape.queued)
            cloud.quotas.set(str(file.config["gcp:project"]), quota.quota_id, "*", shape.chips)


def kubernetes_plane(clock: Clock, sealed: Sealed, jobs: RayJobs) -> KubernetesPlane:
    """A plane that keeps what it has in the sealed environment, with a rehearsal's times."""
    state = sealed.state / "kubernetes"
    return KubernetesPlane(clock, state_dir=state, programs=planes.find(), jobs=jobs, times=_TIMES)


def path(plane: KubernetesPlane) -> list[Path]:
    """What the engine has to find on PATH: the Kubernetes provider, and who logs it in."""
    provider = planes.provider()
    return [plane.bin_dir, *([provider] if provider else [])]


def changes(programs: Programs | None) -> dict[str, Any]:
    """What a rehearsal sets of the stack: a cluster that can be reached, and nothing that holds destroy back."""
    chart = {"holdfast:kueueChart": str(programs.chart)} if programs else {}
    return {
        "holdfast:authorizedNetworks": _NETWORKS,
        "holdfast:deletionProtection": False,
        "holdfast:forceDestroy": True,
        **chart,
    }


def configuration(options: Options) -> dict[str, StackFile]:
    """The stack's configuration, with what a rehearsal sets.

    Raises:
        RehearsalError: the stack's Kueue is not the one that runs here.
    """
    file, programs = shipped(options.stack), planes.find()
    config = settings(file)
    if config and programs and config.kueue_version != programs.versions["kueue"]:
        raise RehearsalError(
            f"stacks/Pulumi.{options.stack}.yaml, holdfast:kueueVersion: {config.kueue_version}, but what was built to "
            f"rehearse with is Kueue {programs.versions['kueue']}: rehearse with that version, or build the other one "
            f"(holdfast/planes/kubernetes/go.mod, then {planes.COMMAND})"
        )
    shortened = {f"holdfast:{to_camel(field)}": value for field, value in _SHORTENED.items()}
    return {options.stack: StackFile({**file.config, **changes(programs), **shortened}, file.secrets)}


def settings(file: StackFile) -> GkeTpuConfig | None:
    """The stack's configuration, typed; None for one that the stack refuses, in its own words."""
    mine = {key.partition(":")[2]: value for key, value in file.config.items() if key.startswith("holdfast:")}
    try:
        return GkeTpuConfig.model_validate(mine)
    except ValidationError:
        return None


def unavailable() -> str:
    """Why a control plane cannot run here, and the way out; empty where it can."""
    can = KubernetesPlane(Clock(), state_dir=Path(), programs=planes.find()).availability()
    if not can.usable:
        return f"{can.why}: {can.how}"
    return "" if planes.provider() else f"the Pulumi Kubernetes provider is not built: {planes.COMMAND}"


def overrides(options: Options) -> list[TimeOverride]:
    """The times that a rehearsal shortens."""
    before = settings(shipped(options.stack)) or GkeTpuConfig.model_validate({})
    return [
        *(
            TimeOverride(name=to_camel(field), platform=str(getattr(before, field)), rehearsal=str(value))
            for field, value in _SHORTENED.items()
        ),
        TimeOverride(name="a machine becomes a node", platform="minutes", rehearsal=f"{_TIMES.node_boot_s:g} s"),
        TimeOverride(
            name="flex-start nodes are provisioned", platform="up to 7 days", rehearsal=f"{_TIMES.provisioning_s:g} s"
        ),
        *gke_stories.overrides(),
        *(ray_training.overrides() if can_train() else []),
        operations_override(),
    ]
