"""How a RayJob is, and in one sentence why it waits: a pure function of its objects, as Kubernetes gives them.

What Kueue 0.17.0 and KubeRay 1.6.2 write was read off a real cluster; other versions' words are passed on as they are.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from holdfast.runs.backend import State

Object = Mapping[str, Any]

WORKERS = "tpu-group"
"""The group of a job's workers, as infra/ray_job.py calls it."""


@dataclass(frozen=True)
class Seen:
    """What there is of a job. `pending`: the ClusterQueue's pending workloads in order; None: nobody could be asked."""

    job: Object
    workload: Object | None = None
    requests: Sequence[Object] = ()
    pods: Sequence[Object] = ()
    pending: Sequence[Object] | None = None


@dataclass(frozen=True)
class Status:
    """How it is. `sentence`: what it does or waits for; `flavor`: of its workers; `ahead`: how many in its queue are
    before it, None when it is not in it or that is not known; `pods`: the ready ones, and all that it will have."""

    state: State
    sentence: str
    queue: str = ""
    ahead: int | None = None
    flavor: str = ""
    requests: tuple[str, ...] = ()
    pods: tuple[int, int] = (0, 0)
    ended: datetime | None = None


def look(seen: Seen) -> Status:
    """How the job of these objects is."""
    state, sentence = _over(seen) or _under_way(seen)
    workload = seen.workload or {}
    return Status(
        state,
        sentence,
        queue=workload.get("spec", {}).get("queueName", ""),
        ahead=_ahead(seen),
        flavor=_flavor(workload),
        requests=tuple(map(_request, seen.requests)),
        pods=(sum(map(_ready, _cluster_pods(seen.pods))), 1 + workers(seen.job)),
        ended=_ended(seen) if state in ("succeeded", "failed", "cancelled") else None,
    )


def workers(job: Object) -> int:
    """How many workers a RayJob begins with."""
    groups = job["spec"].get("rayClusterSpec", {}).get("workerGroupSpecs", ())
    return sum(each.get("replicas", 0) * each.get("numOfHosts", 1) for each in groups)


def condition(thing: Object, kind: str) -> Object:
    """An object's condition of that type; empty when it has none."""
    return next((each for each in thing.get("status", {}).get("conditions", ()) if each["type"] == kind), {})


def holds(thing: Object, kind: str) -> bool:
    return bool(condition(thing, kind).get("status") == "True")


def moment(text: str) -> datetime:
    return datetime.fromisoformat(text)


def deactivated(workload: Object | None) -> bool:
    """Whether Kueue, or somebody, has taken the workload out of its queue for good."""
    return workload is not None and not workload.get("spec", {}).get("active", True)


def _over(seen: Seen) -> tuple[State, str] | None:
    """How a job ended; None for one that did not."""
    status = seen.job.get("status", {})
    deployment, result = status.get("jobDeploymentStatus", ""), status.get("jobStatus", "")
    if deployment in ("Complete", "Failed", "ValidationFailed"):
        if result == "SUCCEEDED":
            return "succeeded", "it is complete"
        said = ": ".join(filter(None, (status.get("reason"), status.get("message"))))
        return ("cancelled" if result == "STOPPED" else "failed"), said or f"Ray says {result or 'nothing'}"
    if "deletionTimestamp" in seen.job["metadata"]:
        return "cancelled", "it is being deleted"
    workload = seen.workload or {}
    evicted = condition(workload, "Evicted")
    if not deactivated(workload) or holds(workload, "QuotaReserved") or evicted.get("status") != "True":
        return None
    if evicted["reason"] == "Deactivated":
        return "cancelled", "its workload was deactivated by hand"
    said = next((revoked for each in seen.requests if (revoked := _revoked(each))), "")
    why = said or evicted["message"]
    return "failed", f"deactivated since {_since(evicted)}: {why}. Kueue does not start it again: resubmit it"


def _under_way(seen: Seen) -> tuple[State, str]:
    deployment = seen.job.get("status", {}).get("jobDeploymentStatus", "")
    if deactivated(seen.workload):
        return ("running" if deployment == "Running" else "pending"), "it is being deactivated"
    if deployment == "Running":
        short = _waiting_pods(seen)
        return "running", f"it runs, but {short}" if short else "it runs"
    workload = seen.workload
    if workload is None:
        return "pending", "Kueue has not seen it yet"
    if holds(workload, "Admitted") and not seen.job["spec"].get("suspend"):
        short = _waiting_pods(seen) or "its Ray cluster starts"
        return "pending", f"admitted on {_flavor(workload)} since {_since(condition(workload, 'Admitted'))}; {short}"
    if holds(workload, "QuotaReserved"):
        return "pending", _reserved(workload, seen.requests)
    return "pending", _queued(seen, workload)


def _reserved(workload: Object, requests: Sequence[Object]) -> str:
    """It has quota, and no nodes yet."""
    since = _since(condition(workload, "QuotaReserved"))
    begun = f"quota of {_flavor(workload)} is reserved since {since}"
    for check in workload["status"].get("admissionChecks", ()):
        if check["state"] == "Retry":
            again = workload["status"].get("requeueState", {}).get("requeueAt")
            when = f" at {_at(again)}" if again else ""
            return f"{begun}, but {check['name']} says: {check['message']}. Kueue asks again{when}"
        if check["state"] == "Rejected":
            return f"{begun}, but {check['name']} refuses it: {check['message']}"
    request = next((each for each in reversed(requests) if not _failed(each)), None)
    if request is None and requests:
        return f"{begun}; its request for nodes ended ({_revoked(requests[-1])}), and Kueue is about to act on that"
    if request is None:
        return f"{begun}; Kueue is about to order nodes"
    count = sum(each["count"] for each in request["spec"].get("podSets", ()))
    if holds(request, "Provisioned"):
        return f"{begun}, and its {count} nodes are there since {_since(condition(request, 'Provisioned'))}"
    if holds(request, "Accepted"):
        accepted = _since(condition(request, "Accepted"))
        return f"{begun}; GKE waits for {count} flex-start nodes at once, its request is accepted since {accepted}"
    return f"{begun}; its request for {count} nodes is not accepted yet"


def _queued(seen: Seen, workload: Object) -> str:
    """It has no quota."""
    quota, evicted = condition(workload, "QuotaReserved"), condition(workload, "Evicted")
    again = workload.get("status", {}).get("requeueState", {}).get("requeueAt")
    if evicted.get("status") == "True" and again:
        return f"evicted at {_since(evicted)}: {evicted['message']}. Kueue tries again at {_at(again)}"
    said = quota.get("message", "")
    if quota.get("reason") == "Inadmissible":
        return f"inadmissible: {said}. It waits until that changes"
    ahead = _ahead(seen)
    before = "" if ahead is None else f": {ahead} ahead of it" if ahead else ": it is the first"
    short = _shortage(said)
    return f"no quota yet{before}" + (f"; {short}" if short else "")


_SHORT = re.compile(r"insufficient (?:unused )?quota for (\S+) in flavor (\S+?), (\S+) more needed")


def _shortage(said: str) -> str:
    """Kueue's reason, shortened where it lists every flavor of every pod set."""
    found: dict[tuple[str, str], str] = {}
    for resource, flavor, more in _SHORT.findall(said):
        found[flavor, resource] = f"{flavor} lacks {more} of {resource}"
    return ", ".join(found.values()) or said


def _ahead(seen: Seen) -> int | None:
    if seen.workload is None or seen.pending is None:
        return None
    name = seen.workload["metadata"]["name"]
    places = (each["positionInClusterQueue"] for each in seen.pending if each["metadata"]["name"] == name)
    return next(places, None)


def _flavor(workload: Object) -> str:
    """The flavor of the workers, else of whatever pod set comes first."""
    admission = workload.get("status", {}).get("admission", {})
    sets = {each["name"]: each.get("flavors", {}) for each in admission.get("podSetAssignments", ())}
    flavors: Mapping[str, str] = sets.get(WORKERS) or next(iter(sets.values()), {})
    return ", ".join(dict.fromkeys(flavors.values()))


def _request(request: Object) -> str:
    """A ProvisioningRequest with its conditions, in the order in which they came to hold."""
    conditions = [each for each in request.get("status", {}).get("conditions", ()) if each["status"] == "True"]
    conditions.sort(key=lambda each: each.get("lastTransitionTime", ""))
    said = ", ".join(f"{each['type']} {_since(each)}" for each in conditions)
    return f"{request['metadata']['name']}: {said or 'no condition yet'}"


def _failed(request: Object) -> bool:
    return holds(request, "Failed") or holds(request, "CapacityRevoked")


def _revoked(request: Object) -> str:
    for kind in ("CapacityRevoked", "Failed"):
        if holds(request, kind):
            return f"{kind}: {condition(request, kind).get('message', '')}"
    return ""


def _cluster_pods(pods: Iterable[Object]) -> list[Object]:
    return [pod for pod in pods if "ray.io/node-type" in pod["metadata"].get("labels", {})]


def _ready(pod: Object) -> bool:
    return holds(pod, "Ready")


def _waiting_pods(seen: Seen) -> str:
    """Which pods are not ready, and why; empty when all are, or none is there yet."""
    pods = _cluster_pods(seen.pods)
    unschedulable = [pod for pod in pods if condition(pod, "PodScheduled").get("reason") == "Unschedulable"]
    if unschedulable:
        refused = condition(unschedulable[0], "PodScheduled")
        count = f"{len(unschedulable)} of {len(pods)} pods have"
        return f"{count} no machine since {_since(refused)}: {_first_sentence(refused.get('message', ''))}"
    waiting = [pod for pod in pods if not _ready(pod)]
    if not waiting:
        return ""
    reasons = (
        state["waiting"].get("reason", "") + (f": {said}" if (said := state["waiting"].get("message")) else "")
        for pod in waiting
        for each in pod.get("status", {}).get("containerStatuses", ())
        if "waiting" in (state := each.get("state", {}))
    )
    reason = next(filter(None, reasons), "")
    return f"{len(waiting)} of {len(pods)} pods are not ready" + (f" ({reason})" if reason else "")


def _first_sentence(text: str) -> str:
    return text.split(". ")[0].rstrip(".")


def _ended(seen: Seen) -> datetime | None:
    at = seen.job.get("status", {}).get("endTime") or condition(seen.workload or {}, "Evicted").get(
        "lastTransitionTime"
    )
    return moment(at) if at else None


def _since(thing: Object) -> str:
    return _at(thing["lastTransitionTime"]) if thing.get("lastTransitionTime") else "an unknown time"


def _at(text: str) -> str:
    return f"{moment(text):%m-%dT%H:%M:%SZ}"
