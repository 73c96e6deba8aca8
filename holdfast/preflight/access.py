"""Who looks, at which project, who pays for it, and what may be done in it."""

from __future__ import annotations

from holdfast.gcp.api import CloudError, pages
from holdfast.preflight import permissions as table
from holdfast.preflight.report import Finding
from holdfast.preflight.site import Job, Site, could_not_look

_ENABLE = "serviceusage.services.enable"
_ACT_AS = "iam.serviceAccounts.actAs"


def credentials(site: Site) -> Finding:
    """There are some, and Google takes them."""
    try:
        _ = site.project
    except CloudError as error:
        if error.status == "UNAUTHENTICATED":
            return Finding(status="failed", found=error.message, do="`gcloud auth application-default login`")
        if error.http_status == 0:
            return could_not_look(error)
        # Any other answer was one to somebody known; the project's check tells of it.
    who = site.principal
    return Finding(status="ok", found=who or "they work; whose they are could not be told", figures={"principal": who})


def project(site: Site) -> Finding:
    """It exists, and is not about to be deleted."""
    try:
        found = site.project
    except CloudError as error:
        if error.reason == "SERVICE_DISABLED":
            return Finding(
                status="failed",
                found=f"the Cloud Resource Manager API is off: {error.message}",
                do="`up` needs it before it can enable others: "
                "`gcloud services enable cloudresourcemanager.googleapis.com`",
            )
        if error.status in ("PERMISSION_DENIED", "NOT_FOUND"):
            return Finding(
                status="failed",
                found=f"{site.target.project} does not exist, or {site.principal or 'the principal'} may not see it "
                "(the API does not tell which)",
                do=f"correct gcp:project in stacks/Pulumi.{site.stack}.yaml, or have a role granted on the project",
            )
        raise
    state = found.get("lifecycleState", "ACTIVE")
    if state != "ACTIVE":
        return Finding(
            status="failed", found=f"it is {state}", do="restore it (`gcloud projects undelete`) or name another"
        )
    number = found.get("projectNumber", "")
    return Finding(status="ok", found=f"{site.target.project}, number {number}", figures={"number": number})


def billing(site: Site) -> Finding:
    """An open billing account pays for the project: without one, nothing that costs can be made."""
    info = site.api.call("cloudbilling.projects.getBillingInfo", {"name": f"projects/{site.target.project}"})
    if info.get("billingEnabled"):
        return Finding(status="ok", found=f"on, paid by {info.get('billingAccountName') or 'an account'}")
    account = info.get("billingAccountName")
    return Finding(
        status="failed",
        found=f"its billing account {account} is closed" if account else "no billing account pays for it",
        do=f"`gcloud billing projects link {site.target.project} --billing-account ACCOUNT`",
    )


def apis(site: Site) -> Finding:
    """The APIs are on, or the `up` whose they are may turn them on: a job's foundation does it for the job."""
    params = {"parent": f"projects/{site.target.project}", "filter": "state:ENABLED"}
    listed = pages(site.api, "serviceusage.services.list", params, "services")
    on = {service["name"].rpartition("/")[2] for service in listed}
    needed = set(site.apis)
    off = sorted(needed - on)
    figures = {"off": off}
    if not off:
        return Finding(status="ok", found=f"all {len(needed)} are on", figures=figures)
    if isinstance(site.part, Job):
        return Finding(
            status="failed",
            found=f"off: {', '.join(off)}",
            do=f"`pulumi up --stack {site.part.base.stack}` turns them on",
            figures=figures,
        )
    if site.granted([_ENABLE]):
        return Finding(status="ok", found=f"off, and `up` turns them on: {', '.join(off)}", figures=figures)
    return Finding(
        status="failed",
        found=f"off, and {_ENABLE} is missing to turn them on: {', '.join(off)}",
        do="have roles/serviceusage.serviceUsageAdmin granted, or let somebody turn them on who has it",
        figures=figures,
    )


def permissions(site: Site) -> Finding:
    """What `up`, and the operator's commands, may do on the project."""
    needed = table.needed(site.module)
    missing = sorted(set(needed) - site.granted(needed))
    figures = {"needed": len(needed), "missing": missing}
    if not missing:
        return Finding(status="ok", found=f"all {len(needed)} that are needed", figures=figures)
    roles, without = table.roles(missing)
    way = f"have granted on the project: {', '.join(roles)}" if roles else "have them granted on the project"
    figures["roles"] = roles
    if missing == [_ACT_AS] and isinstance(site.part, Job):
        base = site.part.base
        return Finding(
            status="warn",
            found=f"{_ACT_AS} is not granted on the project; it may be on the account alone, which is better",
            do=f"roles/iam.serviceAccountUser on {base.config.service_account_email(base.there)} is enough",
            figures=figures,
        )
    return Finding(
        status="failed",
        found=f"{len(missing)} of {len(needed)} are missing: {', '.join(missing)}",
        do=way + (f"; no role that Holdfast knows has {', '.join(without)}" if without else ""),
        figures=figures,
    )
