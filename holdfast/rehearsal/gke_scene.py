"""Where the stories of scenario B play: a cluster with Kueue and the stack's queues, its operator, and who provokes."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from holdfast.errors import OperatorError
from holdfast.rehearsal import gke_record
from holdfast.rehearsal.gke_record import KUEUE, Record, Recorder
from holdfast.runs import verbs
from holdfast.runs.backend import Run
from holdfast.runs.gke import Gke
from holdfast.runs.gke_job import JobOrder
from holdfast.toolcache import Progress
from infra.queue_quota import TPU
from mockgcp.planes.k8s.api import MERGE, Api
from mockgcp.planes.k8s.cluster import Cluster
from mockgcp.planes.k8s.nodes import Pool
from mockgcp.planes.k8s.ray import ScriptedJobs

# A look is seven requests. What Kueue and the cloud do for less than a second is in conditions and events as well.
_LOOK_S = 0.25


class OverdueError(OperatorError):
    """What a story waits for has not come about."""


@dataclass(frozen=True)
class Scene:
    """The operator's backend, the emulated cluster, and its jobs.

    `limit_s`: the longest that anything is waited for. `real`: the jobs of `gke_stories.REALLY_RUN` are processes,
    which find their bucket's objects in `bucket`, and `state` has room for what they are compared with. Without, they
    are told how they end, and nobody trains.
    """

    backend: Gke
    cluster: Cluster
    jobs: ScriptedJobs
    say: Progress
    limit_s: float = 180.0
    bucket: Path | None = None
    state: Path | None = None
    real: bool = False

    @property
    def on_demand(self) -> Pool:
        return self.cluster.pools.pools[self.backend.config.on_demand_pool]

    @property
    def flex_start(self) -> Pool:
        return self.cluster.pools.pools[self.backend.config.flex_start_pool]

    @property
    def hosts(self) -> int:
        """Hosts of a slice, which is what a job has workers."""
        return self.flex_start.template.gang

    def stack(self) -> dict[str, Any]:
        """What a verdict needs to know of the stack."""
        config = self.backend.config
        return {
            "hosts": self.hosts,
            "on_demand_pool": config.on_demand_pool,
            "flex_start_pool": config.flex_start_pool,
            "request_retries": config.retry_limit,
            "pods_ready_retries": config.pods_ready_retries if config.pods_ready_seconds else None,
            "really_run": self.real,
        }

    @contextmanager
    def api(self) -> Iterator[Api]:
        made = self.cluster.api()
        try:
            yield made
        finally:
            made.close()

    def submit(self, order: JobOrder) -> Run:
        """As `holdfast submit gke` does."""
        self.say(f"  submit {order.name}")
        return verbs.submit(self.backend, order, self.say)

    def resubmit(self, name: str) -> Run:
        """As `holdfast resubmit` does."""
        self.say(f"  resubmit {name}")
        return self.backend.resubmit(self.backend.run(name))

    def finish(self, *names: str) -> None:
        """Has jobs succeed that do not really run."""
        for name in names:
            self.jobs.finish(name, namespace=self.backend.config.namespace)

    def scale_down(self) -> None:
        """Takes the nodes of the TPU pools away, as GKE does with those that are idle for 10 minutes."""
        pools = self.cluster.pools
        with pools.lock:
            for pool in (self.on_demand, self.flex_start):
                pools.shrink(pool, pool.nodes)

    @contextmanager
    def closed(self, flavor: str) -> Iterator[None]:
        """A flavor gives nothing out, as an operator does who sets its quota to 0 and runs `pulumi up`."""
        where = f"{KUEUE}/clusterqueues/{self.backend.config.cluster_queue}"
        with self.api() as api:
            groups = (api.get(where) or {})["spec"]["resourceGroups"]
            for each in groups[0]["flavors"]:
                if each["name"] == flavor:
                    [tpu] = [resource for resource in each["resources"] if resource["name"] == TPU]
                    before, tpu["nominalQuota"] = tpu["nominalQuota"], "0"
            api.call("PATCH", where, {"spec": {"resourceGroups": groups}}, MERGE)
            try:
                yield
            finally:
                tpu["nominalQuota"] = before
                api.call("PATCH", where, {"spec": {"resourceGroups": groups}}, MERGE)


@dataclass(frozen=True)
class Take:
    """A story that is being played, and recorded."""

    scene: Scene
    recorder: Recorder

    def submit(self, name: str) -> None:
        self.scene.submit(JobOrder(name=name))

    def watch(self, seconds: float) -> None:
        """Records for that long, of what is not to come about."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self.recorder.look()
            time.sleep(_LOOK_S)

    def until(self, what: Callable[[Record], object], told: str) -> None:
        """Looks until that is true of the record. Raises OverdueError."""
        began = time.monotonic()
        while not what(self.recorder.look()):
            if time.monotonic() - began > self.scene.limit_s:
                raise OverdueError(f"not within {self.scene.limit_s:g} s: {told}")
            time.sleep(_LOOK_S)
        self.scene.say(f"  {time.monotonic() - began:5.1f} s  {told}")


@contextmanager
def take(scene: Scene) -> Iterator[Take]:
    """A clean cluster for a story, and a clean one after it: no jobs, no quota in use, no nodes but the CPU pool's."""
    with scene.api() as api:
        recorder = Recorder(api, scene.backend.config.namespace, scene.backend.config.cluster_queue, scene.stack())
        now = Take(scene, recorder)
        try:
            yield now
        finally:
            recorder.events()
            _clear(scene, api)


def _clear(scene: Scene, api: Api) -> None:
    config = scene.backend.config
    space = f"namespaces/{config.namespace}"
    jobs, workloads = f"/apis/ray.io/v1/{space}/rayjobs", f"{KUEUE}/{space}/workloads"
    names = [job["metadata"]["name"] for job in api.list(jobs)]
    # All at once, where `holdfast cancel --delete` takes one and waits for it.
    api.call("DELETE", jobs, {"propagationPolicy": "Foreground"})
    for name in names:
        api.delete(f"/api/v1/{space}/configmaps/{name}-app")
    for pool in (scene.on_demand, scene.flex_start):
        pool.capacity = None
    scene.scale_down()
    scene.cluster.provisioning.forget()
    emptied = Take(scene, Recorder(api, config.namespace, config.cluster_queue))
    emptied.until(
        lambda record: not gke_record.used(record) and not api.list(jobs) and not api.list(workloads),
        "nothing is left of its jobs, and no quota in use",
    )
