"""The log of a RayJob's pods, by the pods' own log API: the submitter's, which is the driver's, or a worker's.

It is there as long as the pod is. GKE keeps what pods wrote in Cloud Logging as well, which `link` points at.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from holdfast.errors import OperatorError
from holdfast.gcp.api import CloudError
from holdfast.kube import Kube, Object
from holdfast.runs import plain_log
from holdfast.runs.backend import LogLine, Run, Selection
from holdfast.runs.gke_status import workers

# Ray puts the worker's name before each of its lines, in colour: (RayTrainWorker pid=12, ip=10.4.0.3) ...
_OF_WORKER = re.compile(r"(?:\x1b\[\d+m)?\([^()]*pid=\d+[^()]*\)(?:\x1b\[0m)? ?")
# The log API's answers for a pod that has no log yet: it starts, or has just gone.
_NONE_YET = ("INVALID_ARGUMENT", "NOT_FOUND")


def pods(kube: Kube, namespace: str, job: Object) -> list[Object]:
    """The pods of a RayJob: head and workers of its Ray cluster as it is now, and the submitter."""
    where, name = f"/api/v1/namespaces/{namespace}/pods", job["metadata"]["name"]
    cluster = job.get("status", {}).get("rayClusterName")
    of_cluster = kube.list(where, f"ray.io/cluster={cluster}") if cluster else []
    return [*of_cluster, *kube.list(where, f"batch.kubernetes.io/job-name={name}")]


@dataclass
class PodLog:
    """The log of the submitter, or of worker `selection.task`; whichever pod that is at the time of the look."""

    kube: Kube
    namespace: str
    job: str
    run: Run
    selection: Selection
    link: str
    _read_to: dict[str, str] = field(default_factory=dict)
    """By pod, the time of the last line that was read."""
    _told: bool = False

    def read(self) -> list[LogLine]:
        found = self.kube.get(self.job)
        if found is not None and self.selection.task is not None and self.selection.task >= workers(found):
            raise OperatorError(f"--task {self.selection.task}: {self.run.name} has workers 0 to {workers(found) - 1}")
        chosen = [] if found is None else self._chosen(pods(self.kube, self.namespace, found))
        if not chosen and not self.run.active and not self._told:
            self._told = True
            return [self._gone()]
        lines = [line for pod in chosen for line in self._of(pod["metadata"]["name"])]
        return plain_log.wanted(self.selection, lines)

    def last_step(self) -> int | None:
        """The newest step that the end of the log tells of; None: of none."""
        found = self.kube.get(self.job)
        for pod in [] if found is None else self._chosen(pods(self.kube, self.namespace, found)):
            step = plain_log.last_step(self._lines(pod["metadata"]["name"], {"tailLines": plain_log.TAIL}))
            if step is not None:
                return step
        return None

    def _gone(self) -> LogLine:
        said = f"the pods that wrote this log are gone; GKE keeps what they wrote in Cloud Logging: {self.link}"
        now = datetime.now(UTC)
        entry = {"timestamp": now.isoformat(), "textPayload": said}
        return LogLine(now, "NOTICE", "platform", None, None, said, {}, entry)

    def _chosen(self, there: list[Object]) -> list[Object]:
        if self.selection.task is None:
            mine = [pod for pod in there if "ray.io/cluster" not in pod["metadata"]["labels"]]
            return sorted(mine, key=lambda pod: str(pod["metadata"]["creationTimestamp"]))
        mine = [pod for pod in there if pod["metadata"]["labels"].get("ray.io/node-type") == "worker"]
        return sorted(mine, key=_place)[self.selection.task :][:1]

    def _of(self, pod: str) -> list[LogLine]:
        """The lines of a pod that were not read before."""
        last = self._read_to.get(pod)
        since = last or (self.selection.since.isoformat() if self.selection.since else None)
        # The API's `sinceTime` knows whole seconds.
        lines = self._lines(pod, {"sinceTime": f"{datetime.fromisoformat(since):%Y-%m-%dT%H:%M:%SZ}"} if since else {})
        # Times have nanoseconds and one form, so that they are ordered as texts.
        new = [line for line in lines if last is None or line.entry["timestamp"] > last]
        if new:
            self._read_to[pod] = new[-1].entry["timestamp"]
        return new

    def _lines(self, pod: str, query: Mapping[str, Any]) -> list[LogLine]:
        where = f"/api/v1/namespaces/{self.namespace}/pods/{pod}/log"
        try:
            text = self.kube.text(where, {"timestamps": "true", **query})
        except CloudError as error:
            if error.status in _NONE_YET:
                return []
            raise
        return [_line(line, pod, self.selection.task) for line in text.splitlines() if " " in line]


def _place(pod: Object) -> tuple[int, int]:
    labels = pod["metadata"]["labels"]
    replica, host = (f"ray.io/{name}" for name in ("worker-group-replica-index", "replica-host-index"))
    return int(labels.get(replica, 0)), int(labels.get(host, 0))


def _line(text: str, pod: str, task: int | None) -> LogLine:
    """A line with its time before it. An event of the trainer's belongs to the task that it names."""
    stamp, _, said = text.partition(" ")
    payload = plain_log.payload(_OF_WORKER.sub("", said, count=1))
    return LogLine(
        time=datetime.fromisoformat(stamp),
        severity=plain_log.severity(payload),
        source="task",
        task=payload.get("task_index", task),
        attempt=payload.get("attempt"),
        message=str(payload.get("message") or said),
        payload=payload,
        entry={"timestamp": stamp, "pod": pod, **({"jsonPayload": payload} if payload else {"textPayload": said})},
    )
