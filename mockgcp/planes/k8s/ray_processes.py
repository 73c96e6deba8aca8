"""Jobs on Ray clusters that really run: a process in a job's place, killed without a word when its pods go.

Whoever sets the plane up says what a job runs (`Run`), in its image's place; a job that it does not know is scripted.
One process stands for a job's driver and its workers. It begins when KubeRay has submitted the job, for all pods of its
Ray cluster run then. A pod that goes, head or worker, takes it along. The job has not failed by that: as a driver that
waits for its workers it goes on as RUNNING, and a process begins anew once its cluster's pods, or another cluster's,
run. Deliberately not done: limits, elastic jobs that shrink, and what the job's identity may do in the bucket.
"""

from __future__ import annotations

import shlex
import shutil
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from mockgcp.planes.cloud_run import Launch, Mount
from mockgcp.planes.k8s.api import Api, Object
from mockgcp.planes.k8s.ray import ENDED, SUBMITTED, JobState, ScriptedJobs
from mockgcp.planes.processes import ProcessLedger

Key = tuple[str, str]
"""A job's namespace and name."""
Run = Callable[[Object, Launch], tuple[Sequence[str], Mapping[str, str]] | None]
"""What runs in a RayJob's place: the arguments and the whole environment; None for a job that is scripted.

It is given the RayJob as applied, and its launch: the entrypoint's words, the head's environment and mounts (files of
ConfigMaps, buckets' folders), and the attempt's own folder, in which it is started."""


@dataclass
class _Attempt:
    """One run of a job on a Ray cluster. `pods`: the uids of the cluster's when it began; `state`: None if scripted;
    `lost`: killed, with its pods."""

    cluster: str
    pods: frozenset[str]
    state: JobState | None = None
    process: subprocess.Popen[bytes] | None = None
    lost: bool = False


class ProcessJobs(ScriptedJobs):
    """The jobs of one cluster. `folder` gets their logs; `bucket`: where a bucket's objects lie, by its name."""

    def __init__(self, folder: Path, run: Run, bucket: Callable[[str], Path]) -> None:
        super().__init__()
        self._folder, self._run, self._bucket = folder, run, bucket
        self.processes = ProcessLedger(folder / "processes.jsonl")
        self._attempts: dict[Key, _Attempt] = {}
        self._logs: dict[Key, list[Path]] = {}

    def state(self, namespace: str, name: str) -> JobState:
        attempt = self._attempts.get((namespace, name))
        return (attempt and attempt.state) or super().state(namespace, name)

    def log(self, namespace: str, name: str) -> Path | None:
        return next(reversed(self.logs(namespace, name)), None)

    def logs(self, namespace: str, name: str) -> Sequence[Path]:
        """What each process of a job has said, output and errors, oldest first."""
        return self._logs.get((namespace, name), [])

    def look(self, api: Api, pods: list[Object]) -> None:
        running = {pod["metadata"]["uid"] for pod in pods if _runs(pod)}
        for attempt in self._attempts.values():
            self._follow(attempt, running)
        submitted = {key: pod for pod in pods if _runs(pod) and (key := _submitter_of(pod))}
        for key, cluster, members in _clusters(pods):
            before = self._attempts.get(key)
            if before and before.cluster != cluster:
                del self._attempts[key]  # submitted anew: what the one before came to is history
                before = None
            complete = key in submitted and all(map(_runs, members)) and _later(submitted[key], members)
            if complete and (before is None or (before.lost and len(members) >= len(before.pods))):
                self._attempts[key] = self._begin(api, key, cluster, members)

    def stop(self) -> None:
        """Ends every process."""
        self.processes.kill()

    def _follow(self, attempt: _Attempt, running: set[str]) -> None:
        """Takes note of an end, or brings it about when pods are missing."""
        process = attempt.process
        if process is None or attempt.lost or attempt.state in ENDED:
            return
        code = process.poll()
        if code is not None:
            attempt.state = "SUCCEEDED" if code == 0 else "FAILED"
        elif attempt.pods <= running:
            return
        else:
            attempt.lost = True
        self.processes.end_tree(process)
        process.wait()

    def _begin(self, api: Api, key: Key, cluster: str, members: list[Object]) -> _Attempt:
        namespace, name = key
        attempt = _Attempt(cluster, frozenset(pod["metadata"]["uid"] for pod in members))
        job = api.get(f"/apis/ray.io/v1/namespaces/{namespace}/rayjobs/{name}")
        if job is None:  # deleted: its pods will follow
            return attempt
        logs = self._logs.setdefault(key, [])
        folder = self._folder / namespace / name / str(len(logs) + 1)
        folder.mkdir(parents=True)
        head = _head(members)
        env = {each["name"]: each.get("value", "") for each in head["spec"]["containers"][0].get("env", ())}
        mounts = dict(self._mounts(api, head, folder))
        log = folder / "log.txt"
        try:
            started = self._run(job, Launch(shlex.split(job["spec"]["entrypoint"]), (), env, mounts, folder))
            if started is None:
                shutil.rmtree(folder)  # the next attempt's, who has the same number
                return attempt
            with log.open("wb") as out:
                attempt.process = self.processes.spawn(
                    started[0], env=started[1], cwd=folder, stdin=subprocess.DEVNULL, stdout=out, stderr=out
                )
            attempt.state = "RUNNING"
        except Exception as error:  # whatever it is: a job that cannot begin has failed, and says why
            log.write_text(f"mockgcp cannot start the job: {error!r}\n", encoding="utf-8")
            attempt.state = "FAILED"
        logs.append(log)
        return attempt

    def _mounts(self, api: Api, pod: Object, folder: Path) -> Iterator[tuple[str, Mount]]:
        """The head's ConfigMaps, whose files are laid out anew, and its buckets; others have nothing for a program."""
        volumes = {volume["name"]: volume for volume in pod["spec"].get("volumes", ())}
        for mount in pod["spec"]["containers"][0].get("volumeMounts", ()):
            volume, where = volumes[mount["name"]], mount["mountPath"].rstrip("/")
            if "configMap" in volume:
                namespace, name = pod["metadata"]["namespace"], volume["configMap"]["name"]
                found = api.get(f"/api/v1/namespaces/{namespace}/configmaps/{name}") or {}
                place = folder / mount["name"]
                place.mkdir()
                for file, text in (found.get("data") or {}).items():
                    (place / file).write_text(text, encoding="utf-8")
                yield where, Mount(place, read_only=True)
            elif attributes := volume.get("csi", {}).get("volumeAttributes"):
                yield where, Mount(self._bucket(attributes["bucketName"]))


_NODE_TYPE = "ray.io/node-type"


def _clusters(pods: list[Object]) -> Iterator[tuple[Key, str, list[Object]]]:
    """The jobs that have Ray clusters with pods that are not being deleted, the clusters' names, and those pods."""
    by_cluster: dict[tuple[str, str], list[Object]] = {}
    for pod in pods:
        metadata = pod["metadata"]
        if _NODE_TYPE in metadata.get("labels", {}) and "deletionTimestamp" not in metadata:
            by_cluster.setdefault((metadata["namespace"], metadata["labels"]["ray.io/cluster"]), []).append(pod)
    for (namespace, cluster), members in by_cluster.items():
        if _head(members):  # KubeRay's name for a job's cluster: the RayJob's, and a random suffix
            yield (namespace, cluster.rpartition("-")[0]), cluster, members


def _runs(pod: Object) -> bool:
    return pod.get("status", {}).get("phase") == "Running" and "deletionTimestamp" not in pod["metadata"]


def _submitter_of(pod: Object) -> Key | None:
    name = pod["metadata"].get("labels", {}).get(SUBMITTED)
    return None if name is None else (pod["metadata"]["namespace"], name)


def _later(submitter: Object, members: list[Object]) -> bool:
    """Whether it is this cluster's submitter, and not one before's that has not gone yet."""
    began: str = submitter["metadata"]["creationTimestamp"]
    return bool(_head(members)["metadata"]["creationTimestamp"] <= began)


def _head(members: list[Object]) -> Object:
    return next((pod for pod in members if pod["metadata"]["labels"][_NODE_TYPE] == "head"), {})
