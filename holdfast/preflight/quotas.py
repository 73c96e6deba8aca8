"""What a project may have at once, as Service Usage tells it."""

from __future__ import annotations

from holdfast.gcp.api import pages
from holdfast.preflight.site import Site
from infra import catalog

UNLIMITED = -1


def limit(site: Site, quota: catalog.Quota, where: str) -> int | None:
    """The limit in a region, UNLIMITED for none; None when the project has no such quota. CloudError."""
    params = {"parent": f"projects/{site.target.project}/services/{quota.service}", "view": "FULL"}
    wanted = {"region": where, **quota.dimensions}
    for found in pages(site.api, "serviceusage.services.consumerQuotaMetrics.list", params, "metrics"):
        if found.get("metric") != quota.metric:
            continue
        buckets = [bucket for each in found.get("consumerQuotaLimits", ()) for bucket in each["quotaBuckets"]]
        fitting = [bucket for bucket in buckets if bucket.get("dimensions", {}).items() <= wanted.items()]
        # The more specific one counts.
        fitting.sort(key=lambda bucket: len(bucket.get("dimensions", {})))
        return int(fitting[-1].get("effectiveLimit", 0)) if fitting else None
    return None


def shown(limit: int | None) -> str:
    """A limit as it is said; a quota that is not listed is none at all."""
    return "none" if limit == UNLIMITED else str(limit or 0)


def console(site: Site) -> str:
    """The page on which more is requested."""
    return f"https://{site.target.universe.console_domain}/iam-admin/quotas?project={site.target.project}"
