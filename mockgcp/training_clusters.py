"""What runs behind emulated training clusters: a plane with a scheduler, or nothing.

`Cloud.training_clusters` is the one in use; None: clusters come up and have nodes, but no scheduler answers.
The aiplatform service calls it: `create`, `update`, `delete` and `report_faulty` in a thread of their own, since they
take their time (on a held clock in the caller's place), `status` and `rest` with the cloud's lock held.
A cluster is named by its full name with the project's id, `projects/P/locations/R/modelDevelopmentClusters/C`, and
given as the API stores it: camelCase, with what the server fills in (`orchestratorSpec.slurmSpec.defaultPartitionId`,
`nodePools[].effectiveFlexStartMaxDuration`, `nodePools[].scalingSpec` with both counts).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

Json = Mapping[str, Any]


@dataclass(frozen=True)
class Node:
    """A node that there is. `name`: CLUSTER-POOL-INDEX. `created`, `changed`: the clock's timestamps."""

    name: str
    pool_id: str
    state: Literal["PREPARING", "RUNNING", "UPDATING", "ERROR"]
    created: str
    changed: str


@dataclass(frozen=True)
class Event:
    """What happened to a node: `type` as in clusterEvents (VM_PROLOG_ERROR, VM_SLURM_DRAIN, ...)."""

    type: str
    message: str
    time: str


@dataclass(frozen=True)
class Status:
    """A cluster as its scheduler has it: its compute nodes (login nodes are the service's), `events` oldest first."""

    nodes: Sequence[Node] = ()
    events: Sequence[Event] = ()


@dataclass(frozen=True)
class RestAnswer:
    """What Slurm's REST API answers: the HTTP status, and the body as JSON."""

    status: int
    body: Json = field(default_factory=dict)


class TrainingClusters(Protocol):
    """The schedulers of the training clusters, by the full names of these."""

    def create(self, name: str, cluster: Json) -> None:
        """Brings a cluster up, and returns when its scheduler answers and its static nodes are there or on their way.

        Raises:
            RuntimeError: it does not come up, and nothing of it is left. The cluster's state is then ERROR.
        """

    def update(self, name: str, cluster: Json) -> None:
        """Makes a running cluster what `cluster` says, without losing a job.

        Raises:
            RuntimeError: it cannot be, and runs on as it was; the operation fails.
        """

    def delete(self, name: str) -> None:
        """Ends a cluster and everything of it; one that is not there is fine."""

    def status(self, name: str) -> Status:
        """How the cluster is now: cheap, since each read of the cluster asks; of one that is not there, nothing."""

    def rest(self, name: str, method: str, path: str, body: Json | None, principal: str) -> RestAnswer:
        """Answers a request to Slurm's REST API. `method`: GET, POST or DELETE.

        `path` is one of /slurm/v0.0.42/job/submit, /slurm/v0.0.42/jobs/ (with or without its last slash) and
        /slurm/v0.0.42/job/ID; the service passes on nothing else. `principal`: who calls, `user:NAME@DOMAIN`.

        Raises:
            RuntimeError: no scheduler answers.
        """

    def report_faulty(self, name: str, node: str, reasons: Sequence[Json], *, host: bool) -> None:
        """Takes a node of the cluster away and, where it is static or a job waits, brings it back; its job runs again.

        `host`: its host is reported for repair, for `reasons` (`{"behavior": ..., "description": ...}`).

        Raises:
            RuntimeError: it did not come back; the operation fails.
        """
