"""The operator's backend for GKE on real Kueue and KubeRay: jobs submitted, explained, read, cancelled, resubmitted."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from planes_rig import Stage, until

from holdfast import stackfile
from holdfast.errors import OperatorError
from holdfast.gcp.api import CloudError
from holdfast.kube import Kube
from holdfast.runs.backend import Run, Selection
from holdfast.runs.gke import Gke
from holdfast.runs.gke_job import JobOrder
from infra.kubeconfig import kubeconfig
from stacks.gke_config import GkeTpuConfig

pytestmark = pytest.mark.planes

_USAGE = "/apis/kueue.x-k8s.io/v1beta2/clusterqueues/cluster-queue"
_REQUESTS = "/apis/autoscaling.x-k8s.io/v1/namespaces/default/provisioningrequests"


@pytest.fixture
def gke(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> Iterator[Gke]:
    """The backend, with GKE's own kubeconfig and plugin; whatever a test leaves is deleted."""
    monkeypatch.setenv("PATH", str(stage.plane.bin_dir), prepend=":")
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "ray-job", "namespace": "default"}}
    until(lambda: stage.api.apply(account))
    # Nodes of a job that is over stay for ten minutes, and are nobody else's meanwhile.
    stage.cluster.pools.pools["dws-pool"].maximum = 64
    config, target = stackfile.read(GkeTpuConfig, "dev-gke-tpu")
    found = kubeconfig("tpu-cluster", stage.cluster.endpoint, stage.cluster.ca_certificate)
    backend = Gke(Kube(lambda: found), config, target, "dev-gke-tpu")
    yield backend
    for run in backend.runs():
        backend.delete(run)
    until(lambda: _used(backend) == 0)


def _used(gke: Gke) -> int:
    """The TPU chips that the queue counts as used."""
    queue = gke.kube.get(_USAGE)
    assert queue
    used = (each for flavor in queue["status"].get("flavorsUsage", ()) for each in flavor["resources"])
    return sum(int(each["total"]) for each in used if each["name"] == "google.com/tpu")


def _until(gke: Gke, name: str, fits: Callable[[Run], bool]) -> Run:
    found: Run = until(lambda: (run := gke.run(name)) and fits(run) and run)
    return found


def _running(gke: Gke, name: str) -> Run:
    return _until(gke, name, lambda run: run.state == "running")


def test_a_job_is_submitted_read_and_done(
    stage: Stage, gke: Gke, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = tmp_path / "log.txt"
    written.write_text("installing\n")
    monkeypatch.setattr(stage.jobs, "log", lambda namespace, name: written)
    run = gke.submit(JobOrder("op-log", env={"HOLDFAST_STEPS": "9"}))
    assert (run.state, run.run_id) == ("pending", "op-log")
    run = _running(gke, "op-log")
    assert dict(run.facts)["flavor"] == "on-demand"
    _until(gke, "op-log", lambda run: dict(run.facts)["pods"] == "5 of 5 ready")
    log = gke.log(run, Selection())
    said: list[Any] = []

    def more(count: int) -> list[str]:
        until(lambda: said.extend(log.read()) or len(said) >= count, 20)
        return [line.message for line in said]

    assert more(1) == ["installing"]
    step = {"event": "step", "severity": "INFO", "message": "step 3", "step": 3, "task_index": 0, "attempt": 1}
    with written.open("a") as more_of_it:
        more_of_it.write(f"\x1b[36m(RayTrainWorker pid=7, ip=10.0.0.1)\x1b[0m {json.dumps(step)}\nhalf a line")
    assert more(2) == ["installing", "step 3"]
    assert (said[1].event, said[1].task, said[1].attempt, said[1].severity) == ("step", 0, 1, "INFO")
    assert gke.last_step(run) == 3
    assert gke.log(run, Selection(severity="WARNING")).read() == []
    assert gke.log(run, Selection(task=0)).read() == []  # its workers are stood in for, and write nothing
    with pytest.raises(OperatorError, match="op-log has workers 0 to 3"):
        gke.log(run, Selection(task=4)).read()
    stage.jobs.finish("op-log")
    done = _until(gke, "op-log", lambda run: not run.active)
    assert (done.state, done.ended is not None) == ("succeeded", True)
    assert more(3)[2] == "half a line"
    assert [run.name for run in gke.runs()] == ["op-log"]
    with pytest.raises(OperatorError, match=r"already: succeeded.*resubmit op-log.*cancel op-log --delete.*--name"):
        gke.submit(JobOrder("op-log"))


def test_it_is_said_why_a_job_waits(stage: Stage, gke: Gke) -> None:
    stage.cluster.provisioning.delay_s = 3600.0
    for number in range(5):
        gke.submit(JobOrder(f"op-{number}"))
    first = _running(gke, "op-0")
    assert dict(first.facts)["queue"] == "user-queue"
    accepted = r"quota of dws is reserved since .*; GKE waits for 4 flex-start nodes at once, its request is accepted"
    waiting = _until(gke, "op-1", lambda run: "is accepted" in run.doing)
    assert waiting.state == "pending"
    assert "Accepted" in dict(waiting.facts)["request"]
    with pytest.raises(OperatorError, match=rf"op-1 is pending: {accepted}.*Only a job that is over"):
        gke.resubmit(waiting)
    # The heads of four fill the CPU pool's quota.
    last = _until(gke, "op-4", lambda run: "no quota yet" in run.doing)
    assert "it is the first; default-cpu lacks 2500m of cpu" in last.doing
    assert dict(last.facts)["queue"] == "user-queue, 0 ahead"
    with pytest.raises(OperatorError, match="there is a job op-4 already: pending"):
        gke.submit(JobOrder("op-4"))


def test_a_job_is_cancelled_while_it_waits(stage: Stage, gke: Gke) -> None:
    stage.cluster.provisioning.delay_s = 3600.0
    for name in ("op-ahead", "op-waits"):
        gke.submit(JobOrder(name))
    gke.cancel(_until(gke, "op-waits", lambda run: "is accepted" in run.doing))
    assert _until(gke, "op-waits", lambda run: not run.active).state == "cancelled"
    until(lambda: gke.kube.list(_REQUESTS) == [], 20)  # nor does Kueue make it anew
    assert gke.run("op-ahead").active


def test_a_cancelled_job_holds_no_quota_and_runs_again(gke: Gke) -> None:
    gke.submit(JobOrder("op-stop", env={"HOLDFAST_RUN_ID": "mine"}))
    before = _running(gke, "op-stop")
    gke.cancel(before)
    over = _until(gke, "op-stop", lambda run: not run.active)
    assert (over.state, over.run_id) == ("cancelled", "mine")
    until(lambda: _used(gke) == 0)
    again = gke.resubmit(over)
    assert again.run_id == "mine"
    assert _running(gke, "op-stop").created > before.created
    assert dict(_running(gke, "op-stop").facts)["flavor"] == "on-demand"


def test_a_revoked_job_runs_again_when_it_is_resubmitted(stage: Stage, gke: Gke) -> None:
    stage.cluster.provisioning.delay_s = 0.5
    for name in ("op-first", "op-revoked"):
        gke.submit(JobOrder(name))
        _running(gke, name)
    stage.cluster.provisioning.order("op-revoked", "CapacityRevoked")
    over = _until(gke, "op-revoked", lambda run: not run.active)
    assert over.state == "failed"
    assert "deactivated since" in over.message
    old = {each["metadata"]["uid"] for each in gke.kube.list(_REQUESTS)}
    gke.resubmit(over)
    run = _running(gke, "op-revoked")
    assert dict(run.facts)["flavor"] == "dws"
    assert not old & {each["metadata"]["uid"] for each in gke.kube.list(_REQUESTS)}


def test_nothing_is_applied_of_what_is_refused(gke: Gke, tmp_path: Path) -> None:
    odd = tmp_path / "my train.py"  # no key of a ConfigMap has a space
    odd.write_text("print('x')\n")
    with pytest.raises(CloudError, match=r"my train\.py"):
        gke.submit(JobOrder("op-odd", str(odd)))
    with pytest.raises(OperatorError, match=r"(?s)op-wide was not submitted.*--slices: 3 slices.*"):
        gke.submit(JobOrder("op-wide", slices=3))
    assert gke.runs() == []
    for name in ("op-odd", "op-wide"):
        assert gke.kube.get(f"/api/v1/namespaces/default/configmaps/{name}-app") is None


def test_a_deleted_job_leaves_nothing(gke: Gke) -> None:
    gke.submit(JobOrder("op-gone"))
    gke.delete(_running(gke, "op-gone"))
    for plural in ("rayjobs", "rayclusters"):
        found = gke.kube.call("GET", f"/apis/ray.io/v1/namespaces/default/{plural}")
        assert found["items"] == []
    assert gke.kube.get("/api/v1/namespaces/default/configmaps/op-gone-app") is None
    with pytest.raises(OperatorError, match=r"has no job op-gone; `holdfast runs --stack dev-gke-tpu`"):
        gke.run("op-gone")
