"""The foundation of an environment: the APIs, the checkpoint bucket, and the identity that jobs run as."""

import pulumi

from infra.checkpoint_bucket import CheckpointBucket, CheckpointBucketArgs
from infra.project_services import ProjectServices, ProjectServicesArgs
from infra.workload_identity import WorkloadIdentity, WorkloadIdentityArgs
from stacks.config import FoundationConfig, load


def deploy() -> None:
    """Declare the stack's resources and its outputs, which other stacks read."""
    config, target = load(FoundationConfig)
    apis = ProjectServices("apis", ProjectServicesArgs(project=target.project, services=config.services))
    after_apis = pulumi.ResourceOptions(depends_on=[apis])
    checkpoints = CheckpointBucket(
        "checkpoints",
        CheckpointBucketArgs(
            project=target.project,
            location=target.region,
            bucket_name=config.bucket(target),
            soft_delete_s=config.soft_delete_seconds,
            delete_after_days=config.delete_after_days,
            force_destroy=config.force_destroy,
        ),
        after_apis,
    )
    identity = WorkloadIdentity(
        "gpu-job",
        WorkloadIdentityArgs(
            project=target.project,
            account_id=config.service_account_id,
            bucket=checkpoints.bucket,
            bucket_role=config.bucket_role,
            display_name="GPU job",
        ),
        after_apis,
    )
    pulumi.export("project", target.project)
    pulumi.export("region", target.region)
    pulumi.export("services", apis.services)
    pulumi.export("checkpointBucket", checkpoints.bucket)
    pulumi.export("serviceAccountEmail", identity.email)
