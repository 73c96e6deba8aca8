"""Each rule on Kueue's queues and on RayJobs, violated and kept."""

from typing import Any

import pytest

from infra import catalog
from policies import (
    kueue,
    queue_admission_check,
    queue_flavor_resources,
    queue_memory_unit,
    queue_tpu_quota,
    queued_tpu_quota,
    ray_job,
)
from policies.gke import POOL
from policies.props import UNKNOWN
from policies.rule import Props, StackResource

COVERED = ["cpu", "memory", kueue.TPU]
PROVISIONING = catalog.kueue()["provisioning_controller"]


def flavor(name: str, tpu: Any = 16, memory: Any = "64Gi", order: list[str] | None = None) -> dict[str, Any]:
    quota = {"cpu": "32", "memory": memory, kueue.TPU: tpu}
    return {"name": name, "resources": [{"name": each, "nominalQuota": quota[each]} for each in order or COVERED]}


def queue(*flavors: Any, checks: Any = None, **spec: Any) -> dict[str, Any]:
    """A ClusterQueue with scenario B's flavors, or with others; `checks`: the flavors of each check, by its name."""
    group = {"coveredResources": COVERED, "flavors": list(flavors or (flavor("on-demand"), flavor("dws")))}
    bound = {"dws-prov": ["dws"]} if checks is None else checks
    strategy = {"admissionChecks": [{"name": name, "onFlavors": names} for name, names in bound.items()]}
    base = {"resourceGroups": [group], "admissionChecksStrategy": strategy}
    return {"metadata": {"name": "cluster-queue"}, "spec": {**base, **spec}}


def stack(
    queue_: Props, controller: str = PROVISIONING, most: Any = 4, pools: tuple[str, ...] = ("on-demand", "dws")
) -> list[StackResource]:
    """The queue, its check, and a pool with a flavor for each of `pools`, of which `dws` is queued."""
    check = {"metadata": {"name": "dws-prov"}, "spec": {"controllerName": controller}}
    found = [StackResource(kueue.QUEUE[1], "queue", queue_), StackResource(kueue.CHECK[1], "check", check)]
    for name in pools:
        labels = {catalog.node_label("pool"): f"{name}-pool"}
        props = {"metadata": {"name": name}, "spec": {"nodeLabels": labels}}
        pool = {
            "name": f"{name}-pool",
            "nodeConfig": {"machineType": "ct6e-standard-4t"},
            "placementPolicy": {"tpuTopology": "4x4"},
            "autoscaling": {"maxNodeCount": most},
            "queuedProvisioning": {"enabled": name == "dws"},
        }
        found += [StackResource(kueue.FLAVOR[1], name, props), StackResource(POOL, f"{name}-pool", pool)]
    return found


@pytest.mark.parametrize(
    ("order", "says"),
    [
        (["cpu", kueue.TPU, "memory"], "spec.resourceGroups[0].flavors[1].resources: cpu, google.com/tpu, memory; "),
        (["cpu", "memory"], "spec.resourceGroups[0].flavors[1].resources: cpu, memory; "),
    ],
)
def test_a_flavor_with_other_resources_is_reported(order: list[str], says: str) -> None:
    [message] = queue_flavor_resources.check(queue(flavor("on-demand"), flavor("dws", order=order)))
    assert message.startswith(says)
    assert "cpu, memory, google.com/tpu, all and in this order" in message


@pytest.mark.parametrize(
    "props", [queue(), queue(UNKNOWN), queue(resourceGroups=UNKNOWN), {"spec": UNKNOWN}, {}, queue(resourceGroups=[])]
)
def test_flavors_with_the_same_resources_are_left_alone(props: Props) -> None:
    assert queue_flavor_resources.check(props) == []


@pytest.mark.parametrize("memory", [75, "75", "1000000000", 1e9, "75 GB"])
def test_memory_without_a_unit_is_reported(memory: Any) -> None:
    [message] = queue_memory_unit.check(queue(flavor("on-demand", memory=memory)))
    assert message.startswith("spec.resourceGroups[0].flavors[0] (on-demand), memory: ")


@pytest.mark.parametrize("memory", ["75Gi", "8592Mi", 0, "0", UNKNOWN])
def test_memory_with_a_unit_is_left_alone(memory: Any) -> None:
    assert queue_memory_unit.check(queue(flavor("on-demand", memory=memory))) == []


@pytest.mark.parametrize(
    ("props", "says"),
    [
        (
            queue(checks={"dws-prov": ["dws", "dws2"]}),
            "check dws-prov is for flavor dws2, and the queue has on-demand, ",
        ),
        (queue(checks={}), "no check makes ProvisioningRequests for flavor dws, whose pool dws-pool "),
        (
            queue(checks={"dws-prov": ["on-demand", "dws"]}),
            "flavor on-demand has a check that makes ProvisioningRequests",
        ),
        (queue(checks={"dws-prov": []}), "flavor on-demand has a check that makes ProvisioningRequests"),
        (queue(checks={}, admissionChecks=["dws-prov"]), "flavor on-demand has a check that makes"),
    ],
)
def test_a_check_on_the_wrong_flavors_is_reported(props: Props, says: str) -> None:
    [(urn, message)] = queue_admission_check.check(stack(props))
    assert urn == "queue"
    assert message.startswith(f"spec.admissionChecksStrategy: {says}")


def test_a_check_of_another_controller_makes_no_requests() -> None:
    [(_, message)] = queue_admission_check.check(stack(queue(), controller="example.org/budget"))
    assert "no check makes ProvisioningRequests for flavor dws" in message


@pytest.mark.parametrize(
    "resources",
    [
        stack(queue()),
        stack(queue(checks={"dws-prov": UNKNOWN})),
        stack(queue(admissionChecksStrategy=UNKNOWN)),
        # What another stack has is not judged.
        stack(queue(checks={"elsewhere": ["dws"]})),
        stack(queue(checks={}), pools=()),
        stack(queue())[1:],
    ],
)
def test_checks_on_the_queued_flavors_are_left_alone(resources: list[StackResource]) -> None:
    assert queue_admission_check.check(resources) == []


@pytest.mark.parametrize(
    ("on_demand", "dws", "says"),
    [
        (32, 16, "(on-demand), google.com/tpu: 32 chips, and pool on-demand-pool can hold 16 (4 nodes of ct6e-"),
        (12, 16, "(on-demand), google.com/tpu: 12 is no whole number of slices of 16 chips"),
        (16, 1000, "(dws), google.com/tpu: 1000 is no whole number of slices of 16 chips"),
    ],
)
def test_a_quota_that_the_pool_cannot_serve_is_reported(on_demand: int, dws: int, says: str) -> None:
    props = queue(flavor("on-demand", on_demand), flavor("dws", str(dws)))
    [(urn, message)] = queue_tpu_quota.check(stack(props))
    assert urn == "queue"
    assert says in message


@pytest.mark.parametrize(
    "resources",
    [
        stack(queue()),
        # The tutorial's own quota of queued chips is `queued-tpu-quota`'s.
        stack(queue(flavor("dws", 1_000_000_000))),
        stack(queue(flavor("on-demand", 0), flavor("dws", UNKNOWN))),
        stack(queue(flavor("on-demand", 64)), most=UNKNOWN),
        stack(queue(flavor("on-demand", 64)), pools=()),
    ],
)
def test_a_quota_that_the_pool_can_serve_is_left_alone(resources: list[StackResource]) -> None:
    assert queue_tpu_quota.check(resources) == []


def test_queued_chips_above_the_pool_are_said() -> None:
    [(urn, message)] = queued_tpu_quota.check(stack(queue(flavor("on-demand", 32), flavor("dws", 32))))
    assert urn == "queue"
    assert "(dws), google.com/tpu: 32 chips, and pool dws-pool can hold 16" in message
    assert queued_tpu_quota.check(stack(queue())) == []


def job(**spec: Any) -> dict[str, Any]:
    metadata = {"name": "jax-train", "labels": {catalog.kueue()["queue_label"]: "user-queue"}}
    return {"metadata": metadata, "spec": {"shutdownAfterJobFinishes": True, **spec}}


@pytest.mark.parametrize(
    ("props", "says"),
    [
        ({**job(), "metadata": {**job()["metadata"], "name": "j" * 48}}, "metadata.name: "),
        ({**job(), "metadata": {"name": "jax-train"}}, "metadata.labels has no `kueue.x-k8s.io/queue-name`"),
        (job(shutdownAfterJobFinishes=False), "spec.shutdownAfterJobFinishes is not on"),
        (job(shutdownAfterJobFinishes=None), "spec.shutdownAfterJobFinishes is not on"),
    ],
)
def test_a_ray_job_that_kueue_cannot_have_is_reported(props: Props, says: str) -> None:
    [message] = ray_job.check(props)
    assert message.startswith(says)


@pytest.mark.parametrize(
    "props",
    [
        job(),
        job(shutdownAfterJobFinishes=UNKNOWN),
        {"metadata": UNKNOWN, "spec": UNKNOWN},
        {**job(), "metadata": {"name": UNKNOWN, "labels": UNKNOWN}},
        # Kubernetes names it: generateName.
        {**job(), "metadata": {"labels": job()["metadata"]["labels"]}},
    ],
)
def test_a_ray_job_in_a_queue_is_left_alone(props: Props) -> None:
    assert ray_job.check(props) == []
