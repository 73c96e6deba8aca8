"""A bucket with access by object, or with costs that nobody chose."""

from infra import catalog
from policies.buckets import BUCKET, is_hierarchical, is_versioned
from policies.props import UNKNOWN, is_off, mapping
from policies.rule import Props, Rule

_SOFT_DELETE = catalog.fact("storage", "soft_delete_default_s").source
_UNIFORM_ACCESS = "https://docs.cloud.google.com/storage/docs/uniform-bucket-level-access"


def check(props: Props) -> list[str]:
    """One message for each: no uniform access, soft delete by default, and what a hierarchical namespace excludes.

    Which buckets must have a hierarchical namespace is `mounted-bucket`'s: a single bucket does not say who writes it.
    """
    messages = []
    if is_off(props.get("uniformBucketLevelAccess")):
        messages.append(
            f"uniformBucketLevelAccess is off: objects can have access rules of their own, which no bucket policy "
            f"shows ({_UNIFORM_ACCESS}). Set it to true"
        )
    block = props.get("softDeletePolicy")
    if block != UNKNOWN and mapping(block).get("retentionDurationSeconds") is None:
        days = catalog.storage().soft_delete_default_s // 86400
        messages.append(
            f"softDeletePolicy.retentionDurationSeconds is not set: the platform then keeps, and bills, each deleted "
            f"or replaced checkpoint for {days} days ({_SOFT_DELETE}). Choose: 0 for none, or a time in seconds"
        )
    if is_hierarchical(props) and is_versioned(props):
        problems = catalog.hierarchical_namespace_problems(uniform_access=True, versioning=True)
        messages += [f"versioning.enabled: {each.message}" for each in problems]
    return messages


RULE = Rule(
    name="bucket-hardening",
    severity="mandatory",
    summary="A bucket has uniform access and a chosen soft delete, and none of what its namespace excludes.",
    source=_UNIFORM_ACCESS,
    way_out="Set uniformBucketLevelAccess and softDeletePolicy; leave versioning out.",
    checks={BUCKET: check},
)
