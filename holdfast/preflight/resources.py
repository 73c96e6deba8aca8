"""What has to be there, or must not be, by name."""

from __future__ import annotations

import re
from collections.abc import Mapping
from urllib.parse import quote

from holdfast.gcp.api import CloudError, find
from holdfast.preflight.report import Finding
from holdfast.preflight.site import Base, Job, Site, Tpus, Training
from infra import catalog

_DIGEST = re.compile(r"(?P<host>[^/@]+)/(?P<path>[^@:]+)(?::[^@]+)?@(?P<digest>sha256:[0-9a-f]{64})")
_PLACEHOLDER = "sha256:" + "0" * 64


def buckets(site: Site, base: Base) -> Finding:
    """The foundation's bucket names."""
    names = {"checkpoints": base.config.bucket(base.there), "build source": base.config.source_bucket(base.there)}
    return _free(site, names, "holdfast:bucketName or holdfast:sourceBucketName")


def bucket(site: Site, tpus: Tpus) -> Finding:
    """The name of the TPU jobs' bucket."""
    return _free(site, {"checkpoints": tpus.config.bucket(site.target)}, "holdfast:bucketName")


def _free(site: Site, names: Mapping[str, str], keys: str) -> Finding:
    """Bucket names by their purpose, which are global: free, ours, or somebody else's."""
    said, taken, ours = [], [], False
    for purpose, name in names.items():
        whose = _whose(site, name)
        said.append(f"{name} ({purpose}): {whose}")
        taken += [name] if whose == _TAKEN else []
        ours |= whose == _OURS
    figures = {"taken": taken}
    if taken:
        return Finding(
            status="failed",
            found="; ".join(said),
            do=f"bucket names are global: choose another with {keys}",
            figures=figures,
        )
    return Finding(status="ok", found="; ".join(said), do=_IMPORT if ours else "", figures=figures)


# Whether they are in the stack's state only the engine knows.
_IMPORT = "if this stack has not made it yet, `pulumi import` it (docs/going-live.md)"
_SEE = "storage.buckets.get"
_FREE, _OURS, _TAKEN = "free", "this project has it already", "somebody else has it"


def _whose(site: Site, name: str) -> str:
    try:
        bucket = site.bucket(name)
    except CloudError as error:
        # Who may not see this project's own buckets cannot tell.
        if error.status == "PERMISSION_DENIED" and error.reason != "SERVICE_DISABLED" and site.granted([_SEE]):
            return _TAKEN
        raise
    if bucket is None:
        return _FREE
    return _OURS if _in_project(site, bucket.get("projectNumber")) else _TAKEN


def _in_project(site: Site, number: object) -> bool:
    return number is None or str(number) == str(site.project.get("projectNumber", number))


def foundation(site: Site, job: Job) -> Finding:
    """What the job stands on is deployed, and in its region."""
    config, there = job.base.config, job.base.there
    name, email = config.bucket(there), config.service_account_email(there)
    account = f"projects/{there.project}/serviceAccounts/{email}"
    bucket, missing = site.bucket(name), ""
    if bucket is None:
        missing = f"bucket {name}"
    elif find(site.api, "iam.projects.serviceAccounts.get", {"name": account}) is None:
        missing = f"service account {email}"
    if bucket is None or missing:
        do = f"`pulumi up --stack {job.base.stack}` first"
        return Finding(status="failed", found=f"not deployed: there is no {missing}", do=do)
    where = str(bucket.get("location", "")).lower()
    if where not in ("", site.target.region):
        return Finding(
            status="warn",
            found=f"deployed, but the checkpoint bucket is in {where} and the job in {site.target.region}: every read "
            "and write crosses regions, which is slow, and billed",
            do=f"set gcp:region in stacks/Pulumi.{site.stack}.yaml to {where}",
        )
    return Finding(status="ok", found=f"deployed: {name}, {email}")


def image(site: Site, job: Job) -> Finding:
    """The image is in its registry, by digest."""
    reference, make = job.config.image, f"`holdfast image --stack {site.stack}` builds it and writes it into the file"
    match = _DIGEST.fullmatch(reference)
    if match is None or match["digest"] == _PLACEHOLDER:
        return Finding(status="failed", found=f"{reference} is a placeholder", do=make)
    name = _docker_image(match["host"], match["path"], match["digest"], site.target.universe)
    if name is None:
        return Finding(
            status="unknown",
            found=f"could not look: {match['host']} is no host of Artifact Registry in {site.target.universe.domain}",
            do="see to it yourself that Cloud Run may pull it, or --skip image",
        )
    params = {"name": name}
    if find(site.api, "artifactregistry.projects.locations.repositories.dockerImages.get", params) is None:
        return Finding(status="failed", found=f"{reference} is not there", do=make)
    return Finding(status="ok", found=reference)


def cluster(site: Site, tpus: Tpus) -> Finding:
    """Network and cluster of those names: free, or this project's already, where each has its own."""
    name, zone = tpus.config.cluster_name, tpus.config.zone
    full = f"projects/{site.target.project}/locations/{zone}/clusters/{name}"
    return _names(
        site,
        tpus.config.network_name,
        {f"cluster {name} in {zone}": ("container.projects.locations.clusters.get", full)},
    )


def training_cluster(site: Site, training: Training) -> Finding:
    """Network, cluster and home directory of those names: free, or this project's already."""
    config, target = training.config, site.target
    cluster_ = f"projects/{target.project}/locations/{target.region}/modelDevelopmentClusters/{config.cluster_id}"
    named = {
        f"cluster {config.cluster_id} in {target.region}": (
            "aiplatform.projects.locations.modelDevelopmentClusters.get",
            cluster_,
        )
    }
    if config.home_storage is None:
        where = config.home(target, site.stack, config.network_name).location
        home_ = f"projects/{target.project}/locations/{where}/instances/{config.home_instance}"
        named[f"Filestore {config.home_instance} in {where}"] = ("file.projects.locations.instances.get", home_)
    return _names(site, config.network_name, named)


def _names(site: Site, network: str, others: Mapping[str, tuple[str, str]]) -> Finding:
    """Names in the project: of a network, and by what they are, of others with the method that reads them."""
    params = {"project": site.target.project, "network": network}
    there = {f"network {network}": _is_there(site, "compute.networks.get", params)}
    there |= {what: _is_there(site, method, {"name": name}) for what, (method, name) in others.items()}
    said = "; ".join(f"{what}: {_OURS if found else _FREE}" for what, found in there.items())
    return Finding(status="ok", found=said, do=_IMPORT if any(there.values()) else "")


def _is_there(site: Site, method: str, params: Mapping[str, str]) -> bool:
    try:
        return find(site.api, method, params) is not None
    except CloudError as error:
        # `up` turns the API on; what the project may have made while it once was on, it cannot use.
        if error.reason == "SERVICE_DISABLED":
            return False
        raise


def _docker_image(host: str, path: str, digest: str, universe: catalog.Universe) -> str | None:
    """The full name of an image in Artifact Registry; None when the host is another registry."""
    suffix = universe.docker_registry("")
    parts = path.split("/")
    prefix = universe.project_prefix.removesuffix(":")
    if prefix and parts[0] == prefix:  # a project id's colon is a slash in a reference
        parts[:2] = [":".join(parts[:2])]
    if not host.endswith(suffix) or len(parts) < 3:
        return None
    project, repository, *name = parts
    location = host.removesuffix(suffix)
    inside = f"projects/{project}/locations/{location}/repositories/{repository}/dockerImages"
    return f"{inside}/{quote('/'.join(name), safe='')}@{digest}"
