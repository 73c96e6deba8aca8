"""gcp:vertex: training clusters.

The SDK at hand has no class of the resource, so its types stand here, by their names on the engine (provider 10.5.0,
https://www.pulumi.com/registry/packages/gcp/api-docs/vertex/aimodeldevelopmentcluster/, read 2026-11-29; its names of
outputs are unchecked). With an SDK that has `gcp.vertex.AiModelDevelopmentCluster` they go.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pulumi
from pulumi import Input, Output

from mockgcp.frontends.pulumi.resource import Props, Request, ResourceType, Session, deleted_by, id_parts, read_by
from mockgcp.frontends.pulumi.resources.masked import mask
from mockgcp.frontends.pulumi.translate import Table

Text = Input[str] | None
Texts = Input[Sequence[Input[str]]] | None
TextMap = Input[Mapping[str, Input[str]]] | None
Body = Mapping[str, Any]


@pulumi.input_type
class Network:
    network: Input[str]
    subnetwork: Text = None


@pulumi.input_type
class ReservationAffinity:
    reservationAffinityType: Input[str]
    key: Text = None
    values: Texts = None


@pulumi.input_type
class MachineSpec:
    machineType: Text = None
    reservationAffinity: Input[ReservationAffinity] | None = None


@pulumi.input_type
class ScalingSpec:
    maxNodeCount: Input[int] | None = None
    minNodeCount: Input[int] | None = None


@pulumi.input_type
class BootDisk:
    bootDiskType: Text = None
    bootDiskSizeGb: Input[int] | None = None


@pulumi.input_type
class ConfidentialInstanceConfig:
    confidentialInstanceType: Text = None


@pulumi.input_type
class NodePool:
    """Of an output that the SDK's own classes have as an optional field, too: effectiveFlexStartMaxDuration."""

    id: Input[str]
    machineSpec: Input[MachineSpec] | None = None
    provisioningModel: Text = None
    flexStartMaxDuration: Text = None
    effectiveFlexStartMaxDuration: Text = None
    scalingSpec: Input[ScalingSpec] | None = None
    bootDisk: Input[BootDisk] | None = None
    zone: Text = None
    enablePublicIps: Input[bool] | None = None
    startupScript: Text = None
    nodeImage: Text = None
    labels: TextMap = None
    filestores: Texts = None
    lustres: Texts = None
    confidentialInstanceConfig: Input[ConfidentialInstanceConfig] | None = None


@pulumi.input_type
class Partition:
    id: Input[str]
    nodePoolIds: Input[Sequence[Input[str]]]
    config: TextMap = None


@pulumi.input_type
class NodeSet:
    nodePoolId: Input[str]
    config: TextMap = None


@pulumi.input_type
class SlurmSpec:
    homeDirectoryStorage: Input[str]
    loginNodePoolId: Input[str]
    partitions: Input[Sequence[Input[Partition]]] | None = None
    defaultPartitionId: Text = None
    config: TextMap = None
    nodeSets: Input[Sequence[Input[NodeSet]]] | None = None
    prologBashScripts: Texts = None
    epilogBashScripts: Texts = None


@pulumi.input_type
class OrchestratorSpec:
    slurmSpec: Input[SlurmSpec] | None = None


@pulumi.input_type
class RuntimeSpec:
    serviceAccount: Text = None


@pulumi.input_type
class StartTime:
    hours: Input[int] | None = None
    minutes: Input[int] | None = None


@pulumi.input_type
class LustreExportConfig:
    destinationBucket: Input[str]
    daysOfWeek: Texts = None
    lustres: Texts = None
    startTime: Input[StartTime] | None = None


@pulumi.input_type
class AiModelDevelopmentClusterArgs:
    modelDevelopmentClusterId: Input[str]
    network: Input[Network]
    nodePools: Input[Sequence[Input[NodePool]]]
    orchestratorSpec: Input[OrchestratorSpec]
    deletionPolicy: Text = None
    displayName: Text = None
    labels: TextMap = None
    lustreExportConfig: Input[LustreExportConfig] | None = None
    project: Text = None
    region: Text = None
    runtimeSpec: Input[RuntimeSpec] | None = None


@pulumi.output_type
class NodeStatus(dict[str, Any]):
    nodeState: str
    nodePoolId: str
    nodePoolType: str
    instanceName: str
    instanceId: str
    createTime: str
    lastUpdateTime: str


@pulumi.output_type
class Error(dict[str, Any]):
    code: int
    message: str


@pulumi.output_type
class ClusterStatus(dict[str, Any]):
    state: str
    detail: str
    error: Error
    nodesStatus: Sequence[NodeStatus]


@pulumi.output_type
class ClusterEvent(dict[str, Any]):
    eventType: str
    eventMessage: str
    eventTime: str


class AiModelDevelopmentCluster(pulumi.CustomResource):
    pulumi_type = "gcp:vertex/aiModelDevelopmentCluster:AiModelDevelopmentCluster"

    clusterEvents: Output[Sequence[ClusterEvent]]
    clusterStatus: Output[ClusterStatus]
    createTime: Output[str]
    deletionPolicy: Output[str]
    displayName: Output[str]
    effectiveLabels: Output[Mapping[str, str]]
    labels: Output[Mapping[str, str]]
    lustreExportConfig: Output[LustreExportConfig]
    modelDevelopmentClusterId: Output[str]
    name: Output[str]
    network: Output[Network]
    nodePools: Output[Sequence[NodePool]]
    orchestratorSpec: Output[OrchestratorSpec]
    project: Output[str]
    pulumiLabels: Output[Mapping[str, str]]
    region: Output[str]
    runtimeSpec: Output[RuntimeSpec]
    startTime: Output[str]
    updateTime: Output[str]


_FULL_NAME = "projects/{project}/locations/{region}/modelDevelopmentClusters/{modelDevelopmentClusterId}"
_NAME = {"name": _FULL_NAME}
_METHODS = "aiplatform.projects.locations.modelDevelopmentClusters"
_CREATE = Request(
    f"{_METHODS}.create",
    {
        "parent": "projects/{project}/locations/{region}",
        "modelDevelopmentClusterId": "{modelDevelopmentClusterId}",
    },
)
_GET = Request(f"{_METHODS}.get", _NAME)
_SLURM = "orchestratorSpec.slurmSpec"
_UPDATABLE = {
    "displayName": ("displayName",),
    "nodePools": ("nodePools",),
    "lustreExportConfig": ("lustreExportConfig",),
}
_UPDATABLE_OF_SLURM = (
    *("config", "defaultPartitionId", "epilogBashScripts", "loginNodePoolId"),
    *("nodeSets", "partitions", "prologBashScripts"),
)


def _placed(session: Session, properties: Props) -> Props:
    """The properties with the provider's own region where the program names none."""
    return {**properties, "region": properties.get("region") or session.region}


def _update(session: Session, old: Props, new: Props, body: Body) -> Body:
    before, after = (each["orchestratorSpec"].get("slurmSpec") or {} for each in (old, new))
    slurm = [f"{_SLURM}.{name}" for name in _UPDATABLE_OF_SLURM if before.get(name) != after.get(name)]
    # Of labels the outputs have the provider's own, too: they are named always, which changes nothing.
    changed = [*mask(_UPDATABLE, CLUSTER.computed, old, new), *slurm, "labels"]
    params = {**_GET.fill(_placed(session, new)), "updateMask": ",".join(changed)}
    return session.call(f"{_METHODS}.patch", params, body)


def _derive(session: Session, properties: Props, rest: Body) -> Props:
    _, project, _, region, _, id_ = rest["name"].split("/")
    return {"project": session.cloud.project(project).id, "region": region, "modelDevelopmentClusterId": id_}


CLUSTER = ResourceType(
    token=AiModelDevelopmentCluster.pulumi_type,
    resource=AiModelDevelopmentCluster,
    args=AiModelDevelopmentClusterArgs,
    id=_FULL_NAME,
    import_id=id_parts(_FULL_NAME),
    create=lambda session, properties, body: session.call(
        _CREATE.method, _CREATE.fill(_placed(session, properties)), body
    ),
    read=lambda session, properties: read_by(_GET)(session, _placed(session, properties)),
    update=_update,
    delete=deleted_by(Request(f"{_METHODS}.delete", _NAME)),
    dry_run=lambda session, properties, body: session.validate(_CREATE, _placed(session, properties), body),
    replace_on=frozenset(
        {
            *("modelDevelopmentClusterId", "network", "project", "region", "runtimeSpec"),
            *("nodePools.id", "nodePools.machineSpec", "nodePools.provisioningModel"),
            *("nodePools.confidentialInstanceConfig", f"{_SLURM}.homeDirectoryStorage"),
        }
    ),
    computed=frozenset(
        {
            *("deletionPolicy", "network.subnetwork", "project", "region"),
            *("nodePools.bootDisk", "nodePools.bootDisk.bootDiskSizeGb", "nodePools.bootDisk.bootDiskType"),
            *("nodePools.effectiveFlexStartMaxDuration", "nodePools.provisioningModel"),
        }
    ),
    table=Table(
        local=frozenset({"deletionPolicy", "modelDevelopmentClusterId", "project", "region"}),
        sent_when_zero=frozenset({"nodePools.scalingSpec.maxNodeCount", "nodePools.scalingSpec.minNodeCount"}),
    ),
    derive=_derive,
)
