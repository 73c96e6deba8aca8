"""Which backend runs a stack's job."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast import stackfile
from holdfast.errors import OperatorError
from holdfast.gcp.api import Api
from holdfast.runs.backend import Backend

if TYPE_CHECKING:
    from holdfast.runs.cloud_run import CloudRun
    from holdfast.runs.gke import Gke
    from holdfast.runs.slurm import Slurm
    from stacks.config import Target

Connect = Callable[["Target"], Api]


def open_backend(stack: str, connect: Connect, folder: Path = stackfile.FOLDER) -> Backend:
    """The backend of a stack's job; `connect` gives the cloud that the stack's file names.

    Raises:
        OperatorError: the stack's file is missing or wrong, or the stack runs no job.
    """
    module = stackfile.module(stack, folder)
    if module not in _BACKENDS:
        raise OperatorError(
            f"stack {stack} ({module}) runs no job; --stack names one that does: {', '.join(_BACKENDS)}"
        )
    return _BACKENDS[module](stack, connect, folder)


def open_cloud_run(stack: str, connect: Connect, folder: Path = stackfile.FOLDER) -> CloudRun:
    """The executions of a stack's Cloud Run job. OperatorError: as of `open_backend`, or it is no such stack."""
    from holdfast.runs.cloud_run import CloudRun
    from stacks.config import CloudRunConfig

    _require("cloud-run", stack, folder)
    config, target = stackfile.read(CloudRunConfig, stack, folder)
    job = f"projects/{target.project}/locations/{target.region}/jobs/{config.job_name}"
    return CloudRun(connect(target), job, target.universe, stack)


def open_gke(stack: str, connect: Connect, folder: Path = stackfile.FOLDER) -> Gke:
    """The jobs of a stack's queue; its cluster is looked for when it is first asked. OperatorError: likewise."""
    from holdfast.kube import Kube
    from holdfast.runs.gke import Gke, cluster_kubeconfig
    from stacks.gke_config import GkeTpuConfig

    _require("gke-tpu", stack, folder)
    config, target = stackfile.read(GkeTpuConfig, stack, folder)
    return Gke(Kube(lambda: cluster_kubeconfig(connect(target), config, target)), config, target, stack)


def open_slurm(stack: str, connect: Connect, folder: Path = stackfile.FOLDER) -> Slurm:
    """The jobs of a stack's training cluster. OperatorError: likewise."""
    from holdfast.runs.slurm import Slurm
    from holdfast.slurm_login import login
    from stacks.slurm_config import SlurmConfig

    _require("slurm", stack, folder)
    config, target = stackfile.read(SlurmConfig, stack, folder)
    cluster = f"projects/{target.project}/locations/{target.region}/modelDevelopmentClusters/{config.cluster_id}"
    return Slurm(connect(target), cluster, config, target, login(config, target), stack)


def _require(wanted: str, stack: str, folder: Path) -> None:
    if (module := stackfile.module(stack, folder)) != wanted:
        raise OperatorError(f"stack {stack} ({module}) runs no such job; --stack names one that does, as dev-{wanted}")


_BACKENDS: dict[str, Callable[[str, Connect, Path], Backend]] = {
    "cloud-run": open_cloud_run,
    "gke-tpu": open_gke,
    "slurm": open_slurm,
}
