"""A training cluster: a managed Slurm whose nodes come by flex-start, on demand, as spot or from a reservation."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pulumi

from infra import catalog, names
from infra.catalog import Problem, Universe
from infra.errors import refuse
from infra.model_development_cluster import ModelDevelopmentCluster
from infra.slurm_parts import SlurmPartition, SlurmPool, set_fields


@dataclass(frozen=True)
class TrainingClusterArgs:
    """Arguments of TrainingCluster. Pools' sizes, partitions, keys and scripts change on a running cluster, and jobs go
    on; network, home, account and what a pool is made of replace it, which the preview says."""

    project: str
    """The project's id."""
    region: str
    """The region of the cluster."""
    network: pulumi.Input[str]
    """The network's full name: projects/P/global/networks/N."""
    subnetwork: pulumi.Input[str]
    """The subnet's full name: projects/P/regions/R/subnetworks/S."""
    home: pulumi.Input[str]
    """The full name of the Filestore or Lustre instance that is /home on every node."""
    pools: Sequence[SlurmPool]
    """The pools, that of the login nodes among them."""
    partitions: Sequence[SlurmPartition]
    """The partitions."""
    cluster_id: str = "flexvm"
    """The cluster's id, at most 10 lower-case letters and digits, a letter first."""
    display_name: str | None = None
    """What the console shows, within the same limits; None for the id."""
    login_pool: str = "login"
    """The id of the pool that people log in to: of fixed size, and in no partition."""
    default_partition: str | None = None
    """The partition of a job that names none; None for the first."""
    config: Mapping[str, str] = field(default_factory=dict)
    """Keys of slurm.conf for the whole cluster. A change replaces the map as a whole."""
    prolog_scripts: Sequence[str] = ()
    """Texts of bash scripts that run on a node before a job, in this order. One that fails drains the node."""
    epilog_scripts: Sequence[str] = ()
    """Texts of bash scripts that run on a node after a job, in this order. One that fails drains the node."""
    service_account: str | None = None
    """The e-mail that nodes run as. None, for the project's default Compute Engine account: an account of one's own
    needs an allow-listing by Google of its own, and the cluster is refused without."""
    deletion_protection: bool = True
    """Whether Pulumi refuses to delete, or to replace, the cluster."""
    labels: Mapping[str, str] = field(default_factory=names.labels)
    """Labels of cluster and nodes."""
    universe: Universe = field(default_factory=catalog.universe)
    """The universe that the project is in, by default the public one."""


class TrainingCluster(pulumi.ComponentResource):
    """The cluster, by the provider's own resource. Child: NAME.

    Raises InputError, before anything is registered, for all that the service or its Slurm would refuse.
    """

    name: pulumi.Output[str]
    """The cluster's full name: projects/NUMBER/locations/R/modelDevelopmentClusters/ID."""

    def __init__(self, name: str, args: TrainingClusterArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        refuse(f"TrainingCluster {name}", *training_cluster_args_problems(args))
        super().__init__("holdfast:slurm:TrainingCluster", name, None, opts)
        cluster = ModelDevelopmentCluster(
            name,
            training_cluster_inputs(args),
            pulumi.ResourceOptions(parent=self, protect=args.deletion_protection),
        )
        self.name = cluster.name
        self.register_outputs({"name": self.name})


def training_cluster_inputs(args: TrainingClusterArgs) -> dict[str, Any]:
    """The cluster as the provider writes it."""
    node_sets = [{"nodePoolId": pool.id, "config": dict(pool.config)} for pool in args.pools if pool.config]
    slurm = set_fields(
        homeDirectoryStorage=args.home,
        loginNodePoolId=args.login_pool,
        partitions=[partition.inputs() for partition in args.partitions],
        defaultPartitionId=args.default_partition,
        config=dict(args.config) or None,
        nodeSets=node_sets or None,
        prologBashScripts=list(args.prolog_scripts) or None,
        epilogBashScripts=list(args.epilog_scripts) or None,
    )
    return set_fields(
        project=args.project,
        region=args.region,
        modelDevelopmentClusterId=args.cluster_id,
        displayName=args.display_name or args.cluster_id,
        labels=dict(args.labels) or None,
        network={"network": args.network, "subnetwork": args.subnetwork},
        nodePools=[pool.inputs(args.labels) for pool in args.pools],
        orchestratorSpec={"slurmSpec": slurm},
        runtimeSpec={"serviceAccount": args.service_account} if args.service_account else None,
    )


def training_cluster_args_problems(args: TrainingClusterArgs) -> list[Problem]:
    """Everything that the service, or its Slurm, refuses of the cluster; fields are paths as the provider has them."""
    cluster_id = catalog.training_cluster_id_problem(args.cluster_id)
    inputs = training_cluster_inputs(args)
    if args.display_name is None:
        del inputs["displayName"]  # the id, which is judged already
    return [
        *([cluster_id] if cluster_id else []),
        *catalog.training_cluster_problems(inputs, region=args.region, universe=args.universe),
    ]


def login_node(cluster_id: str, login_pool: str) -> str:
    """The name of the first login node's instance."""
    return f"{cluster_id}-{login_pool}-0"


def ssh_command(cluster_id: str, login_pool: str, project: str, zone: str) -> str:
    """What a researcher runs to log in: through Identity-Aware Proxy, whether the node has a public address or not."""
    node = login_node(cluster_id, login_pool)
    return f"gcloud compute ssh {node} --project {project} --zone {zone} --tunnel-through-iap"
