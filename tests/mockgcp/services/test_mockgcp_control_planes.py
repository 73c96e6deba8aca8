"""Kubernetes Engine: what the container service has of the control planes that run behind its clusters."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from mockgcp_client import PROJECT, Client

from mockgcp.clock import Clock
from mockgcp.cloud import Cloud
from mockgcp.durations import NOMINAL
from mockgcp.errors import ApiError

LOCATION = f"projects/{PROJECT}/locations/us-east5-b"
CLUSTER = f"{LOCATION}/clusters/tpu"
CLUSTERS = "container.projects.locations.clusters"
POOLS = f"{CLUSTERS}.nodePools"
WAIT_S = 30.0


@dataclass(frozen=True)
class Running:
    endpoint: str
    ca_certificate: str = "Y2E="


@dataclass
class Fake:
    """Control planes that are numbers of nodes. `gate`: what creating one waits for; `failure`: what it says then."""

    gate: threading.Event = field(default_factory=threading.Event)
    failure: str = ""
    running: dict[str, Running] = field(default_factory=dict)
    nodes: dict[str, dict[str, int]] = field(default_factory=dict)
    pools: dict[str, Mapping[str, Any]] = field(default_factory=dict)

    def create(self, name: str, pools: Iterable[Mapping[str, Any]]) -> Running:
        assert self.gate.wait(WAIT_S)
        if self.failure:
            raise RuntimeError(self.failure)
        self.running[name] = made = Running(f"127.0.0.1:{7000 + len(self.running)}")
        self.nodes[name] = {pool["name"]: pool["initialNodeCount"] for pool in pools}
        return made

    def cluster(self, name: str) -> Running | None:
        return self.running.get(name)

    def delete(self, name: str) -> None:
        self.running.pop(name, None)
        self.nodes.pop(name, None)

    def put_pool(self, cluster: str, pool: Mapping[str, Any], nodes: int | None = None) -> None:
        self.pools[pool["name"]] = pool
        if nodes is not None or pool["name"] not in self.nodes[cluster]:
            self.nodes[cluster][pool["name"]] = nodes or 0

    def drop_pool(self, cluster: str, pool: str) -> None:
        self.nodes.get(cluster, {}).pop(pool, None)

    def sizes(self, cluster: str) -> Mapping[str, int]:
        return self.nodes.get(cluster, {})


@pytest.fixture
def planes() -> Fake:
    made = Fake()
    made.gate.set()
    return made


def client(cloud: Cloud, planes: Fake) -> Client:
    cloud.control_planes = planes
    cloud.project(PROJECT).services.update({"compute.googleapis.com", "container.googleapis.com"})
    owner, network = Client(cloud), f"projects/{PROJECT}/global/networks/holdfast"
    owner.finish("compute.networks.insert", {"project": PROJECT}, {"name": "holdfast", "autoCreateSubnetworks": False})
    subnet = {"name": "holdfast", "network": network, "ipCidrRange": "10.0.0.0/20"}
    owner.finish("compute.subnetworks.insert", {"project": PROJECT, "region": "us-east5"}, subnet)
    return owner


@pytest.fixture
def gcp(cloud: Cloud, planes: Fake) -> Client:
    """On a held clock."""
    return client(cloud, planes)


@pytest.fixture
def live(tmp_path: Path) -> Cloud:
    """A cloud whose clock runs, and whose operations take no time by themselves."""
    made = Cloud(clock=Clock.wall(), state_dir=tmp_path, durations=dict.fromkeys(NOMINAL, 0.0))
    made.seed_project(PROJECT)
    return made


def body(**fields: Any) -> dict[str, Any]:
    return {"cluster": {"name": "tpu", "initialNodeCount": 2, "network": "holdfast", **fields}}


def get(gcp: Client) -> dict[str, Any]:
    return gcp.call(f"{CLUSTERS}.get", {"name": CLUSTER})


def pool(gcp: Client, **fields: Any) -> None:
    sent = {"name": "cpu", "initialNodeCount": 1, "config": {"machineType": "n2-standard-16"}, **fields}
    gcp.finish(f"{POOLS}.create", {"parent": CLUSTER}, {"nodePool": sent})


def of_pool(gcp: Client, method: str, **sent: Any) -> dict[str, Any]:
    return gcp.finish(f"{POOLS}.{method}", {"name": f"{CLUSTER}/nodePools/cpu"}, sent or None)


def test_a_cluster_has_the_address_of_its_control_plane_wherever_it_is_open(gcp: Client, planes: Fake) -> None:
    made = gcp.finish(f"{CLUSTERS}.create", {"parent": LOCATION}, body())
    running = planes.running[CLUSTER]
    by_ip = made["controlPlaneEndpointsConfig"]["ipEndpointsConfig"]
    assert made["endpoint"] == by_ip["publicEndpoint"] == by_ip["privateEndpoint"] == running.endpoint
    assert made["masterAuth"]["clusterCaCertificate"] == running.ca_certificate
    closed = {"desiredControlPlaneEndpointsConfig": {"ipEndpointsConfig": {"enabled": False}}}
    assert gcp.finish(f"{CLUSTERS}.update", {"name": CLUSTER}, {"update": closed})["endpoint"] == ""
    opened = {"desiredControlPlaneEndpointsConfig": {"ipEndpointsConfig": {"enabled": True}}}
    assert gcp.finish(f"{CLUSTERS}.update", {"name": CLUSTER}, {"update": opened})["endpoint"] == running.endpoint
    gcp.finish(f"{CLUSTERS}.delete", {"name": CLUSTER})
    assert planes.running == {}


def test_one_that_does_not_come_up_is_the_operations_error_and_leaves_nothing(gcp: Client, planes: Fake) -> None:
    planes.failure = "etcd ended with 1"
    operation = gcp.start(f"{CLUSTERS}.create", {"parent": LOCATION}, body())
    with pytest.raises(ApiError, match="etcd ended with 1"):
        gcp.cloud.wait(operation)
    assert gcp.refused(f"{CLUSTERS}.get", {"name": CLUSTER}).status == "NOT_FOUND"
    planes.failure = ""
    assert gcp.finish(f"{CLUSTERS}.create", {"parent": LOCATION}, body())["status"] == "RUNNING"


def test_other_calls_go_on_while_a_control_plane_comes_up(live: Cloud) -> None:
    planes = Fake()
    gcp = client(live, planes)
    operation = gcp.start(f"{CLUSTERS}.create", {"parent": LOCATION}, body())
    assert get(gcp)["status"] == "PROVISIONING"  # this call has begun the work, and is answered all the same
    assert not operation.done
    assert "creating cluster tpu" in gcp.refused(f"{CLUSTERS}.delete", {"name": CLUSTER}).message
    planes.gate.set()
    assert gcp.cloud.wait(operation, WAIT_S)["endpoint"] == planes.running[CLUSTER].endpoint


def test_an_operation_that_is_cancelled_meanwhile_ends_what_it_brought_up(live: Cloud) -> None:
    planes = Fake()
    gcp = client(live, planes)
    operation = gcp.start(f"{CLUSTERS}.create", {"parent": LOCATION}, body())
    get(gcp)
    gcp.call("container.projects.locations.operations.cancel", {"name": operation.name}, {})
    planes.gate.set()
    with pytest.raises(ApiError, match="cancelled"):
        gcp.cloud.wait(operation, WAIT_S)
    assert planes.running == {}


def test_nodes_are_counted_where_they_are(gcp: Client, planes: Fake) -> None:
    gcp.finish(f"{CLUSTERS}.create", {"parent": LOCATION}, body())
    assert get(gcp)["currentNodeCount"] == 2
    planes.nodes[CLUSTER]["default-pool"] = 5  # its autoscaler was at work
    assert get(gcp)["currentNodeCount"] == 5
    group = get(gcp)["instanceGroupUrls"][0].rpartition("/")[2]
    params = {"project": PROJECT, "zone": "us-east5-b", "instanceGroupManager": group}
    planes.nodes[CLUSTER]["default-pool"] = 3
    assert gcp.call("compute.instanceGroupManagers.get", params)["targetSize"] == 3


def test_pools_reach_the_control_plane_when_their_operations_end(gcp: Client, planes: Fake) -> None:
    gcp.finish(f"{CLUSTERS}.create", {"parent": LOCATION}, body())
    pool(gcp)
    assert planes.pools["cpu"]["status"] == "RUNNING"
    of_pool(gcp, "setAutoscaling", autoscaling={"enabled": True, "minNodeCount": 0, "maxNodeCount": 7})
    assert planes.pools["cpu"]["autoscaling"]["maxNodeCount"] == 7
    of_pool(gcp, "setSize", nodeCount=4)
    assert planes.nodes[CLUSTER]["cpu"] == 4
    of_pool(gcp, "delete")
    assert planes.nodes[CLUSTER].keys() == {"default-pool"}
