"""What Cloud Run refuses of a job's mount options, network and tasks at once. Sources: job_options.yaml."""

import ipaddress
import re
from collections.abc import Sequence

from infra.catalog.compute import subnet_range_problem
from infra.catalog.facts import fact
from infra.catalog.rules import Problem

_FILE = "job_options"


def mount_option_problems(options: Sequence[str]) -> list[Problem]:
    """Options of a mounted bucket that are no flags of Cloud Storage FUSE as the API takes them."""
    pattern = fact(_FILE, "mount_option_pattern")
    return [
        Problem(
            "mount_options",
            f"{option!r} is no mount option ({pattern.source}): write the flag without its hyphens, `=` before its "
            "value and no blank, such as metadata-cache-ttl-secs=60",
        )
        for option in options
        if not re.fullmatch(pattern.value, option)
    ]


def egress_problem(egress: str) -> Problem | None:
    """Which traffic goes through the network: a word that the API does not know."""
    known = fact(_FILE, "vpc_egress")
    if egress in known.value:
        return None
    return Problem("egress", f"{egress!r}; Cloud Run knows {', '.join(known.value)} ({known.source}). Choose one")


def direct_vpc_range_problem(cidr: str) -> Problem | None:
    """A subnet's IPv4 range that Compute Engine refuses, or that is too small for a job's instances."""
    refused, longest = subnet_range_problem(cidr), fact(_FILE, "direct_vpc_prefix_longest")
    if refused is not None or ipaddress.IPv4Network(cidr).prefixlen <= longest.value:
        return refused
    message = (
        f"{cidr}; a job's instances need a subnet of /{longest.value} or larger ({longest.source}). Use 10.0.0.0/20"
    )
    return Problem("cidr", message)


def parallelism_problem(parallelism: int | None) -> Problem | None:
    """Tasks at once: none at all, which the API takes for `as many as there are`. None is that, said openly."""
    if parallelism is None or parallelism >= 1:
        return None
    return Problem("parallelism", f"{parallelism} tasks at once; set at least 1, or leave it out for all at once")
