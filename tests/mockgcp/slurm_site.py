"""Scenario C's surroundings and its cluster's body, and schedulers that answer what they are told to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from mockgcp.cloud import DEFAULT_OWNER, Cloud
from mockgcp.training_clusters import Json, RestAnswer, Status

REGION, ZONE = "us-central1", "us-central1-a"
APIS = {f"{api}.googleapis.com" for api in ("aiplatform", "compute", "file")}
LOGIN: dict[str, Any] = {
    "id": "login",
    "machineSpec": {"machineType": "n2-standard-8"},
    "scalingSpec": {"minNodeCount": 1, "maxNodeCount": 1},
    "zone": ZONE,
    "bootDisk": {"bootDiskType": "pd-standard", "bootDiskSizeGb": 120},
}
GPU: dict[str, Any] = {
    "id": "a3u",
    "machineSpec": {"machineType": "a3-ultragpu-8g"},
    "provisioningModel": "FLEX_START",
    "scalingSpec": {"minNodeCount": 1, "maxNodeCount": 2},
    "zone": ZONE,
    "bootDisk": {"bootDiskType": "hyperdisk-balanced", "bootDiskSizeGb": 400},
}
CONFIG = {
    "AccountingStorageEnforce": "associations,limits,qos",
    "PriorityType": "priority/multifactor",
    "PriorityWeightAge": "1000",
    "PreemptType": "preempt/partition_prio",
    "PreemptMode": "REQUEUE",
    "PreemptExemptTime": "00:10:00",
}


def settle(cloud: Cloud, project: str) -> None:
    """A project with scenario C's APIs, network and home directory, whose Google APIs service agent is an editor."""
    cloud.project(project).services.update(APIS)
    agent = f"serviceAccount:{cloud.project(project).number}@cloudservices.gserviceaccount.com"
    cloud.policies.grant(f"projects/{project}", "roles/editor", agent)
    network = f"projects/{project}/global/networks/holdfast"
    subnet = {"name": "holdfast", "network": network, "ipCidrRange": "10.0.0.0/20"}
    home = {
        "tier": "BASIC_HDD",
        "fileShares": [{"name": "home", "capacityGb": 1024}],
        "networks": [{"network": "holdfast", "modes": ["MODE_IPV4"]}],
    }
    body = {"name": "holdfast", "autoCreateSubnetworks": False}
    cloud.answer("compute.networks.insert", {"project": project}, body, DEFAULT_OWNER)
    cloud.answer("compute.subnetworks.insert", {"project": project, "region": REGION}, subnet, DEFAULT_OWNER)
    place = {"parent": f"projects/{project}/locations/{ZONE}", "instanceId": "home"}
    cloud.answer("file.projects.locations.instances.create", place, home, DEFAULT_OWNER)


def slurm(project: str, **fields: Any) -> dict[str, Any]:
    return {
        "homeDirectoryStorage": f"projects/{project}/locations/{ZONE}/instances/home",
        "loginNodePoolId": "login",
        "partitions": [{"id": "a3u", "nodePoolIds": ["a3u"]}],
        "config": CONFIG,
        **fields,
    }


def training_cluster(project: str, slurm_fields: Mapping[str, Any] | None = None, **fields: Any) -> dict[str, Any]:
    return {
        "displayName": "flexvm",
        "network": {
            "network": f"projects/{project}/global/networks/holdfast",
            "subnetwork": f"projects/{project}/regions/{REGION}/subnetworks/holdfast",
        },
        "nodePools": [LOGIN, GPU],
        "orchestratorSpec": {"slurmSpec": slurm(project, **(slurm_fields or {}))},
        **fields,
    }


@dataclass
class Schedulers:
    """Notes what it is asked. `fails`: the reason that the next create, update, delete or report fails for."""

    asked: list[tuple[Any, ...]] = field(default_factory=list)
    clusters: dict[str, Json] = field(default_factory=dict)
    now: Status = field(default_factory=Status)
    fails: str = ""

    def _note(self, *what: Any) -> None:
        self.asked.append(what)
        if self.fails:
            raise RuntimeError(self.fails)

    def create(self, name: str, cluster: Json) -> None:
        self._note("create", name)
        self.clusters[name] = cluster

    def update(self, name: str, cluster: Json) -> None:
        self._note("update", name)
        self.clusters[name] = cluster

    def delete(self, name: str) -> None:
        self._note("delete", name)
        self.clusters.pop(name, None)

    def status(self, name: str) -> Status:
        return self.now

    def rest(self, name: str, method: str, path: str, body: Json | None, principal: str) -> RestAnswer:
        self._note("rest", name, method, path, body, principal)
        return RestAnswer(200, {"job_id": 7, "errors": []})

    def report_faulty(self, name: str, node: str, reasons: Sequence[Json], *, host: bool) -> None:
        self._note("report_faulty", name, node, list(reasons), host)
