"""The file share that is /home on every node of a training cluster."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import pulumi
import pulumi_gcp as gcp

from infra import catalog, names
from infra.catalog import Problem, Universe
from infra.errors import refuse


@dataclass(frozen=True)
class HomeDirectoryArgs:
    """Arguments of HomeDirectory."""

    project: str
    """The project's id."""
    location: str
    """The zone, which is best the nodes' own; a region for the tiers that are regional."""
    network: pulumi.Input[str]
    """The network's name. The instance is peered with it, so nodes reach it without public addresses."""
    instance_name: str = "slurm-home"
    """The instance's name."""
    tier: str = "ZONAL"
    """Filestore's tier."""
    capacity_gib: int = 1024
    """The share's capacity, in GiB."""
    share_name: str = "home"
    """The share's name."""
    deletion_protection: bool = True
    """Whether the instance, which holds people's files and jobs' checkpoints, refuses to be deleted."""
    labels: Mapping[str, str] = field(default_factory=names.labels)
    """The instance's labels."""
    universe: Universe = field(default_factory=catalog.universe)
    """The universe that the project is in, by default the public one."""


class HomeDirectory(pulumi.ComponentResource):
    """A Filestore instance with one share. Child: NAME.

    Root is not squashed, which is Filestore's default: the service makes people's directories as root.
    """

    instance: pulumi.Output[str]
    """The instance's full name: projects/P/locations/L/instances/NAME."""

    def __init__(self, name: str, args: HomeDirectoryArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        refuse(f"HomeDirectory {name}", *home_directory_problems(args))
        super().__init__("holdfast:home_directory:HomeDirectory", name, None, opts)
        instance = gcp.filestore.Instance(
            name,
            project=args.project,
            location=args.location,
            name=args.instance_name,
            description="Home directories of a Slurm cluster",
            tier=args.tier,
            file_shares=gcp.filestore.InstanceFileSharesArgs(name=args.share_name, capacity_gb=args.capacity_gib),
            networks=[
                gcp.filestore.InstanceNetworkArgs(
                    network=args.network, modes=["MODE_IPV4"], connect_mode="DIRECT_PEERING"
                )
            ],
            deletion_protection_enabled=args.deletion_protection,
            labels=args.labels,
            opts=pulumi.ResourceOptions(parent=self, protect=args.deletion_protection),
        )
        self.instance = instance.id.apply(str)
        self.register_outputs({"instance": self.instance})


def home_directory_problems(args: HomeDirectoryArgs) -> list[Problem]:
    """What Filestore refuses of the instance."""
    name = catalog.compute_name_problem(args.instance_name)
    found = catalog.filestore_problems(
        tier=args.tier,
        location=args.location,
        capacity_gib=args.capacity_gib,
        share_name=args.share_name,
        universe=args.universe,
    )
    return [*([Problem("instance_name", name.message)] if name else []), *found]
