"""`python -m mockgcp`: an emulated Google Cloud on this machine, for any client of its APIs, until it is ended."""

from __future__ import annotations

import contextlib
import shlex
import signal
import tempfile
import threading
from pathlib import Path
from typing import Annotated

import typer

from infra import catalog
from mockgcp.clock import Clock
from mockgcp.cloud import DEFAULT_OWNER, Cloud
from mockgcp.errors import ApiError
from mockgcp.frontends import rest
from mockgcp.planes.cloud_run import CloudRunPlane, LocalImage
from mockgcp.services import artifactregistry


def _images(given: list[str]) -> dict[str, LocalImage]:
    images = {}
    for each in given:
        reference, equals, command = each.partition("=")
        if not (reference and equals and command):
            raise typer.BadParameter(f"{each!r}: write REFERENCE=COMMAND", param_hint="--image")
        images[reference] = LocalImage(tuple(shlex.split(command)))
    return images


def main(
    project: Annotated[
        str, typer.Option(help="Id of the one project; its owner is user:owner@example.com.")
    ] = "holdfast-dev",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port on the loopback address; 0: a free one.")] = 0,
    state_dir: Annotated[
        Path | None, typer.Option(help="Where objects and tasks keep files; by default a folder that goes at the end.")
    ] = None,
    universe: Annotated[str, typer.Option(help="The universe domain.")] = "googleapis.com",
    image: Annotated[
        list[str] | None,
        typer.Option(
            metavar="REFERENCE=COMMAND", help="An image that is there, and what stands for it here; repeatable."
        ),
    ] = None,
    gpu_quota: Annotated[int, typer.Option(min=0, help="GPUs of each kind in each region.")] = 0,
) -> None:
    """Serve an emulated Google Cloud with one new project, its clock running and its Cloud Run jobs as processes.

    A request's bearer token is its principal, user:NAME@DOMAIN; without one it is the owner. All state but the files in
    --state-dir is lost at the end.
    """
    images = _images(image or [])
    ended = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: ended.set())
    with tempfile.TemporaryDirectory(prefix="mockgcp-") as folder:
        root = state_dir or Path(folder)
        try:
            root.mkdir(parents=True, exist_ok=True)
            cloud = Cloud(clock=Clock.wall(), state_dir=root / "cloud", universe=universe)
            cloud.seed_project(project)
            for reference in images:
                artifactregistry.seed_image(cloud, reference)
        except (ValueError, ApiError, OSError) as error:  # a universe, an image or a folder that there cannot be
            raise typer.BadParameter(str(error)) from error
        for quota in catalog.gpu_quotas() if gpu_quota else ():
            cloud.quotas.set(project, quota, "*", gpu_quota)
        plane = CloudRunPlane(cloud, state_dir=root / "cloud-run", images=images)
        plane.start()
        with contextlib.ExitStack() as stack:
            stack.callback(plane.stop)
            try:
                bound = stack.enter_context(rest.serve(cloud, port=port, anonymous=DEFAULT_OWNER))
            except OSError as error:
                raise typer.BadParameter(str(error), param_hint="--port") from error
            print(f"An emulated Google Cloud with the project {project}. Ctrl-C ends it. To use it from holdfast:")
            print(f"export HOLDFAST_API_ENDPOINT=http://127.0.0.1:{bound}", flush=True)
            ended.wait()


if __name__ == "__main__":
    typer.run(main)
