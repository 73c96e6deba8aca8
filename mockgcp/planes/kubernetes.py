"""The Kubernetes plane: behind each emulated GKE cluster a real control plane with real KubeRay, and real Kueue once
its chart is installed. Nodes, kubelets, GKE's autoscaler and its queued provisioning are stood in for (k8s/).

Deliberately not done: Dataplane, load balancers, persistent volumes, the fleet, workload identity's metadata server.
"""

from __future__ import annotations

import secrets
import threading
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from mockgcp.clock import Clock
from mockgcp.planes.k8s import addresses, auth_plugin
from mockgcp.planes.k8s.cluster import Cluster, Times
from mockgcp.planes.k8s.nodes import Pool
from mockgcp.planes.k8s.programs import Programs
from mockgcp.planes.k8s.ray import RayJobs, ScriptedJobs
from mockgcp.planes.processes import ProcessLedger
from mockgcp.planes.protocol import Availability

_LOOK_S = 0.2


class KubernetesPlane:
    """Runs the control planes of clusters while it is started.

    Args:
        clock: the cloud's own.
        programs: what a control plane is made of; None: it was not built, and the plane is not available.
        jobs: how the jobs on Ray clusters go.
        times: how long what is stood in for takes.
    """

    name = "kubernetes"

    def __init__(
        self,
        clock: Clock,
        *,
        state_dir: Path,
        programs: Programs | None,
        jobs: RayJobs | None = None,
        times: Times | None = None,
    ) -> None:
        self._clock, self._programs = clock, programs
        self._jobs, self._times = jobs or ScriptedJobs(), times or Times()
        self.state_dir = state_dir
        self.processes = ProcessLedger(state_dir / "processes.jsonl")
        self._clusters: dict[str, Cluster] = {}
        self._starting = 0
        self._changed = threading.Condition()
        self._token = secrets.token_urlsafe(24)

    @property
    def clock(self) -> Clock:
        return self._clock

    @property
    def bin_dir(self) -> Path:
        """Holds `gke-gcloud-auth-plugin`: first on PATH, GKE's own kubeconfigs reach the clusters."""
        return self.state_dir / "bin"

    def availability(self) -> Availability:
        if self._programs is None:
            return Availability(False, "the programs of the Kubernetes plane are not built", "make planes")
        can = addresses.availability()
        return Availability(True, versions=self._programs.versions) if can.usable else can

    def start(self) -> None:
        found = self.availability()
        if not found.usable:
            raise RuntimeError(f"the Kubernetes plane cannot run here: {found.why}; {found.how}")
        self.state_dir.mkdir(parents=True, exist_ok=True)
        auth_plugin.write(self.bin_dir, self._token)

    def create(self, name: str, pools: Iterable[Mapping[str, Any]]) -> Cluster:
        """Brings up the cluster of that full name, with the pools as the container service stores them.

        It returns when the control plane answers, after 10 to 20 seconds.

        Raises:
            RuntimeError: it does not come up. ValueError: a pool's machine type is not known.
        """
        assert self._programs is not None, "start() refuses that"
        made = Cluster(
            name.rpartition("/")[2],
            programs=self._programs,
            state_dir=self.state_dir / name.replace("/", "_"),
            processes=self.processes,
            clock=self._clock,
            jobs=self._jobs,
            token=self._token,
            times=self._times,
            pools=[Pool.of(pool) for pool in pools],
        )
        with self._changed:
            self._starting += 1
        try:
            made.start()
            with self._changed:
                self._clusters[name] = made
        finally:
            with self._changed:
                self._starting -= 1
                self._changed.notify_all()
        return made

    def cluster(self, name: str) -> Cluster | None:
        """The cluster of that full name that runs."""
        return self._clusters.get(name)

    def delete(self, name: str) -> None:
        """Ends a cluster; one that is not there is fine."""
        with self._changed:
            gone = self._clusters.pop(name, None)
        if gone is not None:
            gone.stop()

    def put_pool(self, cluster: str, pool: Mapping[str, Any], nodes: int | None = None) -> None:
        """Adds or changes a pool as the container service stores it, and has it have that many nodes.

        What a test has set of its capacity stays. Without autoscaling, it has as many nodes as it was told last.
        """
        found = self.cluster(cluster)
        if found is None:
            return
        pools, made = found.pools, Pool.of(pool)
        with pools.lock:
            old = pools.pools.get(made.name)
            if old is not None:
                made.capacity = old.capacity
            if not pool.get("autoscaling", {}).get("enabled"):
                count = nodes if nodes is not None else old.maximum if old is not None else made.maximum
                made.minimum = made.maximum = count
            pools.put(made)
            if nodes is not None:
                pools.grow(made, nodes - len(made.nodes))
                pools.shrink(made, made.nodes[nodes:])

    def drop_pool(self, cluster: str, pool: str) -> None:
        """Takes a pool away with its nodes; one that is not there is fine."""
        if found := self.cluster(cluster):
            found.pools.drop(pool)

    def sizes(self, cluster: str) -> dict[str, int]:
        """How many nodes each pool has, or is growing to."""
        found = self.cluster(cluster)
        if found is None:
            return {}
        with found.pools.lock:
            return {name: len(pool.nodes) for name, pool in found.pools.pools.items()}

    def stop(self) -> None:
        self._end_starting()
        for name in list(self._clusters):
            self.delete(name)
        self.processes.kill()

    def _end_starting(self) -> None:
        """Has clusters that are starting in other threads fail: whatever they start next ends, too."""
        with self._changed:
            while self._starting:
                self.processes.kill()
                self._changed.wait(timeout=_LOOK_S)
