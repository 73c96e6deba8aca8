"""The quotas that a GPU job draws on. Sources: quotas.yaml."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType

from infra.catalog.facts import fact


@dataclass(frozen=True)
class GpuQuota:
    """One quota on GPUs, per project and region.

    `metric` is its name in Service Usage and Monitoring, `quota_id` in a request for more; `default_limit` in GPUs is
    what a project has that was granted none. `zonal_redundancy`: which of a GPU's two quotas it is.
    """

    accelerator: str
    zonal_redundancy: bool
    metric: str
    quota_id: str
    display_name: str
    default_limit: int


@cache
def gpu_quotas() -> Mapping[str, GpuQuota]:
    """Every GPU quota by its quota id."""
    default = fact("quotas", "gpu_default_limit").value
    found = (
        GpuQuota(accelerator, kind == "redundant", **names, default_limit=default)
        for accelerator, kinds in fact("quotas", "gpus").value.items()
        for kind, names in kinds.items()
    )
    return MappingProxyType({quota.quota_id: quota for quota in found})


def gpu_quota(accelerator: str, zonal_redundancy: bool) -> GpuQuota:
    """The quota that a GPU job of this accelerator draws on. ValueError, naming the known ones, for another GPU."""
    for quota in gpu_quotas().values():
        if (quota.accelerator, quota.zonal_redundancy) == (accelerator, zonal_redundancy):
            return quota
    known = sorted({quota.accelerator for quota in gpu_quotas().values()})
    raise ValueError(
        f"the catalog has no quota of GPU {accelerator!r}; known: {', '.join(known)}. "
        "Add it, with its source, to infra/catalog/quotas.yaml."
    )
