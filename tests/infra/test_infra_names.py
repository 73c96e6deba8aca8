"""Names are within their limits or refused, never shortened."""

import re
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infra import catalog, names

PROJECT_IDS = st.from_regex(r"[a-z][a-z0-9-]{4,28}[a-z0-9]", fullmatch=True).filter(lambda name: "google" not in name)


@given(PROJECT_IDS)
def test_every_project_has_a_checkpoint_bucket_that_ends_in_its_id(project: str) -> None:
    name = names.bucket_name(project)
    assert name == f"gpu-checkpoints-{project}"
    assert catalog.bucket_name_problem(name) is None or "g00gle" in project


def test_a_universes_prefix_is_not_in_the_buckets_name() -> None:
    assert names.bucket_name("s3ns:my-project") == "gpu-checkpoints-my-project"


@given(st.text(max_size=70) | st.from_regex(r"[a-z][a-z0-9-]{1,70}", fullmatch=True))
def test_a_name_without_a_problem_matches_the_platforms_pattern(text: str) -> None:
    limits = (
        (catalog.service_account_id_problem, catalog.service_account().id_pattern, catalog.service_account().id_max),
        (catalog.bucket_name_problem, catalog.storage().bucket_name_pattern, catalog.storage().bucket_name_max),
        (catalog.job_name_problem, catalog.cloud_run().job_name_pattern, catalog.cloud_run().job_name_max),
    )
    for rule, pattern, longest in limits:
        assert rule(text) is not None or (re.fullmatch(pattern, text) and len(text) <= longest)


Rule = Callable[[str], catalog.Problem | None]


@pytest.mark.parametrize(
    ("rule", "name", "field", "says"),
    [
        (catalog.service_account_id_problem, "a" * 40, "account_id", "has 40 characters; a service account's id has 6"),
        (catalog.service_account_id_problem, "short", "account_id", "Lengthen it"),
        (catalog.service_account_id_problem, "gpu_job_sa", "account_id", "does not match"),
        (catalog.service_account_id_problem, "gpu-job-", "account_id", "no hyphen last"),
        (catalog.bucket_name_problem, "a" * 64, "bucket_name", "has 64 characters"),
        (catalog.bucket_name_problem, "ab", "bucket_name", "has 2 characters"),
        (catalog.bucket_name_problem, "goog-checkpoints", "bucket_name", "keeps for itself"),
        (catalog.bucket_name_problem, "my-google-bucket", "bucket_name", "keeps for itself"),
        (catalog.bucket_name_problem, "Checkpoints", "bucket_name", "no bucket name"),
        (catalog.bucket_name_problem, "check.points", "bucket_name", "a dot would need"),
        (catalog.job_name_problem, "j" * 57, "job_name", "leave room for an execution's suffix of 6 under 63"),
        (catalog.job_name_problem, "Job", "job_name", "lower-case"),
        (catalog.job_name_problem, "1job", "job_name", "a letter"),
        (catalog.env_name_problem, "PORT", "env_name", "reserved by Cloud Run"),
        (catalog.env_name_problem, "CLOUD_RUN_JOB", "env_name", "reserved by Cloud Run"),
        (catalog.env_name_problem, "X_GOOGLE_A", "env_name", "reserved by Cloud Run"),
    ],
)
def test_names_that_are_refused(rule: Rule, name: str, field: str, says: str) -> None:
    problem = rule(name)
    assert problem is not None
    assert problem.field == field
    assert says in problem.message
    assert "cloud.google.com" in problem.message


def test_the_longest_job_name_fits_with_its_suffix() -> None:
    limits = catalog.cloud_run()
    longest = "j" * limits.job_name_max
    assert catalog.job_name_problem(longest) is None
    assert len(longest) + limits.execution_suffix_length < 63


@pytest.mark.parametrize("name", ["PORTS", "GOOGLE_CLOUD_PROJECT", "HOLDFAST_STEPS"])
def test_variables_that_are_not_reserved(name: str) -> None:
    assert catalog.env_name_problem(name) is None


@pytest.mark.parametrize("image", ["trainer", "host/trainer:latest", "host/trainer@sha256:123", "@sha256:" + "0" * 64])
def test_an_image_without_a_digest_is_refused(image: str) -> None:
    problem = catalog.image_problem(image)
    assert problem is not None
    assert "not pinned by a digest" in problem.message


@given(st.text(max_size=80))
def test_every_label_fits_the_platforms_alphabet(text: str) -> None:
    labels = names.labels(stack=text)
    assert labels["app"] == "holdfast"
    assert catalog.label_problems(labels) == []


def test_a_label_without_a_value_is_left_out() -> None:
    assert names.labels(environment="", stack="Dev.Train") == {"app": "holdfast", "stack": "dev-train"}
