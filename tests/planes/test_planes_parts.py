"""The parts of a cluster that need no control plane: certificates, files of pods, pools, dashboards."""

from __future__ import annotations

import base64
import http.client
import json
import socket
import ssl
import subprocess
import threading
from pathlib import Path
from typing import Any

import planes_scenario
import pytest
import yaml

from infra import catalog
from mockgcp.clock import Clock
from mockgcp.planes.k8s import auth_plugin, kueue
from mockgcp.planes.k8s.addresses import free_ports
from mockgcp.planes.k8s.kubelet import _same_version
from mockgcp.planes.k8s.nodes import NodePools, Pool
from mockgcp.planes.k8s.pki import Authority
from mockgcp.planes.k8s.programs import Programs
from mockgcp.planes.k8s.provisioning import QueuedProvisioning
from mockgcp.planes.k8s.ray import Dashboards, ScriptedJobs
from mockgcp.planes.k8s.sandbox import Sandbox, SandboxError
from mockgcp.planes.kubernetes import KubernetesPlane


def test_certificates_are_good_for_both_ends(tmp_path: Path) -> None:
    pki = Authority(tmp_path)
    pki.sign("server", "kube-apiserver", hosts=("127.0.0.1", "localhost"))
    pki.sign("client", "admin", "system:masters")
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(tmp_path / "server.crt", tmp_path / "server.key")
    server.load_verify_locations(pki.certificate)
    server.verify_mode = ssl.CERT_REQUIRED
    client = ssl.create_default_context(cafile=str(pki.certificate))
    client.load_cert_chain(tmp_path / "client.crt", tmp_path / "client.key")
    seen: list[Any] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def accept() -> None:
            with server.wrap_socket(listener.accept()[0], server_side=True) as accepted:
                seen.append(dict(pair for part in accepted.getpeercert()["subject"] for pair in part))
                accepted.recv(1)

        thread = threading.Thread(target=accept)
        thread.start()
        with (
            socket.create_connection(listener.getsockname()) as plain,
            client.wrap_socket(plain, server_hostname="127.0.0.1") as wrapped,
        ):
            wrapped.send(b"x")
        thread.join(10)
    assert seen == [{"commonName": "admin", "organizationName": "system:masters"}]
    assert (tmp_path / "client.key").stat().st_mode & 0o077 == 0


def test_ports_are_free_and_different() -> None:
    ports = free_ports(3)
    assert len(set(ports)) == 3
    for port in ports:
        socket.create_server(("127.0.0.1", port)).close()


def test_kueue_listens_at_its_pods_address_and_changes_nothing_else() -> None:
    chart = {
        "apiVersion": "config.kueue.x-k8s.io/v1beta2",
        "kind": "Configuration",
        "health": {"healthProbeBindAddress": ":8081"},
        "metrics": {"bindAddress": ":8443"},
        "webhook": {"port": 9443},
        "leaderElection": {"leaderElect": True},
        "integrations": {"frameworks": ["batch/job"]},
    }
    name = "controller_manager_config.yaml"
    adjusted = yaml.safe_load(kueue.adjust(name, yaml.safe_dump(chart).encode(), "198.18.0.1"))
    assert adjusted == {
        **chart,
        "health": {"healthProbeBindAddress": "198.18.0.1:8081"},
        "metrics": {"bindAddress": "198.18.0.1:8443"},
        "webhook": {"port": 9443, "host": "198.18.0.1"},
        "visibilityServer": {"bindAddress": "198.18.0.1"},
    }
    assert kueue.adjust("ca.crt", b"- not: ours", "198.18.0.1") == b"- not: ours"


def test_what_the_configuration_says_of_hosts_stays() -> None:
    said = {"metrics": {"bindAddress": "10.0.0.1:1"}, "webhook": {"host": "10.0.0.2"}}
    adjusted = yaml.safe_load(kueue.adjust("controller_manager_config.yaml", yaml.safe_dump(said).encode(), "a"))
    assert adjusted["metrics"] == said["metrics"]
    assert adjusted["webhook"] == said["webhook"]
    assert adjusted["health"] == {"healthProbeBindAddress": "a:8081"}


def test_the_catalog_has_the_managers_configuration_as_the_chart_has_it(programs: Programs) -> None:
    values = yaml.safe_load((programs.chart / "values.yaml").read_text())
    said = yaml.safe_load(values["managerConfig"]["controllerManagerConfigYaml"])
    assert catalog.fact("gke", "kueue_manager_config").value == said


@pytest.mark.parametrize(
    ("tag", "same"),
    [("v0.17.0", True), ("release-0.17", True), ("0.17.0", True), ("v0.17.1", False), ("v0.1", False), ("main", False)],
)
def test_an_image_of_another_version_does_not_run(tag: str, same: bool) -> None:
    assert _same_version(tag, "0.17.0") is same


# -- dashboards --------------------------------------------------------------------------------------------------------


def _ask(dashboards: Dashboards, url: str) -> tuple[int, dict[str, Any]]:
    """As Go asks a proxy."""
    connection = http.client.HTTPConnection(dashboards.url.rpartition("/")[2], timeout=10)
    connection.request("GET", url)
    response = connection.getresponse()
    return response.status, json.loads(response.read())


def test_a_dashboard_says_how_its_job_goes() -> None:
    jobs = ScriptedJobs()
    dashboards = Dashboards(jobs)
    dashboards.start()
    try:
        url = "http://job1-x2b4c-head-svc.team.svc.cluster.local:8265/api/jobs/job1-8hk2p"
        status, job = _ask(dashboards, url)
        assert (status, job["status"]) == (200, "RUNNING")
        assert "end_time" not in job
        jobs.finish("job1", "FAILED", namespace="elsewhere")
        assert _ask(dashboards, url)[1]["status"] == "RUNNING"
        jobs.finish("job1", "FAILED", namespace="team")
        job = _ask(dashboards, url)[1]
        assert job["status"] == "FAILED"
        assert job["end_time"] >= job["start_time"]
        status, refused = _ask(dashboards, "http://job1-x2b4c-head-svc.team.svc:8265/api/serve/applications/")
        assert status == 404
        assert "/api/serve/applications/" in refused["error"]
    finally:
        dashboards.stop()


# -- pools -------------------------------------------------------------------------------------------------------------


class FakeApi:
    """An API server's nodes, and its provisioning requests with their status."""

    def __init__(self) -> None:
        self.nodes: dict[str, dict[str, Any]] = {}
        self.requests: list[dict[str, Any]] = []
        self.templates: dict[str, Any] = {}
        self.deleted: list[str] = []

    def list(self, path: str) -> list[dict[str, Any]]:
        return self.requests if path.endswith("provisioningrequests") else list(self.nodes.values())

    def get(self, path: str) -> Any:
        return self.templates.get(path.rpartition("/")[2])

    def call(self, method: str, path: str, body: dict[str, Any]) -> None:
        assert (method, path) == ("POST", "/api/v1/nodes")
        self.nodes[body["metadata"]["name"]] = body

    def patch_status(self, path: str, status: dict[str, Any], kind: str = "") -> None:
        name = path.rpartition("/")[2]
        found = self.nodes.get(name) or next(each for each in self.requests if each["metadata"]["name"] == name)
        found.setdefault("status", {}).update(status)

    def delete(self, path: str, *, grace_s: int | None = None) -> None:
        self.deleted.append(path)
        self.nodes.pop(path.rpartition("/")[2], None)


def _pod(name: str, pool: str, *, node: str = "", **annotations: str) -> dict[str, Any]:
    spec = dict(planes_scenario.ray_job("x")["spec"]["rayClusterSpec"]["workerGroupSpecs"][0]["template"]["spec"])
    spec["nodeSelector"] = {**spec["nodeSelector"], "cloud.google.com/gke-nodepool": pool}
    waiting = [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]
    return {
        "metadata": {"name": name, "namespace": "default", "annotations": annotations},
        "spec": {**spec, "nodeName": node} if node else spec,
        "status": {"phase": "Running"} if node else {"phase": "Pending", "conditions": waiting},
    }


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def pools(clock: Clock) -> NodePools:
    made = NodePools("tpu-cluster", clock, boot_s=10, idle_s=60)
    for stored in planes_scenario.pools():
        made.put(Pool.of(stored))
    return made


def _count(api: FakeApi, pool: str) -> int:
    return sum(each["metadata"]["labels"]["cloud.google.com/gke-nodepool"] == pool for each in api.nodes.values())


def test_a_node_comes_when_its_machine_has_started(pools: NodePools, clock: Clock) -> None:
    api: Any = FakeApi()
    pools.step(api, [])
    assert api.nodes == {}
    clock.advance(10)
    pools.step(api, [])
    [node] = api.nodes.values()
    assert node["metadata"]["name"].startswith("gke-tpu-cluster-default-pool-")
    assert node["metadata"]["labels"]["topology.kubernetes.io/zone"] == "us-east5-b"
    assert node["status"]["conditions"][0]["status"] == "True"


def test_pods_that_no_node_takes_bring_a_whole_slice_and_its_idleness_takes_it(pools: NodePools, clock: Clock) -> None:
    api: Any = FakeApi()
    waiting = [_pod(f"w{number}", "on-demand-pool") for number in range(4)]
    pools.pools["on-demand-pool"].maximum = 16
    for _ in range(3):  # asked for once, not at each look
        pools.step(api, waiting)
    clock.advance(10)
    for _ in range(3):  # nor while the scheduler has not seen them
        pools.step(api, waiting)
    assert _count(api, "on-demand-pool") == 4
    assert _count(api, "dws-pool") == 0
    names = pools.pools["on-demand-pool"].nodes
    assert len(set(names)) == 4
    pods = [_pod(f"w{number}", "on-demand-pool", node=name) for number, name in enumerate(names)]
    clock.advance(100)
    pools.step(api, pods)
    assert _count(api, "on-demand-pool") == 4
    clock.advance(30)
    pools.step(api, pods[:1])  # one busy host keeps its slice
    clock.advance(61)
    pools.step(api, pods[:1])
    assert _count(api, "on-demand-pool") == 4
    pools.step(api, [])
    clock.advance(61)
    pools.step(api, [])
    assert _count(api, "on-demand-pool") == 0
    assert _count(api, "default-pool") == 1


def test_a_stock_out_brings_no_part_of_a_slice(pools: NodePools, clock: Clock) -> None:
    api: Any = FakeApi()
    pools.pools["on-demand-pool"].capacity = 3
    pools.step(api, [_pod(f"w{number}", "on-demand-pool") for number in range(4)])
    clock.advance(10)
    pools.step(api, [])
    assert _count(api, "on-demand-pool") == 0


def test_a_pod_that_waits_for_its_request_brings_no_nodes(pools: NodePools, clock: Clock) -> None:
    booked = {"autoscaling.x-k8s.io/consume-provisioning-request": "x"}
    api: Any = FakeApi()
    pools.step(api, [_pod("w0", "on-demand-pool", **booked), _pod("w1", "dws-pool")])
    clock.advance(10)
    pools.step(api, [])
    assert _count(api, "on-demand-pool") == _count(api, "dws-pool") == 0


# -- queued provisioning -----------------------------------------------------------------------------------------------


def _request(api: FakeApi, name: str, *counts: int) -> dict[str, Any]:
    sets = [{"count": count, "podTemplateRef": {"name": f"{name}-{i}"}} for i, count in enumerate(counts)]
    for each in sets:
        api.templates[each["podTemplateRef"]["name"]] = {"template": {"spec": _pod("w", "dws-pool")["spec"]}}
    made = {
        "metadata": {"name": name, "namespace": "default", "uid": name},
        "spec": {"provisioningClassName": "queued-provisioning.gke.io", "podSets": sets},
    }
    api.requests.append(made)
    return made


def _conditions(request: dict[str, Any]) -> list[str]:
    return [each["type"] for each in request.get("status", {}).get("conditions", ())]


def test_a_request_is_accepted_then_provisioned_with_all_its_nodes(pools: NodePools, clock: Clock) -> None:
    api: Any = FakeApi()
    request, queued = _request(api, "r", 4), QueuedProvisioning(pools, clock, delay_s=30)
    queued.step(api)
    assert _conditions(request) == ["Accepted"]
    clock.advance(29)
    queued.step(api)
    assert _conditions(request) == ["Accepted"]
    clock.advance(1)
    queued.step(api)
    assert _conditions(request) == ["Accepted", "Provisioned"]
    assert len(pools.pools["dws-pool"].nodes) == 4


def test_a_request_waits_for_capacity(pools: NodePools, clock: Clock) -> None:
    api: Any = FakeApi()
    pools.pools["dws-pool"].capacity = 0
    request, queued = _request(api, "r", 4), QueuedProvisioning(pools, clock, delay_s=0)
    for _ in range(3):
        queued.step(api)
        clock.advance(1000)
    assert _conditions(request) == ["Accepted"]
    pools.pools["dws-pool"].capacity = 4
    queued.step(api)
    assert _conditions(request) == ["Accepted", "Provisioned"]


def test_two_pod_sets_are_refused(pools: NodePools, clock: Clock) -> None:
    api: Any = FakeApi()
    request = _request(api, "r", 4, 4)
    QueuedProvisioning(pools, clock, delay_s=0).step(api)
    assert _conditions(request) == ["Failed"]
    assert "one pod set" in request["status"]["conditions"][0]["message"]


def test_a_request_of_another_class_is_left_alone(pools: NodePools, clock: Clock) -> None:
    api: Any = FakeApi()
    request = _request(api, "r", 4)
    request["spec"]["provisioningClassName"] = "check-capacity.autoscaling.x-k8s.io"
    QueuedProvisioning(pools, clock, delay_s=0).step(api)
    assert _conditions(request) == []


def test_an_ordered_ending_comes_in_its_time(pools: NodePools, clock: Clock) -> None:
    api: Any = FakeApi()
    queued = QueuedProvisioning(pools, clock, delay_s=10)
    failed, revoked = _request(api, "job1-r", 4), _request(api, "job2-r", 4)
    queued.order("job1", "Failed", "Requested capacity is not available.")
    queued.order("job2", "CapacityRevoked")
    queued.step(api)
    assert _conditions(failed) == ["Failed"]
    assert _conditions(revoked) == ["Accepted"]  # nothing can be revoked before it is there
    clock.advance(10)
    queued.step(api)
    assert len(pools.pools["dws-pool"].nodes) == 4
    queued.step(api)
    assert _conditions(revoked) == ["Accepted", "Provisioned", "CapacityRevoked"]
    assert pools.pools["dws-pool"].nodes == []
    queued.step(api)
    assert _conditions(failed) == ["Failed"]


def test_a_request_that_waits_too_long_fails(pools: NodePools, clock: Clock) -> None:
    api: Any = FakeApi()
    pools.pools["dws-pool"].capacity = 0
    request, queued = _request(api, "r", 4), QueuedProvisioning(pools, clock, delay_s=1, wait_limit_s=100)
    queued.step(api)
    clock.advance(99)
    queued.step(api)
    assert _conditions(request) == ["Accepted"]
    clock.advance(1)
    queued.step(api)
    assert _conditions(request) == ["Accepted", "Failed"]
    assert "in time" in request["status"]["conditions"][-1]["message"]
    pools.pools["dws-pool"].capacity = None
    queued.step(api)
    assert pools.pools["dws-pool"].nodes == []


def test_booked_nodes_stay_without_pods_until_the_booking_expires(pools: NodePools, clock: Clock) -> None:
    api: Any = FakeApi()
    request, queued = _request(api, "r", 4), QueuedProvisioning(pools, clock, delay_s=0, booking_s=600)

    def look() -> None:
        pools.step(api, [])
        queued.step(api)

    look()
    look()
    for _ in range(9):  # longer than nodes may be idle
        clock.advance(60)
        look()
    assert _count(api, "dws-pool") == 4
    clock.advance(60)
    look()
    assert _conditions(request) == ["Accepted", "Provisioned", "BookingExpired"]
    clock.advance(60)
    look()
    assert _count(api, "dws-pool") == 0


def test_booked_nodes_are_like_any_others_once_pods_have_run_there(pools: NodePools, clock: Clock) -> None:
    api: Any = FakeApi()
    _request(api, "r", 4)
    queued = QueuedProvisioning(pools, clock, delay_s=0)
    queued.step(api)
    queued.step(api)
    clock.advance(10)
    pools.step(api, [])
    nodes = pools.pools["dws-pool"].nodes
    pools.step(api, [_pod(f"w{number}", "dws-pool", node=node) for number, node in enumerate(nodes)])
    pools.step(api, [])
    clock.advance(61)
    pools.step(api, [])
    assert _count(api, "dws-pool") == 0


def test_a_request_that_is_deleted_holds_no_nodes(pools: NodePools, clock: Clock) -> None:
    api: Any = FakeApi()
    _request(api, "r", 4)
    queued = QueuedProvisioning(pools, clock, delay_s=0)
    queued.step(api)
    queued.step(api)
    assert len(pools.held) == 4
    api.requests.clear()
    queued.step(api)
    assert pools.held == set()


def test_an_ordered_booking_expires_before_anybody_has_seen_it(pools: NodePools, clock: Clock) -> None:
    api: Any = FakeApi()
    request, queued = _request(api, "r", 4), QueuedProvisioning(pools, clock, delay_s=0)
    queued.order("r", "BookingExpired")
    queued.step(api)
    queued.step(api)
    assert _conditions(request) == ["Accepted", "Provisioned", "BookingExpired"]
    assert pools.pools["dws-pool"].nodes == []
    assert pools.held == set()


def test_nodes_go_at_the_end_of_their_run_duration_with_their_pods(pools: NodePools, clock: Clock) -> None:
    api: Any = FakeApi()
    week = planes_scenario.tpu_pool("dws-pool", queuedProvisioning={"enabled": True})
    week["config"]["maxRunDuration"] = "604800s"
    pools.put(Pool.of(week))
    request, queued = _request(api, "r", 4), QueuedProvisioning(pools, clock, delay_s=0)
    queued.step(api)
    queued.step(api)
    clock.advance(10)  # it counts from when they have started
    nodes = pools.pools["dws-pool"].nodes
    pods = [_pod(f"w{number}", "dws-pool", node=node) for number, node in enumerate(nodes)]
    clock.advance(604799)
    pools.step(api, pods)
    assert _count(api, "dws-pool") == 4
    clock.advance(1)
    pools.step(api, pods)
    queued.step(api)
    assert _count(api, "dws-pool") == 0
    assert _conditions(request)[-1] == "CapacityRevoked"
    assert sorted(path for path in api.deleted if "/pods/" in path) == [
        f"/api/v1/namespaces/default/pods/w{n}" for n in range(4)
    ]
    assert _count(api, "default-pool") == 1


# -- files of a pod that runs ------------------------------------------------------------------------------------------


class Files:
    """An API server's ConfigMaps, Secrets and tokens."""

    def __init__(self) -> None:
        self.things: dict[str, dict[str, Any]] = {
            "configmaps/config": {"data": {"settings.yaml": "a: 1", "other.yaml": "b: 2"}},
            "configmaps/kube-root-ca.crt": {"data": {"ca.crt": "root"}},
            "secrets/cert": {},
        }

    def get(self, path: str) -> Any:
        return self.things.get(path.partition("/namespaces/team/")[2])

    def call(self, method: str, path: str, body: Any) -> dict[str, Any]:
        assert path == "/api/v1/namespaces/team/serviceaccounts/manager/token"
        return {"status": {"token": "secret"}}


def _sandbox(folder: Path, *volumes: dict[str, Any], mounts: list[dict[str, str]]) -> Sandbox:
    container = {"name": "c", "image": "x", "command": ["/manager"], "volumeMounts": mounts}
    spec = {"serviceAccountName": "manager", "containers": [container], "volumes": list(volumes)}
    pod = {"metadata": {"name": "p", "namespace": "team", "uid": "u"}, "spec": spec}
    plane: Any = None
    return Sandbox(plane, pod, folder, "198.18.0.1", Path("/bin/true"), lambda name, content, address: content)


def test_a_pods_files_are_its_own_and_its_secrets_are_kept_up_to_date(tmp_path: Path) -> None:
    api: Any = Files()
    token = {"serviceAccountToken": {"path": "token"}}
    root = {"configMap": {"name": "kube-root-ca.crt"}}
    namespace = {"downwardAPI": {"items": [{"path": "namespace", "fieldRef": {"fieldPath": "metadata.namespace"}}]}}
    sandbox = _sandbox(
        tmp_path,
        {"name": "config", "configMap": {"name": "config"}},
        {"name": "cert", "secret": {"secretName": "cert"}},
        {"name": "api", "projected": {"sources": [token, root, namespace]}},
        mounts=[
            {"name": "config", "mountPath": "/settings.yaml", "subPath": "settings.yaml"},
            {"name": "cert", "mountPath": "/certs"},
            {"name": "api", "mountPath": "/var/run/secrets"},
        ],
    )
    sandbox.sync(api, first=True)
    files = {str(path.relative_to(tmp_path)): path.read_text() for path in tmp_path.rglob("*") if path.is_file()}
    secrets = {"token": "secret", "ca.crt": "root", "namespace": "team"}
    assert files == {"settings.yaml": "a: 1", **{f"var/run/secrets/{key}": text for key, text in secrets.items()}}
    data = {name: base64.b64encode(name.encode()).decode() for name in ("tls.crt", "tls.key", "ca.crt")}
    api.things["secrets/cert"] = {"data": data}
    api.things["configmaps/config"]["data"]["settings.yaml"] = "a: 2"
    sandbox.sync(api)
    written = sorted((tmp_path / "certs").iterdir(), key=lambda path: path.stat().st_mtime_ns)
    assert {path.name: path.read_text() for path in written} == {name: name for name in data}
    assert written[0].name == "tls.key"  # who waits for the certificate finds its key
    assert (tmp_path / "settings.yaml").read_text() == "a: 1"  # as on a real node: a subPath stays


def test_what_cannot_be_mounted_is_named(tmp_path: Path) -> None:
    volume = {"name": "data", "persistentVolumeClaim": {"claimName": "x"}}
    sandbox = _sandbox(tmp_path, volume, mounts=[{"name": "data", "mountPath": "/data"}])
    api: Any = Files()
    with pytest.raises(SandboxError, match="data"):
        sandbox.sync(api, first=True)
    out = _sandbox(
        tmp_path, {"name": "c", "configMap": {"name": "config"}}, mounts=[{"name": "c", "mountPath": "/../c"}]
    )
    with pytest.raises(SandboxError, match=r"\.\."):
        out.sync(api, first=True)
    missing = _sandbox(
        tmp_path, {"name": "c", "configMap": {"name": "gone"}}, mounts=[{"name": "c", "mountPath": "/c"}]
    )
    with pytest.raises(SandboxError, match='configmaps "gone" not found'):
        missing.sync(api, first=True)


def test_the_plugin_says_the_token_and_keeps_it_to_its_owner(tmp_path: Path) -> None:
    plugin = auth_plugin.write(tmp_path / "a b", "t0ken")
    said = json.loads(subprocess.run([plugin], capture_output=True, check=True).stdout)
    assert said["kind"] == "ExecCredential"
    assert said["status"] == {"token": "t0ken"}
    assert "t0ken" not in plugin.read_text()
    [kept] = [path for path in plugin.parent.iterdir() if path != plugin]
    assert kept.stat().st_mode & 0o077 == 0


def test_a_plane_without_programs_says_what_brings_them(tmp_path: Path, clock: Clock) -> None:
    plane = KubernetesPlane(clock, state_dir=tmp_path, programs=None)
    assert not plane.availability().usable
    with pytest.raises(RuntimeError, match="make planes"):
        plane.start()
