"""The network of an environment: private, with a way out and none in."""

from dataclasses import dataclass, field

import pulumi
import pulumi_gcp as gcp

from infra import catalog
from infra.catalog import Universe
from infra.errors import refuse


@dataclass(frozen=True)
class NetworkArgs:
    """Arguments of Network."""

    project: str
    """The project's id."""
    region: str
    """The region of the subnet, which is that of the jobs in it."""
    network_name: str = "holdfast"
    """The network's name; subnet, router and NAT are called NETWORK-REGION. At most 63 characters in all."""
    subnet_cidr: str = "10.0.0.0/20"
    """The subnet's range. Each instance of a job takes addresses of it while it runs, and a while after."""
    universe: Universe = field(default_factory=catalog.universe)
    """The universe that the project is in, by default the public one."""


class Network(pulumi.ComponentResource):
    """A custom network with one subnet, from which Google's APIs are reached privately and the Internet by NAT.

    It has no firewall rule, and the platform's implied ones let nothing in. Nothing of it is billed while no job uses
    it. Children: NAME (network), NAME-subnet, NAME-router, NAME-nat.
    """

    network: pulumi.Output[str]
    """The network's name."""
    subnetwork: pulumi.Output[str]
    """The subnet's name, known once there is a way out of it."""

    def __init__(self, name: str, args: NetworkArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        regional = f"{args.network_name}-{args.region}"
        refuse(
            f"Network {name}",
            catalog.compute_name_problem(regional),
            catalog.compute_region_problem(args.region, args.universe),
            catalog.direct_vpc_range_problem(args.subnet_cidr),
        )
        super().__init__("holdfast:network:Network", name, None, opts)
        child = pulumi.ResourceOptions(parent=self)
        network = gcp.compute.Network(
            name,
            project=args.project,
            name=args.network_name,
            # Subnets of our choice only: the automatic ones cover every region, and collide when networks are peered.
            auto_create_subnetworks=False,
            routing_mode="REGIONAL",
            opts=child,
        )
        subnet = gcp.compute.Subnetwork(
            f"{name}-subnet",
            project=args.project,
            region=args.region,
            name=regional,
            network=network.id,
            ip_cidr_range=args.subnet_cidr,
            private_ip_google_access=True,
            opts=child,
        )
        router = gcp.compute.Router(
            f"{name}-router", project=args.project, region=args.region, name=regional, network=network.id, opts=child
        )
        nat = gcp.compute.RouterNat(
            f"{name}-nat",
            project=args.project,
            region=args.region,
            name=regional,
            router=router.name,
            nat_ip_allocate_option="AUTO_ONLY",
            source_subnetwork_ip_ranges_to_nat="ALL_SUBNETWORKS_ALL_IP_RANGES",
            log_config=gcp.compute.RouterNatLogConfigArgs(enable=True, filter="ERRORS_ONLY"),
            opts=child,
        )
        self.network = network.name
        self.subnetwork = pulumi.Output.all(subnet.name, nat.id).apply(lambda known: str(known[0]))
        self.register_outputs({"network": self.network, "subnetwork": self.subnetwork})
