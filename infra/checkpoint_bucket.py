"""The bucket that holds a training run's checkpoints."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import pulumi
import pulumi_gcp as gcp

from infra import catalog, names
from infra.errors import refuse


@dataclass(frozen=True)
class CheckpointBucketArgs:
    """Arguments of CheckpointBucket."""

    project: str
    """The project's id."""
    location: str
    """The region of the jobs that mount it: reads from another region are slower and billed."""
    bucket_name: str
    """The bucket's name, unique in the whole universe, 3 to 63 characters."""
    soft_delete_s: int = 0
    """Seconds that deleted objects are kept, and billed: 0 (off), or 604800 (7 days) to 7776000 (90 days).

    Off by default, on purpose: a trainer replaces its checkpoints all day, and soft delete would bill each of them."""
    delete_after_days: int | None = None
    """Days after which an object is deleted; None keeps checkpoints until the trainer deletes them."""
    force_destroy: bool = False
    """Whether `destroy` deletes the checkpoints with the bucket. False makes it fail while there are any."""
    deletion_protection: bool = True
    """Whether the bucket refuses to be deleted, or replaced, even when it is empty."""
    labels: Mapping[str, str] = field(default_factory=names.labels)
    """The bucket's labels."""


class CheckpointBucket(pulumi.ComponentResource):
    """A private bucket with a hierarchical namespace.

    Savers commit a checkpoint by renaming its directory. That is one atomic operation with a hierarchical namespace
    only; on a flat bucket the mount refuses it. Such a bucket has uniform access and no object versioning.

    Child: NAME, under which an existing bucket can be imported.
    """

    bucket: pulumi.Output[str]
    """The bucket's name."""
    url: pulumi.Output[str]
    """The bucket as gs://NAME."""

    def __init__(self, name: str, args: CheckpointBucketArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        refuse(
            f"CheckpointBucket {name}",
            catalog.bucket_name_problem(args.bucket_name),
            catalog.soft_delete_problem(args.soft_delete_s),
        )
        super().__init__("holdfast:checkpoint_bucket:CheckpointBucket", name, None, opts)
        bucket = gcp.storage.Bucket(
            name,
            project=args.project,
            name=args.bucket_name,
            location=args.location,
            storage_class="STANDARD",
            hierarchical_namespace=gcp.storage.BucketHierarchicalNamespaceArgs(enabled=True),
            uniform_bucket_level_access=True,
            public_access_prevention="enforced",
            soft_delete_policy=gcp.storage.BucketSoftDeletePolicyArgs(retention_duration_seconds=args.soft_delete_s),
            lifecycle_rules=_lifecycle(args.delete_after_days),
            force_destroy=args.force_destroy,
            labels=args.labels,
            # The name is fixed and global, so a replacement cannot stand beside the old bucket.
            opts=pulumi.ResourceOptions(parent=self, delete_before_replace=True, protect=args.deletion_protection),
        )
        self.bucket = bucket.name
        self.url = bucket.url
        self.register_outputs({"bucket": self.bucket, "url": self.url})


def _lifecycle(delete_after_days: int | None) -> list[gcp.storage.BucketLifecycleRuleArgs]:
    # A killed writer leaves parts of an upload behind: invisible, and billed.
    ages = {"AbortIncompleteMultipartUpload": 1}
    if delete_after_days is not None:
        ages["Delete"] = delete_after_days
    return [
        gcp.storage.BucketLifecycleRuleArgs(
            action=gcp.storage.BucketLifecycleRuleActionArgs(type=action),
            condition=gcp.storage.BucketLifecycleRuleConditionArgs(age=days),
        )
        for action, days in ages.items()
    ]
