"""`holdfast emulate`: an emulated Google Cloud for the commands, and for any client of Google's APIs."""

from __future__ import annotations

import contextlib
import shlex
from typing import Annotated

import typer

from holdfast.commands.console import err, require
from holdfast.gcp import ENDPOINT
from mockgcp import options


def emulate(
    project: options.Project = options.PROJECT,
    kubernetes: Annotated[
        bool,
        typer.Option("--kubernetes", help="Run a real control plane behind each GKE cluster (root; `make planes`)."),
    ] = False,
    port: options.Port = 0,
    state_dir: options.StateDir = None,
    universe: options.Universe = options.UNIVERSE,
    image: options.Images = None,
    gpu_quota: options.GpuQuota = 0,
    tpu_quota: options.TpuQuota = 0,
    operations: options.Operations = None,
) -> None:
    """Serve an emulated Google Cloud on this machine until Ctrl-C.

    It has one new project, its clock runs, and its Cloud Run jobs are processes. Standard output is what another shell
    has to be told to use it. A request's bearer token is its principal, user:NAME@DOMAIN; without one it is the owner.
    All state but the files in --state-dir is lost at the end.

    With --kubernetes a GKE cluster is a real API server with KubeRay, and Kueue is real once its chart is installed.
    A RayJob's program is one process here, on CPUs; nodes, autoscaler and queued provisioning are stood in for.
    """
    require({"grpc": "mockgcp", "psutil": "mockgcp", "uvicorn": "mockgcp"})
    from mockgcp import emulator

    settings = emulator.Settings(project, universe, emulator.images(image or []), gpu_quota, tpu_quota, operations)
    ended = emulator.ended()
    with contextlib.ExitStack() as stack:
        cloud, root = stack.enter_context(emulator.created(settings, state_dir))
        exports = {}
        if kubernetes:
            from holdfast import emulated_kubernetes

            plane = stack.enter_context(emulated_kubernetes.started(cloud, root))
            exports["PATH"] = f'{shlex.quote(str(plane.bin_dir.absolute()))}:"$PATH"'
        exports[ENDPOINT] = stack.enter_context(emulator.served(cloud, settings, root, port))
        err.print(f"An emulated Google Cloud with the project {project}. Ctrl-C ends it. To use it, in another shell:")
        for name, value in exports.items():
            print(f"export {name}={value}", flush=True)
        ended.wait()
        err.print("ending")
