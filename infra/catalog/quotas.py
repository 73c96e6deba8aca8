"""The quotas that GPU jobs, TPU pools and training clusters draw on. Sources: quotas.yaml."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from types import MappingProxyType

from infra.catalog.facts import fact


@dataclass(frozen=True, kw_only=True)
class Quota:
    """One quota, per project and region.

    `metric` is its name in Service Usage and Monitoring, `quota_id` in a request for more; `default_limit` is what a
    project has that was granted none, in GPUs or chips. `dimensions`: what a limit is for besides the region.
    """

    metric: str
    quota_id: str
    display_name: str
    default_limit: int
    dimensions: Mapping[str, str] = field(default_factory=dict)

    @property
    def service(self) -> str:
        """The API whose quota it is."""
        return self.metric.partition("/")[0]


@dataclass(frozen=True, kw_only=True)
class GpuQuota(Quota):
    """One of Cloud Run. `zonal_redundancy`: which of a GPU's two quotas it is."""

    accelerator: str
    zonal_redundancy: bool


@dataclass(frozen=True, kw_only=True)
class TpuQuota(Quota):
    """One of Compute Engine, which GKE's nodes draw on. `preemptible`: which of a generation's two it is."""

    generation: str
    preemptible: bool


@dataclass(frozen=True, kw_only=True)
class NodeGpuQuota(Quota):
    """One of Compute Engine, which a training cluster's nodes draw on. `gpu`: as `GpuMachine` has it."""

    gpu: str


@cache
def gpu_quotas() -> Mapping[str, GpuQuota]:
    """Every GPU quota by its quota id."""
    default = fact("quotas", "gpu_default_limit").value
    found = (
        GpuQuota(accelerator=accelerator, zonal_redundancy=kind == "redundant", **names, default_limit=default)
        for accelerator, kinds in fact("quotas", "gpus").value.items()
        for kind, names in kinds.items()
    )
    return MappingProxyType({quota.quota_id: quota for quota in found})


@cache
def tpu_quotas() -> Mapping[str, TpuQuota]:
    """Every TPU quota by its quota id."""
    default = fact("quotas", "tpu_default_limit").value
    found = (
        TpuQuota(generation=generation, preemptible=kind == "preemptible", **names, default_limit=default)
        for generation, kinds in fact("quotas", "tpus").value.items()
        for kind, names in kinds.items()
    )
    return MappingProxyType({quota.quota_id: quota for quota in found})


@cache
def node_gpu_quotas() -> Mapping[str, NodeGpuQuota]:
    """Every preemptible quota of a training cluster's GPUs by its quota id; those on demand share one id."""
    return MappingProxyType({quota.quota_id: quota for quota in map(_preemptible, fact("quotas", "node_gpus").value)})


def _preemptible(gpu: str) -> NodeGpuQuota:
    names = {key: value for key, value in fact("quotas", "node_gpus").value[gpu].items() if key != "family"}
    return NodeGpuQuota(gpu=gpu, **names, default_limit=fact("quotas", "node_gpu_default_limit").value)


def quotas() -> Mapping[str, Quota]:
    """Every quota by its quota id, but for GPUs of nodes on demand."""
    return {**gpu_quotas(), **tpu_quotas(), **node_gpu_quotas()}


def gpu_quota(accelerator: str, zonal_redundancy: bool) -> GpuQuota:
    """The quota that a GPU job of this accelerator draws on. ValueError, naming the known ones, for another GPU."""
    for quota in gpu_quotas().values():
        if (quota.accelerator, quota.zonal_redundancy) == (accelerator, zonal_redundancy):
            return quota
    raise _unknown(f"GPU {accelerator!r}", {quota.accelerator for quota in gpu_quotas().values()})


def tpu_quota(generation: str, *, preemptible: bool) -> TpuQuota:
    """The quota that chips of this generation draw on. ValueError, naming the known ones, for another generation.

    Flex-start draws on the preemptible one, and on the other where a project has none of it: nodes are not preempted.
    """
    for quota in tpu_quotas().values():
        if (quota.generation, quota.preemptible) == (generation, preemptible):
            return quota
    raise _unknown(f"TPU {generation!r}", {quota.generation for quota in tpu_quotas().values()})


def node_gpu_quota(gpu: str, *, preemptible: bool) -> NodeGpuQuota:
    """The quota that a training cluster's nodes with this GPU draw on, as `tpu_quota`. ValueError for another GPU."""
    known = fact("quotas", "node_gpus").value
    if gpu not in known:
        raise _unknown(f"GPU {gpu!r}", set(known))
    if preemptible:
        return _preemptible(gpu)
    return NodeGpuQuota(
        gpu=gpu,
        **fact("quotas", "node_gpu_families").value,
        default_limit=fact("quotas", "node_gpu_default_limit").value,
        dimensions={"gpu_family": known[gpu]["family"]},
    )


def _unknown(what: str, known: set[str]) -> ValueError:
    return ValueError(
        f"the catalog has no quota of {what}; known: {', '.join(sorted(known))}. "
        "Add it, with its source, to infra/catalog/quotas.yaml."
    )
