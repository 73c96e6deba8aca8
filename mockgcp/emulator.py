"""An emulated cloud that is served to other programs of this machine: set up, served, waited for.

`python -m mockgcp` and `holdfast emulate` put it together; what runs behind its services is added in between.
"""

from __future__ import annotations

import contextlib
import shlex
import signal
import tempfile
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import typer

from infra import catalog
from mockgcp.clock import Clock
from mockgcp.cloud import DEFAULT_OWNER, Cloud
from mockgcp.durations import NOMINAL
from mockgcp.errors import ApiError
from mockgcp.frontends import rest
from mockgcp.planes.cloud_run import CloudRunPlane, LocalImage
from mockgcp.services import artifactregistry, billing


@dataclass(frozen=True)
class Settings:
    """What the cloud has. `operations_s`: seconds of each long-running operation, None for the nominal ones."""

    project: str
    universe: str
    images: Mapping[str, LocalImage]
    gpu_quota: int = 0
    tpu_quota: int = 0
    operations_s: float | None = None


def images(given: list[str]) -> dict[str, LocalImage]:
    """--image. typer.BadParameter: one is no REFERENCE=COMMAND."""
    found = {}
    for each in given:
        reference, equals, command = each.partition("=")
        if not (reference and equals and command):
            raise typer.BadParameter(f"{each!r}: write REFERENCE=COMMAND", param_hint="--image")
        found[reference] = LocalImage(tuple(shlex.split(command)))
    return found


def ended() -> threading.Event:
    """Is set by Ctrl-C, SIGTERM and the terminal's end, which from now on do nothing else."""
    event = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: event.set())
    return event


@contextlib.contextmanager
def created(settings: Settings, state_dir: Path | None) -> Iterator[tuple[Cloud, Path]]:
    """The cloud, its clock running, and the folder it keeps its files in: `state_dir`, or one that goes at the end.

    Its project has a billing account, and the APIs that `up` cannot turn on itself.

    Raises:
        typer.BadParameter: a universe, an image or a folder that there cannot be.
    """
    with tempfile.TemporaryDirectory(prefix="mockgcp-") as folder:
        root = state_dir or Path(folder)
        durations = None if settings.operations_s is None else dict.fromkeys(NOMINAL, settings.operations_s)
        try:
            root.mkdir(parents=True, exist_ok=True)
            cloud = Cloud(clock=Clock.wall(), state_dir=root / "cloud", universe=settings.universe, durations=durations)
            cloud.seed_project(settings.project).services.update(catalog.services().by_hand)
            billing.seed_billing(cloud, settings.project)
            for reference in settings.images:
                artifactregistry.seed_image(cloud, reference)
        except (ValueError, ApiError, OSError) as error:
            raise typer.BadParameter(str(error)) from error
        granted = dict.fromkeys([*catalog.gpu_quotas(), *catalog.node_gpu_quotas()], settings.gpu_quota)
        granted |= dict.fromkeys(catalog.tpu_quotas(), settings.tpu_quota)
        for quota, amount in granted.items():
            if amount:
                cloud.quotas.set(settings.project, quota, "*", amount)
        yield cloud, root


@contextlib.contextmanager
def served(cloud: Cloud, settings: Settings, root: Path, port: int) -> Iterator[str]:
    """Serves it with its Cloud Run jobs as processes. Yields its address. typer.BadParameter: the port is taken."""
    plane = CloudRunPlane(cloud, state_dir=root / "cloud-run", images=settings.images)
    plane.start()
    with contextlib.ExitStack() as stack:
        stack.callback(plane.stop)
        try:
            bound = stack.enter_context(rest.serve(cloud, port=port, anonymous=DEFAULT_OWNER))
        except OSError as error:
            raise typer.BadParameter(str(error), param_hint="--port") from error
        yield f"http://127.0.0.1:{bound}"
