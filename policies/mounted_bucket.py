"""A bucket on which a job cannot commit its checkpoints in one step."""

from collections.abc import Sequence

from infra import catalog
from policies import jobs
from policies.buckets import BUCKET, is_flat, is_versioned
from policies.props import UNKNOWN
from policies.rule import Rule, StackResource

_SOURCE = catalog.fact("storage", "hierarchical_namespace_needs_uniform_access").source


def check(resources: Sequence[StackResource]) -> list[tuple[str, str]]:
    """One message for each bucket that a job of the same stack writes and that is flat, or keeps old versions.

    A job and a bucket belong together by the bucket's name. In another stack the bucket cannot be seen from here.
    """
    names = {
        block.get("bucket")
        for each in resources
        if each.type == jobs.JOB
        for block in jobs.written_volumes(jobs.task(each.props))
    } - {UNKNOWN, None}
    found = []
    for bucket in resources:
        if bucket.type != BUCKET or bucket.props.get("name") not in names:
            continue
        if is_flat(bucket.props):
            message = (
                "hierarchicalNamespace.enabled: a job writes checkpoints here, and on a flat bucket the mount cannot "
                f"rename a folder in one step, which is how savers commit ({_SOURCE}). Set it to true: it is chosen at "
                "creation, so the bucket is replaced"
            )
            found.append((bucket.urn, message))
        if is_versioned(bucket.props):
            message = (
                "versioning.enabled: a trainer replaces its checkpoints all day, and each old version is kept and "
                "billed. Leave it out; soft delete keeps what was deleted by mistake"
            )
            found.append((bucket.urn, message))
    return found


RULE = Rule(
    name="mounted-bucket",
    severity="mandatory",
    summary="A bucket that a job of the same stack writes has a hierarchical namespace and no versioning.",
    source=_SOURCE,
    way_out="Make the bucket with hierarchicalNamespace enabled and without versioning.",
    stack_check=check,
    stack_types=(jobs.JOB, BUCKET),
)
