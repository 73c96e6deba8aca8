"""What the project asks beyond the platform's limits: sourced facts, and rules that say what, why and the way out."""

import datetime
from importlib.resources import files

import pytest
import yaml

from infra import catalog


def test_every_practice_has_a_value_a_source_and_a_date() -> None:
    for key in yaml.safe_load(files("infra.catalog").joinpath("practices.yaml").read_text(encoding="utf-8")):
        fact = catalog.fact("practices", key)
        assert fact.value, key
        assert fact.source.startswith("https://"), key
        assert fact.read >= datetime.date(2026, 11, 29), key


def test_the_advised_retries_are_more_than_the_required_and_allowed() -> None:
    advised = catalog.fact("practices", "gpu_retries_advised").value
    assert 1 < advised <= catalog.cloud_run().max_retries_max
    assert catalog.few_retries_problem(max_retries=advised, timeout_s=43200) is None
    assert catalog.few_retries_problem(max_retries=advised - 1) is not None


def test_the_roomier_sizes_are_the_catalogs() -> None:
    problem = catalog.mount_headroom_problem(accelerator="nvidia-l4", memory_gib=16)
    assert problem is not None
    assert problem.field == "memory_gib"
    assert problem.message.endswith("size; 6 CPU allows up to 24 GiB; 8 CPU allows up to 32 GiB")
    assert catalog.mount_headroom_problem(accelerator="nvidia-l4", memory_gib=16.5) is None


@pytest.mark.parametrize(("image", "pinned"), [("trainer:1", False), (f"trainer@sha256:{'0' * 64}", True)])
def test_an_image_is_pinned_by_its_digest_alone(image: str, pinned: bool) -> None:
    assert (catalog.image_problem(image) is None) is pinned


def test_a_role_may_be_too_broad_for_a_workload_only() -> None:
    admin = "roles/resourcemanager.projectIamAdmin"
    assert catalog.project_role_problem(admin, workload=False) is None
    assert catalog.project_role_problem(admin, workload=True) is not None
    assert catalog.project_role_problem("roles/editor", workload=False) is not None
