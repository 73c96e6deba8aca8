"""Quotas of flavors: pool, topology and quota cannot disagree, and written ones are checked."""

from dataclasses import replace

import pytest

from infra import catalog
from infra.pool_shape import FLEX_START, PoolShape
from infra.queue_quota import CPU, MEMORY, TPU, JobTemplate, PodSize, derived, quota_problems, written

DEFAULT = PoolShape("default-pool", "n2-standard-16")
ON_DEMAND = PoolShape("on-demand-pool", "ct6e-standard-4t", "4x4")
DWS = replace(ON_DEMAND, name="dws-pool", provisioning=FLEX_START)
POOLS = {"on-demand": ON_DEMAND, "dws": DWS}
TEMPLATE = JobTemplate()
FLAVORS = derived(DEFAULT, POOLS, TEMPLATE)
TUTORIAL = {
    "default-cpu": {CPU: "10", MEMORY: "20Gi", TPU: "0"},
    "on-demand": {CPU: "40", MEMORY: "75Gi", TPU: "16"},
    "dws": {CPU: "1000000000", MEMORY: "1000000000Gi", TPU: "1000000000"},
}
SLICES = [(machine, topology) for machine in catalog.machines() for topology in catalog.tpu_topologies(machine)]


@pytest.mark.parametrize("slices", [1, 3])
@pytest.mark.parametrize(("machine", "topology"), SLICES)
def test_quota_pool_and_topology_agree_for_every_topology(machine: str, topology: str, slices: int) -> None:
    shape = catalog.tpu_slice(machine, topology)
    pool = PoolShape("pool", machine, topology, slices if shape.hosts == 1 else 1)
    flavors = derived(DEFAULT, {"tpu": pool, "queued": replace(pool, provisioning=FLEX_START)}, TEMPLATE)
    for flavor in flavors[1:]:
        assert int(flavor.quota[TPU]) == shape.chips * pool.slices == flavor.pool.max_nodes * shape.machine.chips
        assert catalog.parse_cpu(flavor.quota[CPU]) == 8 * pool.max_nodes
        assert catalog.memory_quota_gib(flavor.quota[MEMORY]) == 16 * pool.max_nodes
    # What is drawn from the pools passes the rules on what somebody writes, but for CPUs that the default pool lacks.
    few = {flavor.name: flavor.quota for flavor in flavors[1:]}
    assert quota_problems(flavors, few, TEMPLATE) == []
    more = {name: {**quota, TPU: str(int(quota[TPU]) + shape.chips)} for name, quota in few.items()}
    assert [each.field for each in quota_problems(flavors, more, TEMPLATE)] == ["quotas", "quotas"]


def test_heads_and_submitters_are_counted_for_each_slice() -> None:
    assert FLAVORS[0].quota == {CPU: "5", MEMORY: "8592Mi", TPU: "0"}
    [one, _] = derived(DEFAULT, {"on-demand": ON_DEMAND}, TEMPLATE)
    assert one.quota == {CPU: "2500m", MEMORY: "4296Mi", TPU: "0"}
    assert [flavor.name for flavor in FLAVORS] == ["default-cpu", "on-demand", "dws"]
    assert quota_problems(FLAVORS, {each.name: each.quota for each in FLAVORS}, TEMPLATE) == []


def test_the_tutorials_quotas_are_possible_if_the_queued_one_may_be_above_its_pool() -> None:
    assert quota_problems(FLAVORS, TUTORIAL, TEMPLATE, queued_above_pool=True) == []
    assert [flavor.quota for flavor in written(FLAVORS, TUTORIAL)] == list(TUTORIAL.values())
    problems = quota_problems(FLAVORS, TUTORIAL, TEMPLATE)
    assert problems
    assert all("dws: " in each.message and "queuedQuotaAbovePool" in each.message for each in problems)


@pytest.mark.parametrize(
    ("flavor", "quota", "says"),
    [
        ("on-demand", {TPU: "32"}, "google.com/tpu 32 is above what pool on-demand-pool can ever hold, 16"),
        ("on-demand", {TPU: "12"}, "no whole number of slices of 16 chips. Set 16"),
        ("on-demand", {TPU: "many"}, "'many' is no whole number of chips"),
        ("on-demand", {CPU: "31"}, "cpu 31, and 4 pods ask for 32"),
        ("on-demand", {CPU: "1000"}, "cpu 1000 is above"),
        ("on-demand", {MEMORY: "63Gi"}, "memory 63 GiB, and 4 pods ask for 64 GiB"),
        ("on-demand", {MEMORY: "1000000000"}, "has no unit, so it means bytes"),
        ("default-cpu", {CPU: "2"}, "cpu 2, and 2 pods ask for 2.5"),
        ("default-cpu", {CPU: "16"}, "cpu 16 is above what pool default-pool"),
        ("default-cpu", {TPU: "4"}, "google.com/tpu 4 is above"),
    ],
)
def test_quotas_that_cannot_work(flavor: str, quota: dict[str, str], says: str) -> None:
    [problem] = quota_problems(FLAVORS, {flavor: {**TUTORIAL[flavor], **quota}}, TEMPLATE)
    assert problem.field == "quotas"
    assert problem.message.startswith(f"{flavor}: ")
    assert says in problem.message


def test_flavors_and_resources_have_their_names() -> None:
    [problem] = quota_problems(FLAVORS, {"spot": TUTORIAL["on-demand"]}, TEMPLATE)
    assert "there is no such flavor; this queue has default-cpu, dws, on-demand" in problem.message
    [problem] = quota_problems(FLAVORS, {"dws": {CPU: "40"}}, TEMPLATE)
    assert "every flavor to name cpu, memory and google.com/tpu" in problem.message


def test_larger_workers_need_more_beside_the_same_chips() -> None:
    larger = JobTemplate(worker=PodSize("16", "32Gi"))
    assert derived(DEFAULT, POOLS, larger)[1].quota == {CPU: "64", MEMORY: "128Gi", TPU: "16"}
    assert len(quota_problems(FLAVORS, {"on-demand": TUTORIAL["on-demand"]}, larger)) == 2
