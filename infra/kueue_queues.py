"""What Kueue gives out to whom: flavors in order, the cluster's queue, a namespace's, and the queued flavors' check."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pulumi
import pulumi_kubernetes as k8s

from infra import catalog
from infra.catalog import Problem
from infra.errors import refuse
from infra.queue_quota import Flavor

_KUEUE = catalog.kueue()
_RETRY: Mapping[str, int] = catalog.fact("gke", "provisioning_retry").value
_TPU = _KUEUE["resources"][-1]


@dataclass(frozen=True)
class Retry:
    """What becomes of a failed ProvisioningRequest."""

    limit: int = _RETRY["limit"]
    """How often it is tried again, before its job is given up."""
    base_s: int = _RETRY["base_s"]
    """Seconds before the first retry; they double from one to the next."""
    max_s: int = _RETRY["max_s"]
    """The most seconds between two."""


@dataclass(frozen=True)
class KueueQueuesArgs:
    """Arguments of KueueQueues."""

    flavors: Sequence[Flavor]
    """The flavors, in the order in which Kueue tries them."""
    cluster_queue: str = "cluster-queue"
    """The name of the cluster's queue."""
    local_queue: str = "user-queue"
    """The name of the queue that jobs name in their label."""
    namespace: str = "default"
    """The namespace of that queue, and of its jobs."""
    check: str = "dws-prov"
    """The name of the check of queued flavors."""
    check_config: str = "dws-config"
    """The name of that check's configuration."""
    retry: Retry = Retry()
    """What becomes of failed requests."""
    queueing_strategy: str = "BestEffortFIFO"
    """StrictFIFO: no job passes one that came before it. A job that nothing can take then keeps all others back.

    By the other, Kueue's default, whoever fits may pass who does not, and even one of the same size, if quota is freed
    while Kueue looks through its queue (seen with 0.17.0)."""


class KueueQueues(pulumi.ComponentResource):
    """The queues of one cluster, in Kueue's current API version.

    A job takes the first flavor with room; a queued one admits it once its ProvisioningRequest is provisioned.
    Children: NAME-flavor-FLAVOR, NAME-cluster, NAME-local, and, with queued flavors, NAME-check and NAME-check-config.
    """

    local_queue: pulumi.Output[str]
    """The name of the queue that jobs name, known once it is there."""

    def __init__(self, name: str, args: KueueQueuesArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        refuse(f"KueueQueues {name}", *kueue_queues_problems(args))
        super().__init__("holdfast:kueue_queues:KueueQueues", name, None, opts)
        made: dict[str, k8s.apiextensions.CustomResource] = {}
        for suffix, manifest in manifests(args).items():
            # In this order: the check reads its configuration, the queue its flavors and check.
            needs = [made[each] for each in _needs(suffix, args) if each in made]
            metadata = k8s.meta.v1.ObjectMetaArgs(**manifest["metadata"])
            made[suffix] = k8s.apiextensions.CustomResource(
                f"{name}-{suffix}",
                api_version=manifest["apiVersion"],
                kind=manifest["kind"],
                metadata=metadata,
                spec=manifest["spec"],
                opts=pulumi.ResourceOptions(parent=self, depends_on=needs),
            )
        self.local_queue = made["local"].id.apply(lambda _: args.local_queue)
        self.register_outputs({"localQueue": self.local_queue})


def kueue_queues_problems(args: KueueQueuesArgs) -> list[Problem]:
    """What Kubernetes or Kueue refuses of the queues."""
    named = {
        "cluster_queue": args.cluster_queue,
        "local_queue": args.local_queue,
        "namespace": args.namespace,
        "check": args.check,
        "check_config": args.check_config,
    }
    found = [catalog.kubernetes_name_problem(field, name) for field, name in named.items()]
    found += [catalog.kubernetes_name_problem("flavors", flavor.name) for flavor in args.flavors]
    names = [flavor.name for flavor in args.flavors]
    if len(set(names)) < len(names):
        found.append(Problem("flavors", f"{', '.join(names)}: two have one name. Give each its own"))
    if args.queueing_strategy not in _KUEUE["queueing_strategies"]:
        message = f"{args.queueing_strategy!r}; Kueue knows {' and '.join(_KUEUE['queueing_strategies'])}. Choose one"
        found.append(Problem("queueing_strategy", message))
    retry = args.retry
    if retry.limit < 0 or not 0 < retry.base_s <= retry.max_s:
        message = (
            f"{retry.limit} retries from {retry.base_s}s to {retry.max_s}s; write a number from 0, and rising seconds"
        )
        found.append(Problem("retry", message))
    return [each for each in found if each is not None]


def manifests(args: KueueQueuesArgs) -> dict[str, dict[str, Any]]:
    """The objects that Kueue is given, by the end of their resource's name, each after those that it needs."""
    queued = [flavor.name for flavor in args.flavors if flavor.pool.queued]
    label = catalog.node_label("pool")
    found = {
        f"flavor-{flavor.name}": _object("ResourceFlavor", flavor.name, {"nodeLabels": {label: flavor.pool.name}})
        for flavor in args.flavors
    }
    if queued:
        found["check-config"] = _object("ProvisioningRequestConfig", args.check_config, _check_config(args.retry))
        parameters = {"apiGroup": _group(), "kind": "ProvisioningRequestConfig", "name": args.check_config}
        spec = {"controllerName": _KUEUE["provisioning_controller"], "parameters": parameters}
        found["check"] = _object("AdmissionCheck", args.check, spec)
    found["cluster"] = _object("ClusterQueue", args.cluster_queue, _cluster_queue(args, queued))
    found["local"] = _object("LocalQueue", args.local_queue, {"clusterQueue": args.cluster_queue}, args.namespace)
    return found


def _cluster_queue(args: KueueQueuesArgs, queued: Sequence[str]) -> dict[str, Any]:
    # Every flavor names every resource, in one order, or Kueue refuses the queue.
    flavors = [
        {
            "name": flavor.name,
            "resources": [{"name": each, "nominalQuota": flavor.quota[each]} for each in _KUEUE["resources"]],
        }
        for flavor in args.flavors
    ]
    spec: dict[str, Any] = {
        "queueingStrategy": args.queueing_strategy,
        "namespaceSelector": {},
        "resourceGroups": [{"coveredResources": list(_KUEUE["resources"]), "flavors": flavors}],
    }
    if queued:
        # On the queued flavors alone: on another, each job would wait for a request that nothing answers.
        spec["admissionChecksStrategy"] = {"admissionChecks": [{"name": args.check, "onFlavors": list(queued)}]}
    return spec


def _check_config(retry: Retry) -> dict[str, Any]:
    return {
        "provisioningClassName": _KUEUE["provisioning_class"],
        # Only pods that ask for a TPU are in the request: GKE takes one pod set, and heads have nodes already.
        "managedResources": [_TPU],
        "retryStrategy": {
            "backoffLimitCount": retry.limit,
            "backoffBaseSeconds": retry.base_s,
            "backoffMaxSeconds": retry.max_s,
        },
    }


def _needs(suffix: str, args: KueueQueuesArgs) -> list[str]:
    flavors = [f"flavor-{flavor.name}" for flavor in args.flavors]
    return {"check": ["check-config"], "cluster": [*flavors, "check"], "local": ["cluster"]}.get(suffix, [])


def _object(kind: str, name: str, spec: Mapping[str, Any], namespace: str | None = None) -> dict[str, Any]:
    metadata = {"name": name} if namespace is None else {"name": name, "namespace": namespace}
    return {"apiVersion": _KUEUE["api_version"], "kind": kind, "metadata": metadata, "spec": dict(spec)}


def _group() -> str:
    return str(_KUEUE["api_version"]).partition("/")[0]
