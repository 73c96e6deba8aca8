"""Nodes that come and go like a node pool scales, with GKE's labels, taints and names; nothing runs on them.

The autoscaler of ordinary pools is here, too; nodes of a queued pool come by ProvisioningRequests (provisioning.py).
"""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Container, Iterable, Mapping, Set
from dataclasses import dataclass, field
from typing import Any

from infra import catalog
from mockgcp.clock import Clock
from mockgcp.planes.k8s.api import STRATEGIC, Api, Object
from mockgcp.planes.k8s.stamp import now
from mockgcp.services.container_nodes import NodeTemplate, node_template

POOL_LABEL = "cloud.google.com/gke-nodepool"
_HEARTBEAT_S = 10.0
_ZONE = "topology.kubernetes.io/zone"


@dataclass
class Pool:
    """A node pool: its nodes' template and zone, how many there may be, and how many machines the zone has for it.

    `capacity` None: as many as are asked for; a test sets it to run out. `queued`: by ProvisioningRequests only.
    `run_limit_s`: seconds that a node runs, maxRunDuration, and then it goes with all that runs on it; None: for ever.
    """

    name: str
    template: NodeTemplate
    zone: str
    minimum: int
    maximum: int
    queued: bool = False
    capacity: int | None = None
    run_limit_s: float | None = None
    nodes: list[str] = field(default_factory=list)
    made: int = 0

    @classmethod
    def of(cls, stored: Mapping[str, Any]) -> Pool:
        """The pool as the container service stores it. Of several zones, the first stands for all."""
        scaling, initial = stored.get("autoscaling", {}), int(stored.get("initialNodeCount", 0))
        least, most = initial, initial
        if scaling.get("enabled"):
            least = int(scaling.get("minNodeCount", 0))
            most = int(scaling.get("totalMaxNodeCount") or scaling.get("maxNodeCount", 0))
        queued = bool(stored.get("queuedProvisioning", {}).get("enabled"))
        limit = stored["config"].get("maxRunDuration")
        return cls(
            stored["name"],
            node_template(stored),
            stored["locations"][0],
            least,
            most,
            queued,
            run_limit_s=None if limit is None else catalog.parse_duration_s(limit),
        )

    def room(self) -> int:
        """How many more nodes there may be, in whole gangs: by the pool's maximum and by what the zone has."""
        most = self.maximum if self.capacity is None else min(self.maximum, self.capacity)
        return max(0, most - len(self.nodes)) // self.template.gang * self.template.gang

    def fits(self, selector: Mapping[str, str], tolerations: Iterable[Mapping[str, Any]]) -> bool:
        """Whether a pod with that selector and those tolerations may run on the pool's nodes."""
        labels = {**self.template.labels, POOL_LABEL: self.name, _ZONE: self.zone}
        wanted = all(labels.get(key) == value for key, value in selector.items())
        return wanted and all(_tolerated(taint, list(tolerations)) for taint in self.template.taints)


def _tolerated(taint: Mapping[str, str], tolerations: list[Mapping[str, Any]]) -> bool:
    def matches(toleration: Mapping[str, Any]) -> bool:
        same_key = toleration.get("key", taint["key"]) == taint["key"]
        same_effect = not toleration.get("effect") or toleration["effect"] == taint["effect"]
        any_value = toleration.get("operator") == "Exists"
        return same_key and same_effect and (any_value or toleration.get("value", "") == taint["value"])

    return taint["effect"] == "PreferNoSchedule" or any(map(matches, tolerations))


class NodePools:
    """The pools of a cluster and their nodes. Thread-safe: a test may change them while the cluster runs."""

    def __init__(self, cluster: str, clock: Clock, *, boot_s: float, idle_s: float) -> None:
        self._cluster, self._clock, self._boot_s, self._idle_s = cluster, clock, boot_s, idle_s
        self.pools: dict[str, Pool] = {}
        self.lock = threading.RLock()
        self.kubelet_port = 0
        """Where all kubelets answer on loopback; 0: nowhere."""
        self.held: set[str] = set()
        """Nodes that are booked, and stay though nothing has run on them yet."""
        self._booting: dict[str, float] = {}
        self._born: dict[str, float] = {}
        self._idle_since: dict[str, float] = {}
        self._beats: dict[str, float] = {}

    def put(self, pool: Pool) -> None:
        """Adds a pool with its minimum of nodes, or puts it in the place of one of that name and keeps its nodes."""
        with self.lock:
            if old := self.pools.get(pool.name):
                pool.nodes, pool.made = old.nodes, old.made
            self.pools[pool.name] = pool
            self.grow(pool, pool.minimum - len(pool.nodes))

    def drop(self, name: str) -> None:
        """Takes a pool away with its nodes."""
        with self.lock:
            self.pools.pop(name, None)

    def grow(self, pool: Pool, count: int) -> list[str]:
        """Asks for that many more nodes: their names. They are there after the time that machines take to start."""
        with self.lock:
            for _ in range(max(0, count)):
                # As in GKE's names: gke-CLUSTER-POOL-HASH-SUFFIX.
                group = hashlib.sha256(f"{self._cluster}/{pool.name}".encode()).hexdigest()[:8]
                node = f"gke-{self._cluster[:20]}-{pool.name[:20]}-{group}-{_suffix(pool.made)}"
                pool.made += 1
                pool.nodes.append(node)
                self._booting[node] = self._born[node] = self._clock.seconds() + self._boot_s
            return pool.nodes[-count:] if count > 0 else []

    def shrink(self, pool: Pool, nodes: Iterable[str]) -> None:
        """Takes nodes away, at once."""
        with self.lock:
            gone = set(nodes)
            pool.nodes = [node for node in pool.nodes if node not in gone]

    def expired(self, name: str, nodes: Iterable[str]) -> list[str]:
        """Those that have run as long as the nodes of the pool of that name may."""
        pool, seconds = self.pools.get(name), self._clock.seconds()
        if pool is None or pool.run_limit_s is None:
            return []
        return [node for node in nodes if seconds - self._born[node] >= pool.run_limit_s]

    def step(self, api: Api, pods: list[Object]) -> None:
        """Scales the ordinary pools, and makes the API server's nodes those that the pools have."""
        with self.lock:
            busy = {pod["spec"].get("nodeName") for pod in pods if pod.get("status", {}).get("phase") in _LIVE}
            self._scale_up(pods, busy)
            self.held -= busy
            self._scale_down(busy | self.held)
            for pool in self.pools.values():
                self.shrink(pool, self.expired(pool.name, pool.nodes))
            wanted = {node: pool for pool in self.pools.values() for node in pool.nodes}
        there = {node["metadata"]["name"] for node in api.list("/api/v1/nodes")}
        for node, pool in wanted.items():
            if node not in there and self._booting.get(node, 0.0) <= self._clock.seconds():
                self._make(api, node, pool)
                there.add(node)
            # By the machine's time, as the node controller counts.
            if node in there and time.monotonic() - self._beats.get(node, -_HEARTBEAT_S) >= _HEARTBEAT_S:
                self._beat(api, node, pool)
        for node in there - wanted.keys():
            self._remove(api, node, pods)

    def _scale_up(self, pods: list[Object], busy: Container[str]) -> None:
        """For pods that no node takes: gangs of the first pool that they fit, as far as there is room.

        Nodes without pods are on their way to serve some of them: they start, or the scheduler has not seen them yet.
        """
        waiting = [pod for pod in pods if _unschedulable(pod)]
        for pool in self.pools.values():
            if pool.queued:
                continue
            before, waiting = waiting, [pod for pod in waiting if not pool.fits(*_demands(pod))]
            spare, gang = sum(node not in busy for node in pool.nodes), pool.template.gang
            short = -(-max(0, len(before) - len(waiting) - spare) // gang) * gang
            self.grow(pool, min(short, pool.room()))

    def _scale_down(self, busy: Set[str]) -> None:
        """Gangs without a pod for `idle_s` go, down to the pool's minimum: nodes of all kinds, as GKE does."""
        seconds = self._clock.seconds()
        for pool in self.pools.values():
            gang = pool.template.gang
            for start in range(0, len(pool.nodes), gang):
                members = pool.nodes[start : start + gang]
                if busy & set(members) or any(node in self._booting for node in members):
                    self._idle_since[members[0]] = seconds
                    continue
                idle_s = seconds - self._idle_since.setdefault(members[0], seconds)
                if idle_s >= self._idle_s and len(pool.nodes) - len(members) >= pool.minimum:
                    self.shrink(pool, members)
                    break  # one gang a look: the list has changed

    def _make(self, api: Api, node: str, pool: Pool) -> None:
        template = pool.template
        labels = {**template.labels, "kubernetes.io/hostname": node, POOL_LABEL: pool.name}
        labels |= {_ZONE: pool.zone, "topology.kubernetes.io/region": pool.zone.rpartition("-")[0]}
        spec = {"taints": [dict(taint) for taint in template.taints], "providerID": f"gce://mockgcp/{pool.zone}/{node}"}
        made = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": node, "labels": labels}, "spec": spec}
        api.call("POST", "/api/v1/nodes", made)
        self._beat(api, node, pool)
        with self.lock:
            self._booting.pop(node, None)

    def _beat(self, api: Api, node: str, pool: Pool) -> None:
        ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "mockgcp stands in"}
        ready |= {"lastHeartbeatTime": now(), "lastTransitionTime": now()}
        size = dict(pool.template.allocatable)
        status = {"conditions": [ready], "capacity": size, "allocatable": size}
        if self.kubelet_port:
            status["addresses"] = [{"type": "InternalIP", "address": "127.0.0.1"}]
            status["daemonEndpoints"] = {"kubeletEndpoint": {"Port": self.kubelet_port}}
        api.patch_status(f"/api/v1/nodes/{node}", status, STRATEGIC)
        self._beats[node] = time.monotonic()

    def _remove(self, api: Api, node: str, pods: list[Object]) -> None:
        """The machine is gone at once, and its pods with it."""
        api.delete(f"/api/v1/nodes/{node}")
        for pod in pods:
            if pod["spec"].get("nodeName") == node:
                where = pod["metadata"]
                api.delete(f"/api/v1/namespaces/{where['namespace']}/pods/{where['name']}", grace_s=0)


_LIVE = ("Pending", "Running")


def _suffix(number: int) -> str:
    return hashlib.sha256(str(number).encode()).hexdigest()[:4]


def _unschedulable(pod: Object) -> bool:
    """Whether no node takes it, and it does not wait for a ProvisioningRequest of its own."""
    # Kueue sets the annotation under its group's name and under an older one.
    booked = any(key.endswith("/consume-provisioning-request") for key in pod["metadata"].get("annotations", {}))
    conditions = pod.get("status", {}).get("conditions", ())
    refused = any(each["type"] == "PodScheduled" and each.get("reason") == "Unschedulable" for each in conditions)
    return refused and not booked and not pod["spec"].get("nodeName") and "deletionTimestamp" not in pod["metadata"]


def _demands(pod: Object) -> tuple[Mapping[str, str], list[Mapping[str, Any]]]:
    return pod["spec"].get("nodeSelector", {}), pod["spec"].get("tolerations", [])
