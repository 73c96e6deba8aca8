"""RayJobs in Kueue's queue on a GKE cluster as runs.

A job's name is its run id, unless its environment says another, so that it finds its checkpoints however often it is
submitted again.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from holdfast.errors import OperatorError
from holdfast.gcp import ENDPOINT
from holdfast.gcp.api import Api, CloudError, find
from holdfast.kube import Kube, Object
from holdfast.runs import gke_job, gke_log, gke_status
from holdfast.runs.backend import Run, Selection, Task, command
from holdfast.runs.gke_job import APPLIED, JobOrder
from infra import catalog, console
from infra.kubeconfig import kubeconfig
from infra.ray_job import RayJobSpec, dashboard_command

if TYPE_CHECKING:
    from stacks.config import Target
    from stacks.gke_config import GkeTpuConfig

_KUEUE: str = catalog.kueue()["api_version"]
_QUEUE: str = catalog.kueue()["queue_label"]
# Seconds that a deleted job may take to be gone with all that it owns: pods have 30 to end.
_GONE_S = 180.0
# Seconds that Kueue may take to free the quota of a deactivated workload: it ends the job's pods first.
_FREE_S = 120.0
_LOOK_S = 0.25


@dataclass(frozen=True)
class Gke:
    """The jobs of one stack's queue. `stack`: as of `Backend`."""

    kube: Kube
    config: GkeTpuConfig
    target: Target
    stack: str = ""
    verb: str = "gke"

    def job(self, order: JobOrder) -> RayJobSpec:
        """The job that is ordered. OperatorError: this cluster cannot run it, a line for each reason."""
        job = gke_job.spec(self.config, self.target, order)
        gke_job.check(self.config, job)
        return job

    def run_id(self, order: JobOrder) -> str:
        """As of `Submits`. OperatorError: a job of that name exists, too."""
        job = self.job(order)
        self._refuse_name(job.name)
        return gke_job.run_id(gke_job.manifests(job)[1])

    def submit(self, order: JobOrder) -> Run:
        """Applies a job, and returns at once. Nothing is applied unless all of it would be taken."""
        job = self.job(order)
        self._refuse_name(job.name)
        files, manifest = gke_job.manifests(job)
        where = f"/api/v1/namespaces/{job.namespace}/configmaps/{files['metadata']['name']}"
        self.kube.apply(where, files, dry_run=True)
        self.kube.create(self._path("rayjobs"), manifest, dry_run=True)
        self.kube.apply(where, files)
        return _run(gke_status.Seen(self.kube.create(self._path("rayjobs"), manifest)))

    def runs(self, most: int | None = None) -> list[Run]:
        jobs = sorted(self.kube.list(self._path("rayjobs"), _QUEUE), key=_created, reverse=True)[:most]
        workloads = self._workloads()
        return [_run(gke_status.Seen(job, _workload(job, workloads))) for job in jobs]

    def run(self, name: str) -> Run:
        return _run(self.look(name))

    def look(self, name: str) -> gke_status.Seen:
        """All that there is of a job. OperatorError: there is none of that name."""
        job = self._job(name)
        workload = _workload(job, self._workloads())
        requests = [] if workload is None else self._requests(workload)
        pending = None if workload is None else self._pending(workload)
        return gke_status.Seen(job, workload, requests, gke_log.pods(self.kube, self.config.namespace, job), pending)

    def log(self, run: Run, selection: Selection) -> gke_log.PodLog:
        where = self._path("rayjobs", run.name)
        return gke_log.PodLog(self.kube, self.config.namespace, where, run, selection, self._logs_url(run))

    def last_step(self, run: Run) -> int | None:
        return self.log(run, Selection()).last_step()

    def cancel(self, run: Run) -> None:
        """Deactivates the job's workload: its pods end, its quota is free, and the job can be resubmitted.

        Kueue leaves a deactivated workload's ProvisioningRequests where they are, and GKE would go on and order nodes
        for them: they are deleted, once the quota is free, since Kueue would make them anew before.
        """
        job = self._job(run.name)
        workloads = [each for each in self._workloads() if _owned(each, job)]
        for each in workloads:
            self.kube.patch(self._path("workloads", each["metadata"]["name"]), {"spec": {"active": False}})
        if not workloads:  # Kueue does not know it
            self.delete(run)
            return
        deadline = time.monotonic() + _FREE_S
        while any(gke_status.holds(each, "QuotaReserved") for each in self._workloads() if _owned(each, job)):
            if time.monotonic() > deadline:
                raise OperatorError(
                    f"{run.name} is deactivated, but still holds its quota after {_FREE_S:.0f} s: look whether Kueue "
                    "runs, and cancel it again, since its request for nodes has not been withdrawn"
                )
            time.sleep(_LOOK_S)
        for request in [found for each in workloads for found in self._requests(each)]:
            self.kube.delete(f"{_requests_path(self.config.namespace)}/{request['metadata']['name']}")

    def cancel_says(self) -> str:
        return (
            "Its workload is deactivated: its pods get SIGTERM, and SIGKILL 30 s later, its quota is free, and its "
            "request for nodes is withdrawn. The job stays; resubmitted, it goes on from its checkpoints"
        )

    def delete(self, run: Run) -> None:
        """Removes a job and its program, over or not, and returns when nothing of it is left but its checkpoints."""
        self._delete(self._job(run.name))
        self.kube.delete(f"/api/v1/namespaces/{self.config.namespace}/configmaps/{run.name}-app", owns=False)

    def resubmit(self, run: Run) -> Run:
        """Deletes a job that is over, and its workload with it, and applies it anew as it was first applied.

        Kueue starts neither a deactivated workload nor a finished job again, and makes no second ProvisioningRequest of
        the same name (https://github.com/kubernetes-sigs/kueue/issues/4544): so all of it is waited for.

        Raises:
            OperatorError: it is not over, or was not applied by `holdfast` or `kubectl apply`.
        """
        seen, job = self.look(run.name), self._job(run.name)
        if (now := _run(seen)).active:
            raise OperatorError(
                f"{run.name} is {now.state}: {now.doing}. Only a job that is over is resubmitted; "
                f"`{command(self, 'cancel', run.name)}` ends it"
            )
        text = job["metadata"].get("annotations", {}).get(APPLIED)
        if text is None:
            raise OperatorError(
                f"{run.name} does not say how it was applied (annotation {APPLIED}), and Kueue has changed it since. "
                f"Remove it by `{command(self, 'cancel', run.name, '--delete')}` and apply its own file again"
            )
        manifest = gke_job.with_applied(json.loads(text))
        jobs = self._path("rayjobs")
        # Under another name, since this one is taken: nothing is deleted that would not be taken back.
        trial = {**manifest, "metadata": {**manifest["metadata"], "name": "holdfast-dry-run"}}
        self.kube.create(jobs, trial, dry_run=True)
        self._delete(job)
        try:
            return _run(gke_status.Seen(self.kube.create(jobs, manifest)))
        except CloudError as error:
            raise OperatorError(
                f"{run.name} is deleted, but was not taken back: {error}. Apply this once that is mended:\n{text}"
            ) from error

    def again(self, run: Run) -> str:
        return f"`{command(self, 'resubmit', run.name)}` resumes from the checkpoints"

    def link(self, run: Run) -> str:
        """The cluster's page: GKE's console has none for a RayJob that is safe to name."""
        return console.cluster_url(
            self.target.universe, self.target.project, self.config.zone, self.config.cluster_name
        )

    def _refuse_name(self, name: str) -> None:
        if self.kube.get(self._path("rayjobs", name)) is None:
            return
        found = self.run(name)
        way = (
            f"`{command(self, 'watch', name)}` follows it, `{command(self, 'cancel', name)}` ends it"
            if found.active
            else f"`{command(self, 'resubmit', name)}` runs it again from its checkpoints, "
            f"`{command(self, 'cancel', name, '--delete')}` removes it (Kueue orders no nodes for a second job of that "
            "name while the first is there)"
        )
        raise OperatorError(f"there is a job {name} already: {found.state}. {way}; or give another --name")

    def _delete(self, job: Object) -> None:
        """Deletes a job, and waits until its workload and the requests are gone as well."""
        name = job["metadata"]["name"]
        gone = [_uid(each) for each in self._workloads() if _owned(each, job)]
        self.kube.delete(self._path("rayjobs", name))
        deadline = time.monotonic() + _GONE_S
        while self.kube.get(self._path("rayjobs", name)) or self._left(gone):
            if time.monotonic() > deadline:
                raise OperatorError(
                    f"{name} is being deleted, but is not gone after {_GONE_S:.0f} s: look at its finalizers, and at "
                    "whether Kueue and KubeRay run"
                )
            time.sleep(_LOOK_S)

    def _left(self, uids: Iterable[str]) -> list[Object]:
        """What is left of those workloads."""
        gone = set(uids)
        requests = self.kube.list(_requests_path(self.config.namespace))
        return [
            *(each for each in self._workloads() if _uid(each) in gone),
            *(each for each in requests if _owners(each) & gone),
        ]

    def _job(self, name: str) -> Object:
        job = self.kube.get(self._path("rayjobs", name))
        if job is None:
            raise OperatorError(
                f"namespace {self.config.namespace} has no job {name}; `{command(self, 'runs')}` lists those it has"
            )
        return job

    def _workloads(self) -> list[Object]:
        return self.kube.list(self._path("workloads"))

    def _requests(self, workload: Object) -> list[Object]:
        listed = self.kube.list(_requests_path(self.config.namespace))
        return sorted((each for each in listed if _uid(workload) in _owners(each)), key=_created)

    def _pending(self, workload: Object) -> list[Object] | None:
        """The queue that the workload is in, in order; None where it is in none, or Kueue does not say."""
        if workload.get("status", {}).get("admission") or gke_status.deactivated(workload):
            return None
        queue = workload["spec"].get("queueName", "")
        version = _KUEUE.rpartition("/")[2]
        root = f"/apis/visibility.{_KUEUE.partition('/')[0]}/{version}/namespaces/{self.config.namespace}"
        try:
            return self.kube.list(f"{root}/localqueues/{queue}/pendingworkloads")
        except CloudError as error:
            if error.status in ("NOT_FOUND", "UNAVAILABLE", "PERMISSION_DENIED"):
                return None
            raise

    def _path(self, plural: str, name: str = "") -> str:
        version = "ray.io/v1" if plural == "rayjobs" else _KUEUE
        return f"/apis/{version}/namespaces/{self.config.namespace}/{plural}" + (f"/{name}" if name else "")

    def _logs_url(self, run: Run) -> str:
        of_job = " AND ".join(
            [
                'resource.type="k8s_container"',
                f'resource.labels.cluster_name="{self.config.cluster_name}"',
                f'resource.labels.namespace_name="{self.config.namespace}"',
                f'resource.labels.pod_name:"{run.name}-"',
            ]
        )
        return console.logs_url(self.target.universe, self.target.project, of_job)


def cluster_kubeconfig(api: Api, config: GkeTpuConfig, target: Target) -> dict[str, Any]:
    """The kubeconfig of a stack's cluster, by the way in that the stack opens.

    Raises:
        OperatorError: there is no such cluster, or it is not up. CloudError: it cannot be looked at.
    """
    name = f"projects/{target.project}/locations/{config.zone}/clusters/{config.cluster_name}"
    cluster = find(api, "container.projects.locations.clusters.get", {"name": name})
    if cluster is None:
        raise OperatorError(f"there is no cluster {name} yet: `pulumi up` makes it")
    emulated = bool(os.environ.get(ENDPOINT))
    if config.authorized_networks or emulated:  # no name leads to an emulated one
        endpoint, authority = cluster.get("endpoint"), cluster.get("masterAuth", {}).get("clusterCaCertificate", "")
    else:
        ways = cluster.get("controlPlaneEndpointsConfig", {})
        endpoint, authority = ways.get("dnsEndpointConfig", {}).get("endpoint"), ""
    if not endpoint or cluster.get("status") == "PROVISIONING":
        if emulated and cluster.get("status") == "RUNNING":
            raise OperatorError(
                f"cluster {name} is reached by its DNS name alone, which leads nowhere from an emulated cloud: "
                "holdfast:authorizedNetworks with any range opens it by address"
            )
        raise OperatorError(f"cluster {name} has no endpoint yet: it is {cluster.get('status', 'not up')}")
    if emulated and not endpoint.startswith("127."):
        raise OperatorError(
            f"no control plane runs behind the emulated cluster {name}: it is there with "
            "`holdfast emulate --kubernetes`"
        )
    return dict(kubeconfig(config.cluster_name, endpoint, authority))


def _run(seen: gke_status.Seen) -> Run:
    job, status = seen.job, gke_status.look(seen)
    metadata = job["metadata"]
    name, namespace, active = metadata["name"], metadata["namespace"], status.state in ("pending", "running")
    return Run(
        name=name,
        resource=f"namespaces/{namespace}/rayjobs/{name}",
        state=status.state,
        run_id=gke_job.run_id(job),
        created=gke_status.moment(metadata["creationTimestamp"]),
        task_count=1,
        ended=status.ended,
        tasks=(Task(0, status.state),),
        message="" if active or status.state == "succeeded" else status.sentence,
        doing=status.sentence if active else "",
        facts=_facts(status, name, namespace) if active else (),
    )


def _facts(status: gke_status.Status, name: str, namespace: str) -> tuple[tuple[str, str], ...]:
    ahead = "" if status.ahead is None else f", {status.ahead} ahead"
    ready, total = status.pods
    found = [
        ("queue", status.queue and f"{status.queue}{ahead}"),
        ("flavor", status.flavor),
        *(("request", each) for each in status.requests),
        ("pods", f"{ready} of {total} ready"),
        ("dashboard", dashboard_command(name, namespace) if status.state == "running" else ""),
    ]
    return tuple((key, value) for key, value in found if value)


def _workload(job: Object, workloads: Iterable[Object]) -> Object | None:
    """The job's workload; of an elastic one's, the newest that is not finished."""
    mine = sorted((each for each in workloads if _owned(each, job)), key=_created)
    return next((each for each in reversed(mine) if not gke_status.holds(each, "Finished")), mine[-1] if mine else None)


def _owned(thing: Object, job: Object) -> bool:
    return _uid(job) in _owners(thing)


def _owners(thing: Object) -> set[str]:
    return {owner["uid"] for owner in thing["metadata"].get("ownerReferences", ())}


def _uid(thing: Object) -> str:
    return str(thing["metadata"]["uid"])


def _created(thing: Object) -> str:
    return str(thing["metadata"]["creationTimestamp"])


def _requests_path(namespace: str) -> str:
    return f"/apis/autoscaling.x-k8s.io/v1/namespaces/{namespace}/provisioningrequests"
