"""The Kubernetes plane of `holdfast emulate`: control planes behind emulated GKE clusters, and jobs that really run.

A RayJob's program runs as one process of this machine: the project's own on a small local Ray, where this environment
has one, and any other `python FILE` as it is. An entrypoint that is neither has no process, and runs until it is
cancelled.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from holdfast import planes
from holdfast.errors import OperatorError
from holdfast.rehearsal import ray_training, training
from holdfast.rehearsal.gke_tpu_stage import can_train
from mockgcp.cloud import Cloud
from mockgcp.planes.cloud_run import Launch
from mockgcp.planes.k8s.api import Object
from mockgcp.planes.k8s.ray_processes import ProcessJobs, Run
from mockgcp.planes.kubernetes import KubernetesPlane
from mockgcp.services import storage


@contextmanager
def started(cloud: Cloud, root: Path) -> Iterator[KubernetesPlane]:
    """The plane behind a cloud's clusters, with its files below `root`. It and all that it runs end with the context.

    Raises:
        OperatorError: it cannot run here.
    """
    with _programs(root) as run:
        jobs = ProcessJobs(root / "ray", run, lambda bucket: storage.folder(cloud.state_dir, bucket))
        plane = KubernetesPlane(cloud.clock, state_dir=root / "kubernetes", programs=planes.find(), jobs=jobs)
        can = plane.availability()
        if not can.usable:
            raise OperatorError(f"--kubernetes cannot run here: {can.why}; the way out: {can.how}")
        plane.start()
        cloud.control_planes = plane
        try:
            yield plane
        finally:
            plane.stop()
            jobs.stop()


@contextmanager
def _programs(root: Path) -> Iterator[Run]:
    plain = training.image(root)
    # As Ray's driver has it: what a job prints is read while it runs.
    plain = replace(plain, env={**plain.env, "PYTHONUNBUFFERED": "1"})
    with ray_training.local_programs(root) as on_ray:

        def run(job: Object, launch: Launch) -> tuple[Sequence[str], Mapping[str, str]] | None:
            if can_train() and (ours := on_ray(job, launch)):
                return ours
            if launch.command[:1] != ["python"]:
                return None
            return plain.process(replace(launch, command=[sys.executable, *launch.command[1:]]))

        yield run
