"""The provider's resource of a training cluster, until the SDK at hand has its class."""

from collections.abc import Mapping
from typing import Any

import pulumi

from infra import catalog

_PROVIDER = catalog.fact("slurm", "provider").value
TOKEN: str = _PROVIDER["token"]
PLUGIN_VERSION: str = _PROVIDER["plugin"]
"""The first release of the provider with this resource (beta). The SDK of that release is not on PyPI yet; with it,
`gcp.vertex.AiModelDevelopmentCluster` takes this class's place, and states stay as they are: the token is the same."""

_OUTPUTS = ("name", "createTime", "updateTime", "clusterStatus", "clusterEvents")


class ModelDevelopmentCluster(pulumi.CustomResource):
    """A training cluster, with its inputs in the provider's spelling (camelCase). What they may be, and which of them
    replace the cluster, is the provider's to say; `catalog.training_cluster_problems` says it before."""

    def __init__(self, name: str, inputs: Mapping[str, Any], opts: pulumi.ResourceOptions | None = None) -> None:
        pinned = pulumi.ResourceOptions(version=PLUGIN_VERSION)
        props = {**inputs, **dict.fromkeys(_OUTPUTS)}
        super().__init__(TOKEN, name, props, pulumi.ResourceOptions.merge(pinned, opts))

    @property
    @pulumi.getter
    def name(self) -> pulumi.Output[str]:
        """The cluster's full name: projects/NUMBER/locations/R/modelDevelopmentClusters/ID."""
        return pulumi.get(self, "name")  # type: ignore[no-any-return]

    @property
    @pulumi.getter(name="clusterStatus")
    def cluster_status(self) -> pulumi.Output[Mapping[str, Any]]:
        """Its state, and that of each node, as it was when the provider last looked."""
        return pulumi.get(self, "cluster_status")  # type: ignore[no-any-return]
