"""A storage role on a whole project, where one on a bucket would do."""

from policies.props import bindings
from policies.rule import PROJECT_IAM, Props, Rule


def check(props: Props) -> list[str]:
    """One message for each Cloud Storage role that a project's (folder's, organization's) IAM resource grants."""
    return [
        f"{role} on the whole project reaches every bucket in it, other teams' too. Grant it on the bucket, with "
        "gcp.storage.BucketIAMMember"
        for role, _ in bindings(props)
        if role.startswith("roles/storage.")
    ]


RULE = Rule(
    name="project-wide-storage-role",
    severity="mandatory",
    summary="Cloud Storage roles are granted on buckets, not on projects.",
    source="https://docs.cloud.google.com/storage/docs/access-control/iam",
    way_out="Use gcp.storage.BucketIAMMember on the bucket that is meant.",
    checks=dict.fromkeys(PROJECT_IAM, check),
)
