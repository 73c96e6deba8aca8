"""Scenario B's proof on real Kueue: job 1 on demand, job 2 waits for queued provisioning, and nothing is left."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from functools import partial
from pathlib import Path
from typing import Any

import planes_scenario
import psutil
import pytest
from planes_rig import CLUSTER, Stage, started, until

from holdfast.rehearsal import gke_record
from infra import catalog
from infra.kueue_queues import manifests
from infra.ray_job import ray_job
from mockgcp.planes.k8s.api import MERGE, Object, condition, holds
from mockgcp.planes.k8s.programs import Programs
from mockgcp.planes.k8s.ray import ScriptedJobs
from stacks.config import Target
from stacks.gke_config import GkeTpuConfig

pytestmark = pytest.mark.planes

_KUEUE = "/apis/kueue.x-k8s.io/v1beta2"
_WORKLOADS = f"{_KUEUE}/namespaces/default/workloads"
_REQUESTS = "/apis/autoscaling.x-k8s.io/v1/namespaces/default/provisioningrequests"
_JOBS = "/apis/ray.io/v1/namespaces/default/rayjobs"


def _workload(stage: Stage, job: str) -> Object:
    owned = (
        each
        for each in stage.api.list(_WORKLOADS)
        if any(owner["name"] == job for owner in each["metadata"].get("ownerReferences", ()))
    )
    return next(owned, {})


def _flavor(workload: Object) -> str:
    """The flavor of a workload's TPU pods."""
    sets = {each["name"]: each["flavors"] for each in workload["status"]["admission"]["podSetAssignments"]}
    flavor: str = sets["tpu-group"]["google.com/tpu"]
    return flavor


def _running(stage: Stage, job: str) -> list[Object]:
    return [
        pod
        for pod in stage.api.list("/api/v1/namespaces/default/pods", selector="ray.io/group=tpu-group")
        if pod["metadata"]["name"].startswith(f"{job}-") and pod["status"].get("phase") == "Running"
    ]


def _pools(stage: Stage, pods: list[Object]) -> set[str]:
    nodes = {node["metadata"]["name"]: node["metadata"]["labels"] for node in stage.api.list("/api/v1/nodes")}
    return {nodes[pod["spec"]["nodeName"]]["cloud.google.com/gke-nodepool"] for pod in pods}


def _managers(stage: Stage) -> list[psutil.Process]:
    return [each for each in stage.plane.processes.alive() if each.name() == "manager"]


def _usage(stage: Stage) -> dict[str, Any]:
    """What the queue counts as used, by flavor and resource; zeroes left out."""
    queue = stage.api.get(f"{_KUEUE}/clusterqueues/cluster-queue")
    assert queue
    used = {
        (flavor["name"], each["name"]): each.get("total", "0")
        for flavor in queue["status"].get("flavorsUsage", ())
        for each in flavor["resources"]
    }
    return {f"{flavor}/{name}": total for (flavor, name), total in used.items() if total not in ("0", 0)}


def test_the_second_job_overflows_to_queued_provisioning(stage: Stage) -> None:
    stage.cluster.provisioning.delay_s = 3.0
    stage.api.apply(planes_scenario.ray_job("job1"))
    until(lambda: holds(_workload(stage, "job1"), "Admitted"))
    assert _flavor(_workload(stage, "job1")) == "on-demand"
    stage.api.apply(planes_scenario.ray_job("job2"))
    reserved = until(lambda: (found := _workload(stage, "job2")) and holds(found, "QuotaReserved") and found)
    assert _flavor(reserved) == "dws"
    assert not holds(reserved, "Admitted")
    job2 = stage.api.get(f"{_JOBS}/job2")
    assert job2
    assert job2["spec"]["suspend"] is True
    [request] = until(lambda: stage.api.list(_REQUESTS))
    assert request["spec"]["provisioningClassName"] == "queued-provisioning.gke.io"
    assert [each["count"] for each in request["spec"]["podSets"]] == [4]
    where = f"{_REQUESTS}/{request['metadata']['name']}"
    until(lambda: holds(stage.api.get(where) or {}, "Accepted"))
    until(lambda: holds(stage.api.get(where) or {}, "Provisioned"))
    until(lambda: holds(_workload(stage, "job2"), "Admitted"))
    for job, pool in (("job1", "on-demand-pool"), ("job2", "dws-pool")):
        pods = until(lambda job=job: (found := _running(stage, job)) and len(found) == 4 and found)
        assert _pools(stage, pods) == {pool}
    assert _usage(stage)["dws/google.com/tpu"] == "16"
    for job in ("job1", "job2"):
        stage.jobs.finish(job)
    for job in ("job1", "job2"):
        done = until(
            lambda job=job: (
                (found := stage.api.get(f"{_JOBS}/{job}"))
                and found["status"].get("jobDeploymentStatus") == "Complete"
                and found
            )
        )
        assert done["status"]["jobStatus"] == "SUCCEEDED"
        until(lambda job=job: holds(_workload(stage, job), "Finished"))
    until(lambda: not _usage(stage))
    assert stage.cluster.defects == []


def test_a_hundred_jobs_are_admitted_in_their_order_each_on_the_flavor_that_is_free(
    stage: Stage, record_property: Callable[[str, object], None]
) -> None:
    """Issue 5: 100 queued jobs. Each is deleted when it has been admitted: what is shown is the queue, not pods.

    Kueue's order is that of the workloads' creation, to the second. A strict queue keeps it: with the other kind, quota
    that is freed while Kueue looks through its queue goes to whoever comes next in that look.
    """
    config = GkeTpuConfig.model_validate({"queueingStrategy": "StrictFIFO"})
    target = Target("holdfast-dev", "us-east5", catalog.universe())
    for thing in manifests(config.queues()).values():
        stage.api.apply(thing)
    count, began = 100, time.monotonic()
    stage.cluster.provisioning.delay_s = 0.0
    for number in range(count):
        spec = config.job(target, f"many-{number}")
        assert config.job_problems(spec) == []
        stage.api.create(ray_job(spec))
    until(lambda: len(_workloads(stage)) == count)
    queued = time.monotonic()
    holders: list[Object] = until(lambda: len(found := _with_quota(stage)) == 2 and found)
    holders.sort(key=lambda each: str(each["metadata"]["creationTimestamp"]))
    assert {gke_record.flavor(each) for each in holders} == {"on-demand", "dws"}
    admitted, flavors = list(holders), [gke_record.flavor(each) for each in holders]
    while len(admitted) < count:
        first = holders.pop(0)
        until(partial(_admitted, stage, first))
        stage.api.delete(f"{_JOBS}/{first['metadata']['ownerReferences'][0]['name']}")
        for pool in stage.cluster.pools.pools.values():
            stage.cluster.pools.shrink(pool, pool.nodes if pool.template.gang > 1 else [])
        [new] = until(partial(_with_quota, stage, {each["metadata"]["name"] for each in admitted}))
        assert gke_record.flavor(new) == gke_record.flavor(first)
        holders.append(new)
        admitted.append(new)
        flavors.append(gke_record.flavor(new))
    seconds = time.monotonic() - queued
    created = [each["metadata"]["creationTimestamp"] for each in admitted]
    assert created == sorted(created)
    assert len({each["metadata"]["uid"] for each in admitted}) == count
    assert flavors.count("dws") == count // 2
    rate = f"{count} jobs queued in {queued - began:.1f} s, admitted in {seconds:.1f} s: {count / seconds:.1f} a second"
    record_property("rate", rate)
    print(rate)
    assert stage.cluster.defects == []
    stage.api.call("DELETE", _JOBS, {"propagationPolicy": "Foreground"})
    until(lambda: not _workloads(stage))


def _workloads(stage: Stage) -> list[Object]:
    """Those of the many jobs."""
    listed = stage.api.list(_WORKLOADS)
    return [each for each in listed if each["metadata"]["ownerReferences"][0]["name"].startswith("many-")]


def _with_quota(stage: Stage, known: Collection[str] = ()) -> list[Object]:
    """The workloads that have quota and are not being deleted, but for those known by name."""
    return [
        each
        for each in _workloads(stage)
        if gke_record.flavor(each)
        and "deletionTimestamp" not in each["metadata"]
        and each["metadata"]["name"] not in known
    ]


def _admitted(stage: Stage, workload: Object) -> str:
    name = workload["metadata"]["name"]
    return gke_record.reason(stage.api.get(f"{_WORKLOADS}/{name}") or {}, "Admitted")


def test_kueue_is_there_when_the_chart_is(stage: Stage) -> None:
    """The provider has waited for the Deployment, and that for the manager's answer."""
    deployment = stage.api.get("/apis/apps/v1/namespaces/kueue-system/deployments/kueue-controller-manager")
    assert deployment
    assert condition(deployment, "Available")["status"] == "True"
    [manager] = _managers(stage)
    assert manager.uids().real == 65532
    assert "--feature-gates=ElasticJobsViaWorkloadSlices=true" in manager.cmdline()
    service = stage.api.get("/apis/apiregistration.k8s.io/v1/apiservices/v1beta2.visibility.kueue.x-k8s.io")
    assert service
    assert until(lambda: stage.api.get("/apis/visibility.kueue.x-k8s.io/v1beta2"))


def test_a_changed_deployment_runs_anew(stage: Stage) -> None:
    [before] = _managers(stage)
    where = "/apis/apps/v1/namespaces/kueue-system/deployments/kueue-controller-manager"
    stage.api.call("PATCH", where, {"spec": {"template": {"metadata": {"annotations": {"again": "1"}}}}}, MERGE)
    until(lambda: [each.pid for each in _managers(stage)] not in ([], [before.pid]) and len(_managers(stage)) == 1)
    flavor = planes_scenario.QUEUES[0]
    until(lambda: stage.api.apply(flavor, dry_run=True))  # its webhook answers
    assert stage.cluster.defects == []


def test_what_it_takes(stage: Stage, record_property: Callable[[str, object], None]) -> None:
    """Issue 5: under 2.5 GiB. The seconds are reported, not judged: they are the machine's as well."""
    mib, seconds = stage.mib(), {key: round(value, 1) for key, value in stage.seconds.items()}
    record_property("seconds", seconds)
    record_property("mib", mib)
    print(f"\nplane: {seconds} s, {mib} MiB in {len(stage.plane.processes.alive())} processes")
    assert mib < 2560


def test_nothing_is_left_of_a_cluster_that_is_deleted(programs: Programs, tmp_path: Path) -> None:
    space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "old"}}
    with started(programs, tmp_path, ScriptedJobs()) as plane:
        plane.create(CLUSTER, planes_scenario.pools()).api().create(space)
        assert len(plane.processes.alive()) >= 5
        plane.delete(CLUSTER)
        assert plane.processes.alive() == []
        assert plane.cluster(CLUSTER) is None
        assert plane.create(CLUSTER, planes_scenario.pools()).api().get("/api/v1/namespaces/old") is None
    assert plane.processes.alive() == []


def test_a_cluster_that_does_not_come_up_says_why_and_leaves_nothing(programs: Programs, tmp_path: Path) -> None:
    broken = tmp_path / "programs" / "bin"
    broken.mkdir(parents=True)
    for name in ("etcd", *Programs.KUBERNETES):
        (broken / name).write_text("#!/bin/sh\necho no such flag >&2\nexit 2\n")
        (broken / name).chmod(0o755)
    bad = Programs(broken.parent, programs.kuberay, programs.versions)
    with started(bad, tmp_path / "plane", ScriptedJobs()) as plane:
        with pytest.raises(RuntimeError, match=r"(?s)kube-apiserver.*no such flag"):
            plane.create(CLUSTER, planes_scenario.pools())
        assert plane.processes.alive() == []
