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


def _cloud_run(stack: str, connect: Connect, folder: Path) -> Backend:
    from holdfast.runs.cloud_run import CloudRun
    from stacks.config import CloudRunConfig

    config, target = stackfile.read(CloudRunConfig, stack, folder)
    job = f"projects/{target.project}/locations/{target.region}/jobs/{config.job_name}"
    return CloudRun(connect(target), job, target.universe, stack)


_BACKENDS: dict[str, Callable[[str, Connect, Path], Backend]] = {"cloud-run": _cloud_run}
