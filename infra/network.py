"""The network of an environment: private, with a way out; a way in, and between instances, where they are asked for."""

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
    internal: bool = False
    """Whether instances of the subnet reach each other, on every port."""
    ssh_by_iap: bool = False
    """Whether instances are reached by SSH through Identity-Aware Proxy, where IAM decides who may."""
    nat: bool = True
    """Whether instances without public addresses reach the Internet."""


class Network(pulumi.ComponentResource):
    """A custom network with one subnet, from which Google's APIs are reached privately and the Internet by NAT.

    It has no firewall rule but those that are asked for, and the platform's implied ones let nothing in. Nothing of it
    is billed while no job uses it. Children: NAME (network), NAME-subnet, NAME-router, NAME-nat, NAME-internal,
    NAME-iap.
    """

    network: pulumi.Output[str]
    """The network's name."""
    subnetwork: pulumi.Output[str]
    """The subnet's name, known once its ways in and out are there."""

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
        ways: list[pulumi.Output[str]] = []
        if args.nat:
            router = gcp.compute.Router(
                f"{name}-router",
                project=args.project,
                region=args.region,
                name=regional,
                network=network.id,
                opts=child,
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
            ways.append(nat.id)
        for rule in _rules(args):
            made = gcp.compute.Firewall(
                f"{name}-{rule.suffix}",
                project=args.project,
                name=f"{args.network_name}-{rule.suffix}",
                network=network.id,
                description=rule.description,
                direction="INGRESS",
                source_ranges=[rule.source],
                allows=rule.allows,
                opts=child,
            )
            ways.append(made.id)
        self.network = network.name
        self.subnetwork = pulumi.Output.all(subnet.name, *ways).apply(lambda known: str(known[0]))
        self.register_outputs({"network": self.network, "subnetwork": self.subnetwork})


@dataclass(frozen=True)
class _Rule:
    suffix: str
    description: str
    source: str
    allows: list[gcp.compute.FirewallAllowArgs]


def _rules(args: NetworkArgs) -> list[_Rule]:
    rules = []
    if args.internal:
        allows = [gcp.compute.FirewallAllowArgs(protocol=each) for each in ("tcp", "udp", "icmp")]
        rules.append(_Rule("internal", "Instances of the subnet reach each other", args.subnet_cidr, allows))
    if args.ssh_by_iap:
        allows = [gcp.compute.FirewallAllowArgs(protocol="tcp", ports=["22"])]
        source = str(catalog.fact("compute", "iap_range").value)
        rules.append(_Rule("iap", "SSH through Identity-Aware Proxy", source, allows))
    return rules
