"""Configuration of the slurm stack, by default scenario C's, and all that is wrong with it before anything exists."""

import difflib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import pulumi
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator
from pydantic.alias_generators import to_camel

from infra import catalog
from infra.catalog import Problem
from infra.home_directory import HomeDirectoryArgs, home_directory_problems
from infra.network import NetworkArgs
from infra.slurm import TrainingClusterArgs, training_cluster_args_problems
from infra.slurm_parts import SlurmPartition, SlurmPool
from stacks.config import StackConfig, Target, TextList, TextMap, decoded, labels

_ROOT = Path(__file__).parents[1]
# What stands for the names of what the stack makes, where it is only judged.
_NETWORK = ("projects/p/global/networks/n", "projects/p/regions/r/subnetworks/s")
_HOME_MADE = "projects/p/locations/l/instances/i"
# Keys of this configuration, by what the paths of a cluster's problems begin with; the first that fits.
_FIELDS = {
    "modelDevelopmentClusterId": "cluster_id",
    "displayName": "display_name",
    "nodePools": "pools",
    "orchestratorSpec.slurmSpec.nodeSets": "pools",
    "orchestratorSpec.slurmSpec.partitions": "partitions",
    "orchestratorSpec.slurmSpec.loginNodePoolId": "login_pool",
    "orchestratorSpec.slurmSpec.defaultPartitionId": "default_partition",
    "orchestratorSpec.slurmSpec.homeDirectoryStorage": "home_storage",
    "orchestratorSpec.slurmSpec.prologBashScripts": "prolog_scripts",
    "orchestratorSpec.slurmSpec.epilogBashScripts": "epilog_scripts",
    "orchestratorSpec.slurmSpec.config": "config",
}
_HOME = {
    "instance_name": "home_instance",
    "tier": "home_tier",
    "location": "zone",
    "capacity_gib": "home_capacity_gib",
    "share_name": "home_share",
}


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, alias_generator=to_camel, validate_by_name=True, coerce_numbers_to_str=True)

    @model_validator(mode="before")
    @classmethod
    def _known(cls, values: Any) -> Any:
        """Refuses a field that there is not, and names the one that is meant."""
        fields = [field.alias or name for name, field in cls.model_fields.items()]
        for name in values if isinstance(values, Mapping) else ():
            if name not in fields and name not in cls.model_fields:
                near = difflib.get_close_matches(str(name), fields, n=1)
                guess = f"; did you mean {near[0]}?" if near else f". It has {', '.join(fields)}"
                raise ValueError(f"{name!r} is no field of a {cls.__name__.lower()}{guess}")
        return values


class Pool(_Part):
    """One of `pools`. `zone` is by default the stack's; `config` its keys of slurm.conf; the rest as in SlurmPool."""

    id: str
    machine: str
    zone: str | None = None
    min_nodes: int = 0
    max_nodes: int = 1
    provisioning: str | None = None
    max_duration: str | None = None
    reservations: list[str] = Field(default_factory=list)
    boot_disk_type: str | None = None
    boot_disk_gb: int = 100
    public_ips: bool = False
    startup_script: str | None = None
    """A file, from the project's root."""
    node_image: str | None = None
    filestores: list[str] = Field(default_factory=list)
    lustres: list[str] = Field(default_factory=list)
    labels: dict[str, str] = Field(default_factory=dict)
    config: dict[str, str] = Field(default_factory=dict)


class Partition(_Part):
    """One of `partitions`."""

    id: str
    pools: list[str]
    config: dict[str, str] = Field(default_factory=dict)


_POOLS = (
    Pool(id="login", machine="n2-standard-8", min_nodes=1, max_nodes=1, boot_disk_type="pd-standard", boot_disk_gb=120),
    Pool(
        id="a3u",
        machine="a3-ultragpu-8g",
        provisioning="FLEX_START",
        max_duration="604800s",
        max_nodes=2,
        boot_disk_type="hyperdisk-balanced",
        boot_disk_gb=400,
    ),
)
_PARTITIONS = (Partition(id="a3u", pools=["a3u"]),)


class SlurmConfig(StackConfig):
    """Configuration of the slurm stack: a training cluster, its network and its home directory."""

    zone: str = Field("us-central1-b", description="the zone of nodes and home directory, in gcp:region")
    network_name: str = Field("slurm", description="the network's name")
    subnet_cidr: str = Field(NetworkArgs.subnet_cidr, description="the subnet's range, of nodes and login")
    ssh_by_iap: bool = Field(True, description="whether nodes are reached by SSH through Identity-Aware Proxy")

    cluster_id: str = Field(TrainingClusterArgs.cluster_id, description="the cluster's id, at most 10 characters")
    display_name: str | None = Field(None, description="what the console shows, by default the cluster's id")
    service_account: str | None = Field(
        None, description="the e-mail that nodes run as, which Google must allow-list; by default Compute Engine's own"
    )
    pools: Annotated[tuple[Pool, ...], BeforeValidator(decoded)] = Field(
        _POOLS, description="a list of pools, each with id, machine, minNodes, maxNodes, provisioning and the like"
    )
    partitions: Annotated[tuple[Partition, ...], BeforeValidator(decoded)] = Field(
        _PARTITIONS, description="a list of partitions, each with id, pools (a list of their ids) and config"
    )
    login_pool: str = Field(TrainingClusterArgs.login_pool, description="the id of the pool that people log in to")
    default_partition: str | None = Field(
        None, description="the partition of a job that names none, by default the first"
    )
    config: TextMap = Field(
        default_factory=lambda: dict(catalog.fact("slurm", "tutorial_config").value),
        description="keys of slurm.conf for the whole cluster, a map",
    )
    prolog_scripts: TextList = Field(
        default_factory=list, description="files of bash scripts that run before a job, a list in their order"
    )
    epilog_scripts: TextList = Field(
        default_factory=list, description="files of bash scripts that run after a job, a list in their order"
    )

    home_storage: str | None = Field(
        None, description="the full name of an existing Filestore or Lustre for /home, by default one is made"
    )
    home_instance: str = Field(HomeDirectoryArgs.instance_name, description="the name of the Filestore that is made")
    home_tier: str = Field(HomeDirectoryArgs.tier, description="Filestore's tier")
    home_capacity_gib: int = Field(HomeDirectoryArgs.capacity_gib, description="the capacity of /home in GiB")
    home_share: str = Field(HomeDirectoryArgs.share_name, description="the name of the share")

    def network(self, target: Target) -> NetworkArgs:
        """The network: nodes reach each other, and by NAT the Internet unless all have addresses of their own."""
        return NetworkArgs(
            project=target.project,
            region=target.region,
            network_name=self.network_name,
            subnet_cidr=self.subnet_cidr,
            universe=target.universe,
            internal=True,
            ssh_by_iap=self.ssh_by_iap,
            nat=not all(pool.public_ips for pool in self.pools),
        )

    def home(self, target: Target, stack: str, network: pulumi.Input[str]) -> HomeDirectoryArgs:
        """The Filestore that is made when `home_storage` names none; a regional tier is in the region."""
        tier = catalog.filestore_tier(self.home_tier)
        return HomeDirectoryArgs(
            project=target.project,
            location=target.region if tier and tier.scope == "region" else self.zone,
            network=network,
            instance_name=self.home_instance,
            tier=self.home_tier,
            capacity_gib=self.home_capacity_gib,
            share_name=self.home_share,
            deletion_protection=self.protected(stack),
            labels=labels(stack),
            universe=target.universe,
        )

    def flex_start(self) -> bool:
        """Whether a pool comes by flex-start, for which the Google APIs service agent needs its roles."""
        return any(pool.provisioning == "FLEX_START" for pool in self.pools)

    def login_zone(self) -> str:
        """The zone of the login nodes."""
        return next((pool.zone for pool in self.pools if pool.id == self.login_pool), None) or self.zone

    def cluster(
        self,
        target: Target,
        stack: str,
        network: pulumi.Input[str],
        subnetwork: pulumi.Input[str],
        home: pulumi.Input[str],
    ) -> TrainingClusterArgs:
        """The cluster, in that network (full names), with that home directory. OSError: a script cannot be read."""
        return TrainingClusterArgs(
            project=target.project,
            region=target.region,
            network=network,
            subnetwork=subnetwork,
            home=home,
            pools=[self._pool(pool) for pool in self.pools],
            partitions=[SlurmPartition(each.id, each.pools, each.config) for each in self.partitions],
            cluster_id=self.cluster_id,
            display_name=self.display_name,
            login_pool=self.login_pool,
            default_partition=self.default_partition,
            config=self.config,
            prolog_scripts=[_text(path) for path in self.prolog_scripts],
            epilog_scripts=[_text(path) for path in self.epilog_scripts],
            service_account=self.service_account,
            deletion_protection=self.protected(stack),
            labels=labels(stack),
            universe=target.universe,
        )

    def problems(self, target: Target) -> list[Problem]:
        """What the platform, Slurm or this project refuses. A cluster whose scripts cannot be read is not judged."""
        refused = {
            "location": catalog.compute_region_problem(target.region, target.universe),
            "zone": catalog.zone_problem(self.zone, target.region, target.universe),
            "network_name": catalog.compute_name_problem(f"{self.network_name}-{target.region}"),
            "subnet_cidr": catalog.subnet_range_problem(self.subnet_cidr),
        }
        found = [Problem(field, each.message) for field, each in refused.items() if each is not None]
        if self.home_storage is None and not found:
            home = home_directory_problems(self.home(target, "", ""))
            found += [Problem(_HOME[each.field], each.message) for each in home]
        unread = list(self._unread())
        return [*found, *(unread or self._cluster_problems(target))]

    def _pool(self, pool: Pool) -> SlurmPool:
        values: dict[str, Any] = dict(pool)
        script = pool.startup_script and _text(pool.startup_script)
        return SlurmPool(**{**values, "zone": pool.zone or self.zone, "startup_script": script})

    def _unread(self) -> list[Problem]:
        files: Mapping[str, list[str]] = {
            "prolog_scripts": self.prolog_scripts,
            "epilog_scripts": self.epilog_scripts,
            "pools": [pool.startup_script for pool in self.pools if pool.startup_script],
        }
        found = []
        for field, paths in files.items():
            for path in paths:
                try:
                    _text(path)
                except (OSError, UnicodeDecodeError) as error:
                    why = getattr(error, "strerror", None) or str(error)
                    message = f"{path} cannot be read: {why}. Name a file of text by its path from the project's root"
                    found.append(Problem(field, message))
        return found

    def _cluster_problems(self, target: Target) -> list[Problem]:
        args = self.cluster(target, "", *_NETWORK, self.home_storage or _HOME_MADE)
        judged = {f"nodePools[{index}].zone" for index, pool in enumerate(self.pools) if pool.zone is None}
        return [
            Problem(_field(each.field), each.message)
            for each in training_cluster_args_problems(args)
            if each.field not in judged  # as `zone`
        ]


def _field(path: str) -> str:
    return next((field for begin, field in _FIELDS.items() if path.startswith(begin)), path)


def _text(path: str) -> str:
    return (_ROOT / path).read_text(encoding="utf-8")
