"""The foundation of an environment: APIs, network, checkpoint bucket, image repository, and who runs and who builds."""

import pulumi

from infra import console
from infra.build_identity import BuildIdentity, BuildIdentityArgs
from infra.checkpoint_bucket import CheckpointBucket, CheckpointBucketArgs
from infra.image_repository import ImageRepository, ImageRepositoryArgs
from infra.network import Network, NetworkArgs
from infra.project_budget import ProjectBudget, ProjectBudgetArgs
from infra.project_services import ProjectServices, ProjectServicesArgs
from infra.workload_identity import WorkloadIdentity, WorkloadIdentityArgs
from stacks.config import FoundationConfig, labels, load


def deploy() -> None:
    """Declare the stack's resources and its outputs, which other stacks read."""
    config, target = load(FoundationConfig)
    stack = pulumi.get_stack()
    apis = ProjectServices("apis", ProjectServicesArgs(project=target.project, services=config.apis()))
    after_apis = pulumi.ResourceOptions(depends_on=[apis])
    network = Network(
        "network",
        NetworkArgs(
            project=target.project,
            region=target.region,
            network_name=config.network_name,
            subnet_cidr=config.subnet_cidr,
            universe=target.universe,
        ),
        after_apis,
    )
    checkpoints = CheckpointBucket(
        "checkpoints",
        CheckpointBucketArgs(
            project=target.project,
            location=target.region,
            bucket_name=config.bucket(target),
            soft_delete_s=config.soft_delete_seconds,
            delete_after_days=config.delete_after_days,
            force_destroy=config.force_destroy,
            deletion_protection=config.protected(stack),
            labels=labels(stack),
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
    images = ImageRepository(
        "images",
        ImageRepositoryArgs(
            project=target.project,
            location=target.region,
            repository_id=config.repository_id,
            keep_count=config.image_keep_count,
            untagged_days=config.image_untagged_days,
            deletion_protection=config.protected(stack),
            labels=labels(stack),
            universe=target.universe,
        ),
        after_apis,
    )
    build = BuildIdentity(
        "build",
        BuildIdentityArgs(
            project=target.project,
            location=target.region,
            repository_id=images.repository_id,
            source_bucket_name=config.source_bucket(target),
            account_id=config.build_account_id,
            delete_after_days=config.source_delete_after_days,
            labels=labels(stack),
        ),
        after_apis,
    )
    if config.billing_account is not None and config.budget_amount is not None:
        ProjectBudget(
            "budget",
            ProjectBudgetArgs(
                project=target.project,
                billing_account=config.billing_account,
                amount=config.budget_amount,
                currency=config.budget_currency,
            ),
            after_apis,
        )
    pulumi.export("project", target.project)
    pulumi.export("region", target.region)
    pulumi.export("services", apis.services)
    pulumi.export("network", network.network)
    pulumi.export("subnetwork", network.subnetwork)
    pulumi.export("checkpointBucket", checkpoints.bucket)
    pulumi.export("checkpointBucketUrl", checkpoints.url)
    pulumi.export("serviceAccountEmail", identity.email)
    pulumi.export("repository", images.url)
    pulumi.export("buildServiceAccount", build.email)
    pulumi.export("sourceBucket", build.source_bucket)
    pulumi.export(
        "links",
        {"bucket": checkpoints.bucket.apply(lambda name: console.bucket_url(target.universe, target.project, name))},
    )
