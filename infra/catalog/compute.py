"""What Compute Engine refuses of networks, subnets and NATs, and its regions. Sources: compute.yaml."""

import ipaddress
import re
from collections.abc import Iterable, Mapping
from typing import Any

from infra.catalog.facts import Universe, fact
from infra.catalog.facts import universe as universe_of
from infra.catalog.rules import Problem


def compute_zones(universe: Universe | None = None) -> Mapping[str, tuple[str, ...]]:
    """The zones of each region; empty in a universe whose regions are not known."""
    regions: Mapping[str, str] = fact("compute", "regions").value.get((universe or universe_of()).domain, {})
    return {region: tuple(f"{region}-{letter}" for letter in letters) for region, letters in regions.items()}


def compute_region_problem(region: str, universe: Universe | None = None) -> Problem | None:
    """A region that does not exist; none does not where the universe's regions are not known."""
    known = compute_zones(universe)
    if not known or region in known:
        return None
    near = [name for name in known if name.partition("-")[0] == region.partition("-")[0]] or known
    message = f"there is no region {region!r} ({fact('compute', 'regions').source}). Choose one of {', '.join(near)}"
    return Problem("region", message)


def compute_name_problem(name: str) -> Problem | None:
    """What Compute Engine refuses of a resource's name."""
    known = fact("compute", "name_pattern")
    if re.fullmatch(known.value, name):
        return None
    message = (
        f"{name!r} does not match {known.value} ({known.source}). Use at most 63 lower-case letters, digits and "
        "hyphens, a letter first and no hyphen last, such as holdfast"
    )
    return Problem("name", message)


def subnet_range_problem(cidr: str) -> Problem | None:
    """What Compute Engine refuses of a subnet's IPv4 range, primary or secondary, whatever else is in the network."""
    try:
        range_ = ipaddress.IPv4Network(cidr)
    except ValueError as error:
        return Problem("cidr", f"{cidr!r} is no IPv4 range: {error}. Write the network's first address, 10.0.0.0/20")
    shortest, longest = fact("compute", "subnet_prefix_shortest"), fact("compute", "subnet_prefix_longest")
    if not shortest.value <= range_.prefixlen <= longest.value:
        message = f"{cidr}: the prefix is /{shortest.value} to /{longest.value} ({longest.source}). Choose one of these"
        return Problem("cidr", message)
    prohibited = fact("compute", "prohibited_ranges")
    if found := overlapping(cidr, prohibited.value):
        message = f"{cidr} overlaps {found}, which no subnet may use ({prohibited.source}). Use a private range"
        return Problem("cidr", message)
    return None


def overlapping(cidr: str, others: Iterable[str]) -> str | None:
    """The first of `others` that shares an address with `cidr`. ValueError: a range that is none."""
    range_ = ipaddress.IPv4Network(cidr)
    return next((other for other in others if range_.overlaps(ipaddress.IPv4Network(other))), None)


def nat_defaults() -> Mapping[str, Any]:
    """What a NAT's fields are when they are left out, by their REST names."""
    defaults: Mapping[str, Any] = fact("compute", "nat_defaults").value
    return defaults
