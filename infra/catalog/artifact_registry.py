"""What Artifact Registry refuses of a repository. Sources: artifact_registry.yaml."""

import difflib
import re
from collections.abc import Mapping
from typing import Any

from infra.catalog.facts import Universe, fact
from infra.catalog.facts import universe as universe_of
from infra.catalog.rules import Problem

_FILE = "artifact_registry"


def _value(key: str) -> Any:
    return fact(_FILE, key).value


def _source(key: str) -> str:
    return fact(_FILE, key).source


def repository_locations(universe: Universe | None = None) -> list[str]:
    """Where a repository may be: the regions that Cloud Run is in, too, and the multi-regions; none where not known."""
    tiers = fact("locations", "cloud_run_tiers").value.get((universe or universe_of()).domain, {})
    regions = {region for tier in tiers.values() for region in tier}
    return sorted({*regions, *_value("multi_regions")}) if regions else []


def repository_location_problem(location: str, universe: Universe | None = None) -> Problem | None:
    """What Artifact Registry refuses of a location; None in a universe whose regions are not known."""
    known = repository_locations(universe)
    if not known or location in known:
        return None
    near = difflib.get_close_matches(location, known, n=1)
    hint = f"did you mean {near[0]}?" if near else f"such as us-central1, or {', '.join(_value('multi_regions'))}"
    return Problem(
        "location",
        f"{location!r} is no location of Artifact Registry ({_source('multi_regions')}): use a region, {hint}",
    )


def build_timeout_s() -> tuple[int, int]:
    """How long a build may take, in seconds: when it does not say, and at most."""
    return _value("build_timeout_default_s"), _value("build_timeout_max_s")


def repository_id_problem(repository_id: str) -> Problem | None:
    """What Artifact Registry refuses of a repository's id."""
    pattern = _value("repository_id_pattern")
    if re.fullmatch(pattern, repository_id):
        return None
    message = (
        f"{repository_id!r} does not match {pattern} ({_source('repository_id_pattern')}). Use lower-case letters, "
        "digits and hyphens, a letter first and no hyphen last, at most 63 of them, such as trainers"
    )
    return Problem("repository_id", message)


def cleanup_policy_problems(policies: Mapping[str, Mapping[str, Any]]) -> list[Problem]:
    """What Artifact Registry refuses of clean-up policies, by their ids, as its API has them."""
    most, problems = _value("cleanup_policies_max"), []
    if len(policies) > most:
        message = f"{len(policies)} policies; a repository has at most {most} ({_source('cleanup_policies_max')})"
        problems.append(Problem("cleanup_policies", message))
    for name, policy in policies.items():
        problems += [Problem("cleanup_policies", f"{name}: {why}") for why in _policy(name, policy)]
    return problems


def _policy(name: str, policy: Mapping[str, Any]) -> list[str]:
    found, longest = [], _value("cleanup_policy_id_max")
    if not 0 < len(name) <= longest:
        found.append(f"an id has 1 to {longest} characters ({_source('cleanup_policy_id_max')})")
    if policy.get("action") not in ("DELETE", "KEEP"):
        found.append("the action is DELETE or KEEP")
    recent = policy.get("mostRecentVersions")
    if (recent is None) == (policy.get("condition") is None):
        found.append(f"exactly one of condition and mostRecentVersions is set ({_source('cleanup_policies_max')})")
    if recent is not None and policy.get("action") == "DELETE":
        found.append("mostRecentVersions is for KEEP only. To delete the others, add a DELETE policy with a condition")
    if recent is not None and recent.get("keepCount", 0) < 1:
        found.append("mostRecentVersions.keepCount is at least 1")
    return found


def label_problems(labels: Mapping[str, str]) -> list[Problem]:
    """What Artifact Registry refuses of labels."""
    most, problems = _value("labels_max"), []
    if len(labels) > most:
        problems.append(Problem("labels", f"{len(labels)} labels; at most {most} ({_source('labels_max')})"))
    for key, value in labels.items():
        for kind, text in (("key", key), ("value", value)):
            pattern = _value(f"label_{kind}_pattern")
            if not re.fullmatch(pattern, text):
                message = f"{kind} {text!r} does not match {pattern} ({_source(f'label_{kind}_pattern')})"
                problems.append(Problem("labels", message))
    return problems
