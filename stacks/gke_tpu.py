"""TPU pools on GKE, on demand and by flex-start, with Kueue's queues, a checkpoint bucket, and who the jobs are.

The stack stands alone: all of it is in the TPUs' region, which need not be the foundation's.
"""

import pulumi
import pulumi_kubernetes as k8s

from infra import catalog, console
from infra.checkpoint_bucket import CheckpointBucket, CheckpointBucketArgs
from infra.gke_cluster import GkeCluster
from infra.gke_workload_identity import GkeWorkloadIdentity, GkeWorkloadIdentityArgs
from infra.kubeconfig import credentials_command, kubeconfig_of
from infra.kueue import Kueue, KueueArgs
from infra.kueue_queues import KueueQueues
from infra.network import Network, NetworkArgs
from infra.node_pool import node_pools
from infra.project_services import ProjectServices, ProjectServicesArgs
from infra.ray_job import dashboard_command
from stacks.config import labels, load
from stacks.gke_config import GkeTpuConfig


def deploy() -> None:
    """Declare the stack's resources, and export what an operator needs to submit jobs and to watch them."""
    config, target = load(GkeTpuConfig)
    stack = pulumi.get_stack()
    apis = ProjectServices("apis", ProjectServicesArgs(target.project, list(catalog.services().gke_tpu)))
    after_apis = pulumi.ResourceOptions(depends_on=[apis])
    network = Network(
        "network",
        NetworkArgs(target.project, target.region, config.network_name, config.subnet_cidr, target.universe),
        after_apis,
    )
    checkpoints = CheckpointBucket(
        "checkpoints",
        CheckpointBucketArgs(
            project=target.project,
            location=target.region,
            bucket_name=config.bucket(target),
            force_destroy=config.force_destroy,
            deletion_protection=config.protected(stack),
            labels=labels(stack),
        ),
        after_apis,
    )
    cluster = GkeCluster("cluster", config.cluster(target, stack, network.network, network.subnetwork), after_apis)
    pools = node_pools(
        [
            (flavor, config.node_pool(shape, target, stack, cluster.name, cluster.node_service_account))
            for flavor, shape in config.tpu_pools().items()
        ],
        after_apis,
    )
    kubeconfig = kubeconfig_of(cluster)
    provider = k8s.Provider(
        "cluster",
        kubeconfig=kubeconfig,
        # Another spelling of the same cluster's address replaces nothing.
        cluster_identifier=f"{target.project}/{config.zone}/{config.cluster_name}",
        # Not beside the pools: the control plane of a zonal cluster may be away while pools are made.
        opts=pulumi.ResourceOptions(depends_on=pools),
    )
    on_cluster = pulumi.ResourceOptions(provider=provider)
    kueue = Kueue(
        "kueue",
        KueueArgs(kubeconfig, config.kueue_chart, config.kueue_version, config.feature_gates, config.pods_ready()),
        pulumi.ResourceOptions(providers=[provider]),
    )
    namespace = [] if config.namespace == "default" else [_namespace(config.namespace, on_cluster)]
    queues = KueueQueues(
        "queues",
        config.queues(),
        pulumi.ResourceOptions(providers=[provider], depends_on=[kueue.ready.apply(lambda _: kueue), *namespace]),
    )
    identity = GkeWorkloadIdentity(
        "jobs",
        GkeWorkloadIdentityArgs(
            project=target.project,
            bucket=checkpoints.bucket,
            service_account=config.job_account,
            namespace=config.namespace,
            universe=target.universe,
        ),
        # The identity pool comes with the project's first cluster, and a grant to it is refused before.
        pulumi.ResourceOptions(providers=[provider], depends_on=[cluster, *namespace]),
    )
    by_address = bool(config.authorized_networks)
    pulumi.export("project", target.project)
    pulumi.export("region", target.region)
    pulumi.export("zone", config.zone)
    pulumi.export("clusterName", cluster.name)
    pulumi.export("kubeconfig", kubeconfig)
    pulumi.export("pools", {flavor: each.pool for flavor, each in zip(config.tpu_pools(), pools, strict=True)})
    pulumi.export("clusterQueue", config.cluster_queue)
    pulumi.export("localQueue", queues.local_queue)
    pulumi.export("namespace", config.namespace)
    pulumi.export("jobServiceAccount", identity.service_account)
    pulumi.export("checkpointBucket", checkpoints.bucket)
    pulumi.export(
        "credentialsCommand",
        credentials_command(config.cluster_name, target.project, config.zone, by_address=by_address),
    )
    pulumi.export("dashboardCommand", dashboard_command(config.job_name, config.namespace))
    pulumi.export("submitCommand", f"holdfast submit gke --stack {stack}")
    pulumi.export(
        "links",
        {
            "cluster": console.cluster_url(target.universe, target.project, config.zone, config.cluster_name),
            "bucket": checkpoints.bucket.apply(lambda name: console.bucket_url(target.universe, target.project, name)),
        },
    )


def _namespace(name: str, opts: pulumi.ResourceOptions) -> k8s.core.v1.Namespace:
    return k8s.core.v1.Namespace("jobs", metadata=k8s.meta.v1.ObjectMetaArgs(name=name), opts=opts)
