"""RayJobs: the manifest to the letter, and what is refused before anything is applied."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from infra import catalog
from infra.pool_shape import FLEX_START, PoolShape
from infra.queue_quota import Flavor, JobTemplate, PodSize, derived
from infra.ray_job import (
    ElasticRange,
    RayJobSpec,
    app_config_map,
    dashboard_command,
    elastic_risks,
    ray_job,
    ray_job_problems,
    train_command,
)

GOLDEN = Path(__file__).parent / "golden"
SPEC = RayJobSpec(
    name="job1",
    tpu=catalog.tpu_slice("ct6e-standard-4t", "4x4"),
    files={"train.py": "print('Training Complete!')\n"},
    entrypoint="python /app/train.py",
)
ELASTIC = replace(SPEC, elastic=ElasticRange(1, 2))
GATE = [catalog.kueue()["elastic_gate"]]


def flavors(machine: str = "ct6e-standard-4t", topology: str = "4x4", slices: int = 1) -> list[Flavor]:
    pool = PoolShape("on-demand-pool", machine, topology, slices)
    pools = {"on-demand": pool, "dws": replace(pool, name="dws-pool", provisioning=FLEX_START)}
    return derived(PoolShape("default-pool", "n2-standard-16"), pools, JobTemplate())


@pytest.mark.parametrize(
    ("name", "spec"),
    [
        ("ray_job", SPEC),
        ("ray_job_elastic", ELASTIC),
        ("ray_job_bucket", replace(SPEC, service_account="ray-job", bucket="tpu-checkpoints-demo", packages=())),
    ],
)
def test_the_manifest_is_the_golden_one(name: str, spec: RayJobSpec) -> None:
    path = GOLDEN / f"{name}.yaml"
    assert [app_config_map(spec), ray_job(spec)] == list(yaml.safe_load_all(path.read_text(encoding="utf-8")))


@pytest.mark.parametrize(
    ("machine", "topology"),
    [(machine, topology) for machine in catalog.machines() for topology in catalog.tpu_topologies(machine)],
)
def test_workers_are_the_hosts_of_the_slice_and_take_all_its_chips(machine: str, topology: str) -> None:
    spec = replace(SPEC, tpu=catalog.tpu_slice(machine, topology))
    [group] = ray_job(spec)["spec"]["rayClusterSpec"]["workerGroupSpecs"]
    [worker] = group["template"]["spec"]["containers"]
    chips = int(worker["resources"]["limits"]["google.com/tpu"])
    assert group["replicas"] * group["numOfHosts"] * chips == spec.tpu.chips
    assert group["replicas"] == group["minReplicas"] == group["maxReplicas"] == 1
    assert group["template"]["spec"]["nodeSelector"]["cloud.google.com/gke-tpu-topology"] == topology
    assert ray_job_problems(spec, flavors(machine, topology), ["user-queue"], []) == []


def test_a_job_is_elastic_only_if_asked() -> None:
    plain, elastic = ray_job(SPEC), ray_job(ELASTIC)
    assert "annotations" not in plain["metadata"]
    assert "enableInTreeAutoscaling" not in plain["spec"]["rayClusterSpec"]
    assert elastic["metadata"]["annotations"] == {"kueue.x-k8s.io/elastic-job": "true"}
    assert elastic["spec"]["rayClusterSpec"]["enableInTreeAutoscaling"] is True
    assert elastic_risks(SPEC) == []
    assert len(elastic_risks(ELASTIC)) == 3


@pytest.mark.parametrize(
    ("change", "field", "says"),
    [
        ({"name": "j" * 60}, "job_name", "at most 47"),
        ({"queue": "users-queue"}, "queue", "no queue 'users-queue'; namespace default has user-queue"),
        ({"slices": 2}, "slices", "2 slices of 4 hosts are 32 chips; the largest flavor, with its pool, has 16"),
        ({"slices": 0}, "slices", "at least 1 slice"),
        ({"elastic": ElasticRange(1, 2)}, "elastic", "32 chips"),
        ({"tpu": catalog.tpu_slice("ct6e-standard-4t", "2x4")}, "topology", "there are ct6e-standard-4t 4x4"),
        ({"template": JobTemplate(worker=PodSize("400", "16Gi"))}, "worker", "no ct6e-standard-4t holds that"),
        ({"template": JobTemplate(head=PodSize("2", "64Gi"))}, "head", "no n2-standard-16 holds that"),
    ],
)
def test_jobs_that_would_never_run_are_refused(change: dict[str, Any], field: str, says: str) -> None:
    [problem] = ray_job_problems(replace(SPEC, **change), flavors(), ["user-queue"], GATE)
    assert problem.field == field
    assert says in problem.message


def test_an_elastic_job_needs_its_gate_and_a_range() -> None:
    room = flavors("ct6e-standard-4t", "2x2", slices=4)
    spec = replace(SPEC, tpu=catalog.tpu_slice("ct6e-standard-4t", "2x2"), elastic=ElasticRange(1, 4))
    assert ray_job_problems(spec, room, ["user-queue"], GATE) == []
    [problem] = ray_job_problems(spec, room, ["user-queue"], [])
    assert "needs Kueue's feature gate ElasticJobsViaWorkloadSlices, which is off" in problem.message
    [problem] = ray_job_problems(replace(spec, elastic=ElasticRange(0, 4)), room, ["user-queue"], GATE)
    assert "write 1 <= least <= slices <= most" in problem.message


def test_a_quota_above_the_pool_gives_no_larger_jobs() -> None:
    above = [replace(each, quota={**each.quota, "google.com/tpu": "1000000000"}) for each in flavors()]
    [problem] = ray_job_problems(replace(SPEC, slices=2), above, ["user-queue"], GATE)
    assert "has 16" in problem.message


def test_the_program_is_told_its_slice() -> None:
    assert train_command("linear_regression.py", SPEC.tpu) == (
        "python /app/linear_regression.py --workers 4 --chips 4 --topology 4x4 --accelerator TPU-V6E"
    )


def test_the_dashboard_is_found_by_the_jobs_own_status() -> None:
    assert dashboard_command("job1", "default") == (
        "kubectl -n default port-forward service/"
        "$(kubectl -n default get rayjob job1 -o jsonpath='{.status.rayClusterName}')-head-svc 8265:8265"
    )
