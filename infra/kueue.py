"""Kueue on a cluster, and the wait until it answers."""

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pulumi
import pulumi_kubernetes as k8s
import yaml

from infra import catalog
from infra.errors import InputError

_KUEUE = catalog.kueue()
_FIRST_WAIT_S = 0.5
_LONGEST_WAIT_S = 8.0
_REQUEUE: Mapping[str, int] = catalog.fact("gke", "pods_ready_requeue").value


@dataclass(frozen=True)
class PodsReady:
    """What becomes of a job that has its quota, but whose pods do not all come up (Kueue's waitForPodsReady).

    Quota is not a machine: without this, a job that was admitted on demand in a stock-out holds its quota, and waits
    for ever. With it, the job is evicted and queued again, and others have their turn meanwhile. Kueue 0.17 remembers
    nothing of it: the job comes back to the first flavor with room, the same one if nobody took it. After the last time
    it is deactivated, and `holdfast resubmit` brings it back.
    """

    timeout_s: int = 1800
    """Seconds from admission until all pods are ready; a flex-start job is admitted when its nodes are there."""
    retries: int = _REQUEUE["limit"]
    """How often it is queued again."""
    base_s: int = _REQUEUE["base_s"]
    """Seconds before it is queued again; they double from one time to the next."""
    max_s: int = _REQUEUE["max_s"]
    """The most of these seconds."""


@dataclass(frozen=True)
class KueueArgs:
    """Arguments of Kueue."""

    kubeconfig: pulumi.Input[str]
    """The cluster's kubeconfig as JSON, for the wait."""
    chart: str = _KUEUE["chart"]
    """The Helm chart: an oci:// address, or the path of a chart on this machine."""
    version: str = _KUEUE["version"]
    """The chart's version. A chart on this machine has its own, and this says which one it is meant to be."""
    feature_gates: Sequence[str] = ()
    """Features to enable that Kueue has off by default."""
    pods_ready: PodsReady | None = None
    """What becomes of jobs whose pods do not come up; None: they wait for ever, as Kueue has it by default."""
    values: Mapping[str, Any] | None = None
    """More of the chart's values, which win."""
    timeout_s: float = 300
    """Seconds that the webhook has to answer, once Helm says that all is there."""


class Kueue(pulumi.ComponentResource):
    """Kueue by its Helm chart. Child: NAME.

    Helm's "all is there" is not Kueue's "I answer": its webhook refuses for a while after
    (https://github.com/kubernetes-sigs/kueue/issues/12008), and what is applied meanwhile fails. Whoever takes `ready`
    waits until a dry run of a flavor is accepted. A preview waits for nothing.
    """

    ready: pulumi.Output[str]
    """The namespace that Kueue is in, known once its webhook answers."""

    def __init__(self, name: str, args: KueueArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("holdfast:kueue:Kueue", name, None, opts)
        local = not args.chart.startswith("oci://")
        release = k8s.helm.v3.Release(
            name,
            chart=args.chart,
            version=None if local else args.version,
            name="kueue",
            namespace=_KUEUE["namespace"],
            create_namespace=True,
            values=kueue_values(args.feature_gates, args.values or {}, args.pods_ready),
            timeout=round(args.timeout_s),
            opts=pulumi.ResourceOptions(parent=self),
        )
        known = pulumi.Output.all(args.kubeconfig, release.status)
        self.ready = known.apply(lambda values: _waited(json.loads(values[0]), args.timeout_s))
        self.register_outputs({"ready": self.ready})


def kueue_values(
    feature_gates: Sequence[str], more: Mapping[str, Any], pods_ready: PodsReady | None = None
) -> dict[str, Any]:
    """The chart's values: the features that are enabled, what is done about `pods_ready`, and `more`, which wins."""
    gates = [{"name": gate, "enabled": True} for gate in sorted(set(feature_gates))]
    values: dict[str, Any] = {"controllerManager": {"featureGates": gates}} if gates else {}
    if pods_ready is not None:
        values["managerConfig"] = {"controllerManagerConfigYaml": _manager_config(pods_ready)}
    return _merged(values, more)


async def wait_until_answered(
    attempt: Callable[[], None],
    timeout_s: float,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> None:
    """Calls `attempt`, in a thread, until it raises nothing, at growing intervals.

    InputError, with its last error, after `timeout_s`.
    """
    deadline, pause = clock() + timeout_s, _FIRST_WAIT_S
    while True:
        try:
            return await asyncio.to_thread(attempt)
        except Exception as error:
            if clock() + pause > deadline:
                raise InputError(
                    f"Kueue does not answer after {timeout_s:g}s: {error}. Look at it with `kubectl -n "
                    f"{_KUEUE['namespace']} get pods,events`, and run `pulumi up` again: what is there stays"
                ) from None
        await sleep(pause)
        pause = min(2 * pause, _LONGEST_WAIT_S)


def _manager_config(pods_ready: PodsReady) -> str:
    wait = {
        "timeout": f"{pods_ready.timeout_s}s",
        # Else one job without machines would keep all others from being admitted.
        "blockAdmission": False,
        "requeuingStrategy": {
            "timestamp": "Eviction",
            "backoffLimitCount": pods_ready.retries,
            "backoffBaseSeconds": pods_ready.base_s,
            "backoffMaxSeconds": pods_ready.max_s,
        },
    }
    config = {**catalog.fact("gke", "kueue_manager_config").value, "waitForPodsReady": wait}
    return yaml.safe_dump(config, sort_keys=False)


async def _waited(config: dict[str, Any], timeout_s: float) -> str:
    if not pulumi.runtime.is_dry_run():
        await wait_until_answered(lambda: _dry_run(config), timeout_s)
    return str(_KUEUE["namespace"])


def _dry_run(config: dict[str, Any]) -> None:
    """Has the API server, and with it Kueue's webhook, judge a flavor that is not kept."""
    # Only an `up` needs the client, which takes a while to import.
    from kubernetes import client as api
    from kubernetes import config as configs

    group, _, version = _KUEUE["api_version"].partition("/")
    flavor = {"apiVersion": _KUEUE["api_version"], "kind": "ResourceFlavor", "metadata": {"name": "holdfast-dry-run"}}
    with configs.new_client_from_config_dict(config) as client:  # type: ignore[no-untyped-call, unused-ignore]
        api.CustomObjectsApi(client).create_cluster_custom_object(
            group, version, "resourceflavors", flavor, dry_run="All", _request_timeout=10
        )


def _merged(values: dict[str, Any], more: Mapping[str, Any]) -> dict[str, Any]:
    both = dict(values)
    for key, value in more.items():
        old = both.get(key)
        both[key] = _merged(old, value) if isinstance(old, dict) and isinstance(value, Mapping) else value
    return both
