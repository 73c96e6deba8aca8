"""A private GKE cluster for TPU jobs, and who its nodes are."""

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass, field

import pulumi
import pulumi_gcp as gcp

from infra import catalog, names
from infra.catalog import Problem, Universe
from infra.errors import refuse
from infra.pool_shape import PoolShape

DEFAULT_POOL = str(catalog.fact("gke", "default_pool_name").value)
"""The pool that GKE makes with a cluster, for Ray's heads and submitters, Kueue and the system."""
# From a day that is past, until the version is no longer supported: no date of ours would have to be moved.
_EXCLUDED_SINCE = "2026-01-01T00:00:00Z"
_NODE_ROLE = "roles/container.defaultNodeServiceAccount"


@dataclass(frozen=True)
class GkeClusterArgs:
    """Arguments of GkeCluster."""

    project: str
    """The project's id."""
    zone: str
    """The zone, of the control plane and of all nodes: a TPU slice is in one zone."""
    network: pulumi.Input[str]
    """The network's name."""
    subnetwork: pulumi.Input[str]
    """The subnet's name, in the zone's region, with a way out: nodes have no public addresses."""
    cluster_name: str = "tpu-cluster"
    """The cluster's name, at most 40 characters."""
    version: str = "1.34"
    """The control plane's lowest version; 1.34 means the newest that begins so. The channel moves it on."""
    release_channel: str = "REGULAR"
    """RAPID, REGULAR, STABLE or EXTENDED."""
    default_pool: PoolShape = field(default_factory=lambda: PoolShape(DEFAULT_POOL, "n2-standard-16"))
    """The CPU pool that the cluster is made with; its nodes are always there. Changing it replaces the cluster."""
    node_account_id: str = "gke-nodes"
    """The id of the nodes' service account, 6 to 30 characters."""
    authorized_networks: Mapping[str, str] = field(default_factory=dict)
    """IPv4 ranges by display name that may reach the control plane's address.

    Empty: the address is closed, and the control plane is reached by its DNS name, where IAM decides who may."""
    maintenance_start: str = "2026-01-03T02:00:00Z"
    """When the first maintenance window opens, and at which time of day the others do."""
    maintenance_end: str = "2026-01-03T08:00:00Z"
    """When it closes: GKE asks for 48 hours in 32 days, which six on two days a week give."""
    maintenance_recurrence: str = "FREQ=WEEKLY;BYDAY=SA,SU"
    """How the window comes back, as RFC 5545 says it."""
    deletion_protection: bool = True
    """Whether the cluster refuses to be deleted, or replaced."""
    labels: Mapping[str, str] = field(default_factory=names.labels)
    """The cluster's labels."""
    universe: Universe = field(default_factory=catalog.universe)
    """The universe that the project is in, by default the public one."""


class GkeCluster(pulumi.ComponentResource):
    """A zonal Standard cluster with the Ray operator, workload identity, image streaming and mounted buckets.

    Its nodes are private, under an account of their own with the one role that nodes need. GKE patches the control
    plane in the maintenance window; minor versions and nodes stay as they are until the version's support ends, since
    an upgrade of nodes would end running slices. Children: NAME (cluster), NAME-nodes (account), NAME-nodes-role.
    """

    name: pulumi.Output[str]
    """The cluster's name, known once it is there."""
    endpoint: pulumi.Output[str]
    """Where its control plane is: a DNS name, or an address if networks are authorized; it may carry a port."""
    ca_certificate: pulumi.Output[str]
    """The authority of the control plane's certificate, base64; empty with a DNS name, whose certificate is public."""
    node_service_account: pulumi.Output[str]
    """The e-mail that all nodes run as, known once it has its role."""

    def __init__(self, name: str, args: GkeClusterArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        refuse(f"GkeCluster {name}", *gke_cluster_problems(args))
        super().__init__("holdfast:gke_cluster:GkeCluster", name, None, opts)
        child = pulumi.ResourceOptions(parent=self)
        account = gcp.serviceaccount.Account(
            f"{name}-nodes",
            project=args.project,
            account_id=args.node_account_id,
            display_name=f"Nodes of {args.cluster_name}",
            opts=child,
        )
        grant = gcp.projects.IAMMember(
            f"{name}-nodes-role", project=args.project, role=_NODE_ROLE, member=account.member, opts=child
        )
        self.node_service_account = pulumi.Output.all(account.email, grant.id).apply(lambda known: str(known[0]))
        cluster = gcp.container.Cluster(
            name,
            project=args.project,
            location=args.zone,
            name=args.cluster_name,
            description="TPU jobs, queued by Kueue and run by Ray",
            min_master_version=args.version,
            release_channel=gcp.container.ClusterReleaseChannelArgs(channel=args.release_channel),
            network=args.network,
            subnetwork=args.subnetwork,
            networking_mode="VPC_NATIVE",
            # Ranges of these sizes, which GKE chooses in the network.
            ip_allocation_policy=gcp.container.ClusterIpAllocationPolicyArgs(
                cluster_ipv4_cidr_block="/17", services_ipv4_cidr_block="/22"
            ),
            private_cluster_config=gcp.container.ClusterPrivateClusterConfigArgs(enable_private_nodes=True),
            control_plane_endpoints_config=_endpoints(by_address=bool(args.authorized_networks)),
            master_authorized_networks_config=_authorized(args.authorized_networks),
            workload_identity_config=gcp.container.ClusterWorkloadIdentityConfigArgs(
                workload_pool=catalog.workload_pool(args.project, args.universe)
            ),
            addons_config=gcp.container.ClusterAddonsConfigArgs(
                ray_operator_configs=[gcp.container.ClusterAddonsConfigRayOperatorConfigArgs(enabled=True)],
                gcs_fuse_csi_driver_config=gcp.container.ClusterAddonsConfigGcsFuseCsiDriverConfigArgs(enabled=True),
            ),
            initial_node_count=args.default_pool.max_nodes,
            node_config=gcp.container.ClusterNodeConfigArgs(
                machine_type=args.default_pool.machine,
                service_account=self.node_service_account,
                oauth_scopes=["https://www.googleapis.com/auth/cloud-platform"],
                gcfs_config=gcp.container.ClusterNodeConfigGcfsConfigArgs(enabled=True),
                workload_metadata_config=gcp.container.ClusterNodeConfigWorkloadMetadataConfigArgs(mode="GKE_METADATA"),
                resource_labels=args.labels,
            ),
            maintenance_policy=_maintenance(args),
            deletion_protection=args.deletion_protection,
            resource_labels=args.labels,
            opts=pulumi.ResourceOptions(
                parent=self,
                protect=args.deletion_protection,
                # The node pools beside the default one are resources of their own.
                ignore_changes=["nodePools"],
            ),
        )
        self.name = cluster.name
        self.endpoint, self.ca_certificate = _reached(cluster, by_address=bool(args.authorized_networks))
        self.register_outputs({"name": self.name, "nodeServiceAccount": self.node_service_account})


def gke_cluster_problems(args: GkeClusterArgs) -> list[Problem]:
    """Everything that GKE, or this project, refuses of a cluster."""
    found = [
        catalog.cluster_name_problem(args.cluster_name),
        catalog.cluster_version_problem(args.version),
        catalog.release_channel_problem(args.release_channel),
        catalog.service_account_id_problem(args.node_account_id),
        *args.default_pool.problems(args.zone, universe=args.universe),
        _default_pool_problem(args.default_pool),
        *map(_authorized_problem, args.authorized_networks.values()),
    ]
    try:
        catalog.workload_pool(args.project, args.universe)
    except ValueError as error:
        found.append(Problem("universe", str(error)))
    return [each for each in found if each is not None]


def _default_pool_problem(pool: PoolShape) -> Problem | None:
    if pool.name == DEFAULT_POOL and not pool.queued:
        return None
    message = (
        f"{pool.name}, {pool.provisioning}; the pool of a new cluster is on demand, and GKE calls it {DEFAULT_POOL}"
    )
    return Problem("default_pool", message)


def _authorized_problem(cidr: str) -> Problem | None:
    try:
        if ipaddress.IPv4Network(cidr).prefixlen > 0:
            return None
    except ValueError as error:
        return Problem("authorized_networks", f"{cidr!r} is no IPv4 range: {error}. Write, for example, 203.0.113.0/24")
    message = (
        f"{cidr} opens the control plane to the whole Internet (https://docs.cloud.google.com/kubernetes-engine/docs/"
        "concepts/hardening-overview). Name your own ranges, or none: then IAM guards its DNS name"
    )
    return Problem("authorized_networks", message)


def _endpoints(*, by_address: bool) -> gcp.container.ClusterControlPlaneEndpointsConfigArgs:
    """One way in: the address, for authorized networks, or the DNS name, for whom IAM lets in."""
    return gcp.container.ClusterControlPlaneEndpointsConfigArgs(
        dns_endpoint_config=gcp.container.ClusterControlPlaneEndpointsConfigDnsEndpointConfigArgs(
            allow_external_traffic=not by_address
        ),
        ip_endpoints_config=gcp.container.ClusterControlPlaneEndpointsConfigIpEndpointsConfigArgs(enabled=by_address),
    )


def _authorized(networks: Mapping[str, str]) -> gcp.container.ClusterMasterAuthorizedNetworksConfigArgs | None:
    if not networks:
        return None
    return gcp.container.ClusterMasterAuthorizedNetworksConfigArgs(
        cidr_blocks=[
            gcp.container.ClusterMasterAuthorizedNetworksConfigCidrBlockArgs(display_name=name, cidr_block=cidr)
            for name, cidr in sorted(networks.items())
        ]
    )


def _reached(cluster: gcp.container.Cluster, *, by_address: bool) -> tuple[pulumi.Output[str], pulumi.Output[str]]:
    """Endpoint and authority of the way in that `_endpoints` opens."""
    if by_address:
        return cluster.endpoint, cluster.master_auth.apply(lambda auth: auth.cluster_ca_certificate or "")
    name = cluster.control_plane_endpoints_config.apply(
        lambda ways: (ways.dns_endpoint_config and ways.dns_endpoint_config.endpoint) or ""
    )
    # Before the cluster is there, its address is unknown, while that block is known without the name in it.
    known = pulumi.Output.all(cluster.endpoint, name).apply(lambda values: str(values[1]))
    return known, pulumi.Output.from_input("")


def _maintenance(args: GkeClusterArgs) -> gcp.container.ClusterMaintenancePolicyArgs:
    return gcp.container.ClusterMaintenancePolicyArgs(
        recurring_window=gcp.container.ClusterMaintenancePolicyRecurringWindowArgs(
            start_time=args.maintenance_start, end_time=args.maintenance_end, recurrence=args.maintenance_recurrence
        ),
        maintenance_exclusions=[
            gcp.container.ClusterMaintenancePolicyMaintenanceExclusionArgs(
                exclusion_name="running-slices",
                start_time=_EXCLUDED_SINCE,
                exclusion_options=gcp.container.ClusterMaintenancePolicyMaintenanceExclusionExclusionOptionsArgs(
                    scope="NO_MINOR_OR_NODE_UPGRADES", end_time_behavior="UNTIL_END_OF_SUPPORT"
                ),
            )
        ],
    )
