"""Pools and partitions of a training cluster, and how the provider writes them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pulumi


@dataclass(frozen=True)
class SlurmPool:
    """A pool of equal nodes. Nodes are named CLUSTER-POOL-INDEX."""

    id: str
    """The pool's id. Changing it replaces the cluster, as do machine, provisioning and reservation."""
    machine: str
    """The machine type; GPUs follow from it."""
    zone: str
    """The zone of the nodes."""
    min_nodes: int = 0
    """Nodes below this index are static: always there, and made again when they expire or are repaired."""
    max_nodes: int = 1
    """The most nodes. Those from the minimum on are dynamic: they come for a waiting job, and go when idle."""
    provisioning: str | None = None
    """ON_DEMAND, SPOT, RESERVATION or FLEX_START. None, for CPU pools only: ON_DEMAND."""
    max_duration: str | None = None
    """Seconds that a flex-start node runs, followed by `s`; by default 7 days. It should match the jobs' time limits:
    the end comes without SIGTERM."""
    reservations: Sequence[str] = ()
    """Full names of the reservations that the nodes come from, for RESERVATION only."""
    boot_disk_type: str | None = None
    """pd-ssd, pd-standard or hyperdisk-balanced; None for what the machine type has by default."""
    boot_disk_gb: int = 100
    """The boot disk's size in GB."""
    public_ips: bool = False
    """Whether nodes have public addresses. Without, the network needs a NAT."""
    startup_script: str | None = None
    """A script that runs when a node starts. A change makes all nodes of the pool again."""
    node_image: str | None = None
    """The nodes' image, projects/P/global/images/NAME or .../images/family/NAME. A change makes all nodes again."""
    filestores: Sequence[pulumi.Input[str]] = ()
    """Full names of Filestore instances that are mounted under /mnt/filestore."""
    lustres: Sequence[pulumi.Input[str]] = ()
    """Full names of Managed Lustre instances that are mounted under /mnt/lustre."""
    labels: Mapping[str, str] = field(default_factory=dict)
    """The nodes' labels, beside those of the cluster."""
    config: Mapping[str, str] = field(default_factory=dict)
    """Keys of the pool's NodeName line in slurm.conf."""

    def inputs(self, labels: Mapping[str, str]) -> dict[str, Any]:
        """The pool as the provider writes it, with the cluster's labels."""
        affinity = {"reservationAffinityType": "SPECIFIC_RESERVATION", "values": list(self.reservations)}
        disk = {"bootDiskType": self.boot_disk_type, "bootDiskSizeGb": self.boot_disk_gb}
        return set_fields(
            id=self.id,
            machineSpec=set_fields(
                machineType=self.machine, reservationAffinity=affinity if self.reservations else None
            ),
            provisioningModel=self.provisioning,
            flexStartMaxDuration=self.max_duration,
            scalingSpec={"minNodeCount": self.min_nodes, "maxNodeCount": self.max_nodes},
            bootDisk=set_fields(**disk),
            zone=self.zone,
            enablePublicIps=self.public_ips,
            startupScript=self.startup_script,
            nodeImage=self.node_image,
            filestores=list(self.filestores) or None,
            lustres=list(self.lustres) or None,
            labels={**labels, **self.labels} or None,
        )


@dataclass(frozen=True)
class SlurmPartition:
    """A queue of jobs, and the pools that run them. Pools may be in several partitions."""

    id: str
    """The partition's id, which jobs name."""
    pools: Sequence[str]
    """The ids of its pools."""
    config: Mapping[str, str] = field(default_factory=dict)
    """Keys of its PartitionName line in slurm.conf: OverSubscribe: EXCLUSIVE gives each job its nodes alone."""

    def inputs(self) -> dict[str, Any]:
        """The partition as the provider writes it."""
        return set_fields(id=self.id, nodePoolIds=list(self.pools), config=dict(self.config) or None)


def set_fields(**fields: Any) -> dict[str, Any]:
    """The fields that are set: None stands for one that is left out."""
    return {name: value for name, value in fields.items() if value is not None}
