"""The real engine on an emulated cloud: a sealed environment, a served provider, and projects to run in it."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from holdfast import engine
from holdfast.rehearsal.pulumi_cli import Pulumi, PulumiError
from holdfast.rehearsal.sealed import REPOSITORY, Sealed, StackFile, read_stack, sealed_environment, write_stack
from infra import catalog
from mockgcp.clock import Clock
from mockgcp.cloud import Cloud
from mockgcp.durations import NOMINAL
from mockgcp.frontends.pulumi.grpc import serve
from mockgcp.planes.k8s.programs import Programs
from mockgcp.planes.kubernetes import KubernetesPlane
from mockgcp.planes.processes import ProcessLedger
from mockgcp.services import artifactregistry

PROJECT = "holdfast-dev"
FOUNDATION = "dev-foundation"
JOB = "dev-cloud-run"
VIRTUALENV = Path(sys.prefix)
GKE = "dev-gke-tpu"
# The shipped files keep what destroy would lose; the tests destroy all of it.
DESTROYABLE: dict[str, dict[str, Any]] = {
    FOUNDATION: {"holdfast:forceDestroy": True},
    JOB: {"holdfast:deletionProtection": False},
}


@dataclass(frozen=True)
class Rig:
    """A rehearsal's stage. `pulumi` runs the project's own stacks; `plane`, if any, has the clusters."""

    sealed: Sealed
    cloud: Cloud
    pulumi: Pulumi
    plane: KubernetesPlane | None = None

    def stack(self, name: str, *, copy_of: str = "", **changes: Any) -> None:
        """Puts a shipped stack's configuration in place, with changes in namespace `holdfast` (None takes one out).

        Unlike the shipped ones, these can be destroyed with all they hold; not so a copy for another environment.
        """
        shipped = read_stack(REPOSITORY / "stacks" / f"Pulumi.{copy_of or name}.yaml").config
        config: dict[str, Any] = {**shipped, **DESTROYABLE.get(name, {})}
        for key, value in changes.items():
            whole = key if ":" in key else f"holdfast:{key}"
            config[whole] = value
        write_stack(self.sealed, name, StackFile({k: v for k, v in config.items() if v is not None}))

    def push_image(self) -> None:
        """Puts the image that the shipped job names into the foundation's repository, which has to be up."""
        image = read_stack(REPOSITORY / "stacks" / f"Pulumi.{JOB}.yaml").config["holdfast:image"]
        artifactregistry.seed_image(self.cloud, image)

    def init(self, *stacks: str) -> None:
        for stack in stacks:
            self.pulumi.run("stack", "init", stack)

    def program(self, name: str, source: str, config: Mapping[str, Any] | None = None) -> Pulumi:
        """A project of its own with this program, and its stack `dev`."""
        folder = self.sealed.root / name
        folder.mkdir()
        runtime = {"name": "python", "options": {"virtualenv": str(VIRTUALENV)}}
        (folder / "Pulumi.yaml").write_text(yaml.safe_dump({"name": name, "runtime": runtime}))
        settings = {"gcp:project": PROJECT, "gcp:region": "us-central1", **(config or {})}
        (folder / "Pulumi.dev.yaml").write_text(yaml.safe_dump({"config": settings}))
        (folder / "__main__.py").write_text(source)
        project = replace(self.pulumi, project=folder)
        project.run("stack", "init", "dev")
        return project

    def changed(self) -> list[str]:
        """The methods that changed something in the cloud, in order."""
        return [
            entry.method
            for entry in self.cloud.audit.entries(ok=True)
            if entry.method.rpartition(".")[2] not in ("get", "list", "getIamPolicy")
        ]


def refusal(pulumi: Pulumi, verb: str, stack: str, *args: str) -> str:
    """What the engine said when it refused."""
    with pytest.raises(PulumiError) as raised:
        pulumi.operate(verb, stack, *args)
    return str(raised.value)


@contextmanager
def rig(cache: Path) -> Iterator[Rig]:
    """A stage that keeps everything below `cache`."""
    found = engine.find()
    assert found is not None, "the tests of the engine need one: make engine"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOLDFAST_CACHE", str(cache))
        with sealed_environment() as sealed:
            cloud = Cloud(clock=Clock.wall(), state_dir=sealed.state, durations=dict.fromkeys(NOMINAL, 0.0))
            cloud.seed_project(PROJECT)
            for quota in catalog.gpu_quotas():
                cloud.quotas.set(PROJECT, quota, "*", 1)
            processes = ProcessLedger(sealed.root / "processes.jsonl")
            with serve(cloud) as port:
                yield Rig(sealed, cloud, Pulumi(found, sealed.project, sealed.environ(found, port), processes))


@contextmanager
def with_plane(made: Rig, programs: Programs, provider: Path) -> Iterator[Rig]:
    """The stage with real control planes behind its clusters, and the real Kubernetes provider."""
    state = made.sealed.state / "kubernetes"
    plane = KubernetesPlane(made.cloud.clock, state_dir=state, programs=programs)
    plane.start()
    made.cloud.control_planes = plane
    folders = os.pathsep.join([str(plane.bin_dir), str(provider), made.pulumi.env["PATH"]])
    try:
        yield replace(made, pulumi=replace(made.pulumi, env={**made.pulumi.env, "PATH": folders}), plane=plane)
    finally:
        plane.stop()
