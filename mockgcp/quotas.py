"""The quota limits of the emulated cloud's projects, by quota id and region; what was not granted is the default."""

from __future__ import annotations

from collections.abc import Mapping

from infra import catalog

EVERYWHERE = "*"


class Quotas:
    """Limits that were granted, per project. A region's own wins over the one of every region."""

    def __init__(self) -> None:
        self._granted: dict[tuple[str, str], dict[str, int]] = {}

    def set(self, project_id: str, quota_id: str, region: str, limit: int) -> None:
        """Grants `limit` units in `region` ("*": every region), as an approved request does.

        Raises:
            ValueError: a quota that the catalog does not have, or a negative limit.
        """
        if limit < 0:
            raise ValueError(f"a quota is 0 or more, got {limit} of {quota_id}")
        self._granted.setdefault((project_id, _known(quota_id).quota_id), {})[region] = limit

    def limit(self, project_id: str, quota_id: str, region: str) -> int:
        """The effective limit in a region, in the quota's units (GPUs, TPU chips).

        Raises:
            ValueError: a quota that the catalog does not have.
        """
        granted, quota = self.granted(project_id, quota_id), _known(quota_id)
        return granted.get(region, granted.get(EVERYWHERE, quota.default_limit))

    def granted(self, project_id: str, quota_id: str) -> Mapping[str, int]:
        """What was granted of one quota, by region."""
        return self._granted.get((project_id, quota_id), {})

    def clear(self) -> None:
        self._granted.clear()


def _known(quota_id: str) -> catalog.Quota:
    quotas = catalog.quotas()
    if quota_id not in quotas:
        raise ValueError(f"the catalog has no quota {quota_id!r}; it has: {', '.join(quotas)}")
    return quotas[quota_id]
