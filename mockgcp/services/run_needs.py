"""Cloud Run Admin v2: what a job needs beside itself: an image, quota on GPUs, a network, a launch stage.

What the API refuses of the request itself comes as violations. What it finds only when it makes the job ready, a
missing image or network, comes as a `Missing`: the job stays, not ready.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from infra import catalog
from mockgcp.errors import ApiError, invalid, permission_denied
from mockgcp.service import Call
from mockgcp.services import artifactregistry
from mockgcp.state import State

Violation = tuple[str, str]
_TASK = "template.template"
_PULL = "artifactregistry.repositories.downloadArtifacts"


def template_violations(call: Call, region: str, task: Mapping[str, Any]) -> Iterator[Violation]:
    """What the request is refused for, whatever else there is: image hosts, GPU and region, mount options, VPC."""
    for container in task.get("containers", []):
        if why := _image_path(call.cloud, container.get("image", "")):
            yield f"{_TASK}.containers[0].image", why
    accelerator = task.get("nodeSelector", {}).get("accelerator")
    if accelerator and (problem := catalog.gpu_region_problem(accelerator, region, call.cloud.universe)):
        yield f"{_TASK}.nodeSelector.accelerator", problem.message
    for volume in task.get("volumes", []):
        for option in volume.get("gcs", {}).get("mountOptions", []):
            if option.startswith("-"):
                # GCSVolumeSource.mountOptions in the discovery document; the words are unchecked.
                yield f"{_TASK}.volumes.gcs.mountOptions", f"{option!r}: leave out the leading dashes"
    yield from _vpc_violations(task.get("vpcAccess", {}))


def _image_path(state: State, reference: str) -> str:
    """Why a reference is none that Cloud Run pulls; empty for one that it does.

    The words are those of github.com/hashicorp/terraform-provider-google/issues/14700.
    """
    host, slash, _ = reference.partition("/")
    own = state.universe.docker_registry("")
    named = slash and ("." in host or ":" in host or host == "localhost")  # otherwise it is of Docker Hub
    if not named or host == "docker.io" or re.fullmatch(r"([a-z]+\.)?gcr\.io", host):
        return ""
    if host.endswith(own) and artifactregistry.parse(state, reference) is not None:
        return ""
    return (
        "Expected an image path like [host/]repo-path[:tag and/or @digest], where host is one of [region.]gcr.io, "
        f"[region-]{own.removeprefix('-')} or docker.io but obtained {reference}. To deploy container images from "
        "other public or private registries, set up an Artifact Registry remote repository."
    )


def _vpc_violations(vpc: Mapping[str, Any]) -> Iterator[Violation]:
    # NetworkInterface in the discovery document.
    if vpc.get("connector"):
        raise ApiError("UNIMPLEMENTED", "mockgcp does not emulate vpcAccess.connector; it has networkInterfaces")
    interfaces = vpc.get("networkInterfaces", [])
    if len(interfaces) > 1:
        yield f"{_TASK}.vpcAccess.networkInterfaces", "only a single network interface is supported"
    for interface in interfaces:
        if not (interface.get("network") or interface.get("subnetwork")):
            yield f"{_TASK}.vpcAccess.networkInterfaces", "at least one of network or subnetwork must be specified"
    if vpc.get("egress") and not interfaces:
        yield f"{_TASK}.vpcAccess.egress", "egress needs networkInterfaces"


def require_launch_stage(job_id: str, stage: str, task: Mapping[str, Any]) -> None:
    """Refuses a preview feature in a job that does not say BETA.

    Raises:
        ApiError: INVALID_ARGUMENT in the words of github.com/google-github-actions/deploy-cloudrun/issues/35; what the
            features are called there is unchecked.
    """
    accelerator = task.get("nodeSelector", {}).get("accelerator")
    timeout_s = catalog.parse_duration_s(task["timeout"]) if "timeout" in task else None
    if stage in ("ALPHA", "BETA") or not catalog.needs_preview(accelerator, timeout_s):
        return
    feature = f"{accelerator} GPU" if catalog.needs_preview(accelerator, None) else "long running GPU jobs"
    raise invalid(
        f"The feature '{feature}' is not supported in the declared launch stage on resource {job_id}. The launch stage "
        "annotation should be specified at least as BETA. Please visit "
        "https://cloud.google.com/run/docs/troubleshooting#launch-stage-validation for in-depth troubleshooting "
        "documentation.",
        ("launchStage", "BETA required"),
    )


def require_gpu_quota(state: State, project: str, region: str, execution: Mapping[str, Any]) -> None:
    """Refuses more GPUs at a time than the project has quota for in the region.

    Each job is measured alone, as the API does (github.com/googlecodelabs/feedback/issues/1856, of a service). What
    several jobs of a project do that run at a time, and together want more, no page says: here they run.

    Raises:
        ApiError: INVALID_ARGUMENT; the form of github.com/pulumi/pulumi-gcp/issues/3794, with the words for a job's
            parallelism unchecked.
    """
    task = execution["template"]
    accelerator = task.get("nodeSelector", {}).get("accelerator")
    if not accelerator:
        return
    redundant = not task.get("gpuZonalRedundancyDisabled", False)
    quota = catalog.gpu_quota(accelerator, redundant)
    allowed, requested = state.quotas.limit(project, quota.quota_id, region), execution["parallelism"]
    if requested <= allowed:
        return
    what = (
        f"You do not have quota for using GPUs {'with' if redundant else 'without'} zonal redundancy."
        if allowed == 0
        else f"Parallelism must be set to {allowed} or fewer in order to set GPU requirements."
    )
    raise invalid(
        f"template.parallelism: {what}\nTo request quota: {catalog.fact('quotas', 'request_url').value}\n\n"
        f"Quota violated:\n{quota.quota_id} requested: {requested} allowed: {allowed}",
        ("template.parallelism", "quota"),
    )


def require_readable_image(call: Call, reference: str) -> None:
    """Refuses a caller that may not read the image, since 2025-01-15 (github.com/bcgov/entity/issues/24573).

    Raises:
        ApiError: PERMISSION_DENIED.
    """
    image = artifactregistry.parse(call.cloud, reference)
    if image is None or not _here(call.cloud, image.project):
        return
    if not call.cloud.allowed(call.principal, _PULL, image.repository):
        raise permission_denied(
            f"Permission '{_PULL}' denied on resource '{image.repository}' (or it may not exist) for {call.principal}: "
            "whoever deploys an image must be allowed to read it."
        )


@dataclass(frozen=True)
class Missing:
    """Why a job cannot become ready: the condition's reason, and the error its operation ends with."""

    reason: str
    error: ApiError


def missing(state: State, job: str, task: Mapping[str, Any]) -> Missing | None:
    """What a job of that full name lacks; None when it can become ready."""
    return _missing_image(state, job, task["containers"][0]["image"]) or _missing_network(state, job, task)


def _here(state: State, project: str) -> bool:
    return any(project in (each.id, str(each.number)) for each in state.projects)


def _missing_image(state: State, job: str, reference: str) -> Missing | None:
    image = artifactregistry.parse(state, reference)
    if image is None:
        return None  # of another registry, which is not emulated
    own = state.project(job.split("/")[1])
    agent = f"service-{own.number}@serverless-robot-prod.{agent_domain(state)}"
    foreign = image.project != own.id and _here(state, image.project)
    if foreign and not state.allowed(f"serviceAccount:{agent}", _PULL, image.repository):
        # https://docs.cloud.google.com/run/docs/deploying#other-projects; the words are unchecked.
        message = (
            f"Google Cloud Run Service Agent {agent} must have permission to read the image, {reference}. Ensure that "
            "the provided container image URL is correct and that the above account has permission to access the "
            f"image. Note that the image is from project [{image.project}], which is not the same as this project "
            f"[{own.id}]. Permission must be granted to the Google Cloud Run Service Agent from this project."
        )
        return Missing("CONTAINER_PERMISSION_DENIED", permission_denied(message))
    if artifactregistry.find(state, image) is None:
        # As a job showed it in github.com/PrefectHQ/prefect/pull/21712.
        return Missing("CONTAINER_MISSING", ApiError("NOT_FOUND", f"Image '{reference}' not found."))
    return None


def agent_domain(state: State) -> str:
    """What follows `gcp-sa-SERVICE.` in the e-mail of a service's agent."""
    domain = state.universe.service_agent_domain
    return domain if ".iam." in domain else f"iam.{domain}"


def _missing_network(state: State, job: str, task: Mapping[str, Any]) -> Missing | None:
    for kind, name in _networks(job, task):
        if name not in state.table(f"compute.{kind}"):
            error = ApiError("NOT_FOUND", f"VPC {kind} {name} was not found.")  # words unchecked
            return Missing("VPC_NETWORK_NOT_FOUND", error)
    return None


def _networks(job: str, task: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """The kind and full name of the networks and subnets that a task is in."""
    _, project, _, region = job.split("/")[:4]
    for interface in task.get("vpcAccess", {}).get("networkInterfaces", []):
        network = interface.get("network", "")
        named = {
            "network": (network, f"projects/{project}/global/networks"),
            # Of the network's own name, if only that is given.
            "subnetwork": (
                interface.get("subnetwork") or network.rpartition("/")[2],
                f"projects/{project}/regions/{region}/subnetworks",
            ),
        }
        for kind, (name, folder) in named.items():
            if name:
                yield kind, name if name.startswith("projects/") else f"{folder}/{name.rpartition('/')[2]}"


def address_in(state: State, subnet: str) -> str | None:
    """An address that Cloud Run holds in a subnet, by its full name, since there is a job in it.

    Not emulated: that it keeps them one to two hours longer than the job, or its last execution, is there
    (https://docs.cloud.google.com/run/docs/configuring/vpc-direct-vpc#delete-subnet, read 2026-11-29).
    """
    for name, job in state.table("run.job").items():
        if ("subnetwork", subnet) in _networks(name, job["template"]["template"]):
            region = subnet.rpartition("/subnetworks/")[0]
            # Named as in github.com/nitrictech/nitric/issues/667.
            return f"{region}/addresses/serverless-ipv4-{int(job['uid'][:8], 16):010d}"
    return None
