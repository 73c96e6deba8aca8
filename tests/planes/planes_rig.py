"""A plane with a cluster of scenario B, and Kueue installed in it by the real provider."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import kube_provider

from holdfast import planes
from infra.kubeconfig import kubeconfig
from infra.kueue import kueue_values
from mockgcp.clock import Clock
from mockgcp.planes.k8s.api import Api, KubernetesError
from mockgcp.planes.k8s.cluster import Cluster, Times
from mockgcp.planes.k8s.programs import Programs
from mockgcp.planes.k8s.ray import ScriptedJobs
from mockgcp.planes.kubernetes import KubernetesPlane

CLUSTER = "projects/holdfast-dev/locations/us-east5-b/clusters/tpu-cluster"


@dataclass
class Stage:
    """A cluster with Kueue. `seconds`: how long each step of bringing it up took."""

    plane: KubernetesPlane
    cluster: Cluster
    api: Api
    jobs: ScriptedJobs
    seconds: dict[str, float] = field(default_factory=dict)

    def mib(self) -> int:
        """What the cluster's processes take: shared pages once (PSS)."""
        return sum(process.memory_full_info().pss for process in self.plane.processes.alive()) >> 20


def until(what: Callable[[], Any], timeout_s: float = 120.0) -> Any:
    """Waits for a true answer. What the API refuses meanwhile counts as not yet."""
    deadline, last = time.monotonic() + timeout_s, ""
    while time.monotonic() < deadline:
        try:
            if found := what():
                return found
        except (KubernetesError, OSError) as error:
            last = str(error)
        time.sleep(0.1)
    raise AssertionError(f"not within {timeout_s:g} s. {last}")


@contextmanager
def started(programs: Programs, folder: Path, jobs: ScriptedJobs) -> Iterator[KubernetesPlane]:
    """A plane without clusters, that leaves nothing."""
    times = Times(node_boot_s=0.5, node_idle_s=600.0, provisioning_s=2.0)
    plane = KubernetesPlane(Clock.wall(), state_dir=folder, programs=programs, jobs=jobs, times=times)
    plane.start()
    try:
        yield plane
    finally:
        plane.stop()


def install_kueue(stage: Stage, programs: Programs, folder: Path) -> None:
    """Kueue on the stage's cluster."""
    config = kubeconfig("tpu-cluster", stage.cluster.endpoint, stage.cluster.ca_certificate)
    install_chart(config, stage.plane.bin_dir, programs, folder)


def install_chart(config: Mapping[str, Any], bin_dir: Path, programs: Programs, folder: Path) -> None:
    """The chart as Kueue ships it, by the real provider, with GKE's kubeconfig; the feature gate is the scenario's.

    `bin_dir` has the plugin that the kubeconfig names.
    """
    found = planes.provider()
    assert found
    release = {
        "name": "kueue",
        "chart": str(programs.chart),
        "namespace": "kueue-system",
        "createNamespace": True,
        "values": kueue_values(["ElasticJobsViaWorkloadSlices"], {}),
    }
    with kube_provider.provider([found, bin_dir], json.dumps(config), folder) as provider:
        provider.create(kube_provider.RELEASE, "kueue", release)
