"""Which permissions a stack's `up` needs, by the types of its resources, and which roles have those that are missing.

Per type: what the provider calls to create, read, update and delete one. As the APIs' method pages name them
(docs.cloud.google.com, read 2026-11-29; note: unchecked against a recording of each call's refusal).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from infra import catalog


def _crud(prefix: str, *more: str, verbs: str = "create delete get update") -> tuple[str, ...]:
    return tuple(f"{prefix}.{verb}" for verb in verbs.split()) + more


_COMPUTE_WAIT = ("compute.globalOperations.get", "compute.regionOperations.get")

_TRAINING_CLUSTER: str = catalog.fact("slurm", "provider").value["token"]

RESOURCES: Mapping[str, tuple[str, ...]] = {
    "gcp:projects/service:Service": _crud("serviceusage.services", verbs="enable get list"),
    "gcp:projects/iAMMember:IAMMember": _crud("resourcemanager.projects", verbs="get getIamPolicy setIamPolicy"),
    "gcp:compute/network:Network": _crud("compute.networks", "compute.networks.updatePolicy", *_COMPUTE_WAIT),
    "gcp:compute/firewall:Firewall": _crud("compute.firewalls", "compute.networks.updatePolicy", *_COMPUTE_WAIT),
    "gcp:compute/subnetwork:Subnetwork": _crud("compute.subnetworks", "compute.networks.updatePolicy", *_COMPUTE_WAIT),
    "gcp:compute/router:Router": _crud("compute.routers", "compute.networks.updatePolicy", *_COMPUTE_WAIT),
    "gcp:compute/routerNat:RouterNat": ("compute.routers.get", "compute.routers.update", *_COMPUTE_WAIT),
    "gcp:storage/bucket:Bucket": _crud("storage.buckets"),
    "gcp:storage/bucketIAMMember:BucketIAMMember": _crud("storage.buckets", verbs="getIamPolicy setIamPolicy"),
    "gcp:serviceaccount/account:Account": _crud("iam.serviceAccounts"),
    "gcp:serviceaccount/iAMMember:IAMMember": _crud("iam.serviceAccounts", verbs="getIamPolicy setIamPolicy"),
    "gcp:artifactregistry/repository:Repository": _crud("artifactregistry.repositories"),
    "gcp:artifactregistry/repositoryIamMember:RepositoryIamMember": _crud(
        "artifactregistry.repositories", verbs="getIamPolicy setIamPolicy"
    ),
    # Its own permissions are on the billing account, which a project's answer says nothing of.
    "gcp:billing/budget:Budget": ("resourcemanager.projects.get",),
    "gcp:cloudrunv2/job:Job": _crud("run.jobs", "run.operations.get", "iam.serviceAccounts.actAs"),
    # Nodes run as an account, which whoever makes them must be allowed to give them.
    "gcp:container/cluster:Cluster": _crud(
        "container.clusters", "container.clusters.list", "container.operations.get", "iam.serviceAccounts.actAs"
    ),
    "gcp:container/nodePool:NodePool": _crud(
        "container.clusters",
        "container.operations.get",
        # The provider reads the pool's groups of instances.
        "compute.instanceGroupManagers.get",
        "iam.serviceAccounts.actAs",
        verbs="get update",
    ),
    "gcp:filestore/instance:Instance": _crud("file.instances", "file.operations.get"),
    # Its nodes, too, run as an account. What its operations ask for no page says.
    _TRAINING_CLUSTER: _crud("aiplatform.modelDevelopmentClusters", "iam.serviceAccounts.actAs"),
    "gcp:logging/metric:Metric": _crud("logging.logMetrics"),
    "gcp:monitoring/alertPolicy:AlertPolicy": _crud("monitoring.alertPolicies"),
    "gcp:monitoring/notificationChannel:NotificationChannel": _crud("monitoring.notificationChannels"),
    "gcp:monitoring/dashboard:Dashboard": _crud("monitoring.dashboards"),
}
"""By the resource's type in Pulumi."""

STACKS: Mapping[str, tuple[str, ...]] = {
    "foundation": (
        "gcp:projects/service:Service",
        "gcp:projects/iAMMember:IAMMember",
        "gcp:compute/network:Network",
        "gcp:compute/subnetwork:Subnetwork",
        "gcp:compute/router:Router",
        "gcp:compute/routerNat:RouterNat",
        "gcp:storage/bucket:Bucket",
        "gcp:storage/bucketIAMMember:BucketIAMMember",
        "gcp:serviceaccount/account:Account",
        "gcp:artifactregistry/repository:Repository",
        "gcp:artifactregistry/repositoryIamMember:RepositoryIamMember",
        "gcp:billing/budget:Budget",
    ),
    "cloud-run": (
        "gcp:cloudrunv2/job:Job",
        "gcp:logging/metric:Metric",
        "gcp:monitoring/alertPolicy:AlertPolicy",
        "gcp:monitoring/notificationChannel:NotificationChannel",
        "gcp:monitoring/dashboard:Dashboard",
    ),
    "gke-tpu": (
        "gcp:projects/service:Service",
        "gcp:projects/iAMMember:IAMMember",
        "gcp:compute/network:Network",
        "gcp:compute/subnetwork:Subnetwork",
        "gcp:compute/router:Router",
        "gcp:compute/routerNat:RouterNat",
        "gcp:storage/bucket:Bucket",
        "gcp:storage/bucketIAMMember:BucketIAMMember",
        "gcp:serviceaccount/account:Account",
        "gcp:container/cluster:Cluster",
        "gcp:container/nodePool:NodePool",
    ),
    "slurm": (
        "gcp:projects/service:Service",
        "gcp:projects/iAMMember:IAMMember",
        "gcp:compute/network:Network",
        "gcp:compute/subnetwork:Subnetwork",
        "gcp:compute/firewall:Firewall",
        "gcp:compute/router:Router",
        "gcp:compute/routerNat:RouterNat",
        "gcp:serviceaccount/iAMMember:IAMMember",
        "gcp:filestore/instance:Instance",
        _TRAINING_CLUSTER,
    ),
}
"""The types of a stack's resources, whatever its configuration leaves out."""

VERBS: Mapping[str, tuple[str, ...]] = {
    "foundation": (),
    "cloud-run": (
        "run.jobs.run",
        "run.jobs.runWithOverrides",
        "run.executions.list",
        "run.executions.get",
        "run.executions.cancel",
        "run.tasks.list",
        "logging.logEntries.list",
    ),
    # Kueue's chart and queues are made with the caller's own rights in Kubernetes, as jobs are.
    "gke-tpu": (
        "compute.machineTypes.get",
        "container.clusterRoles.bind",
        "container.clusterRoles.create",
        "container.clusters.connect",
        "container.customResourceDefinitions.create",
        "container.mutatingWebhookConfigurations.create",
        "container.pods.getLogs",
        "container.pods.list",
        "container.thirdPartyObjects.create",
        "container.thirdPartyObjects.delete",
        "container.thirdPartyObjects.get",
        "container.thirdPartyObjects.list",
        "container.thirdPartyObjects.update",
        "container.validatingWebhookConfigurations.create",
    ),
    # Accounting, output and usage are asked of the login node; who may log in there (OS Login, keys) is not looked at.
    "slurm": (
        "aiplatform.modelDevelopmentClusters.list",
        "aiplatform.modelDevelopmentClusters.run",
        "compute.machineTypes.get",
        "iap.tunnelInstances.accessViaIAP",
    ),
}
"""What submit, watch, logs and cancel need, what installs software in a cluster, and what the preflight looks at."""


def needed(stack_module: str) -> list[str]:
    """Every permission that a stack needs on its project, sorted."""
    of_resources = {each for kind in STACKS[stack_module] for each in RESOURCES[kind]}
    return sorted(of_resources.union(VERBS[stack_module]))


def roles(missing: Iterable[str]) -> tuple[list[str], list[str]]:
    """Few and narrow roles that have the missing permissions together, and those that no known role has.

    Basic roles (owner, editor, viewer) are not proposed: they give far more.
    """
    left, chosen = set(missing), []
    known = {role: has for role, has in catalog.roles().items() if "." in role.removeprefix("roles/")}
    while left:
        best = max(known, key=lambda role: (len(left & known[role]), -len(known[role]), role))
        if not left & known[best]:
            break
        chosen.append(best)
        left -= known[best]
    return chosen, sorted(left)
