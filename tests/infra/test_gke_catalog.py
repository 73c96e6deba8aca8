"""The catalog of GKE and TPUs: sourced facts, and the rules that follow from them."""

import datetime
import math
import re
from importlib.resources import files

import pytest
import yaml

from infra import catalog

SLICES = [(machine, topology) for machine in catalog.machines() for topology in catalog.tpu_topologies(machine)]


@pytest.mark.parametrize("name", ["gke", "tpu"])
def test_facts_of_gke_have_a_value_a_source_and_a_date(name: str) -> None:
    keys = yaml.safe_load(files("infra.catalog").joinpath(f"{name}.yaml").read_text(encoding="utf-8"))
    assert keys
    for key in keys:
        fact = catalog.fact(name, key)
        assert fact.value is not None, key
        assert fact.source, key
        assert fact.read >= datetime.date(2026, 11, 29), key


def test_v5e_v5p_and_v6e_are_there() -> None:
    generations = {catalog.machines()[machine].generation for machine, _ in SLICES}
    assert generations == set(catalog.fact("tpu", "generations").value) == {"v5e", "v5p", "v6e"}


@pytest.mark.parametrize(("machine", "topology"), SLICES)
def test_every_slice_is_whole_hosts(machine: str, topology: str) -> None:
    found = catalog.tpu_slice(machine, topology)
    assert found.chips == math.prod(map(int, topology.split("x")))
    assert found.hosts * found.machine.chips == found.chips
    assert found.node_label.startswith("tpu-")
    assert found.ray_accelerator.startswith("TPU-")


def test_scenario_bs_slice_is_four_hosts_of_four_chips() -> None:
    found = catalog.tpu_slice("ct6e-standard-4t", "4x4")
    assert (found.chips, found.hosts, found.machine.chips) == (16, 4, 4)
    assert (found.node_label, found.ray_accelerator) == ("tpu-v6e-slice", "TPU-V6E")


@pytest.mark.parametrize(
    ("machine", "topology", "field", "says"),
    [
        (
            "ct6e-standard-4t",
            "4x5",
            "topology",
            "'4x5', which is no TPU topology; ct6e-standard-4t can have 2x2, 2x4, 4x4",
        ),
        ("ct6e-standard-8t", "4x4", "topology", "can have 2x4 .* or machine type ct5lp-hightpu-4t or ct6e-standard-4t"),
        ("ct5p-hightpu-4t", "4x4", "topology", "can have 2x2x1, "),
        ("ct6e-standard-4t", None, "topology", "no topology; ct6e-standard-4t can have"),
        ("n2-standard-16", "4x4", "topology", "has no TPU"),
        ("ct9z-standard-4t", "4x4", "machine", "'ct9z-standard-4t' is not in the catalog"),
    ],
)
def test_slices_that_there_are_not(machine: str, topology: str | None, field: str, says: str) -> None:
    problem = catalog.tpu_slice_problem(machine, topology)
    assert problem is not None
    assert problem.field == field
    assert re.search(says, problem.message), problem.message


def test_zones_of_flex_start_are_zones_of_the_tpu_and_of_compute_engine() -> None:
    zones = {zone for each in catalog.compute_zones().values() for zone in each}
    for generation, flex in catalog.fact("tpu", "flex_start_zones").value["googleapis.com"].items():
        known = set(catalog.fact("tpu", "zones").value["googleapis.com"][generation])
        assert set(flex) <= known <= zones


@pytest.mark.parametrize(
    ("zone", "flex", "refused"),
    [
        ("us-east5-b", True, False),
        ("us-central1-b", False, False),
        ("us-central1-b", True, True),
        ("us-central1-a", False, True),
    ],
)
def test_a_zone_has_the_tpu_or_not(zone: str, flex: bool, refused: bool) -> None:
    problem = catalog.tpu_zone_problem("ct6e-standard-4t", zone, flex_start=flex)
    assert (problem is not None) is refused
    assert problem is None or "us-east5-b" in problem.message
    assert catalog.tpu_zone_problem("n2-standard-16", zone, flex_start=flex) is None
    sovereign = catalog.universe("s3nsapis.fr")
    assert catalog.tpu_zone_problem("ct6e-standard-4t", zone, flex_start=flex, universe=sovereign) is None


@pytest.mark.parametrize("version", ["1.34", "1.34.9", "1.34.9-gke.1287000", "1.35"])
def test_versions_that_are_new_enough(version: str) -> None:
    assert catalog.cluster_version_problem(version) is None
    assert catalog.flex_start_version_problem(version, tpu=True) is None


@pytest.mark.parametrize(
    ("version", "says"), [("1.31", "1.34 or newer"), ("1.33.9-gke.1", "1.34 or newer"), ("newest", "no GKE version")]
)
def test_versions_that_are_not(version: str, says: str) -> None:
    problem = catalog.cluster_version_problem(version)
    assert problem is not None
    assert says in problem.message


@pytest.mark.parametrize(
    ("version", "tpu", "taken"),
    [
        ("1.33.0-gke.1712000", True, True),
        ("1.33.0-gke.1711999", True, False),
        ("1.32.2-gke.1652000", False, True),
        ("1.32.2-gke.1652000", True, False),
        ("1.33", True, True),
    ],
)
def test_flex_start_begins_with_a_patch(version: str, tpu: bool, taken: bool) -> None:
    assert (catalog.flex_start_version_problem(version, tpu=tpu) is None) is taken


@pytest.mark.parametrize(("duration", "taken"), [("604800s", True), ("604801s", False), ("0s", False), ("168h", False)])
def test_flex_start_nodes_run_seven_days(duration: str, taken: bool) -> None:
    problem = catalog.run_duration_problem(duration)
    assert (problem is None) is taken
    assert problem is None or "604800s" in problem.message or "0s" in problem.message


def test_a_ray_jobs_name_leaves_room_for_its_clusters() -> None:
    assert catalog.ray_job_name_problem("j" * 47) is None
    problem = catalog.ray_job_name_problem("j" * 60)
    assert problem is not None
    assert "has 60 characters; a RayJob's name has at most 47" in problem.message
    assert catalog.ray_job_name_problem("Job") is not None


@pytest.mark.parametrize(("name", "taken"), [("tpu-cluster", True), ("c" * 40, True), ("c" * 41, False), ("-a", False)])
def test_names_of_clusters_and_pools(name: str, taken: bool) -> None:
    assert (catalog.cluster_name_problem(name) is None) is taken
    assert (catalog.node_pool_name_problem(name) is None) is taken


def test_a_quota_on_memory_has_a_unit() -> None:
    assert catalog.memory_quota_gib("75Gi") == 75
    with pytest.raises(ValueError, match=r"has no unit, so it means bytes \(0.93 GiB\).* 1000000000Gi"):
        catalog.memory_quota_gib("1000000000")


def test_a_workload_is_named_by_its_clusters_pool() -> None:
    assert catalog.workload_principal("p", "7", "default", "ray-job") == (
        "principal://iam.googleapis.com/projects/7/locations/global/workloadIdentityPools/p.svc.id.goog"
        "/subject/ns/default/sa/ray-job"
    )
    with pytest.raises(ValueError, match=r"universe s3nsapis.fr"):
        catalog.workload_pool("s3ns:p", catalog.universe("s3nsapis.fr"))
