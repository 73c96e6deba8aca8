"""A bucket's properties as the rules on buckets read them."""

from policies.props import UNKNOWN, is_off, is_on, mapping
from policies.rule import Props

BUCKET = "gcp:storage/bucket:Bucket"


def is_hierarchical(props: Props) -> bool:
    """Whether a bucket is known to have a hierarchical namespace."""
    return is_on(mapping(props.get("hierarchicalNamespace")).get("enabled"))


def is_flat(props: Props) -> bool:
    """Whether a bucket is known to have no hierarchical namespace."""
    block = props.get("hierarchicalNamespace")
    return block != UNKNOWN and is_off(mapping(block).get("enabled"))


def is_versioned(props: Props) -> bool:
    """Whether a bucket is known to keep old versions of its objects."""
    return is_on(mapping(props.get("versioning")).get("enabled"))
