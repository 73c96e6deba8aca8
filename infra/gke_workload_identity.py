"""Who a job on the cluster is, and what it may do with its checkpoints."""

from dataclasses import dataclass, field

import pulumi
import pulumi_gcp as gcp
import pulumi_kubernetes as k8s

from infra import catalog
from infra.catalog import Universe
from infra.errors import refuse
from infra.project_number import project_number


@dataclass(frozen=True)
class GkeWorkloadIdentityArgs:
    """Arguments of GkeWorkloadIdentity."""

    project: str
    """The project's id."""
    bucket: pulumi.Input[str]
    """The name of the bucket that the jobs read and write."""
    service_account: str = "ray-job"
    """The name of the Kubernetes service account that the jobs run as."""
    namespace: str = "default"
    """Its namespace."""
    bucket_role: str = "roles/storage.objectUser"
    """The role on that bucket, which creates, reads, renames and deletes objects and folders."""
    universe: Universe = field(default_factory=catalog.universe)
    """The universe that the project is in, by default the public one."""


class GkeWorkloadIdentity(pulumi.ComponentResource):
    """A Kubernetes service account, and its one role on one bucket.

    The role goes to the account itself, by the cluster's identity pool; there is no Google service account between, and
    no key. Every cluster of the project shares the pool, so an account of this name and namespace in another cluster
    has the role too. Children: NAME (account), NAME-bucket (grant).
    """

    service_account: pulumi.Output[str]
    """The account's name, known once it has its role."""
    principal: pulumi.Output[str]
    """The account as an IAM policy names it."""

    def __init__(self, name: str, args: GkeWorkloadIdentityArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        refuse(
            f"GkeWorkloadIdentity {name}",
            catalog.kubernetes_name_problem("service_account", args.service_account),
            catalog.kubernetes_name_problem("namespace", args.namespace),
        )
        super().__init__("holdfast:gke_workload_identity:GkeWorkloadIdentity", name, None, opts)
        child = pulumi.ResourceOptions(parent=self)
        account = k8s.core.v1.ServiceAccount(
            name,
            metadata=k8s.meta.v1.ObjectMetaArgs(name=args.service_account, namespace=args.namespace),
            opts=child,
        )
        self.principal = project_number(args.project, self, opts).apply(
            lambda number: catalog.workload_principal(
                args.project, number, args.namespace, args.service_account, args.universe
            )
        )
        grant = gcp.storage.BucketIAMMember(
            f"{name}-bucket", bucket=args.bucket, role=args.bucket_role, member=self.principal, opts=child
        )
        self.service_account = pulumi.Output.all(account.metadata, grant.id).apply(lambda _: args.service_account)
        self.register_outputs({"serviceAccount": self.service_account, "principal": self.principal})
