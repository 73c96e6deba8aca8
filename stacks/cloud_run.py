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
    foundation = Foundation(config.foundation_stack(stack))
    foundation.output("region").apply(lambda there: _warn_if_apart(stack, target.region, there))
    bucket = foundation.output("checkpointBucket")
    job = GpuJob(
        "gpu-job",
        GpuJobArgs(
            project=target.project,
            location=target.region,
            job_name=config.job_name,
            image=config.image,
            bucket=bucket,
            service_account=foundation.output("serviceAccountEmail"),
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
    after_job = pulumi.ResourceOptions(depends_on=[job])
    JobAlerts("alerts", config.alerts(target, stack), after_job)
    about = JobDashboardArgs(target.project, target.region, config.job_name)
    dashboard = JobDashboard("dashboard", about, after_job)
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


class Foundation:
    """The stack that the running one stands on."""

    def __init__(self, stack: str) -> None:
        self._stack = stack
        self._outputs = pulumi.StackReference(f"{pulumi.get_organization()}/{pulumi.get_project()}/{stack}")

    def output(self, name: str) -> pulumi.Output[str]:
        """One of its outputs. RunError, when it is known, if there is none: the stack is not up."""
        return self._outputs.get_output(name).apply(lambda value: self._required(name, value))

    def _required(self, name: str, value: str | None) -> str:
        if value is None:
            # No InputError: that is a ValueError too, and the SDK wraps those that an input of a resource raises.
            raise pulumi.RunError(
                f"{config_file(pulumi.get_stack())}, holdfast:foundation: stack {self._stack} has no output {name}, so "
                f"it is not up yet, or is no foundation. Run `pulumi up --stack {self._stack}` first, or name another "
                "with `pulumi config set holdfast:foundation STACK`"
            )
        return value


def _network(config: CloudRunConfig, foundation: Foundation) -> GpuJobNetwork | None:
    if not config.network_enabled:
        return None
    return GpuJobNetwork(foundation.output("network"), foundation.output("subnetwork"), config.network_egress)


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
