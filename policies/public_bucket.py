"""Storage that anybody on the Internet could read."""

from collections.abc import Mapping
from typing import Any

from policies.props import UNKNOWN, bindings, items

BUCKET_TYPE = "gcp:storage/bucket:Bucket"
ACCESS_TYPES = (
    "gcp:storage/bucketACL:BucketACL",
    "gcp:storage/bucketAccessControl:BucketAccessControl",
    "gcp:storage/bucketIAMBinding:BucketIAMBinding",
    "gcp:storage/bucketIAMMember:BucketIAMMember",
    "gcp:storage/bucketIAMPolicy:BucketIAMPolicy",
    "gcp:storage/defaultObjectACL:DefaultObjectACL",
    "gcp:storage/defaultObjectAccessControl:DefaultObjectAccessControl",
    "gcp:storage/managedFolderIamBinding:ManagedFolderIamBinding",
    "gcp:storage/managedFolderIamMember:ManagedFolderIamMember",
    "gcp:storage/managedFolderIamPolicy:ManagedFolderIamPolicy",
    "gcp:storage/objectACL:ObjectACL",
    "gcp:storage/objectAccessControl:ObjectAccessControl",
)

_EVERYBODY = ("allUsers", "allAuthenticatedUsers")
_PUBLIC_ACLS = ("publicRead", "publicReadWrite", "authenticatedRead")
_WHY = "checkpoints are the whole training run, and anybody could take them"


def check_bucket(props: Mapping[str, Any]) -> list[str]:
    """One message if a bucket's inputs leave public access possible; an unknown value is not judged."""
    prevention = props.get("publicAccessPrevention")
    if prevention in ("enforced", UNKNOWN):
        return []
    return [
        f"publicAccessPrevention is {prevention or 'not set'}: one later grant would make the bucket public, and "
        f"{_WHY}. Set it to enforced"
    ]


def check_access(props: Mapping[str, Any]) -> list[str]:
    """One message for each way in which a storage IAM or ACL resource's inputs let everybody in."""
    granted = [f"{role} to {member}" for role, members in bindings(props) for member in members if member in _EVERYBODY]
    entities = [(str(props.get("role")), props.get("entity"))]
    pairs = (str(each).partition(":") for each in items(props.get("roleEntities")))
    entities += [(role, entity) for role, _, entity in pairs]
    granted += [f"{role} to {entity}" for role, entity in entities if entity in _EVERYBODY]
    granted += [f"{key} {props[key]}" for key in ("predefinedAcl", "defaultAcl") if props.get(key) in _PUBLIC_ACLS]
    return [f"{grant}: {_WHY}. Grant the role to the workload's own service account" for grant in granted]
