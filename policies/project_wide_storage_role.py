"""A storage role on a whole project, where one on a bucket would do."""

from collections.abc import Mapping
from typing import Any

from policies.props import bindings

RESOURCE_TYPES = (
    "gcp:projects/iAMBinding:IAMBinding",
    "gcp:projects/iAMMember:IAMMember",
    "gcp:projects/iAMPolicy:IAMPolicy",
)


def check(props: Mapping[str, Any]) -> list[str]:
    """One message for each Cloud Storage role that a project's IAM resource grants."""
    return [
        f"{role} on the whole project reaches every bucket in it, other teams' too. Grant it on the bucket, with "
        "gcp.storage.BucketIAMMember"
        for role, _ in bindings(props)
        if role.startswith("roles/storage.")
    ]
