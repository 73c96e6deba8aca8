"""Agent Platform v1beta1: what is asked of a running training cluster: its Slurm's REST API, and to mend a node."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from infra import catalog
from mockgcp.errors import ApiError, failed_precondition, invalid, not_found, permission_denied
from mockgcp.operations import Operation
from mockgcp.service import Call
from mockgcp.services.aiplatform import METHODS, NODES, cluster, named, require_state, service, start
from mockgcp.services.aiplatform_clusters import login_pool, nodes, record
from mockgcp.services.run_needs import agent_domain

_API = catalog.fact("training_clusters", "slurm_api")
_VERSION = re.escape(_API.value["version"])
_SLURM_PATH = re.compile(r"/slurm(db)?/v\d+\.\d+\.\d+/\S+")
_PASSED_ON = {
    "POST": re.compile(rf"/slurm/{_VERSION}/job/submit"),
    "GET": re.compile(rf"/slurm/{_VERSION}/(jobs/?|job/[\w+.]+)"),
    "DELETE": re.compile(rf"/slurm/{_VERSION}/job/[\w+.]+"),
}


def _method(call: Call) -> str:
    sent: str = call.body.get("method", "HTTP_METHOD_UNSPECIFIED")
    return sent.removeprefix("HTTP_METHOD_")


def _check_rest(call: Call) -> None:
    """What the API refuses itself, as the page's common responses have it, and what is not emulated."""
    verb, path, body = _method(call), call.body.get("path", ""), call.body.get("body")
    size, most = len(json.dumps(call.body).encode()), _API.value["request_max_bytes"]
    if size >= most:
        why = f"the request has {size} bytes; it must remain under {most} ({_API.source})"
        raise invalid(f"{why}. Put a large script on the shared storage and call it from a short one", ("body", why))
    if verb == "UNSPECIFIED":
        raise invalid(
            "method is required: HTTP_METHOD_GET, HTTP_METHOD_POST or HTTP_METHOD_DELETE", ("method", "required")
        )
    if not _SLURM_PATH.fullmatch(path):
        raise invalid(f"path {path!r} is not a valid Slurm path ({_API.source})", ("path", "malformed"))
    if (verb == "POST") != (body is not None):
        raise invalid(f"body is required for POST, and for POST alone ({_API.source})", ("body", "required"))
    if not _PASSED_ON[verb].fullmatch(path):
        raise ApiError(
            "UNIMPLEMENTED",
            f"mockgcp does not emulate {verb} {path} of Slurm's REST API; of {_API.value['version']} it has "
            "job/submit, jobs, and GET and DELETE of job/ID",
        )


@service.method(
    f"{METHODS}.callSlurmRestApi",
    permission="aiplatform.modelDevelopmentClusters.run",
    on=named,
    rules=_check_rest,
)
def call_slurm_rest_api(call: Call) -> Mapping[str, Any]:
    """Slurm's own answer, in the caller's name. It runs on while it is updated, and nowhere else."""
    state, plane = cluster(call)["clusterStatus"]["state"], call.cloud.training_clusters
    if state not in ("RUNNING", "UPDATING"):
        raise ApiError(
            "UNAVAILABLE", f"The cluster is temporarily unreachable: it is {state}. Retry after a short wait."
        )
    if plane is None:
        raise ApiError("UNIMPLEMENTED", f"no scheduler runs behind {named(call)}: this mockgcp has no Slurm plane")
    try:
        answer = plane.rest(named(call), _method(call), call.body["path"], call.body.get("body"), call.principal)
    except RuntimeError as error:
        raise ApiError(
            "UNAVAILABLE", f"The cluster is temporarily unreachable: {error}. Retry after a short wait."
        ) from error
    return {"status": answer.status, "body": json.dumps(answer.body)}


def _check_report(call: Call) -> None:
    actions = call.body.get("nodeActions", [])
    if len(actions) != 1:
        # cluster-resiliency: "You can only run these operations on one node at a time."
        raise invalid(f"nodeActions: exactly one node at a time, got {len(actions)}", ("nodeActions", "one at a time"))
    [action] = actions
    if not action.get("nodeId"):
        raise invalid(
            "nodeActions[0].nodeId is required: CLUSTER_ID-NODEPOOL_ID-INDEX", ("nodeActions[0].nodeId", "required")
        )
    host = action.get("reportFaultyHost")
    if host is not None and not all(each.get("description") for each in host.get("faultReasons") or [{}]):
        where = "nodeActions[0].reportFaultyHost.faultReasons"
        raise invalid(f"{where}: one reason or more, each with its behavior and a description", (where, "required"))


# No page says which permission it asks.
@service.method(
    f"{METHODS}.reportFaultyNodes",
    permission="aiplatform.modelDevelopmentClusters.update",
    on=named,
    rules=_check_report,
    answers="GoogleCloudAiplatformV1beta1ReportFaultyNodesResponse",
)
def report_faulty_nodes(call: Call) -> Operation:
    """Deletes a compute node, or reports its host. A static one comes back; a dynamic one if a job waits for it."""
    state, name, stored, plane = call.cloud, named(call), cluster(call), call.cloud.training_clusters
    require_state(stored, "RUNNING")
    [action] = call.body["nodeActions"]
    node_id, host = action["nodeId"], action.get("reportFaultyHost")
    found = next((each for each in nodes(state, name) if each.name == node_id), None)
    if found is None:
        raise not_found(f"nodeActions[0].nodeId: cluster {name!r} has no node {node_id!r}.")
    if found.pool_id == login_pool(stored):
        raise invalid(
            f"nodeActions[0].nodeId: {node_id!r} is a login node, not a compute node", ("nodeId", "login node")
        )
    if host is not None:
        pool = next(each for each in stored["nodePools"] if each["id"] == found.pool_id)
        _require_reportable(call, pool["machineSpec"]["machineType"], found.state)
    reasons = host["faultReasons"] if host else []

    def done() -> Mapping[str, Any]:
        if plane is None:
            now, why = state.clock.timestamp(), "; ".join(each["description"] for each in reasons)
            kind = "VM_DELETION" if host is None else "VM_REPORT_AND_REPLACEMENT"
            record(state, name, kind, f"Node {node_id} was reported as faulty{f': {why}' if why else ''}")
            state.table(NODES)[f"{name}/nodes/{node_id}"].update(created=now, changed=now)
        return {}

    aside = None if plane is None else lambda: plane.report_faulty(name, node_id, reasons, host=host is not None)
    return start(call, name, "ReportFaultyNodes", done, aside=aside)


def _require_reportable(call: Call, machine: str, state: str) -> None:
    """What cluster-resiliency asks for a host's report: the machine, a running node, and the service agent's role."""
    known = catalog.fact("training_clusters", "faulty_host_machines")
    if machine not in known.value:
        why = f"hosts are reported of {' and '.join(known.value)} alone, not of {machine} ({known.source})"
        raise failed_precondition(f"reportFaultyHost: {why}. Leave it out, and the node is deleted")
    if state != "RUNNING":
        raise failed_precondition(f"reportFaultyHost: the node must be RUNNING, and it is {state} ({known.source})")
    project = call.cloud.project(named(call).split("/")[1])
    agent = f"serviceAccount:service-{project.number}@gcp-sa-aiplatform.{agent_domain(call.cloud)}"
    if not call.cloud.allowed(agent, "compute.instances.delete", project.name):
        why = f"grant roles/compute.instanceAdmin.v1 to {agent} ({known.source})"
        raise permission_denied(f"Required 'compute.instances.delete' permission: {why}", "IAM_PERMISSION_DENIED")
