"""Storage that anybody on the Internet could read."""

from policies.buckets import BUCKET
from policies.props import EVERYBODY, UNKNOWN, bindings, items
from policies.rule import BUCKET_IAM, Props, Rule

ACCESS_TYPES = (
    *BUCKET_IAM,
    "gcp:storage/bucketACL:BucketACL",
    "gcp:storage/bucketAccessControl:BucketAccessControl",
    "gcp:storage/defaultObjectACL:DefaultObjectACL",
    "gcp:storage/defaultObjectAccessControl:DefaultObjectAccessControl",
    "gcp:storage/objectACL:ObjectACL",
    "gcp:storage/objectAccessControl:ObjectAccessControl",
)

_PUBLIC_ACLS = ("publicRead", "publicReadWrite", "authenticatedRead")
_WHY = "checkpoints are the whole training run, and anybody could take them"


def check_bucket(props: Props) -> list[str]:
    """One message if a bucket's inputs leave public access possible; an unknown value is not judged."""
    prevention = props.get("publicAccessPrevention")
    if prevention in ("enforced", UNKNOWN):
        return []
    return [
        f"publicAccessPrevention is {prevention or 'not set'}: one later grant would make the bucket public, and "
        f"{_WHY}. Set it to enforced"
    ]


def check_access(props: Props) -> list[str]:
    """One message for each way in which a storage IAM or ACL resource's inputs let everybody in."""
    granted = [f"{role} to {member}" for role, members in bindings(props) for member in members if member in EVERYBODY]
    entities = [(str(props.get("role")), props.get("entity"))]
    pairs = (str(each).partition(":") for each in items(props.get("roleEntities")))
    entities += [(role, entity) for role, _, entity in pairs]
    granted += [f"{role} to {entity}" for role, entity in entities if entity in EVERYBODY]
    granted += [f"{key} {props[key]}" for key in ("predefinedAcl", "defaultAcl") if props.get(key) in _PUBLIC_ACLS]
    return [f"{grant}: {_WHY}. Grant the role to the workload's own service account" for grant in granted]


RULE = Rule(
    name="public-bucket",
    severity="mandatory",
    summary="No bucket is public, or could become so.",
    source="https://docs.cloud.google.com/storage/docs/public-access-prevention",
    way_out="Set publicAccessPrevention to enforced, and grant roles to named members.",
    checks={BUCKET: check_bucket, **dict.fromkeys(ACCESS_TYPES, check_access)},
)
