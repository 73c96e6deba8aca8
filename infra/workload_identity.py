"""Who a workload is, and what it may do with its checkpoints."""

from dataclasses import dataclass

import pulumi
import pulumi_gcp as gcp

from infra import catalog
from infra.errors import refuse


@dataclass(frozen=True)
class WorkloadIdentityArgs:
    """Arguments of WorkloadIdentity."""

    project: str
    """The project's id."""
    account_id: str
    """The service account's id, 6 to 30 characters: the part of its e-mail before the @."""
    bucket: pulumi.Input[str]
    """The name of the bucket that the workload reads and writes."""
    display_name: str = "Training job"
    """What the console shows."""
    bucket_role: str = "roles/storage.objectUser"
    """The role on that bucket.

    objectUser creates, reads, renames and deletes objects and folders, which is all a saver does. objectAdmin, which
    the platform's tutorial grants, adds objects' own IAM and retention: uniform access leaves the first without
    effect, and the second would let a job lock its checkpoints."""


class WorkloadIdentity(pulumi.ComponentResource):
    """A service account without keys, and its one role on one bucket. Children: NAME (account), NAME-bucket (grant)."""

    email: pulumi.Output[str]
    """The service account's e-mail, in the domain of the project's universe."""
    member: pulumi.Output[str]
    """The account as an IAM policy names it."""

    def __init__(self, name: str, args: WorkloadIdentityArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        refuse(f"WorkloadIdentity {name}", catalog.service_account_id_problem(args.account_id))
        super().__init__("holdfast:workload_identity:WorkloadIdentity", name, None, opts)
        child = pulumi.ResourceOptions(parent=self)
        account = gcp.serviceaccount.Account(
            name, project=args.project, account_id=args.account_id, display_name=args.display_name, opts=child
        )
        grant = gcp.storage.BucketIAMMember(
            f"{name}-bucket", bucket=args.bucket, role=args.bucket_role, member=account.member, opts=child
        )
        # Whoever uses the e-mail waits for the grant: a job that starts before it cannot mount the bucket.
        self.email = pulumi.Output.all(account.email, grant.id).apply(lambda known: str(known[0]))
        self.member = account.member
        self.register_outputs({"email": self.email, "member": self.member})
