"""A pool of nodes with TPUs or GPUs, on demand or by flex-start."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import pulumi
import pulumi_gcp as gcp

from infra import catalog, names
from infra.catalog import Problem, Universe
from infra.errors import refuse
from infra.pool_shape import PoolShape


@dataclass(frozen=True)
class NodePoolArgs:
    """Arguments of NodePool."""

    project: str
    """The project's id."""
    zone: str
    """The zone of the nodes, which is the cluster's: a TPU slice is never spread over zones."""
    cluster: pulumi.Input[str]
    """The cluster's name."""
    shape: PoolShape
    """Machine type, topology and provisioning, from which nodes and chips follow."""
    service_account: pulumi.Input[str]
    """The e-mail that the nodes run as; pods have identities of their own."""
    max_run_duration: str = "604800s"
    """Seconds that a flex-start node runs, followed by `s`, at most 604800s (7 days). Not for on-demand pools."""
    auto_repair: bool | None = None
    """Whether GKE replaces nodes that look unhealthy. None: not with flex-start, otherwise yes.

    A repair of a flex-start node takes it from a running slice, whose capacity was granted once and is queued for
    again; the job would lose its place for what a restart from its checkpoint heals. Cluster Toolkit decides the same
    (modules/compute/gke-node-pool/main.tf); scenario B's tutorial leaves it on."""
    labels: dict[str, str] = field(default_factory=names.labels)
    """The nodes' labels in billing exports."""
    universe: Universe = field(default_factory=catalog.universe)
    """The universe that the project is in, by default the public one."""


class NodePool(pulumi.ComponentResource):
    """A pool that begins with no nodes and grows to what its shape says. Child: NAME.

    Raises InputError, before anything is registered, for what GKE refuses.

    Deliberately not set: an upgrade strategy (flex-start nodes have short-lived upgrades and refuse one; a slice is
    rebuilt as a whole anyway), spot, and limits over all zones (TPU pools take those of each zone).
    """

    pool: pulumi.Output[str]
    """The pool's name."""

    def __init__(self, name: str, args: NodePoolArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        refuse(f"NodePool {name}", *node_pool_problems(args))
        super().__init__("holdfast:node_pool:NodePool", name, None, opts)
        flex = args.shape.queued
        pool = gcp.container.NodePool(
            name,
            project=args.project,
            location=args.zone,
            cluster=args.cluster,
            name=args.shape.name,
            initial_node_count=0,
            autoscaling=gcp.container.NodePoolAutoscalingArgs(min_node_count=0, max_node_count=args.shape.max_nodes),
            management=gcp.container.NodePoolManagementArgs(
                auto_repair=not flex if args.auto_repair is None else args.auto_repair, auto_upgrade=True
            ),
            # Queued TPUs need both flags: the API refuses one alone (xpk pull request 900).
            queued_provisioning=gcp.container.NodePoolQueuedProvisioningArgs(enabled=True) if flex else None,
            placement_policy=_placement(args.shape),
            node_config=_node_config(args),
            opts=pulumi.ResourceOptions(parent=self),
        )
        self.pool = pool.name
        self.register_outputs({"pool": self.pool})


def node_pools(pools: Sequence[tuple[str, NodePoolArgs]], opts: pulumi.ResourceOptions | None = None) -> list[NodePool]:
    """Pools of one cluster, each made after the one before: GKE refuses a second operation while one runs
    (https://github.com/hashicorp/terraform-provider-google/issues/10366)."""
    made: list[NodePool] = []
    for name, args in pools:
        after = pulumi.ResourceOptions(depends_on=made[-1:])
        made.append(NodePool(name, args, pulumi.ResourceOptions.merge(opts, after)))
    return made


def node_pool_problems(args: NodePoolArgs, version: str | None = None) -> list[Problem]:
    """Everything that GKE refuses of a pool, on a cluster of `version` if that is known."""
    duration = catalog.run_duration_problem(args.max_run_duration) if args.shape.queued else None
    return [*args.shape.problems(args.zone, version, args.universe), *([duration] if duration else [])]


def _placement(shape: PoolShape) -> gcp.container.NodePoolPlacementPolicyArgs | None:
    # Nodes that are slices of their own have no topology to keep together.
    if shape.hosts == 1:
        return None
    return gcp.container.NodePoolPlacementPolicyArgs(type="COMPACT", tpu_topology=shape.topology)


def _node_config(args: NodePoolArgs) -> gcp.container.NodePoolNodeConfigArgs:
    node, flex = args.shape.node, args.shape.queued
    gpus = [
        gcp.container.NodePoolNodeConfigGuestAcceleratorArgs(
            type=node.gpu,
            count=node.gpus,
            gpu_driver_installation_config=(
                gcp.container.NodePoolNodeConfigGuestAcceleratorGpuDriverInstallationConfigArgs(
                    gpu_driver_version="LATEST"
                )
            ),
        )
    ]
    return gcp.container.NodePoolNodeConfigArgs(
        machine_type=node.name,
        service_account=args.service_account,
        # What the node may do is its account's roles; a narrower scope would only hide some of them.
        oauth_scopes=["https://www.googleapis.com/auth/cloud-platform"],
        flex_start=True if flex else None,
        max_run_duration=args.max_run_duration if flex else None,
        guest_accelerators=gpus if node.gpus else None,
        gcfs_config=gcp.container.NodePoolNodeConfigGcfsConfigArgs(enabled=True),
        reservation_affinity=gcp.container.NodePoolNodeConfigReservationAffinityArgs(
            consume_reservation_type="NO_RESERVATION"
        ),
        workload_metadata_config=gcp.container.NodePoolNodeConfigWorkloadMetadataConfigArgs(mode="GKE_METADATA"),
        resource_labels=args.labels,
    )
