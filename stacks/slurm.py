"""A Slurm training cluster with flex-start nodes, its network, its home directory, and what the service needs for it.

The stack stands alone: all of it is in the GPUs' region, which need not be the foundation's.
"""

import pulumi

from infra import catalog, console
from infra.home_directory import HomeDirectory
from infra.network import Network
from infra.project_services import ProjectServices, ProjectServicesArgs
from infra.service_agent import ServiceAgent, ServiceAgentArgs
from infra.slurm import TrainingCluster, login_node, ssh_command
from stacks.config import load
from stacks.slurm_config import SlurmConfig


def deploy() -> None:
    """Declare the stack's resources, and export what people need to log in and to submit jobs."""
    config, target = load(SlurmConfig)
    stack = pulumi.get_stack()
    apis = ProjectServices("apis", ProjectServicesArgs(target.project, list(catalog.services().slurm)))
    after_apis = pulumi.ResourceOptions(depends_on=[apis])
    network = Network("network", config.network(target), after_apis)
    home: pulumi.Input[str] = config.home_storage or ""
    if config.home_storage is None:
        home = HomeDirectory("home", config.home(target, stack, network.network), after_apis).instance
    awaited: list[pulumi.Input[pulumi.Resource]] = [apis]
    if config.flex_start():
        agent = ServiceAgent(
            "agent", ServiceAgentArgs(target.project, config.service_account, target.universe), after_apis
        )
        awaited.append(agent.roles.apply(lambda _: agent))
    cluster = TrainingCluster(
        "cluster",
        config.cluster(
            target,
            stack,
            pulumi.Output.format("projects/{}/global/networks/{}", target.project, network.network),
            pulumi.Output.format(
                "projects/{}/regions/{}/subnetworks/{}", target.project, target.region, network.subnetwork
            ),
            home,
        ),
        pulumi.ResourceOptions(depends_on=awaited),
    )
    pulumi.export("project", target.project)
    pulumi.export("region", target.region)
    pulumi.export("zone", config.zone)
    pulumi.export("clusterName", config.cluster_id)
    pulumi.export("clusterId", cluster.name)
    pulumi.export("homeStorage", home)
    pulumi.export("partitions", [each.id for each in config.partitions])
    pulumi.export("defaultPartition", config.default_partition or config.partitions[0].id)
    pulumi.export("loginNode", login_node(config.cluster_id, config.login_pool))
    pulumi.export("sshCommand", ssh_command(config.cluster_id, config.login_pool, target.project, config.login_zone()))
    pulumi.export("submitCommand", f"holdfast submit slurm --stack {stack}")
    pulumi.export("links", {"clusters": console.training_clusters_url(target.universe, target.project)})
