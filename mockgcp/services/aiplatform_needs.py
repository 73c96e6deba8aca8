"""What a training cluster refers to: network, Filestore, account; and whether Google's own agent may do its part."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from infra import catalog
from mockgcp.errors import ApiError, failed_precondition, invalid, permission_denied
from mockgcp.service import Call, canonical
from mockgcp.services import compute, file, iam
from mockgcp.state import State

_FILESTORE = "https://docs.cloud.google.com/filestore/docs/architecture"


def subnetwork(call: Call, region: str, network: Mapping[str, Any]) -> str:
    """The full name of the cluster's subnet: the one that is named, or the first of the network in the region.

    Raises:
        ApiError: INVALID_ARGUMENT for a network or subnet that is not there; words unchecked.
    """
    full = canonical(call, network["network"])
    if full not in call.cloud.table("compute.network"):
        raise _missing("network.network", full)
    subnets = call.cloud.table("compute.subnetwork")
    link = compute.link(call.cloud, full)
    if network.get("subnetwork"):
        wanted = canonical(call, network["subnetwork"])
        if wanted not in subnets:
            raise _missing("network.subnetwork", wanted)
        if subnets[wanted]["network"] != link or wanted.split("/")[3] != region:
            why = f"{wanted!r} is not of network {full!r} in region {region}"
            raise invalid(f"network.subnetwork: {why}", ("network.subnetwork", "mismatch"))
        return wanted
    in_region = (name for name, each in subnets.items() if each["network"] == link and name.split("/")[3] == region)
    found = next(in_region, None)
    if found is None:
        raise invalid(
            f"network: {full!r} has no subnetwork in region {region}: make one", ("network.subnetwork", "not found")
        )
    return found


def check(call: Call, cluster: Mapping[str, Any]) -> None:
    """Whether the file systems and the account of a cluster are there.

    Raises:
        ApiError: INVALID_ARGUMENT for one that is not; words unchecked. UNIMPLEMENTED for Managed Lustre.
    """
    network = canonical(call, cluster["network"]["network"])
    for path, reference in _file_systems(cluster):
        name = canonical(call, reference)
        instance = call.cloud.table("file.instance").get(name)
        if instance is None:
            raise _missing(path, name)
        if instance["state"] != "READY":
            raise failed_precondition(f"{path}: {name!r} is {instance['state']}, not READY yet")
        [at] = instance["networks"]
        if file.network_of(call.cloud, name.split("/")[1], at["network"]) != network:
            why = f"{name!r} is not on the cluster's network {network!r}, and can be reached from its own alone"
            raise invalid(f"{path}: {why} ({_FILESTORE})", (path, "other network"))
    for pool in cluster["nodePools"]:
        if pool.get("lustres"):
            raise ApiError("UNIMPLEMENTED", f"mockgcp has no Managed Lustre: pool {pool['id']!r} cannot mount one")
    email = cluster.get("runtimeSpec", {}).get("serviceAccount")
    if email and not call.cloud.service_account_exists(email):
        raise _missing("runtimeSpec.serviceAccount", email)


def _file_systems(cluster: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    slurm = cluster["orchestratorSpec"]["slurmSpec"]
    yield "orchestratorSpec.slurmSpec.homeDirectoryStorage", slurm["homeDirectoryStorage"]
    for index, pool in enumerate(cluster["nodePools"]):
        for each in pool.get("filestores", []):
            yield f"nodePools[{index}].filestores", each


def _missing(path: str, name: str) -> ApiError:
    return invalid(f"{path}: {name!r} does not exist", (path, "not found"))


def check_agent(state: State, name: str, cluster: Mapping[str, Any]) -> None:
    """Whether the Google APIs service agent can make flex-start nodes, where the cluster has any.

    How the service fails without is unchecked; its page says only that the managed instance group needs it.

    Raises:
        ApiError: PERMISSION_DENIED.
    """
    if not any(pool.get("provisioningModel") == "FLEX_START" for pool in cluster["nodePools"]):
        return
    needs, project = catalog.fact("slurm", "service_agent"), state.project(name.split("/")[1])
    agent = f"{project.number}@{needs.value['name']}.{state.universe.service_agent_domain}"
    account = cluster.get("runtimeSpec", {}).get("serviceAccount") or iam.default_account(state, project)
    wanted = {
        "compute.instances.create": project.name,
        "iam.serviceAccounts.actAs": f"{project.name}/serviceAccounts/{account}",
    }
    for permission, resource in wanted.items():
        if not state.allowed(f"serviceAccount:{agent}", permission, resource):
            roles = " and ".join(needs.value["roles"].values())
            raise permission_denied(
                f"Required '{permission}' permission for '{resource}': flex-start nodes are made by {agent}, which has "
                f"neither {needs.value['wide_role']} nor {roles} ({needs.source})",
                reason="IAM_PERMISSION_DENIED",
            )
