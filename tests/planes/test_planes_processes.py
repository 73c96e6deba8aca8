"""Jobs that are processes, on a real control plane with real KubeRay: what is killed with a slice begins anew."""

from __future__ import annotations

import functools
import sys
from collections.abc import Iterator
from pathlib import Path

import planes_scenario
import pytest
from planes_rig import CLUSTER, Stage, started, until

from mockgcp.planes.cloud_run import Launch
from mockgcp.planes.k8s.api import MERGE, Object
from mockgcp.planes.k8s.programs import Programs
from mockgcp.planes.k8s.ray_processes import ProcessJobs

pytestmark = pytest.mark.planes

_JOBS = "/apis/ray.io/v1/namespaces/default/rayjobs"
# Says which attempt it is, by the mounted bucket, and goes on until the file `enough` is there.
_PROGRAM = """
import os, pathlib, time
kept = pathlib.Path(os.environ["CHECKPOINT_DIR"])
number = len(list(kept.glob("begun-*"))) + 1
(kept / f"begun-{number}").touch()
print("attempt", number, flush=True)
while not (kept / "enough").exists():
    time.sleep(0.05)
print("Training Complete!")
"""


def _run(job: Object, launch: Launch) -> tuple[list[str], dict[str, str]]:
    kept = launch.mounts["/checkpoints"].folder
    return [sys.executable, str(launch.mounts["/app"].folder / "train.py")], {"CHECKPOINT_DIR": str(kept)}


@pytest.fixture(scope="module")
def processes(programs: Programs, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """A cluster without Kueue: a job that names no queue begins when it is applied."""
    folder = tmp_path_factory.mktemp("processes")
    (folder / "kept").mkdir()
    jobs = ProcessJobs(folder / "jobs", _run, lambda bucket: folder / bucket)
    with started(programs, folder / "plane", jobs) as plane:
        made = plane.create(CLUSTER, planes_scenario.pools())
        stage = Stage(plane, made, made.api(), jobs)
        yield stage
        stage.api.close()
    assert jobs.processes.alive() == [], "the plane's end is its pods'"


def _job(name: str) -> tuple[Object, Object]:
    """A job with a program and a bucket, and no queue."""
    job = planes_scenario.ray_job(name)
    del job["metadata"]["labels"]
    head = job["spec"]["rayClusterSpec"]["headGroupSpec"]["template"]["spec"]
    head["volumes"] = [
        {"name": "app", "configMap": {"name": f"{name}-app"}},
        {"name": "kept", "csi": {"driver": "gcsfuse.csi.storage.gke.io", "volumeAttributes": {"bucketName": "kept"}}},
    ]
    mounts = {"app": "/app", "kept": "/checkpoints"}
    head["containers"][0]["volumeMounts"] = [{"name": key, "mountPath": value} for key, value in mounts.items()]
    files = {"metadata": {"name": f"{name}-app", "namespace": "default"}, "data": {"train.py": _PROGRAM}}
    return {"apiVersion": "v1", "kind": "ConfigMap", **files}, job


def test_a_job_outlives_its_slice_and_its_cluster(processes: Stage) -> None:
    stage, jobs = processes, processes.jobs
    kept = Path(jobs.processes.path).parents[1] / "kept"
    for thing in _job("real"):
        stage.api.apply(thing)

    def attempt(number: int) -> bool:
        log = jobs.log("default", "real")
        return log is not None and log.read_text() == f"attempt {number}\n" and len(jobs.processes.alive()) == 1

    until(functools.partial(attempt, 1))
    pool = stage.cluster.pools.pools["on-demand-pool"]
    stage.cluster.pools.shrink(pool, list(pool.nodes))  # the slice expires
    until(lambda: not jobs.processes.alive())
    assert jobs.state("default", "real") == "RUNNING"
    until(functools.partial(attempt, 2))

    stage.api.call("PATCH", f"{_JOBS}/real", {"spec": {"suspend": True}}, MERGE)  # as Kueue evicts
    until(lambda: not jobs.processes.alive())
    until(lambda: (stage.api.get(f"{_JOBS}/real") or {})["status"].get("jobDeploymentStatus") == "Suspended")
    stage.api.call("PATCH", f"{_JOBS}/real", {"spec": {"suspend": False}}, MERGE)
    until(functools.partial(attempt, 3))

    (kept / "enough").touch()
    until(lambda: (stage.api.get(f"{_JOBS}/real") or {})["status"].get("jobStatus") == "SUCCEEDED")
    assert [log.read_text() for log in jobs.logs("default", "real")] == [
        "attempt 1\n",
        "attempt 2\n",
        "attempt 3\nTraining Complete!\n",
    ]
    assert stage.cluster.defects == []


def test_it_dies_with_the_cluster(processes: Stage) -> None:
    """The last test of the file: it takes the cluster away."""
    jobs = processes.jobs
    kept = Path(jobs.processes.path).parents[1] / "kept"
    (kept / "enough").unlink(missing_ok=True)
    for thing in _job("left"):
        processes.api.apply(thing)
    until(jobs.processes.alive)
    processes.plane.delete(CLUSTER)
    assert jobs.processes.alive() == []
