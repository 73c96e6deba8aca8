"""A Cloud Run GPU job on the foundation's bucket and identity, its alerts and its dashboard."""

import pulumi

from infra import console, job_logs
from infra.gpu_job import GpuJob, GpuJobArgs, GpuJobNetwork
from infra.job_alerts import JobAlerts
from infra.job_dashboard import JobDashboard, JobDashboardArgs
from stacks.config import CloudRunConfig, Target, labels, load
from stacks.source import config_file


def deploy() -> None:
    """Declare the job and what watches it, and export what an operator needs to run it."""
    config, target = load(CloudRunConfig)
    stack = pulumi.get_stack()
    foundation = pulumi.StackReference(
        f"{pulumi.get_organization()}/{pulumi.get_project()}/{config.foundation_stack(stack)}"
    )
    foundation.require_output("region").apply(lambda there: _warn_if_apart(stack, target.region, there))
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
            parallelism=config.parallelism,
            mount_options=config.mount_options,
            run_id=config.run_id,
            env=config.env,
            secret_env=config.secret_env,
            gpu_zonal_redundancy=config.gpu_zonal_redundancy,
            network=_network(config, foundation),
            deletion_protection=config.protected(stack),
            labels=labels(stack),
            universe=target.universe,
        ),
    )
    JobAlerts("alerts", config.alerts(target, stack))
    dashboard = JobDashboard("dashboard", JobDashboardArgs(target.project, target.region, config.job_name))
    pulumi.export("project", target.project)
    pulumi.export("region", target.region)
    pulumi.export("image", config.image)
    pulumi.export("jobName", job.job_name)
    pulumi.export("jobId", job.job_id)
    pulumi.export("checkpointBucket", bucket)
    pulumi.export("logFilter", job_logs.job(config.job_name, target.region))
    pulumi.export("executeCommand", f"holdfast submit cloud-run --stack {stack}")
    pulumi.export(
        "gcloudExecuteCommand",
        f"gcloud run jobs execute {config.job_name} --project {target.project} --region {target.region}",
    )
    pulumi.export("links", _links(config, target, bucket, dashboard))


def _network(config: CloudRunConfig, foundation: pulumi.StackReference) -> GpuJobNetwork | None:
    if not config.network_enabled:
        return None
    network, subnetwork = (foundation.require_output(name) for name in ("network", "subnetwork"))
    return GpuJobNetwork(network, subnetwork, config.network_egress)


def _links(
    config: CloudRunConfig, target: Target, bucket: pulumi.Output[str], dashboard: JobDashboard
) -> dict[str, pulumi.Input[str]]:
    """Pages of the console, by what they show."""
    at = (target.universe, target.project)
    return {
        "job": console.job_url(*at, target.region, config.job_name),
        "logs": console.logs_url(*at, job_logs.job(config.job_name, target.region)),
        "dashboard": dashboard.dashboard_id.apply(lambda name: console.dashboard_url(*at, name)),
        "bucket": bucket.apply(lambda name: console.bucket_url(*at, name)),
    }


def _warn_if_apart(stack: str, region: str, foundation_region: str) -> None:
    if region != foundation_region:
        pulumi.log.warn(
            f"{config_file(stack)}, gcp:region: {region}, but the checkpoint bucket is in {foundation_region}: every "
            "read and write crosses regions, which is slow, and billed. "
            f"`pulumi config set gcp:region {foundation_region}`, or name another holdfast:foundation"
        )
