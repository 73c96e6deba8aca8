"""Agent Platform (aiplatform) v1beta1: what the parts share, and operations.

Training clusters are in aiplatform_clusters.py, what is asked of a running one in aiplatform_slurm.py, what they refer
to in aiplatform_needs.py. Deliberately not done: all else of the API. What is sent of it is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from mockgcp.errors import ApiError, failed_precondition, not_found
from mockgcp.operations import Aside, Operation, Step
from mockgcp.service import Call, Service, canonical
from mockgcp.services.standard import serve_operations
from mockgcp.state import State

# The nodes that no plane has, and what happened to them.
NODES, EVENTS = "aiplatform.node", "aiplatform.event"
CLUSTER = "aiplatform.modelDevelopmentCluster"
METHODS = "aiplatform.projects.locations.modelDevelopmentClusters"
RESOURCE = "GoogleCloudAiplatformV1beta1ModelDevelopmentCluster"

service = Service("aiplatform", host="aiplatform.googleapis.com", records=(NODES, EVENTS))


def parent(call: Call) -> str:
    return canonical(call, call.params["parent"])


def named(call: Call) -> str:
    return canonical(call, call.params["name"])


def numbered(state: State, name: str) -> str:
    """A full name with the project's number, as this API answers it (inferred from the pages' operations)."""
    _, project, *rest = name.split("/")
    return "/".join(["projects", str(state.project(project).number), *rest])


def cluster(call: Call) -> dict[str, Any]:
    """The stored cluster.

    Raises:
        ApiError: NOT_FOUND; words unchecked.
    """
    found = call.cloud.table(CLUSTER).get(named(call))
    if found is None:
        raise not_found(f"The ModelDevelopmentCluster {named(call)!r} does not exist.")
    return found


def require_state(stored: Mapping[str, Any], *states: str) -> None:
    """Refuses what has to wait for the operation that is on its way, or to be deleted; words unchecked."""
    state = stored["clusterStatus"]["state"]
    if state not in states:
        raise failed_precondition(
            f"The ModelDevelopmentCluster {stored['name']!r} is in state {state}; this needs {' or '.join(states)}."
        )


def start(
    call: Call,
    name: str,
    kind: str,
    done: Callable[[], Mapping[str, Any]],
    *,
    progress: str = "",
    check: Callable[[], object] = lambda: None,
    aside: Callable[[], object] | None = None,
    failed: Callable[[ApiError], object] = lambda error: None,
) -> Operation:
    """The operation on a cluster whose response is what `done` answers; `kind` begins its metadata's type.

    `check` refuses, by ApiError, once it runs. `aside` is what takes real time before `done`: other calls go on
    meanwhile; it fails by RuntimeError. `failed` is told of either.
    """
    now = call.cloud.clock.timestamp()
    metadata: dict[str, Any] = {
        "@type": f"type.googleapis.com/google.cloud.aiplatform.v1beta1.{kind}OperationMetadata",
        "genericMetadata": {"createTime": now, "updateTime": now},
        **({"progressMessage": progress} if progress else {}),
    }

    def end(error: ApiError | None = None) -> Mapping[str, Any]:
        metadata["genericMetadata"]["updateTime"] = call.cloud.clock.timestamp()
        if error is not None:
            failed(error)
            raise error
        return done()

    def work() -> Step:
        assert aside is not None
        try:
            aside()
        except RuntimeError as error:
            failure = ApiError("INTERNAL", str(error))
            return lambda: end(failure)
        return end

    def step() -> Mapping[str, Any] | Aside:
        try:
            check()
        except ApiError as error:
            return end(error)
        return end() if aside is None else Aside(work)

    location = "/".join(numbered(call.cloud, name).split("/")[:4])
    operation = Operation(f"{location}/operations/{call.cloud.random.randrange(10**18, 9 * 10**18)}", metadata)
    return call.cloud.operations.run(operation, (call.duration_s, step))


def _operation(call: Call) -> str:
    return numbered(call.cloud, call.params["name"])


# What the API asks to read an operation no page says.
serve_operations(service, "aiplatform.projects.locations.operations", None, on=_operation)
serve_operations(service, "aiplatform.v1.projects.locations.operations", None, on=_operation)
