"""The registration: which rule judges which resource types."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from pulumi_policy import EnforcementLevel, Policy, ReportViolation, ResourceValidationArgs, ResourceValidationPolicy

from policies import gpu_job_without_retries, project_wide_storage_role, public_bucket
from policies.props import plain

Check = Callable[[Mapping[str, Any]], list[str]]


def _policy(name: str, description: str, checks: Iterable[tuple[Iterable[str], Check]]) -> Policy:
    by_type = {token: check for tokens, check in checks for token in tokens}

    def validate(args: ResourceValidationArgs, report: ReportViolation) -> None:
        check = by_type.get(args.resource_type)
        for message in check(plain(args.props)) if check else ():
            report(message, None)

    return ResourceValidationPolicy(name, description, validate, EnforcementLevel.MANDATORY)


POLICIES: list[Policy] = [
    _policy(
        "gpu-job-without-retries",
        "A GPU job that may run for over an hour has at least one retry: maintenance ends GPU tasks.",
        [(gpu_job_without_retries.RESOURCE_TYPES, gpu_job_without_retries.check)],
    ),
    _policy(
        "public-bucket",
        "No bucket is public, or could become so.",
        [
            ((public_bucket.BUCKET_TYPE,), public_bucket.check_bucket),
            (public_bucket.ACCESS_TYPES, public_bucket.check_access),
        ],
    ),
    _policy(
        "project-wide-storage-role",
        "Cloud Storage roles are granted on buckets, not on projects.",
        [(project_wide_storage_role.RESOURCE_TYPES, project_wide_storage_role.check)],
    ),
]
