"""Jobs that are processes: when they begin, what they are given, and what ends them. The cluster's pods are made up."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, cast

import pytest

from mockgcp.planes.cloud_run import Launch
from mockgcp.planes.k8s.api import Api, Object
from mockgcp.planes.k8s.ray_processes import ProcessJobs

_BUCKET = {"name": "checkpoints", "csi": {"driver": "fuse", "volumeAttributes": {"bucketName": "kept"}}}
_APP = {"name": "app", "configMap": {"name": "job-app"}}
_SHARED = {"name": "shared-mem", "emptyDir": {"medium": "Memory"}}
_MOUNTS = [{"name": "app", "mountPath": "/app"}, {"name": "checkpoints", "mountPath": "/checkpoints"}]


class Objects:
    """What the API server has: one RayJob, and its program."""

    def __init__(self) -> None:
        self.found: dict[str, Object] = {
            "/apis/ray.io/v1/namespaces/default/rayjobs/job": {
                "metadata": {"name": "job"},
                "spec": {"entrypoint": "python /app/train.py --note 'two words'"},
            },
            "/api/v1/namespaces/default/configmaps/job-app": {"data": {"train.py": "print('hello')\n"}},
        }

    def get(self, path: str) -> Object | None:
        return self.found.get(path)


def pod(name: str, labels: Mapping[str, str], spec: Mapping[str, Any] | None = None, **metadata: str) -> Object:
    given = {"name": name, "namespace": "default", "uid": name, "labels": labels, **metadata}
    given.setdefault("creationTimestamp", "2026-11-29T12:00:00Z")
    return {"metadata": given, "spec": spec or {"containers": [{}]}, "status": {"phase": "Running"}}


def cluster(suffix: str = "aaaaa", workers: int = 2) -> list[Object]:
    """A job's Ray cluster, submitter included, all running."""
    name = f"job-{suffix}"
    container = {
        "env": [{"name": "CHECKPOINT_DIR", "value": "/checkpoints"}],
        "volumeMounts": [*_MOUNTS, {"name": "shared-mem", "mountPath": "/dev/shm"}],
    }
    head = {"containers": [container], "volumes": [_APP, _BUCKET, _SHARED]}
    labels = {"ray.io/cluster": name}
    return [
        pod(f"{name}-head", {**labels, "ray.io/node-type": "head"}, head),
        *(pod(f"{name}-{n}", {**labels, "ray.io/node-type": "worker"}) for n in range(workers)),
        pod(f"submitter-{suffix}", {"batch.kubernetes.io/job-name": "job"}),
    ]


class Scene:
    """`code`: the Python that the next process of a job runs; `launches`: what each was given."""

    def __init__(self, folder: Path) -> None:
        self.objects, self.launches = Objects(), list[Launch]()
        self.code = "import time; print('on', flush=True); time.sleep(60)"
        self.jobs = ProcessJobs(folder / "jobs", self._run, lambda bucket: folder / "buckets" / bucket)

    def _run(self, job: Object, launch: Launch) -> tuple[list[str], dict[str, str]] | None:
        assert job["metadata"]["name"] == "job"
        self.launches.append(launch)
        return [sys.executable, "-c", self.code], {}

    def look(self, pods: list[Object]) -> None:
        self.jobs.look(cast(Api, self.objects), pods)

    def state(self) -> str:
        return self.jobs.state("default", "job")

    def said(self) -> str:
        log = self.jobs.log("default", "job")
        return log.read_text() if log else ""


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    made = Scene(tmp_path)
    yield made
    made.jobs.stop()
    assert made.jobs.processes.alive() == []


def until(holds: Callable[[], object]) -> None:
    deadline = time.monotonic() + 30
    while not holds():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.01)


def test_it_begins_when_the_job_is_submitted_with_what_its_head_has(scene: Scene) -> None:
    *ray, submitter = cluster()
    scene.look(ray)
    assert scene.launches == []
    scene.look([*ray, submitter])
    scene.look([*ray, submitter])
    [launch] = scene.launches
    assert launch.command == ["python", "/app/train.py", "--note", "two words"]
    assert launch.env == {"CHECKPOINT_DIR": "/checkpoints"}
    assert launch.mounts.keys() == {"/app", "/checkpoints"}
    assert (launch.mounts["/app"].folder / "train.py").read_text() == "print('hello')\n"
    assert launch.mounts["/checkpoints"].folder.parts[-2:] == ("buckets", "kept")
    until(lambda: scene.said() == "on\n")
    assert scene.state() == "RUNNING"


@pytest.mark.parametrize(("code", "state"), [("print('done')", "SUCCEEDED"), ("exit('broken')", "FAILED")])
def test_its_exit_code_is_the_jobs_end_and_outlives_the_cluster(scene: Scene, code: str, state: str) -> None:
    scene.code = code
    until(lambda: scene.look(cluster()) or scene.state() == state)
    assert scene.said().strip() in ("done", "broken")
    scene.look([])
    assert scene.state() == state
    assert len(scene.launches) == 1


def test_a_job_that_cannot_begin_has_failed_and_says_why(scene: Scene) -> None:
    scene.objects.found["/apis/ray.io/v1/namespaces/default/rayjobs/job"]["spec"]["entrypoint"] = "python 'half"
    scene.look(cluster())
    assert scene.state() == "FAILED"
    assert "No closing quotation" in scene.said()


def _deleted(pods: list[Object]) -> list[Object]:
    lost, *others = pods
    return [pod("job-aaaaa-head", lost["metadata"]["labels"], deletionTimestamp="2026-11-29T12:01:00Z"), *others]


@pytest.mark.parametrize(
    "change",
    [
        lambda pods: [],
        lambda pods: [pods[0], *pods[2:]],
        _deleted,
        lambda pods: [*pods[:2], {**pods[2], "status": {"phase": "Failed"}}, pods[3]],
    ],
    ids=["cluster gone", "a worker gone", "head being deleted", "a worker failed"],
)
def test_it_dies_with_a_pod_of_its_cluster_and_the_job_goes_on(
    scene: Scene, change: Callable[[list[Object]], list[Object]]
) -> None:
    scene.code = """
import subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"], start_new_session=True)
print(child.pid, flush=True)
time.sleep(60)
"""
    scene.look(cluster())
    until(scene.said)
    scene.look(change(cluster()))
    assert scene.jobs.processes.alive() == []
    assert scene.state() == "RUNNING"
    assert len(scene.launches) == 1


def test_it_begins_anew_when_the_pods_are_back(scene: Scene) -> None:
    scene.look(cluster())
    scene.look(cluster(workers=1))
    scene.look(cluster(workers=1))
    assert len(scene.launches) == 1
    scene.look(cluster())
    assert len(scene.launches) == 2
    assert len(scene.jobs.processes.alive()) == 1
    assert len({launch.folder for launch in scene.launches}) == len(scene.jobs.logs("default", "job")) == 2


def test_another_cluster_of_the_job_is_another_attempt(scene: Scene) -> None:
    scene.code = "exit(1)"
    until(lambda: scene.look(cluster()) or scene.state() == "FAILED")
    fresh = cluster("bbbbb")
    scene.look([{**each, "status": {"phase": "Pending"}} for each in fresh])
    assert scene.state() == "RUNNING", "the end of the one before is not its end"
    stale = pod("old", {"batch.kubernetes.io/job-name": "job"}, creationTimestamp="2026-11-29T11:00:00Z")
    scene.look([*fresh[:-1], stale])
    assert len(scene.launches) == 1
    scene.code = "pass"
    until(lambda: scene.look(fresh) or scene.state() == "SUCCEEDED")
    assert len(scene.launches) == 2


def test_a_job_that_nobody_runs_is_scripted(tmp_path: Path) -> None:
    jobs = ProcessJobs(tmp_path, lambda job, launch: None, lambda bucket: tmp_path)
    jobs.look(cast(Api, Objects()), cluster())
    assert (jobs.state("default", "job"), jobs.log("default", "job")) == ("RUNNING", None)
    jobs.look(cast(Api, Objects()), cluster("bbbbb"))  # submitted anew
    jobs.finish("job")
    assert jobs.state("default", "job") == "SUCCEEDED"
