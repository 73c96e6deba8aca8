"""The catalog: every fact is sourced and loads, and the rules drawn from it say what, why and the way out."""

import datetime
from importlib.resources import files
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from infra import catalog

SOUND: dict[str, Any] = {
    "cpu": 8,
    "memory_gib": 32,
    "accelerator": "nvidia-l4",
    "gpu_count": 1,
    "timeout_s": 43200,
    "max_retries": 3,
}


@pytest.mark.parametrize("name", ["cloud_run", "iam", "monitoring", "quotas", "services", "storage", "universes"])
def test_every_fact_has_a_value_a_source_and_a_date(name: str) -> None:
    for key in yaml.safe_load(files("infra.catalog").joinpath(f"{name}.yaml").read_text(encoding="utf-8")):
        fact = catalog.fact(name, key)
        assert fact.value is not None, key
        assert fact.source, key
        assert fact.read >= datetime.date(2026, 11, 29), key


def test_a_fact_that_is_not_there_is_named() -> None:
    with pytest.raises(KeyError, match="task_timeout_max_s"):
        catalog.fact("cloud_run", "task_timeout")


def test_the_limits_of_the_scenario() -> None:
    limits = catalog.cloud_run()
    assert limits.gpus["nvidia-l4"] == catalog.Gpu(min_cpu=4, min_memory_gib=16, max_per_instance=1)
    assert limits.cpu_memory[4] == catalog.Band(min_gib=2, max_gib=16)
    assert (limits.task_timeout_default_s, limits.task_timeout_max_s) == (600, 604800)
    assert catalog.universe().gpu_task_timeout_max_s == 43200
    assert (limits.max_retries_min, limits.max_retries_default, limits.max_retries_max) == (0, 3, 10)
    assert limits.job_name_max + limits.execution_suffix_length < 63


def test_roles_hold_what_the_emulated_cloud_asks_for() -> None:
    roles = catalog.roles()
    assert roles["roles/owner"] == {"*"}
    assert "storage.objects.setIamPolicy" in roles["roles/storage.objectAdmin"] - roles["roles/storage.objectUser"]
    assert {"storage.folders.rename", "storage.objects.create"} <= roles["roles/storage.objectUser"]
    assert not any(permission.endswith("setIamPolicy") for permission in roles["roles/editor"])
    assert roles["roles/viewer"] < roles["roles/editor"]
    assert "run.jobs.setIamPolicy" in roles["roles/run.admin"] - roles["roles/run.developer"]


def test_apis_of_the_scenario_are_known_and_the_defaults_are_not_all_of_them() -> None:
    services = catalog.services()
    assert set(services.cloud_run_job) | services.enabled_by_default <= set(services.known)
    assert "run.googleapis.com" not in services.enabled_by_default


def test_a_universe_gives_its_own_domains() -> None:
    public, sovereign = catalog.universe(), catalog.universe("s3nsapis.fr")
    assert public.service_account_email("gpu-job-sa", "p") == "gpu-job-sa@p.iam.gserviceaccount.com"
    assert sovereign.service_account_email("gpu-job-sa", "s3ns:p") == "gpu-job-sa@p.s3ns.iam.gserviceaccount.com"
    assert public.docker_registry("us-central1") == "us-central1-docker.pkg.dev"
    assert sovereign.gpu_task_timeout_max_s == 3600


def test_an_unknown_universe_names_the_known_ones() -> None:
    with pytest.raises(ValueError, match=r"'example\.org'.*googleapis\.com, s3nsapis\.fr"):
        catalog.universe("example.org")


def test_the_scenario_itself_has_no_problem() -> None:
    assert catalog.gpu_job_problems(**SOUND) == []


@pytest.mark.parametrize(
    ("change", "field", "says"),
    [
        ({"cpu": 2}, "cpu", ["2 CPU", "at least 4 CPU", "Use 8 CPU and 32 GiB"]),
        ({"memory_gib": 8}, "memory_gib", ["8 GiB", "at least 16 GiB"]),
        ({"cpu": 4}, "memory_gib", ["32 GiB", "4 CPU allows 2 to 16 GiB", "or 8 CPU"]),
        ({"cpu": 7}, "cpu", ["no size of 7 CPU", "1, 2, 4, 6, 8"]),
        ({"gpu_count": 2}, "gpu_count", ["2 GPUs", "exactly 1", "more tasks"]),
        ({"accelerator": "nvidia-h100"}, "accelerator", ["nvidia-h100", "nvidia-l4, nvidia-rtx-pro-6000"]),
        ({"accelerator": None}, "accelerator", ["without an accelerator type"]),
        ({"accelerator": "nvidia-rtx-pro-6000"}, "cpu", ["at least 20 CPU", "Use 20 CPU and 80 GiB"]),
        ({"timeout_s": 604800}, "timeout_s", ["604800s (168 h)", "up to 43200s, 12 h", "Set at most 43200s"]),
        ({"timeout_s": 0}, "timeout_s", ["0s"]),
        ({"max_retries": 11}, "max_retries", ["11 retries", "0 to 10", "Set 3"]),
        ({"max_retries": -1}, "max_retries", ["-1 retries"]),
    ],
)
def test_what_the_platform_refuses(change: dict[str, Any], field: str, says: list[str]) -> None:
    problems = catalog.gpu_job_problems(**{**SOUND, **change})
    assert problems[0].field == field
    assert "docs.cloud.google.com" in problems[0].message
    for part in says:
        assert part in problems[0].message


@pytest.mark.parametrize(
    "settings",
    [
        {**SOUND, "cpu": 4, "memory_gib": 16},
        {**SOUND, "max_retries": 0},
        {**SOUND, "accelerator": "nvidia-rtx-pro-6000", "cpu": 20, "memory_gib": 80},
        {**SOUND, "accelerator": None, "gpu_count": 0, "timeout_s": 604800},
        dict.fromkeys(SOUND) | {"gpu_count": 0},
    ],
)
def test_what_the_platform_takes(settings: dict[str, Any]) -> None:
    assert catalog.gpu_job_problems(**settings) == []


def test_limits_follow_the_universe() -> None:
    [problem] = catalog.gpu_job_problems(**SOUND, universe=catalog.universe("s3nsapis.fr"))
    assert "up to 3600s, 1 h" in problem.message
    without = catalog.universe().model_copy(update={"domain": "example.org", "cloud_run": False})
    assert [each.field for each in catalog.gpu_job_problems(**SOUND, universe=without)] == ["universe"]


def test_a_gpu_job_without_retries_is_unsafe_unless_it_is_short() -> None:
    assert catalog.preemption_problem(max_retries=1, timeout_s=43200) is None
    assert catalog.preemption_problem(max_retries=None) is None
    assert catalog.preemption_problem(max_retries=0, timeout_s=3600) is None
    for timeout_s in (3601, None):
        problem = catalog.preemption_problem(max_retries=0, timeout_s=timeout_s)
        assert problem is not None
        assert "not live-migrated" in problem.message
        assert "Set at least 1" in problem.message


@pytest.mark.parametrize("seconds", [0, 604800, 7776000])
def test_soft_delete_retentions_that_are_taken(seconds: int) -> None:
    assert catalog.soft_delete_problem(seconds) is None


@pytest.mark.parametrize("seconds", [-1, 1, 604799, 7776001])
def test_soft_delete_retentions_that_are_refused(seconds: int) -> None:
    problem = catalog.soft_delete_problem(seconds)
    assert problem is not None
    assert problem.field == "soft_delete_s"
    assert f"{seconds}s; soft delete keeps objects for 604800s to 7776000s, or is off" in problem.message


def test_a_hierarchical_namespace_has_uniform_access_and_no_versions() -> None:
    assert catalog.hierarchical_namespace_problems(uniform_access=True, versioning=False) == []
    access, versions = catalog.hierarchical_namespace_problems(uniform_access=False, versioning=True)
    assert (access.field, versions.field) == ("uniform_access", "versioning")
    assert "needs uniform bucket-level access" in access.message
    assert "has no object versioning" in versions.message


def test_preview_features_are_known() -> None:
    assert catalog.needs_preview("nvidia-l4", 43200)
    assert not catalog.needs_preview("nvidia-l4", 3600)
    assert catalog.needs_preview("nvidia-rtx-pro-6000", 600)
    assert not catalog.needs_preview(None, 604800)


@given(st.integers(min_value=0, max_value=10**9))
def test_durations_round_trip(seconds: int) -> None:
    assert catalog.parse_duration_s(f"{seconds}s") == seconds


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("168h", "write 604800s"),
        ("90m", "write 5400s"),
        ("43200", "write 43200s"),
        ("soon", "43200s for 12 hours"),
        ("-1s", "43200s for 12 hours"),
        ("1.s", "43200s for 12 hours"),
    ],
)
def test_other_spellings_of_a_duration_are_refused_with_the_right_one(text: str, says: str) -> None:
    with pytest.raises(catalog.DurationError, match=says):
        catalog.parse_duration_s(text)


@pytest.mark.parametrize(("text", "gib"), [("32Gi", 32), ("512Mi", 0.5), ("1.5Gi", 1.5), ("16G", 16e9 / 2**30)])
def test_memory(text: str, gib: float) -> None:
    assert catalog.parse_memory_gib(text) == pytest.approx(gib)


@pytest.mark.parametrize(("text", "cpus"), [("8", 8), ("1000m", 1), ("0.5", 0.5)])
def test_cpu(text: str, cpus: float) -> None:
    assert catalog.parse_cpu(text) == pytest.approx(cpus)


@pytest.mark.parametrize("text", ["", "32", "32GB", "Gi", "-1Gi"])
def test_other_spellings_of_memory_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="write, for example, 32Gi"):
        catalog.parse_memory_gib(text)


@pytest.mark.parametrize("text", ["", "eight", "8 cores", "-1"])
def test_other_spellings_of_cpu_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="write, for example, 8"):
        catalog.parse_cpu(text)
