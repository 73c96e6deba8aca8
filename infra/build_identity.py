"""Who builds images, and from where: an account of its own for Cloud Build, and the bucket of the sources."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import pulumi
import pulumi_gcp as gcp

from infra import catalog, names
from infra.errors import refuse


@dataclass(frozen=True)
class BuildIdentityArgs:
    """Arguments of BuildIdentity."""

    project: str
    """The project's id."""
    location: str
    """The region of the builds, and of the repository."""
    repository_id: pulumi.Input[str]
    """The id of the image repository that builds write to."""
    source_bucket_name: str
    """The name of the bucket of source archives, unique in the whole universe, 3 to 63 characters."""
    account_id: str = "trainer-build"
    """The service account's id, 6 to 30 characters."""
    delete_after_days: int = 30
    """Days after which a source archive is deleted, at least 1. It can be made again from the same commit."""
    labels: Mapping[str, str] = field(default_factory=names.labels)
    """The bucket's labels."""


class BuildIdentity(pulumi.ComponentResource):
    """A service account without keys that reads sources, writes one repository and its own log, and nothing else.

    Cloud Build's default account, which this replaces, may do much more in the whole project. Whoever starts a build as
    this account needs roles/iam.serviceAccountUser on it. Children: NAME (account), NAME-source (bucket), NAME-reader,
    NAME-writer, NAME-logs.
    """

    email: pulumi.Output[str]
    """The service account's e-mail, known once it may do its work."""
    source_bucket: pulumi.Output[str]
    """The name of the bucket of source archives."""

    def __init__(self, name: str, args: BuildIdentityArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        refuse(
            f"BuildIdentity {name}",
            catalog.service_account_id_problem(args.account_id),
            catalog.bucket_name_problem(args.source_bucket_name),
        )
        super().__init__("holdfast:build_identity:BuildIdentity", name, None, opts)
        child = pulumi.ResourceOptions(parent=self)
        account = gcp.serviceaccount.Account(
            name, project=args.project, account_id=args.account_id, display_name="Image builds", opts=child
        )
        bucket = gcp.storage.Bucket(
            f"{name}-source",
            project=args.project,
            name=args.source_bucket_name,
            location=args.location,
            storage_class="STANDARD",
            uniform_bucket_level_access=True,
            public_access_prevention="enforced",
            # What is in it can be made again from the same commit: not worth paying for, or keeping destroy back.
            soft_delete_policy=gcp.storage.BucketSoftDeletePolicyArgs(retention_duration_seconds=0),
            force_destroy=True,
            lifecycle_rules=[
                gcp.storage.BucketLifecycleRuleArgs(
                    action=gcp.storage.BucketLifecycleRuleActionArgs(type="Delete"),
                    condition=gcp.storage.BucketLifecycleRuleConditionArgs(age=args.delete_after_days),
                )
            ],
            labels=args.labels,
            opts=pulumi.ResourceOptions(parent=self, delete_before_replace=True),
        )
        reader = gcp.storage.BucketIAMMember(
            f"{name}-reader", bucket=bucket.name, role="roles/storage.objectViewer", member=account.member, opts=child
        )
        writer = gcp.artifactregistry.RepositoryIamMember(
            f"{name}-writer",
            project=args.project,
            location=args.location,
            repository=args.repository_id,
            role="roles/artifactregistry.writer",
            member=account.member,
            opts=child,
        )
        # On the project: there is no role on a single log. Builds as an account of ours must log to Cloud Logging.
        logs = gcp.projects.IAMMember(
            f"{name}-logs", project=args.project, role="roles/logging.logWriter", member=account.member, opts=child
        )
        # A build that starts before its grants fails half-way.
        ready = pulumi.Output.all(account.email, reader.id, writer.id, logs.id)
        self.email = ready.apply(lambda known: str(known[0]))
        self.source_bucket = bucket.name
        self.register_outputs({"email": self.email, "sourceBucket": self.source_bucket})
