"""gcp:cloudrunv2: jobs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pulumi_gcp as gcp

from infra import catalog
from mockgcp.errors import ApiError
from mockgcp.frontends.pulumi.resource import (
    AutoName,
    Props,
    Request,
    ResourceType,
    Session,
    created_by,
    deleted_by,
    id_parts,
    read_by,
    updated_by,
    validated_by,
)
from mockgcp.frontends.pulumi.translate import Table

_FULL_NAME = "projects/{project}/locations/{location}/jobs/{name}"
_NAME = {"name": _FULL_NAME}
_CREATE = Request(
    "run.projects.locations.jobs.create", {"parent": "projects/{project}/locations/{location}", "jobId": "{name}"}
)
_delete_job = deleted_by(Request("run.projects.locations.jobs.delete", _NAME))
_CONTAINER = "template.template.containers"


def _delete(session: Session, properties: Props) -> None:
    if properties.get("deletionProtection", True):
        raise ApiError(
            "FAILED_PRECONDITION",
            f"cannot destroy job {properties['name']} without setting deletionProtection=false and running `pulumi up`",
        )
    _delete_job(session, properties)


def _derive(session: Session, properties: Props, rest: Mapping[str, Any]) -> Props:
    _, project, _, location, _, name = rest["name"].split("/")
    return {"name": name, "project": project, "location": location}


JOB = ResourceType(
    token="gcp:cloudrunv2/job:Job",
    resource=gcp.cloudrunv2.Job,
    args=gcp.cloudrunv2.JobArgs,
    id=_FULL_NAME,
    import_id=id_parts(_FULL_NAME),
    create=created_by(_CREATE),
    read=read_by(Request("run.projects.locations.jobs.get", _NAME)),
    update=updated_by(Request("run.projects.locations.jobs.patch", _NAME)),
    delete=_delete,
    auto_name=AutoName(),
    dry_run=validated_by(_CREATE),
    # The id stays set when the wait fails: taint_resource_on_failed_create in mmv1/products/cloudrunv2/Job.yaml of
    # github.com/GoogleCloudPlatform/magic-modules, since its pull request 10298. Pulumi's bridge knows no taint.
    kept_unready=True,
    defaults={
        "deletionProtection": True,
        "template.template.maxRetries": catalog.cloud_run().max_retries_default,
        f"{_CONTAINER}.envs.value": "",
        f"{_CONTAINER}.startupProbe.failureThreshold": 3,
        f"{_CONTAINER}.startupProbe.httpGet.path": "/",
        f"{_CONTAINER}.startupProbe.periodSeconds": 10,
        f"{_CONTAINER}.startupProbe.timeoutSeconds": 1,
        "template.template.volumes.emptyDir.medium": "MEMORY",
    },
    replace_on=frozenset({"location", "name", "project", "tags"}),
    computed=frozenset(
        {
            "deletionPolicy",
            "launchStage",
            "project",
            "template.parallelism",
            "template.taskCount",
            "template.template.containers",
            f"{_CONTAINER}.resources",
            f"{_CONTAINER}.resources.limits",
            f"{_CONTAINER}.startupProbe",
            "template.template.executionEnvironment",
            "template.template.serviceAccount",
            "template.template.timeout",
            "template.template.vpcAccess.egress",
            "template.template.vpcAccess.networkInterfaces.network",
            "template.template.vpcAccess.networkInterfaces.subnetwork",
        }
    ),
    table=Table(
        names={
            f"{_CONTAINER}.commands": "command",
            f"{_CONTAINER}.envs": "env",
            f"{_CONTAINER}.dependsOns": "dependsOn",
            "terminalConditions": "terminalCondition",
            "latestCreatedExecutions": "latestCreatedExecution",
        },
        local=frozenset({"deletionPolicy", "deletionProtection", "location", "name", "project", "tags"}),
        sent_when_zero=frozenset({"template.template.maxRetries"}),
    ),
    derive=_derive,
)
