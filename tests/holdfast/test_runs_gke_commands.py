"""The verbs for GKE as they are typed, where what they meet is an error; tests/planes has them on a real cluster."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest
from typer.testing import CliRunner

from holdfast import stackfile
from holdfast.cli import app
from holdfast.errors import OperatorError
from holdfast.gcp.api import CloudError
from holdfast.runs import gke, gke_job
from stacks.gke_config import GkeTpuConfig

JOBS = "/apis/ray.io/v1/namespaces/default/rayjobs"
WORKLOADS = "/apis/kueue.x-k8s.io/v1beta2/namespaces/default/workloads"
REQUESTS = "/apis/autoscaling.x-k8s.io/v1/namespaces/default/provisioningrequests"
PODS = "/api/v1/namespaces/default/pods"
AT = "2026-11-29T23:07:02Z"
CONFIG, TARGET = stackfile.read(GkeTpuConfig, "dev-gke-tpu")


class FakeKube:
    """A cluster's objects by their paths. `refuses`: what a call is refused for, if it is."""

    def __init__(self) -> None:
        self.objects: dict[str, dict[str, Any]] = {}
        self.logs: dict[str, str] = {}
        self.refuses: Callable[[str, str], CloudError | None] = lambda verb, path: None

    def put(self, collection: str, name: str, **fields: Any) -> dict[str, Any]:
        metadata = {"name": name, "namespace": "default", "uid": name, "creationTimestamp": AT}
        metadata |= fields.pop("metadata", {})
        return self.objects.setdefault(f"{collection}/{name}", {"metadata": metadata, **fields})

    def get(self, path: str) -> Any:
        return self.objects.get(path)

    def list(self, path: str, selector: str = "") -> list[Any]:
        if path.endswith("/pendingworkloads"):
            raise CloudError("UNAVAILABLE", "Kueue's visibility API does not answer")
        found = [each for key, each in self.objects.items() if key.rpartition("/")[0] == path]
        key, _, value = selector.partition("=")
        return [each for each in found if not value or each["metadata"].get("labels", {}).get(key) == value]

    def create(self, collection: str, thing: Mapping[str, Any], *, dry_run: bool = False) -> Any:
        if error := self.refuses("create", collection + (" dry" if dry_run else "")):
            raise error
        rest = {key: value for key, value in thing.items() if key != "metadata"}
        return rest if dry_run else self.put(collection, thing["metadata"]["name"], metadata=thing["metadata"], **rest)

    def apply(self, path: str, thing: Mapping[str, Any], *, dry_run: bool = False) -> Any:
        if error := self.refuses("apply", path):
            raise error
        return thing if dry_run else self.objects.setdefault(path, dict(thing))

    def patch(self, path: str, change: Mapping[str, Any]) -> None:
        self.objects[path]["spec"] |= change["spec"]

    def delete(self, path: str, *, owns: bool = True) -> None:
        gone = self.objects.pop(path, None)
        for key, each in list(self.objects.items()):
            owners = each["metadata"].get("ownerReferences", ())
            if gone and any(owner["uid"] == gone["metadata"]["uid"] for owner in owners):
                self.delete(key)

    def text(self, path: str, query: Mapping[str, Any]) -> str:
        return self.logs[path]


@pytest.fixture
def kube(monkeypatch: pytest.MonkeyPatch) -> FakeKube:
    fake = FakeKube()
    monkeypatch.setattr("holdfast.kube.Kube", lambda find: fake)
    return fake


def a_job(
    kube: FakeKube, name: str = "job", deployment: str = "Suspended", *, kept: bool = True, **workload: Any
) -> None:
    """A RayJob with its workload, by default one that Kueue has given up."""
    _, manifest = gke_job.manifests(gke_job.spec(CONFIG, TARGET, gke_job.JobOrder(name)))
    if not kept:
        del manifest["metadata"]["annotations"]
    status = {"jobDeploymentStatus": deployment}
    kube.put(JOBS, name, metadata=manifest["metadata"], spec={**manifest["spec"], "suspend": True}, status=status)
    evicted = {"type": "Evicted", "status": "True", "lastTransitionTime": AT}
    evicted |= {"reason": "DeactivatedDueToAdmissionCheck", "message": "checks were rejected"}
    owner = {"ownerReferences": [{"uid": name}]}
    spec = {"active": False, "queueName": "user-queue"}
    kube.put(
        WORKLOADS, f"rayjob-{name}", metadata=owner, **{"spec": spec, "status": {"conditions": [evicted]}, **workload}
    )


def waiting(reason: str = "Pending", message: str = "") -> dict[str, Any]:
    quota = {"type": "QuotaReserved", "status": "False", "reason": reason, "message": message, "lastTransitionTime": AT}
    return {"spec": {"active": True, "queueName": "user-queue"}, "status": {"conditions": [quota]}}


def holdfast(*words: str, answer: str = "", code: int = 0) -> str:
    result = CliRunner().invoke(app, [*words, "--stack", "dev-gke-tpu"], input=answer)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == code, result.output
    return str(result.stdout)


def test_watch_says_how_a_revoked_job_ended_and_how_to_go_on(kube: FakeKube) -> None:
    a_job(kube)
    told = holdfast("watch", "--every", "0.05", code=1)
    assert "job failed: deactivated since 11-29T23:07:02Z: checks were rejected." in told
    assert "`holdfast resubmit job --stack dev-gke-tpu` resumes from the checkpoints" in told
    # Its pods went with its quota.
    assert "the pods that wrote this log are gone; GKE keeps what they wrote in Cloud Logging: https://" in told


def test_runs_lists_jobs_newest_first(kube: FakeKube) -> None:
    a_job(kube, "old")
    a_job(kube, "new", **waiting())
    kube.objects[f"{JOBS}/new"]["metadata"]["creationTimestamp"] = "2026-11-29T23:09:00Z"
    newer, older = [line.split() for line in holdfast("runs").splitlines() if " 2026-11-29 " in line]
    assert {"new", "23:09:00", "pending"} <= set(newer)
    assert {"old", "23:07:02", "failed"} <= set(older)


def test_resubmit_applies_the_job_anew(kube: FakeKube) -> None:
    a_job(kube)
    before = kube.objects[f"{JOBS}/job"]
    assert "resubmitted job: run id job" in holdfast("resubmit", "job")
    after = kube.objects[f"{JOBS}/job"]
    assert after is not before
    assert "suspend" not in after["spec"]  # as it was applied, and not as Kueue has left it
    assert f"{WORKLOADS}/rayjob-job" not in kube.objects


def test_resubmit_refuses_a_job_that_is_not_over(kube: FakeKube) -> None:
    a_job(kube, **waiting("Inadmissible", "LocalQueue user-queue is stopped"))
    with pytest.raises(OperatorError, match=r"job is pending: inadmissible: LocalQueue user-queue is stopped"):
        holdfast("resubmit", "job")


def test_resubmit_deletes_nothing_that_it_could_not_apply_again(kube: FakeKube) -> None:
    a_job(kube, kept=False)
    with pytest.raises(OperatorError, match=r"does not say how it was applied.*cancel job --delete"):
        holdfast("resubmit", "job")
    a_job(kube, "other")
    kube.refuses = lambda verb, path: CloudError("INVALID_ARGUMENT", "no") if path.endswith(" dry") else None
    with pytest.raises(CloudError, match="no"):
        holdfast("resubmit", "other")
    assert {f"{JOBS}/job", f"{JOBS}/other", f"{WORKLOADS}/rayjob-other"} <= kube.objects.keys()


def test_a_resubmitted_job_that_is_not_taken_back_is_not_lost(kube: FakeKube) -> None:
    a_job(kube)
    kube.refuses = lambda verb, path: None if path.endswith(" dry") else CloudError("UNAVAILABLE", "webhook is away")
    with pytest.raises(
        OperatorError, match=r'(?s)is deleted, but was not taken back: .*away.*\{"apiVersion":"ray.io/v1"'
    ):
        holdfast("resubmit", "job")


def test_submit_applies_nothing_that_admission_refuses(kube: FakeKube) -> None:
    denied = CloudError("INVALID_ARGUMENT", "denied", http_status=400)
    kube.refuses = lambda verb, path: denied if path.startswith(JOBS) else None
    with pytest.raises(CloudError, match="denied"):
        holdfast("submit", "gke", "--name", "job")
    assert kube.objects == {}


def test_submit_says_what_to_do_next(kube: FakeKube) -> None:
    told = holdfast("submit", "gke", "--name", "job", "--set", "HOLDFAST_RUN_ID=mine")
    assert "submitted job to user-queue: 1 x 4x4, run id mine" in told
    assert "holdfast watch job --stack dev-gke-tpu" in told
    for name, words in (("job", "there is a job job already: pending"), ("job2", "job is pending on run id 'mine'")):
        with pytest.raises(OperatorError, match=words):
            holdfast("submit", "gke", "--name", name, "--set", "HOLDFAST_RUN_ID=mine")


def test_cancel_deactivates_and_delete_removes(kube: FakeKube) -> None:
    a_job(kube, **waiting())
    kube.put(REQUESTS, "request", metadata={"ownerReferences": [{"uid": "rayjob-job"}]}, spec={})
    kube.put(REQUESTS, "another", metadata={"ownerReferences": [{"uid": "rayjob-another"}]}, spec={})
    assert "[y/N]" in holdfast("cancel", answer="n\n", code=1)
    assert kube.objects[f"{WORKLOADS}/rayjob-job"]["spec"]["active"] is True
    assert "its quota is free" in holdfast("cancel", "--yes")
    assert f"{REQUESTS}/request" not in kube.objects
    assert f"{REQUESTS}/another" in kube.objects
    assert kube.objects[f"{WORKLOADS}/rayjob-job"]["spec"]["active"] is False
    assert "deleted" in holdfast("cancel", "job", "--delete", "--yes")
    assert list(kube.objects) == [f"{REQUESTS}/another"]
    with pytest.raises(OperatorError, match=r"namespace default has no job job; `holdfast runs --stack dev-gke-tpu`"):
        holdfast("cancel", "job")


def test_logs_are_the_submitters(kube: FakeKube) -> None:
    a_job(kube, deployment="Running", **waiting())
    labels = {"labels": {"batch.kubernetes.io/job-name": "job"}}
    kube.put(PODS, "job-x", metadata=labels)
    event = '{"event": "saved", "severity": "WARNING", "message": "saved 5", "step": 5, "task_index": 0, "attempt": 2}'
    lines = ["2026-11-29T23:07:03.000000001Z hello", f"2026-11-29T23:07:04Z (RayTrainWorker pid=1) {event}"]
    kube.logs[f"{PODS}/job-x/log"] = "\n".join(lines) + "\n"
    assert [line.split() for line in holdfast("logs").splitlines()] == [
        ["11-29T23:07:03Z", "run", "task", "hello"],
        ["11-29T23:07:04Z", "task", "0", "attempt", "2", "task", "saved", "5"],
    ]
    assert "hello" not in holdfast("logs", "--severity", "WARNING")
    assert "hello" not in holdfast("logs", "--since", "2026-11-29T23:07:04Z")
    assert " 5 " in holdfast("runs")
    with pytest.raises(OperatorError, match="--task 4: job has workers 0 to 3"):
        holdfast("logs", "--task", "4")


class Api:
    """One answer to clusters.get."""

    def __init__(self, **cluster: Any) -> None:
        self._cluster = cluster

    def call(self, method_id: str, params: Any = None, body: Any = None, media: bytes | None = None) -> dict[str, Any]:
        if not self._cluster:
            raise CloudError("NOT_FOUND", f"{params['name']} is not found", http_status=404)
        return self._cluster


def test_the_way_into_the_cluster_is_the_stacks() -> None:
    cluster = Api(
        endpoint="203.0.113.7",
        masterAuth={"clusterCaCertificate": "Q0E="},
        controlPlaneEndpointsConfig={"dnsEndpointConfig": {"endpoint": "gke-1.us-east5-b.gke.example"}},
    )
    by_name = gke.cluster_kubeconfig(cluster, CONFIG, TARGET)["clusters"][0]["cluster"]
    assert by_name == {"server": "https://gke-1.us-east5-b.gke.example"}
    open_to = CONFIG.model_copy(update={"authorized_networks": {"office": "192.0.2.0/24"}})
    by_address = gke.cluster_kubeconfig(cluster, open_to, TARGET)["clusters"][0]["cluster"]
    assert by_address == {"server": "https://203.0.113.7", "certificate-authority-data": "Q0E="}


@pytest.mark.parametrize(
    ("api", "words"),
    [
        (Api(), r"there is no cluster projects/holdfast-dev/locations/us-east5-b/clusters/\S+ yet: `pulumi up`"),
        (Api(status="PROVISIONING"), "has no endpoint yet: it is PROVISIONING"),
    ],
)
def test_a_cluster_that_is_not_there(api: Api, words: str) -> None:
    with pytest.raises(OperatorError, match=words):
        gke.cluster_kubeconfig(api, CONFIG, TARGET)
