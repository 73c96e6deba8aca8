"""What runs behind the endpoints of emulated GKE clusters.

`Cloud.control_planes` is the one in use; None: nothing runs there, and a cluster is what the API says of it.
`planes/kubernetes.py` has real ones. The container service calls `create` and `delete`, which take their time, in a
thread of their own, and the rest with the cloud's lock held.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Protocol


class ControlPlane(Protocol):
    """A control plane that answers."""

    @property
    def endpoint(self) -> str:
        """Host and port."""

    @property
    def ca_certificate(self) -> str:
        """As Cluster.masterAuth has it: base64."""


class ControlPlanes(Protocol):
    """The control planes, by the full names of clusters. Pools are as the container service stores them."""

    def create(self, name: str, pools: Iterable[Mapping[str, Any]]) -> ControlPlane:
        """Brings up a cluster, and returns when it answers.

        Raises:
            RuntimeError: it does not come up, and nothing of it is left.
        """

    def cluster(self, name: str) -> ControlPlane | None:
        """The one that runs."""

    def delete(self, name: str) -> None:
        """Ends a cluster; one that is not there is fine."""

    def put_pool(self, cluster: str, pool: Mapping[str, Any], nodes: int | None = None) -> None:
        """Adds or changes a pool. `nodes`: how many it is to have now; None: as its configuration has it."""

    def drop_pool(self, cluster: str, pool: str) -> None:
        """Takes a pool away with its nodes, by its short name."""

    def sizes(self, cluster: str) -> Mapping[str, int]:
        """How many nodes each pool has or is growing to, by its short name; of a cluster that is not there, nothing."""
