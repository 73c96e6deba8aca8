"""Scenario B's pools, queues and jobs with the scenario's own figures, as the plane meets them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import yaml

from mockgcp.services import container_nodes

_TPU = "google.com/tpu"


def stored_pool(name: str, machine: str, **fields: Any) -> dict[str, Any]:
    """A node pool as the container service stores it, as far as the plane reads it."""
    pool: dict[str, Any] = {
        "name": name,
        "config": {"machineType": machine},
        "locations": ["us-east5-b"],
        "maxPodsConstraint": {"maxPodsPerNode": "110"},
        "initialNodeCount": 0,
        **fields,
    }
    pool["config"]["taints"] = container_nodes.taints(pool)
    return pool


def tpu_pool(name: str, **fields: Any) -> dict[str, Any]:
    scaling = {"enabled": True, "minNodeCount": 0, "maxNodeCount": 4}
    placement = {"tpuTopology": "4x4", "type": "COMPACT"}
    return stored_pool(name, "ct6e-standard-4t", autoscaling=scaling, placementPolicy=placement, **fields)


def pools() -> list[dict[str, Any]]:
    return [
        stored_pool("default-pool", "n2-standard-16", initialNodeCount=1),
        tpu_pool("on-demand-pool"),
        tpu_pool("dws-pool", queuedProvisioning={"enabled": True}),
    ]


QUEUES = list(
    yaml.safe_load_all("""
apiVersion: kueue.x-k8s.io/v1beta2
kind: ResourceFlavor
metadata: {name: default-cpu}
spec: {nodeLabels: {cloud.google.com/gke-nodepool: default-pool}}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ResourceFlavor
metadata: {name: on-demand}
spec: {nodeLabels: {cloud.google.com/gke-nodepool: on-demand-pool}}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ResourceFlavor
metadata: {name: dws}
spec: {nodeLabels: {cloud.google.com/gke-nodepool: dws-pool}}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ProvisioningRequestConfig
metadata: {name: dws-config}
spec: {provisioningClassName: queued-provisioning.gke.io, managedResources: [google.com/tpu]}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: AdmissionCheck
metadata: {name: dws-prov}
spec:
  controllerName: kueue.x-k8s.io/provisioning-request
  parameters: {apiGroup: kueue.x-k8s.io, kind: ProvisioningRequestConfig, name: dws-config}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {name: cluster-queue}
spec:
  namespaceSelector: {}
  resourceGroups:
  - coveredResources: [cpu, memory, google.com/tpu]
    flavors:
    - name: default-cpu
      resources:
      - {name: cpu, nominalQuota: 10}
      - {name: memory, nominalQuota: 20Gi}
      - {name: google.com/tpu, nominalQuota: 0}
    - name: on-demand
      resources:
      - {name: cpu, nominalQuota: 40}
      - {name: memory, nominalQuota: 75Gi}
      - {name: google.com/tpu, nominalQuota: 16}
    - name: dws
      resources:
      - {name: cpu, nominalQuota: 1000000000}
      - {name: memory, nominalQuota: 1000000000Gi}
      - {name: google.com/tpu, nominalQuota: 1000000000}
  admissionChecksStrategy:
    admissionChecks:
    - {name: dws-prov, onFlavors: [dws]}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: LocalQueue
metadata: {name: user-queue, namespace: default}
spec: {clusterQueue: cluster-queue}
""")
)


def ray_job(name: str) -> dict[str, Any]:
    """One slice of four hosts, not elastic."""
    worker = {
        "nodeSelector": {
            "cloud.google.com/gke-tpu-accelerator": "tpu-v6e-slice",
            "cloud.google.com/gke-tpu-topology": "4x4",
        },
        "tolerations": [
            {"key": key, "operator": "Exists", "effect": "NoSchedule"} for key in (_TPU, "cloud.google.com/gke-queued")
        ],
        "containers": [_container("ray-worker", {"cpu": "8", "memory": "16Gi", _TPU: "4"})],
    }
    group = {"groupName": "tpu-group", "replicas": 1, "minReplicas": 1, "maxReplicas": 1, "numOfHosts": 4}
    head = {"containers": [_container("ray-head", {"cpu": "2", "memory": "4Gi"})]}
    return {
        "apiVersion": "ray.io/v1",
        "kind": "RayJob",
        "metadata": {"name": name, "namespace": "default", "labels": {"kueue.x-k8s.io/queue-name": "user-queue"}},
        "spec": {
            "entrypoint": "python /app/train.py",
            "shutdownAfterJobFinishes": True,
            "rayClusterSpec": {
                "rayVersion": "2.53.0",
                "headGroupSpec": {"rayStartParams": {}, "template": {"spec": head}},
                "workerGroupSpecs": [{**group, "rayStartParams": {}, "template": {"spec": worker}}],
            },
        },
    }


def _container(name: str, resources: Mapping[str, str]) -> dict[str, Any]:
    same = {"requests": dict(resources), "limits": dict(resources)}
    return {"name": name, "image": "rayproject/ray:2.53.0-py311", "resources": same}
