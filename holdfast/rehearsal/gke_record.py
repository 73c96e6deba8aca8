"""What Kubernetes said during a story, raw: conditions, states and numbers as it gave them; and what follows from it.

Everything but `Recorder` is pure, and takes a record that may lack anything: a story that did not come to its end.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from infra import catalog
from mockgcp.planes.k8s.api import Api, KubernetesError, Object

KUEUE = f"/apis/{catalog.kueue()['api_version']}"
REQUESTS = "/apis/autoscaling.x-k8s.io/v1"
TPU: str = catalog.kueue()["resources"][-1]
_POOL = catalog.node_label("pool")
_OF_JOB = ("jobStatus", "jobDeploymentStatus", "reason", "message", "startTime", "endTime")
_OF_EVENT = ("type", "reason", "message", "count", "firstTimestamp", "lastTimestamp")
_BUSY = 429

History = Sequence[Mapping[str, Any]]
"""What an object was, each time that it was another, oldest first; `at` in seconds since the story began."""


@dataclass(frozen=True)
class Record:
    """The histories of a story's objects.

    `stack`: what its configuration has to do with them. `workloads` and `jobs` by the job's name, `requests` and `pods`
    (workers only) by their own; `usage`: what the queue counts as used, by flavor and resource, without zeroes;
    `events`: of the workloads, as they are; `said`: what the operator's commands answered, by the command;
    `training`: the trainer's own events, and the comparison of what it made.
    """

    stack: dict[str, Any] = field(default_factory=dict)
    workloads: dict[str, list[Object]] = field(default_factory=dict)
    jobs: dict[str, list[Object]] = field(default_factory=dict)
    requests: dict[str, list[Object]] = field(default_factory=dict)
    pods: dict[str, list[Object]] = field(default_factory=dict)
    usage: list[Object] = field(default_factory=list)
    events: list[Object] = field(default_factory=list)
    said: dict[str, str] = field(default_factory=dict)
    training: dict[str, Any] = field(default_factory=dict)


class Recorder:
    """Writes a record, a look at a time."""

    def __init__(self, api: Api, namespace: str, queue: str, stack: Mapping[str, Any] = {}) -> None:
        self._api, self._namespace, self._queue = api, namespace, queue
        self._began = time.monotonic()
        self._clusters: dict[str, str] = {}
        self.record = Record(dict(stack))

    def look(self) -> Record:
        """Adds what has changed. A server that is busy, or has closed the connection, is asked at the next look."""
        try:
            self._look()
        except OSError:
            pass
        except KubernetesError as error:
            if error.status < _BUSY:
                raise
        return self.record

    def events(self) -> None:
        """Adds the events of the workloads that there were."""
        jobs = {each["name"]: job for job, history in self.record.workloads.items() for each in history}
        self.record.events[:] = [
            {"job": jobs[name], **{key: each.get(key) for key in _OF_EVENT}}
            for each in self._list(f"/api/v1/namespaces/{self._namespace}/events")
            if (name := each["involvedObject"]["name"]) in jobs
        ]

    def _look(self) -> None:
        space, record = f"namespaces/{self._namespace}", self.record
        jobs = {each["metadata"]["name"]: each for each in self._list(f"/apis/ray.io/v1/{space}/rayjobs")}
        for name, job in jobs.items():
            status = job.get("status", {})
            if cluster := status.get("rayClusterName"):
                self._clusters[cluster] = name
            said = {key: status[key] for key in _OF_JOB if key in status}
            self._add(record.jobs, name, {"suspend": job["spec"].get("suspend", False), "status": said})
        workloads = {}
        for workload in self._list(f"{KUEUE}/{space}/workloads"):
            for owner in workload["metadata"].get("ownerReferences", ()):
                name = workload["metadata"]["name"]
                workloads[name] = owner["name"]
                spec = {"name": name, "active": workload["spec"].get("active", True)}
                self._add(record.workloads, owner["name"], {**spec, "status": workload.get("status", {})})
        for request in self._list(f"{REQUESTS}/{space}/provisioningrequests"):
            owners = (workloads.get(each["name"], "") for each in request["metadata"].get("ownerReferences", ()))
            spec = {
                "job": next(filter(None, owners), ""),
                "class": request["spec"]["provisioningClassName"],
                "pod_sets": [each["count"] for each in request["spec"]["podSets"]],
            }
            conditions = request.get("status", {}).get("conditions", [])
            self._add(record.requests, request["metadata"]["name"], {**spec, "conditions": conditions})
        nodes = {each["metadata"]["name"]: each["metadata"].get("labels", {}) for each in self._list("/api/v1/nodes")}
        for pod in self._list(f"/api/v1/{space}/pods"):
            labels = pod["metadata"].get("labels", {})
            if labels.get("ray.io/node-type") == "worker":
                node = pod["spec"].get("nodeName", "")
                state = {
                    "job": self._clusters.get(labels.get("ray.io/cluster", ""), ""),
                    "phase": pod.get("status", {}).get("phase", ""),
                    "node": node,
                    "pool": nodes.get(node, {}).get(_POOL, ""),
                }
                self._add(record.pods, pod["metadata"]["name"], state)
        self._append(record.usage, {"used": self._used()})

    def _used(self) -> dict[str, str]:
        queue = self._api.get(f"{KUEUE}/clusterqueues/{self._queue}") or {}
        found = {
            f"{flavor['name']}/{each['name']}": str(each.get("total", "0"))
            for flavor in queue.get("status", {}).get("flavorsUsage", ())
            for each in flavor["resources"]
        }
        return {name: total for name, total in found.items() if total != "0"}

    def _list(self, path: str) -> list[Object]:
        return self._api.list(path)

    def _add(self, histories: dict[str, list[Object]], name: str, state: Object) -> None:
        self._append(histories.setdefault(name, []), state)

    def _append(self, history: list[Object], state: Object) -> None:
        before = {key: value for key, value in history[-1].items() if key != "at"} if history else None
        if before != state:
            history.append({"at": round(time.monotonic() - self._began, 2), **state})


# -- what can be read off a record -------------------------------------------------------------------------------------


def workload(record: Record, job: str) -> Mapping[str, Any]:
    """A job's workload as it was last; empty when there was none."""
    return (record.workloads.get(job) or [{}])[-1]


def flavor(state: Mapping[str, Any]) -> str:
    """The flavor of a workload's TPU pods in that moment; empty when it had no quota."""
    sets = state.get("status", {}).get("admission", {}).get("podSetAssignments", ())
    return next((each["flavors"][TPU] for each in sets if TPU in each.get("flavors", {})), "")


def flavors(record: Record, job: str) -> list[str]:
    """The flavors that a job had, one for each time that it was given quota."""
    return _turns((state["name"], flavor(state)) for state in record.workloads.get(job, ()))


def reason(state: Mapping[str, Any], condition: str) -> str:
    """The reason of a condition that held in that moment; empty when it did not."""
    status = state.get("status", state)
    found = (each for each in status.get("conditions", ()) if each["type"] == condition and _holds(each))
    return next((str(each["reason"]) for each in found), "")


def reasons(record: Record, job: str, condition: str) -> list[str]:
    """The reasons of a workload's condition, one for each time that it came to hold."""
    return _turns((state["name"], reason(state, condition)) for state in record.workloads.get(job, ()))


def events(record: Record, job: str, kind: str) -> list[str]:
    """The messages of a job's events of that reason, each as often as it was said."""
    mine = [each for each in record.events if each["job"] == job and each["reason"] == kind]
    return [str(each["message"]) for each in mine for _ in range(each["count"] or 1)]


def requests(record: Record, job: str) -> list[list[str]]:
    """The conditions that each of a job's requests came to, in their order, oldest request first."""
    mine = [history for history in record.requests.values() if history[-1]["job"] == job]
    return [
        list(dict.fromkeys(each["type"] for state in history for each in state["conditions"] if _holds(each)))
        for history in sorted(mine, key=lambda history: float(history[0]["at"]))
    ]


def pools(record: Record, job: str, at_least: int = 1) -> set[str]:
    """The pools on whose nodes a job's workers ran; empty when fewer of them did."""
    ran = [
        next((state["pool"] for state in history if state["phase"] == "Running" and state["pool"]), "")
        for history in record.pods.values()
        if history[-1]["job"] == job
    ]
    found = [pool for pool in ran if pool]
    return set(found) if len(found) >= at_least else set()


def result(record: Record, job: str) -> str:
    """What Ray said of a job last."""
    return str((record.jobs.get(job) or [{"status": {}}])[-1]["status"].get("jobStatus", ""))


def used(record: Record) -> Mapping[str, str]:
    """What the queue counted as used, last."""
    found: Mapping[str, str] = (record.usage or [{"used": {"unknown": "unknown"}}])[-1]["used"]
    return found


def _holds(condition: Mapping[str, Any]) -> bool:
    return bool(condition["status"] == "True")


def _turns(states: Iterable[tuple[str, str]]) -> list[str]:
    """What something was, by the name of the workload that it was of, without repetitions and times of nothing."""
    had = list(states)
    return [now[1] for before, now in zip([("", ""), *had], had, strict=False) if now[1] and now != before]
