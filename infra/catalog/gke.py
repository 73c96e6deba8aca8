"""What GKE, Kueue and KubeRay refuse, beyond TPUs. Sources: gke.yaml."""

import re
from collections.abc import Mapping
from typing import Any

from infra.catalog.compute import compute_zones
from infra.catalog.facts import Universe, fact
from infra.catalog.facts import universe as universe_of
from infra.catalog.gke_nodes import gke_version_order
from infra.catalog.rules import Problem
from infra.catalog.units import parse_duration_s, parse_memory_gib

_VERSION = re.compile(r"\d+(\.\d+){1,2}(-gke\.\d+)?")
_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")


def kueue() -> Mapping[str, Any]:
    """What Kueue calls things, and the release that this project is tested with."""
    known: Mapping[str, Any] = fact("gke", "kueue").value
    return known


def node_label(name: str) -> str:
    """The key of the label that GKE puts on nodes: `pool`, `tpu_accelerator` or `tpu_topology`."""
    return str(fact("gke", "labels").value[name])


def cluster_name_problem(name: str) -> Problem | None:
    """What GKE refuses of a cluster's name."""
    return _name_problem("cluster_name", name, "tpu-cluster")


def node_pool_name_problem(name: str) -> Problem | None:
    """What GKE refuses of a node pool's name."""
    return _name_problem("node_pool_name", name, "on-demand-pool")


def kubernetes_name_problem(field: str, name: str) -> Problem | None:
    """What Kubernetes refuses of the name of most objects: a DNS label."""
    if _LABEL.fullmatch(name):
        return None
    message = (
        f"{name!r} is no name of a Kubernetes object (https://kubernetes.io/docs/concepts/overview/working-with-objects"
        "/names/). Use at most 63 lower-case letters, digits and hyphens, none of them first or last"
    )
    return Problem(field, message)


def ray_job_name_problem(name: str) -> Problem | None:
    """A RayJob's name that is none, or is so long that Kueue would hold quota for a job that cannot start."""
    longest = fact("gke", "ray_job_name_max")
    if len(name) <= longest.value:
        return kubernetes_name_problem("job_name", name)
    message = (
        f"{name!r} has {len(name)} characters; a RayJob's name has at most {longest.value}, since KubeRay adds to it, "
        f"and Kueue would hold quota for a job that never starts ({longest.source}). Shorten it"
    )
    return Problem("job_name", message)


def release_channel_problem(channel: str) -> Problem | None:
    """A release channel that GKE does not have."""
    known = fact("gke", "release_channels")
    if channel in known.value:
        return None
    return Problem("release_channel", f"{channel!r}; GKE has {', '.join(known.value)} ({known.source}). Choose one")


def cluster_version_problem(version: str) -> Problem | None:
    """A version that is none, or too old for scenario B: elastic jobs, the Ray operator and TPU flex-start together."""
    return version_problem(version, "cluster_version_min", "TPU pools with Kueue and Ray")


def flex_start_version_problem(version: str, *, tpu: bool) -> Problem | None:
    """A version that is none, or too old for flex-start with queued provisioning, of TPUs or else of GPUs."""
    kind = "tpu" if tpu else "gpu"
    return version_problem(version, "flex_start_version_min", f"{kind.upper()} pools with flex-start", kind)


def version_problem(version: str, key: str, what: str, part: str | None = None) -> Problem | None:
    """A GKE version below the fact `key` (its entry `part`). A prefix such as 1.34 means the newest that begins so."""
    least = fact("gke", key)
    needed = str(least.value if part is None else least.value[part])
    if not _VERSION.fullmatch(version):
        message = f"{version!r} is no GKE version. Write, for example, {needed}, or 1.34 for the newest of that minor"
        return Problem("version", message)
    have, want = gke_version_order(version), gke_version_order(needed)
    length = min(len(have), len(want))
    if have[:length] >= want[:length]:
        return None
    message = f"GKE {version}; {what} take {needed} or newer ({least.source}). Set {needed}"
    return Problem("version", message)


def run_duration_problem(duration: str) -> Problem | None:
    """How long a flex-start node may run: no number of seconds, or more than the platform gives."""
    most = fact("gke", "flex_start_max_s")
    try:
        seconds = parse_duration_s(duration)
    except ValueError as error:
        return Problem("max_run_duration", str(error))
    if 0 < seconds <= most.value:
        return None
    message = (
        f"{duration} ({seconds / 86400:g} days); flex-start nodes run at most {most.value}s, {most.value // 86400} "
        f"days ({most.source}). Set at most {most.value}s; a longer run goes on in the next job, from its last "
        "checkpoint"
    )
    return Problem("max_run_duration", message)


def zone_problem(zone: str, region: str, universe: Universe | None = None) -> Problem | None:
    """A zone that is not in the region. None where the universe's regions are not known."""
    zones = compute_zones(universe).get(region)
    if zones is None or zone in zones:
        return None
    message = f"{zone!r} is no zone of {region}, which has {', '.join(zones)}. Choose one, or change gcp:region"
    return Problem("zone", message)


def memory_quota_gib(quota: str) -> float:
    """GiB of a quota on memory. ValueError for one without a unit, which Kubernetes takes for bytes."""
    if re.fullmatch(r"\d+(\.\d+)?", quota):
        raise ValueError(
            f"{quota!r} has no unit, so it means bytes ({float(quota) / 2**30:.2g} GiB), and no job would ever be "
            f"admitted. Write the unit: {quota}Gi, if that is meant"
        )
    return parse_memory_gib(quota)


def workload_pool(project: str, universe: Universe | None = None) -> str:
    """The identity pool of a project's clusters. ValueError in a universe whose pools' names are not known."""
    return f"{project}{_of_universe('workload_pool_suffix', universe)}"


def workload_principal(
    project: str, number: str, namespace: str, service_account: str, universe: Universe | None = None
) -> str:
    """A Kubernetes service account as an IAM policy names it. ValueError as in `workload_pool`."""
    pool = f"projects/{number}/locations/global/workloadIdentityPools/{workload_pool(project, universe)}"
    return f"{_of_universe('principal_prefix', universe)}/{pool}/subject/ns/{namespace}/sa/{service_account}"


def _of_universe(key: str, universe: Universe | None) -> str:
    known, domain = fact("gke", key), (universe or universe_of()).domain
    if domain not in known.value:
        raise ValueError(
            f"the catalog does not know how GKE names workloads in universe {domain} (known: "
            f"{', '.join(known.value)}). Add it, with its source, to infra/catalog/gke.yaml"
        )
    return str(known.value[domain])


def _name_problem(key: str, name: str, example: str) -> Problem | None:
    pattern = fact("gke", f"{key}_pattern")
    if re.fullmatch(pattern.value, name):
        return None
    message = (
        f"{name!r} does not match {pattern.value} ({pattern.source}). Use at most 40 lower-case letters, digits and "
        f"hyphens, a letter first and no hyphen last, such as {example}"
    )
    return Problem(key, message)
