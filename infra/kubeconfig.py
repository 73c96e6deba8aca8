"""How to reach a cluster: a kubeconfig whose credentials come from Google's plugin, whoever runs it."""

import json
from collections.abc import Mapping
from typing import Any

import pulumi

from infra.gke_cluster import GkeCluster

PLUGIN = "gke-gcloud-auth-plugin"
"""What prints a token for the person, or the account, that gcloud is logged in as. It has to be on PATH."""


def kubeconfig(name: str, endpoint: str, ca_certificate: str = "") -> Mapping[str, Any]:
    """A kubeconfig of one cluster. `endpoint` is a host with or without a port; `ca_certificate` is base64, empty for a
    certificate that every machine trusts. It holds no credentials."""
    authority = {"certificate-authority-data": ca_certificate} if ca_certificate else {}
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": name,
        "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
        "clusters": [{"name": name, "cluster": {"server": f"https://{endpoint}", **authority}}],
        "users": [
            {
                "name": name,
                "user": {
                    "exec": {
                        "apiVersion": "client.authentication.k8s.io/v1beta1",
                        "command": PLUGIN,
                        "installHint": f"Install it with `gcloud components install {PLUGIN}`",
                        "interactiveMode": "Never",
                        "provideClusterInfo": True,
                    }
                },
            }
        ],
    }


def kubeconfig_of(cluster: GkeCluster) -> pulumi.Output[str]:
    """The cluster's kubeconfig as JSON, a secret: it says where a private control plane is."""
    parts = pulumi.Output.all(cluster.name, cluster.endpoint, cluster.ca_certificate)
    return pulumi.Output.secret(parts.apply(lambda known: json.dumps(kubeconfig(*known))))


def credentials_command(cluster_name: str, project: str, zone: str, *, by_address: bool) -> str:
    """What an operator runs to reach the cluster with kubectl."""
    way = "" if by_address else " --dns-endpoint"
    return f"gcloud container clusters get-credentials {cluster_name} --project {project} --location {zone}{way}"
