"""A Cloud Run GPU job on the foundation's bucket and identity."""

import pulumi

from infra.gpu_job import GpuJob, GpuJobArgs
from stacks.config import CloudRunConfig, config_file, load


def deploy() -> None:
    """Declare the job, and export what an operator needs to run it."""
    config, target = load(CloudRunConfig)
    foundation = pulumi.StackReference(
        f"{pulumi.get_organization()}/{pulumi.get_project()}/{config.foundation_stack(pulumi.get_stack())}"
    )
    foundation.require_output("region").apply(lambda there: _warn_if_apart(target.region, there))
    bucket = foundation.require_output("checkpointBucket")
    job = GpuJob(
        "gpu-job",
        GpuJobArgs(
            project=target.project,
            location=target.region,
            job_name=config.job_name,
            image=config.image,
            bucket=bucket,
            service_account=foundation.require_output("serviceAccountEmail"),
            accelerator=config.accelerator,
            cpu=config.cpu,
            memory=config.memory,
            task_timeout=config.task_timeout,
            max_retries=config.max_retries,
            task_count=config.task_count,
            env=config.env,
            secret_env=config.secret_env,
            gpu_zonal_redundancy=config.gpu_zonal_redundancy,
            deletion_protection=config.deletion_protection,
            universe=target.universe,
        ),
    )
    pulumi.export("project", target.project)
    pulumi.export("region", target.region)
    pulumi.export("image", config.image)
    pulumi.export("jobName", job.job_name)
    pulumi.export("jobId", job.job_id)
    pulumi.export("checkpointBucket", bucket)


def _warn_if_apart(region: str, foundation_region: str) -> None:
    if region != foundation_region:
        pulumi.log.warn(
            f"{config_file()}, gcp:region: {region}, but the checkpoint bucket is in {foundation_region}: every "
            "read and write crosses regions, which is slow, and billed. "
            f"`pulumi config set gcp:region {foundation_region}`, or name another holdfast:foundation"
        )
