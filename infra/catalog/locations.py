"""Where Cloud Run is, and where it has which GPU. Sources: locations.yaml."""

from infra.catalog.facts import Universe, fact
from infra.catalog.facts import universe as universe_of
from infra.catalog.rules import Problem


def cloud_run_tier(region: str, universe: Universe | None = None) -> int | None:
    """The price tier, 1 or 2, of Cloud Run in `region`; None where it is not known."""
    tiers = fact("locations", "cloud_run_tiers").value.get((universe or universe_of()).domain, {})
    return next((tier for tier, regions in tiers.items() if region in regions), None)


def gpu_by_invitation(accelerator: str, region: str, universe: Universe | None = None) -> bool:
    """Whether Cloud Run in `region` gives this GPU only to those whom Google lets in."""
    return region in _places(accelerator, universe).get("by_invitation", ())


def gpu_region_problem(accelerator: str, region: str, universe: Universe | None = None) -> Problem | None:
    """What Cloud Run refuses of this GPU in `region`.

    None for an accelerator that the catalog does not have, which another rule refuses, and in a universe whose regions
    are not known.
    """
    places = _places(accelerator, universe)
    if not places or any(region in regions for regions in places.values()):
        return None
    closed = ", ".join(places["by_invitation"])
    message = (
        f"Cloud Run has no {accelerator} in {region} ({fact('locations', 'gpu_regions').source}). "
        f"Choose {', '.join(places['open'])}, or, by invitation of Google's account team, {closed}"
    )
    return Problem("region", message)


def _places(accelerator: str, universe: Universe | None) -> dict[str, list[str]]:
    regions = fact("locations", "gpu_regions").value.get((universe or universe_of()).domain, {})
    found: dict[str, list[str]] = regions.get(accelerator, {})
    return found
