"""A stand-in for GKE's queued provisioning: takes each ProvisioningRequest of its class through its conditions.

Accepted at once; Provisioned when the delay has passed and the pool has room for all its pods at the same time; Failed
when no pool may ever have them, or they were not to be had in time. Its nodes are held for a while (BookingExpired),
and run as long as their pool says (CapacityRevoked). A test may order any ending, which then comes at the next look.
Conditions: docs.cloud.google.com/kubernetes-engine/docs/how-to/provisioningrequest and the CRD's own description;
times: the open cluster autoscaler's (kubernetes/autoscaler, provreq/processor.go). GKE's own, and its messages, are
unchecked.
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


@dataclass(frozen=True)
class Booking:
    """The nodes of a provisioned request, their pool, and since when they are its own, in seconds of the clock."""

    pool: str
    nodes: list[str]
    since: float


class QueuedProvisioning:
    """Watches a cluster's requests.

    In seconds of the clock: `delay_s` from Accepted to Provisioned, at least; `wait_limit_s` until a request that is
    not provisioned fails; `booking_s` that nodes are held for pods.
    """

    def __init__(
        self,
        pools: NodePools,
        clock: Clock,
        *,
        delay_s: float,
        wait_limit_s: float = 604800.0,
        booking_s: float = 600.0,
    ) -> None:
        self._pools, self._clock = pools, clock
        self.delay_s, self.wait_limit_s, self.booking_s = delay_s, wait_limit_s, booking_s
        self._accepted: dict[str, float] = {}
        self._booked: dict[str, Booking] = {}
        self._orders: list[Order] = []

    def order(self, contains: str, ending: Ending, message: str = "") -> None:
        """The next request whose name contains the text ends that way.

        A booking expires so in the moment it is made, as Kueue finds it when its manager was away for all that time.
        """
        self._orders.append(Order(contains, ending, message))

    def forget(self) -> None:
        """Takes back what was ordered and has not come."""
        self._orders.clear()

    def step(self, api: Api) -> None:
        requests = [each for each in api.list(f"{ROOT}/{PLURAL}") if each["spec"]["provisioningClassName"] == CLASS]
        for request in requests:
            self._look(api, request)
        for uid in self._booked.keys() - {each["metadata"]["uid"] for each in requests}:
            self._release(self._booked.pop(uid))

    def _look(self, api: Api, request: Object) -> None:
        uid = request["metadata"]["uid"]
        if any(holds(request, ending) for ending in ("Failed", "CapacityRevoked")):
            return
        if holds(request, "Provisioned"):
            self._look_after(api, request)
        elif order := self._ordered(request, "Failed"):
            self._set(api, request, "Failed", message=order.message)
        elif len(request["spec"]["podSets"]) != 1:
            # how-to/provisioningrequest: GKE takes one pod set a request.
            self._set(api, request, "Failed", message="A ProvisioningRequest of this class has exactly one pod set.")
        elif not holds(request, "Accepted"):
            self._accepted[uid] = self._clock.seconds()
            self._set(api, request, "Accepted")
        else:
            waited_s = self._clock.seconds() - self._accepted.setdefault(uid, self._clock.seconds())
            if waited_s >= self.delay_s and self._provision(api, request):
                return
            if waited_s >= self.wait_limit_s:
                self._set(api, request, "Failed", message="The capacity could not be obtained in time.")

    def _provision(self, api: Api, request: Object) -> bool:
        """Whether it is decided: its nodes are booked, or can never be."""
        pool = self._pool(api, request)
        count = int(request["spec"]["podSets"][0]["count"])
        if pool is None:
            message = "No node pool with queued provisioning fits the pod template."
            self._set(api, request, "Failed", message=message)
            return True
        gang = pool.template.gang
        nodes = -(-count // gang) * gang
        with self._pools.lock:
            if nodes > pool.room():
                return False
            booking = Booking(pool.name, self._pools.grow(pool, nodes), self._clock.seconds())
            self._pools.held |= set(booking.nodes)
        if self._ordered(request, "BookingExpired"):
            self._revoke(booking)
            self._set(api, request, "Provisioned", "BookingExpired")
        else:
            self._booked[request["metadata"]["uid"]] = booking
            self._set(api, request, "Provisioned")
        return True

    def _look_after(self, api: Api, request: Object) -> None:
        """What becomes of nodes that were provisioned."""
        booking = self._booked.get(request["metadata"]["uid"])
        if booking is None:
            return
        order = self._ordered(request, "CapacityRevoked")
        if order or self._pools.expired(booking.pool, booking.nodes):
            self._revoke(self._booked.pop(request["metadata"]["uid"]))
            self._set(api, request, "CapacityRevoked", message=order.message if order else "")
        elif not holds(request, "BookingExpired") and self._clock.seconds() - booking.since >= self.booking_s:
            self._release(booking)
            self._set(api, request, "BookingExpired")

    def _ordered(self, request: Object, ending: Ending) -> Order | None:
        """Takes the first order for that request, when it is one of that ending."""
        order = next((order for order in self._orders if order.contains in request["metadata"]["name"]), None)
        if order is None or order.ending != ending:
            return None
        self._orders.remove(order)
        return order

    def _release(self, booking: Booking) -> None:
        """The nodes stay as any others do: while something runs on them."""
        with self._pools.lock:
            self._pools.held -= set(booking.nodes)

    def _revoke(self, booking: Booking) -> None:
        self._release(booking)
        with self._pools.lock:
            if pool := self._pools.pools.get(booking.pool):
                self._pools.shrink(pool, booking.nodes)

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

    def _set(self, api: Api, request: Object, *kinds: str, message: str = "") -> None:
        before = [each for each in request.get("status", {}).get("conditions", ()) if each["type"] not in kinds]
        said = [
            {
                "type": kind,
                "status": "True",
                "reason": kind,
                "message": message or _MESSAGES[kind],
                "lastTransitionTime": now(),
            }
            for kind in kinds
        ]
        api.patch_status(path(request, ROOT, PLURAL), {"conditions": [*before, *said]})
