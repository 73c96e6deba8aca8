"""What jobs, TPUs and nodes cost, from the catalog's list prices. Sources: prices.yaml."""

import datetime
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from infra.catalog.facts import Fact, Universe, fact
from infra.catalog.facts import universe as universe_of
from infra.catalog.locations import cloud_run_tier

_HOUR_S = 3600


@dataclass(frozen=True)
class Price:
    """A list price, before discounts and free tiers, or why there is none.

    `per_hour` in `currency`; None when the catalog does not know it: `reason` says what is missing. `parts`: the
    same by what is billed. `read`: the day the prices were read; `source`: where.
    """

    per_hour: float | None
    currency: str
    read: datetime.date
    source: str
    parts: Mapping[str, float] = field(default_factory=dict)
    reason: str = ""


def job_price(
    region: str,
    cpu: float,
    memory_gib: float,
    accelerator: str | None,
    zonal_redundancy: bool,
    universe: Universe | None = None,
) -> Price:
    """An hour of one running task of a Cloud Run job. Several tasks cost as many times that."""
    where, facts = universe or universe_of(), fact("prices", "cloud_run_job")
    tiers, tier = facts.value.get(where.domain, {}), cloud_run_tier(region, where)
    prices = tiers.get(tier)
    if tier is None:
        return _unknown(facts, where, f"Cloud Run's price tier in {region} of universe {where.domain}")
    if prices is None:
        return _unknown(facts, where, f"Cloud Run's prices in {region} (tier {tier})")
    parts = {
        f"{cpu:g} vCPU": cpu * prices["vcpu_second"] * _HOUR_S,
        f"{memory_gib:g} GiB": memory_gib * prices["gib_second"] * _HOUR_S,
    }
    if accelerator is not None:
        gpu = prices["gpu_second"].get(accelerator)
        if gpu is None:
            return _unknown(facts, where, f"the price of GPU {accelerator}")
        parts[accelerator] = gpu["redundant" if zonal_redundancy else "not_redundant"] * _HOUR_S
    return Price(sum(parts.values()), _currency(where), facts.read, facts.source, parts)


def tpu_chip_price(generation: str, region: str, flex_start: bool, universe: Universe | None = None) -> Price:
    """An hour of one TPU chip in a GKE node, on demand or by flex-start."""
    where, facts = universe or universe_of(), fact("prices", "tpu_chip_hour")
    kind = "flex_start" if flex_start else "on_demand"
    price = facts.value.get(where.domain, {}).get(generation, {}).get(kind, {}).get(region)
    if price is None:
        return _unknown(facts, where, f"the price of TPU {generation} {kind.replace('_', ' ')} in {region}")
    return Price(price, _currency(where), facts.read, facts.source)


def node_price(machine: str, provisioning: str, region: str, universe: Universe | None = None) -> Price:
    """An hour of one node of a training cluster, by its provisioning model (FLEX_START and the like)."""
    where, facts = universe or universe_of(), fact("prices", "training_node_hour")
    price = facts.value.get(where.domain, {}).get(machine, {}).get(provisioning, {}).get(region)
    if price is None:
        return _unknown(facts, where, f"the price of {machine} by {provisioning} in {region}")
    return Price(price, _currency(where), facts.read, facts.source)


def storage_gb_month(region: str, universe: Universe | None = None) -> float | None:
    """A month of 1 GB in a bucket of class STANDARD in `region`, in the universe's currency; None: not known."""
    prices: dict[str, float] = fact("prices", "storage_gb_month").value.get((universe or universe_of()).domain, {})
    return prices.get(region)


def _unknown(facts: Fact, universe: Universe, what: str) -> Price:
    return Price(
        None,
        _currency(universe),
        facts.read,
        facts.source,
        reason=f"the catalog does not know {what}; see {facts.source}",
    )


def _currency(universe: Universe) -> str:
    currencies: dict[str, Any] = fact("prices", "currency").value
    return str(currencies.get(universe.domain, ""))
