"""The stories of scenario B on real Kueue, with the stack's own queues and the operator's own commands."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
import yaml
from planes_rig import Stage, until

from holdfast.kube import Kube
from holdfast.rehearsal import gke_stories
from holdfast.rehearsal.gke_scene import Scene
from holdfast.rehearsal.gke_stories import Script
from holdfast.rehearsal.report import GkeTpuReport
from holdfast.runs.gke import Gke
from infra import catalog
from infra.kueue import PodsReady
from infra.kueue_queues import manifests
from mockgcp.planes.k8s.ray import ScriptedJobs
from stacks.config import Target
from stacks.gke_config import GkeTpuConfig

pytestmark = [pytest.mark.planes, pytest.mark.xdist_group("planes")]

CONFIG = GkeTpuConfig.model_validate(
    {
        "retryLimit": 1,
        "retryBaseSeconds": 1,
        "retryMaxSeconds": 2,
        "podsReadySeconds": 20,
        "podsReadyRetries": 1,
        "podsReadyBaseSeconds": 1,
    }
)
PODS_READY: PodsReady | None = CONFIG.pods_ready()
_ACCOUNT = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": CONFIG.job_account}}


REAL = all(importlib.util.find_spec(module) for module in ("ray", "jax", "orbax"))


@pytest.fixture(scope="module")
def state(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("stories")


@pytest.fixture(scope="module")
def jobs(state: Path) -> Iterator[ScriptedJobs]:
    if not REAL:
        yield ScriptedJobs()
        return
    with gke_stories.real_jobs(state, partial(_bucket, state)) as made:
        yield made
    assert made.processes.alive() == []


def _bucket(state: Path, name: str) -> Path:
    folder = state / "buckets" / name
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@pytest.fixture(scope="module")
def scene(stage: Stage, state: Path) -> Scene:
    for thing in [*manifests(CONFIG.queues()).values(), _ACCOUNT]:
        until(partial(stage.api.apply, thing))
    config = yaml.safe_load(stage.cluster.kubeconfig().read_text())
    target = Target("holdfast-dev", "us-east5", catalog.universe())
    backend, bucket = Gke(Kube(lambda: config), CONFIG, target), _bucket(state, CONFIG.bucket(target))
    return Scene(backend, stage.cluster, stage.jobs, print, 300.0, bucket, state, REAL)


@pytest.mark.parametrize("script", gke_stories.STORIES, ids=[script.name for script in gke_stories.STORIES])
def test_a_story_is_as_expected(
    stage: Stage, scene: Scene, script: Script, record_property: Callable[[str, object], None]
) -> None:
    if script.real and not REAL:
        pytest.skip("nothing here can train: the dependency groups ray and trainer are not installed")
    report = GkeTpuReport(scenario="gke-tpu", seed=0, engine="", engine_version="")
    gke_stories.run(scene, report, [script])
    record_property("seconds", report.phases)
    print(report.phases)
    [story] = report.stories
    assert story.held, story.outcome
    assert stage.cluster.defects == []
