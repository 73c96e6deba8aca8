"""The Ray operator, which GKE runs for a cluster with that add-on: its roles, and the operator itself.

Deliberately not done: the add-on's webhook that tells TPU workers their ids; workers are stood in for.
"""

from __future__ import annotations

from mockgcp.planes.k8s.addresses import free_ports
from mockgcp.planes.k8s.api import documents
from mockgcp.planes.k8s.control_plane import ControlPlane
from mockgcp.planes.k8s.programs import Programs
from mockgcp.planes.k8s.ray import Dashboards
from mockgcp.planes.k8s.sandbox import service_account_token

NAMESPACE = "ray-system"
"""The add-on's own is not known here; unchecked."""
_ACCOUNT = "kuberay-operator"


def start(plane: ControlPlane, programs: Programs, dashboards: Dashboards) -> None:
    """Applies the operator's roles, starts it and waits until it answers. Its CRDs are there. Raises RuntimeError."""
    api = plane.api()
    api.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
    for thing in documents(programs.kuberay_rbac):
        thing["metadata"]["namespace"] = NAMESPACE
        for subject in thing.get("subjects", ()):
            subject["namespace"] = NAMESPACE
        api.apply(thing)
    token = service_account_token(api, NAMESPACE, _ACCOUNT)
    api.close()
    [health] = free_ports(1)
    plane.spawn(
        "kuberay",
        [
            f"--kubeconfig={plane.kubeconfig('kuberay', token=token, namespace=NAMESPACE)}",
            "--metrics-addr=0",
            f"--health-probe-bind-address=127.0.0.1:{health}",
            "--enable-leader-election=false",
        ],
        # It asks dashboards by their names in the cluster, through the proxy; the API server is on loopback, which Go
        # never asks a proxy for.
        env={"HTTP_PROXY": dashboards.url},
    )
    plane.wait("kuberay", lambda: plane.answers(health, "/readyz"))
