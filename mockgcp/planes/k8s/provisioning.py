"""A stand-in for GKE's queued provisioning: takes each ProvisioningRequest of its class through its conditions.

Accepted at once; Provisioned when the delay has passed and the pool has room for all its pods at the same time; Failed
when no pool may ever have them. A test may order any ending, which then comes at the next look.
Conditions: docs.cloud.google.com/kubernetes-engine/docs/how-to/provisioningrequest and the CRD's own description;
messages are unchecked.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from mockgcp.clock import Clock
from mockgcp.planes.k8s.api import Api, Object, holds, path
from mockgcp.planes.k8s.nodes import NodePools, Pool
from mockgcp.planes.k8s.stamp import now

CLASS = "queued-provisioning.gke.io"
ROOT = "/apis/autoscaling.x-k8s.io/v1"
PLURAL = "provisioningrequests"

Ending = Literal["Failed", "BookingExpired", "CapacityRevoked"]
_MESSAGES: dict[str, str] = {
    "Accepted": "The ProvisioningRequest has been accepted and waits for capacity.",
    "Provisioned": "All the requested nodes were provisioned.",
    "Failed": "The capacity could not be obtained.",
    "BookingExpired": "The booking of the provisioned capacity has expired.",
    "CapacityRevoked": "The nodes have reached the end of their maximum run duration.",
}


@dataclass(frozen=True)
class Order:
    """An ending that a test has ordered for the requests whose name contains a text."""

    contains: str
    ending: Ending
    message: str = ""


class QueuedProvisioning:
    """Watches a cluster's requests. `delay_s`: seconds of the clock from Accepted to Provisioned, at least."""

    def __init__(self, pools: NodePools, clock: Clock, *, delay_s: float) -> None:
        self._pools, self._clock = pools, clock
        self.delay_s = delay_s
        self._accepted: dict[str, float] = {}
        self._booked: dict[str, tuple[Pool, list[str]]] = {}
        self._orders: list[Order] = []

    def order(self, contains: str, ending: Ending, message: str = "") -> None:
        """The next request whose name contains the text ends that way."""
        self._orders.append(Order(contains, ending, message))

    def step(self, api: Api) -> None:
        for request in api.list(f"{ROOT}/{PLURAL}"):
            if request["spec"]["provisioningClassName"] == CLASS:
                self._look(api, request)

    def _look(self, api: Api, request: Object) -> None:
        name, uid = request["metadata"]["name"], request["metadata"]["uid"]
        if any(holds(request, ending) for ending in ("Failed", "CapacityRevoked")):
            return
        provisioned = holds(request, "Provisioned")
        order = next((order for order in self._orders if order.contains in name), None)
        if order is not None and (provisioned or order.ending == "Failed"):
            self._orders.remove(order)
            self._set(api, request, order.ending, order.message)
            if order.ending == "CapacityRevoked" and uid in self._booked:
                self._pools.shrink(*self._booked.pop(uid))
        elif provisioned:
            return
        elif len(request["spec"]["podSets"]) != 1:
            # how-to/provisioningrequest: GKE takes one pod set a request.
            self._set(api, request, "Failed", "A ProvisioningRequest of this class has exactly one pod set.")
        elif not holds(request, "Accepted"):
            self._accepted[uid] = self._clock.seconds()
            self._set(api, request, "Accepted")
        elif self._clock.seconds() - self._accepted.setdefault(uid, self._clock.seconds()) >= self.delay_s:
            self._provision(api, request)

    def _provision(self, api: Api, request: Object) -> None:
        pool = self._pool(api, request)
        count = int(request["spec"]["podSets"][0]["count"])
        if pool is None:
            self._set(api, request, "Failed", "No node pool with queued provisioning fits the pod template.")
            return
        gang = pool.template.gang
        nodes = -(-count // gang) * gang
        with self._pools.lock:
            if nodes > pool.room():
                return  # it waits, as GKE lets it wait for up to seven days
            self._booked[request["metadata"]["uid"]] = pool, self._pools.grow(pool, nodes)
        self._set(api, request, "Provisioned")

    def _pool(self, api: Api, request: Object) -> Pool | None:
        """The first queued pool that the request's pods fit."""
        wanted = request["spec"]["podSets"][0]["podTemplateRef"]["name"]
        namespace = request["metadata"]["namespace"]
        found = api.get(f"/api/v1/namespaces/{namespace}/podtemplates/{wanted}")
        if found is None:
            return None
        spec = found["template"]["spec"]
        fitting = (pool for pool in self._pools.pools.values() if pool.queued)
        return next((p for p in fitting if p.fits(spec.get("nodeSelector", {}), spec.get("tolerations", []))), None)

    def _set(self, api: Api, request: Object, kind: str, message: str = "") -> None:
        before = [each for each in request.get("status", {}).get("conditions", ()) if each["type"] != kind]
        said = {"type": kind, "status": "True", "reason": kind, "message": message or _MESSAGES[kind]}
        conditions = [*before, {**said, "lastTransitionTime": now()}]
        api.patch_status(path(request, ROOT, PLURAL), {"conditions": conditions})
