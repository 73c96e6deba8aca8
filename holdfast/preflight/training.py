"""Whether Google serves the project training clusters, with which nodes, and what a cluster refers to."""

from __future__ import annotations

import re

from holdfast.gcp.api import CloudError, find, pages
from holdfast.preflight import quotas
from holdfast.preflight.capacity import Cost, of_pools
from holdfast.preflight.report import Finding
from holdfast.preflight.site import Site, Training
from infra import catalog

_COLLECTION = "modelDevelopmentClusters"
_MAY_LIST = f"aiplatform.{_COLLECTION}.list"
_MAY_GRANT = ["iam.serviceAccounts.setIamPolicy", "resourcemanager.projects.setIamPolicy"]
_QUEUED = ("FLEX_START", "SPOT")


def allow_list(site: Site, training: Training) -> Finding:
    """The service answers the project. Whether it also makes a cluster for it only `up` tells."""
    target, own = site.target, training.config.service_account
    parent = {"parent": f"projects/{target.project}/locations/{target.region}"}
    try:
        there = list(pages(site.api, f"aiplatform.projects.locations.{_COLLECTION}.list", parent, _COLLECTION))
    except CloudError as error:
        if not _turns_away(site, error):
            raise
        return Finding(
            status="failed",
            found=f"the service turns the project away in {target.region}: {error.message}",
            do="ask Google's account team to allow-list the project for training clusters there; Cluster Director "
            "makes Slurm clusters without",
        )
    found = f"the service answers the project in {target.region}; clusters there: {len(there)}"
    if own is None:
        return Finding(status="ok", found=found)
    return Finding(
        status="warn",
        found=f"{found}. Nodes run as {own}, which needs an allow-listing of its own, and no API tells of it",
        do="ask Google's account team, or leave holdfast:serviceAccount out",
    )


def _turns_away(site: Site, error: CloudError) -> bool:
    """Whether it is the project that is refused, and not that its API is off, the caller lacks a permission, or nothing
    answers. CloudError: the permission cannot be looked at."""
    if error.http_status == 0 or error.reason == "SERVICE_DISABLED":
        return False
    tells = catalog.fact("training_clusters", "not_allow_listed").value
    if error.status in tells["statuses"] or re.search(tells["words"], error.message, re.IGNORECASE):
        return True
    return error.status == "PERMISSION_DENIED" and bool(site.granted([_MAY_LIST]))


def agent(site: Site, training: Training) -> Finding:
    """The Google APIs service agent can make flex-start nodes, or `up` may grant it its roles."""
    from infra.service_agent import agent_email, default_node_account, holds, is_editor

    if not training.config.flex_start():
        return Finding(status="ok", found="no pool comes by flex-start, and nothing else needs it")
    project, number, universe = site.target.project, str(site.project["projectNumber"]), site.target.universe
    email, own = agent_email(number, universe), training.config.service_account
    member, account = f"serviceAccount:{email}", own or default_node_account(number, universe)
    policy = site.api.call("cloudresourcemanager.projects.getIamPolicy", {"resource": project})
    facts = catalog.fact("slurm", "service_agent").value
    if is_editor(member, policy):
        return Finding(status="ok", found=f"{email} has {facts['wide_role']}: nothing is to be granted")
    name = {"resource": f"projects/{project}/serviceAccounts/{account}"}
    on_account = find(site.api, "iam.projects.serviceAccounts.getIamPolicy", name)
    if on_account is None and own:
        return Finding(
            status="failed",
            found=f"there is no service account {own}, as which nodes are to run",
            do="make it, correct holdfast:serviceAccount, or leave that out",
        )
    machines, use = facts["roles"]["machines"], facts["roles"]["account"]
    missing = [] if holds(member, machines, policy) else [f"{machines} on the project"]
    if not (holds(member, use, policy) or holds(member, use, on_account or {})):
        missing.append(f"{use} on {account}")
    figures = {"agent": email, "missing": missing}
    if not missing:
        return Finding(status="ok", found=f"{email} has {machines} and {use}", figures=figures)
    lacks = f"{email} lacks {' and '.join(missing)}"
    if site.granted(_MAY_GRANT) == set(_MAY_GRANT):
        return Finding(status="ok", found=f"{lacks}; `up` grants that", figures=figures)
    return Finding(
        status="failed",
        found=f"{lacks}, and `up` may not grant it",
        do=f"have it granted, or {' and '.join(_MAY_GRANT)} to whoever runs `up`",
        figures=figures,
    )


def home(site: Site, training: Training) -> Finding:
    """The instance that is to be /home is there, and nodes reach it."""
    config, name = training.config, training.config.home_storage
    if name is None:
        return Finding(status="ok", found="none is given; `up` makes one")
    instance = find(site.api, "file.projects.locations.instances.get", {"name": name})
    if instance is None:
        return Finding(
            status="failed",
            found=f"Filestore has no {name}",
            do="correct holdfast:homeStorage, or leave it out, and `up` makes one; if it is one of Managed Lustre, "
            "which is not looked at, --skip home",
        )
    if (state := instance.get("state", "READY")) != "READY":
        return Finding(status="failed", found=f"{name} is {state}", do="wait until it is READY, or mend it")
    networks = [each["network"].rpartition("/")[2] for each in instance.get("networks", ())]
    if config.network_name not in networks:
        return Finding(
            status="failed",
            found=f"{name} is on network {', '.join(networks)}; nodes on {config.network_name} do not reach it",
            do="set holdfast:networkName to its network and `pulumi import` that, or leave holdfast:homeStorage out",
        )
    return Finding(status="ok", found=f"{name} is READY on network {config.network_name}")


def zone(site: Site, training: Training) -> Finding:
    """Compute Engine has the pools' machines in their zones."""
    config, project = training.config, site.target.project
    asked = dict.fromkeys((pool.machine, pool.zone or config.zone) for pool in config.pools)
    lacking = [
        f"{machine} in {where}"
        for machine, where in asked
        if find(site.api, "compute.machineTypes.get", {"project": project, "zone": where, "machineType": machine})
        is None
    ]
    if lacking:
        return Finding(
            status="failed",
            found=f"Compute Engine has no {', no '.join(lacking)}",
            do="choose another zone: `gcloud compute machine-types list --filter=name=MACHINE` lists them",
        )
    said = ", ".join(f"{machine} in {where}" for machine, where in asked)
    return Finding(status="ok", found=f"{said}; no quota says when they are free")


def quota(site: Site, training: Training) -> Finding:
    """The project may have all GPU nodes of all pools at once. Reserved ones have their quota."""
    draws: dict[str, list[quotas.Draw]] = {}
    for pool in training.config.pools:
        gpu = catalog.gpu_machines().get(pool.machine)
        if gpu and pool.provisioning != "RESERVATION":
            draw = quotas.Draw(pool.id, pool.max_nodes * gpu.gpus, pool.provisioning in _QUEUED)
            draws.setdefault(gpu.gpu, []).append(draw)
    kinds = []
    for name, takers in draws.items():
        standard, preemptible = (catalog.node_gpu_quota(name, preemptible=each) for each in (False, True))
        kinds.append(quotas.Kind("GPUs", standard, preemptible, takers))
    return quotas.judged(site, kinds)


def price(site: Site, training: Training) -> Finding:
    """What an hour and a run cost at list prices, with all GPU nodes of all pools."""
    where = site.target
    costs = [
        Cost(
            pool.id,
            pool.max_nodes,
            catalog.node_price(pool.machine, str(pool.provisioning), where.region, where.universe),
        )
        for pool in training.config.pools
        if pool.machine in catalog.gpu_machines()
    ]
    return of_pools(costs, training.hours, "nodes", "nodes", "Dynamic nodes are there while jobs are")
