"""What Filestore refuses of an instance. Sources: filestore.yaml."""

import ipaddress
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from infra.catalog.compute import compute_zones
from infra.catalog.facts import Fact, Universe, fact
from infra.catalog.rules import Problem


@dataclass(frozen=True)
class FilestoreTier:
    """A tier. `bands`: capacities in GiB, each from, to, in steps of; `scope`: zone or region.

    `range_prefix`: the prefix length of the range of addresses that an instance takes.
    """

    name: str
    scope: str
    bands: tuple[tuple[int, int, int], ...]
    shrinks: bool
    range_prefix: int

    def band(self, capacity_gib: int) -> tuple[int, int, int] | None:
        """The band that has this capacity."""
        return next((b for b in self.bands if b[0] <= capacity_gib <= b[1] and not (capacity_gib - b[0]) % b[2]), None)


def _fact(key: str) -> Fact:
    return fact("filestore", key)


def filestore_tier(name: str) -> FilestoreTier | None:
    """The tier of that name, or of that older name; None: there is none."""
    canonical: str = _fact("tier_aliases").value.get(name, name)
    values: Mapping[str, Any] | None = _fact("tiers").value.get(canonical)
    if values is None:
        return None
    return FilestoreTier(canonical, **{**values, "bands": tuple(map(tuple, values["bands"]))})


def filestore_problems(
    *,
    tier: str,
    location: str,
    capacity_gib: int | None,
    share_name: str,
    protocol: str = "NFS_V3",
    reserved_range: str = "",
    old_capacity_gib: int | None = None,
    universe: Universe | None = None,
) -> list[Problem]:
    """Everything Filestore would refuse of an instance with one share.

    `location`: a zone, or a region for the tiers that are regional. `old_capacity_gib`: what it has, for a change of
    it. None, and "" for `reserved_range`, leave a check out.
    """
    known = filestore_tier(tier)
    if known is None:
        names = ", ".join(_fact("tiers").value)
        return [Problem("tier", f"Filestore has no tier {tier!r}; choose {names} ({_fact('tiers').source})")]
    return [
        *_location(known, location, universe),
        *([] if capacity_gib is None else _capacity(known, capacity_gib, old_capacity_gib)),
        *_share(known, share_name),
        *_protocol(known, protocol),
        *_range(known, reserved_range),
    ]


def _location(tier: FilestoreTier, location: str, universe: Universe | None) -> Iterator[Problem]:
    zones = compute_zones(universe)
    places = list(zones) if tier.scope == "region" else [zone for of_it in zones.values() for zone in of_it]
    if places and location not in places:
        near = [each for each in places if each.startswith(location[:-2])] or places[:3]
        yield Problem(
            "location",
            f"an instance of tier {tier.name} is in a {tier.scope}, and {location!r} is none "
            f"({_fact('tiers').source}). Choose one such as {', '.join(near[:3])}",
        )


def _capacity(tier: FilestoreTier, capacity: int, old: int | None) -> Iterator[Problem]:
    band = tier.band(capacity)
    if band is None:
        allowed = " or ".join(f"{low} to {high} in steps of {step}" for low, high, step in tier.bands)
        why = f"{capacity} GiB; tier {tier.name} has {allowed} GiB ({_fact('tiers').source}). Choose one of these"
        yield Problem("capacity_gib", why)
    elif old is not None and capacity < old and not tier.shrinks:
        why = f"{capacity} GiB; an instance of tier {tier.name} only grows, and it has {old} ({_fact('tiers').source})"
        yield Problem("capacity_gib", f"{why}. Keep it, or move the files to a new instance")
    elif old is not None and band != tier.band(old):
        low, high, _ = tier.band(old) or band
        why = (
            f"{capacity} GiB; an instance made with {old} GiB stays between {low} and {high} ({_fact('tiers').source})"
        )
        yield Problem("capacity_gib", f"{why}. Move the files to a new instance")


def _share(tier: FilestoreTier, name: str) -> Iterator[Problem]:
    pattern, most = _fact("share_name_pattern"), _fact("share_name_max").value
    longest: int = most["basic" if tier.name.startswith("BASIC") else "others"]
    if len(name) > longest or not re.fullmatch(pattern.value, name):
        why = (
            f"{name!r} is no name of a share: 1 to {longest} lower-case letters, digits and underscores, a letter first"
        )
        yield Problem("share_name", f"{why} ({pattern.source}). Choose one such as home")


def _protocol(tier: FilestoreTier, protocol: str) -> Iterator[Problem]:
    having = _fact("nfs_v4_1_tiers")
    if protocol == "NFS_V4_1" and tier.name not in having.value:
        why = f"tier {tier.name} has NFS_V3 alone ({having.source})"
        yield Problem("protocol", f"{why}. Use it, or tier {' or '.join(having.value)}")


def _range(tier: FilestoreTier, reserved: str) -> Iterator[Problem]:
    if not reserved:
        return
    try:
        prefix = ipaddress.IPv4Network(reserved).prefixlen
    except ValueError as error:
        yield Problem("reserved_range", f"{reserved!r} is no IPv4 range: {error}. Write it such as 10.0.0.0/29")
        return
    if prefix != tier.range_prefix:
        why = f"{reserved}: an instance of tier {tier.name} takes a /{tier.range_prefix} ({_fact('tiers').source})"
        yield Problem("reserved_range", f"{why}. Reserve one of that size")


def filestore_export_problems(options: Sequence[Mapping[str, Any]]) -> list[Problem]:
    """What Filestore refuses of a share's export options, as its API has them."""
    problems, most = [], _fact("export_options_max")
    if len(options) > most.value:
        problems.append(Problem("export_options", f"{len(options)}; a share has at most {most.value} ({most.source})"))
    ranges: list[ipaddress.IPv4Network] = []
    for option in options:
        squashes = option.get("squashMode", "NO_ROOT_SQUASH") == "ROOT_SQUASH"
        if not squashes and (option.keys() & {"anonUid", "anonGid"}):
            problems.append(Problem("export_options", "anonUid and anonGid are for squashMode ROOT_SQUASH alone"))
        for text in option.get("ipRanges", []):
            try:
                range_ = ipaddress.IPv4Network(text)
            except ValueError as error:
                problems.append(Problem("export_options", f"{text!r} is no IPv4 address or range: {error}"))
                continue
            if other := next((each for each in ranges if each.overlaps(range_)), None):
                problems.append(
                    Problem("export_options", f"{text} overlaps {other}; each address is in one range only")
                )
            ranges.append(range_)
    limit = _fact("export_ranges_max")
    if len(ranges) > limit.value:
        why = f"{len(ranges)} ranges; a share has at most {limit.value} ({limit.source})"
        problems.append(Problem("export_options", why))
    return problems
