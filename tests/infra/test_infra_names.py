"""Names are within their limits or refused, never shortened."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infra import catalog, names

PROJECT_IDS = st.from_regex(r"[a-z][a-z0-9-]{4,28}[a-z0-9]", fullmatch=True).filter(lambda name: "google" not in name)


@given(PROJECT_IDS)
def test_every_project_has_a_checkpoint_bucket_that_ends_in_its_id(project: str) -> None:
    name = names.bucket_name(project)
    assert name == f"gpu-checkpoints-{project}"
    assert re.fullmatch(catalog.storage().bucket_name_pattern, name)


def test_a_universes_prefix_is_not_in_the_buckets_name() -> None:
    assert names.bucket_name("s3ns:my-project") == "gpu-checkpoints-my-project"


@given(st.text(max_size=70) | st.from_regex(r"[a-z][a-z0-9-]{1,70}", fullmatch=True))
def test_a_name_is_returned_as_it_is_or_refused(text: str) -> None:
    for check in (names.service_account_id, names.checked_bucket_name, names.job_name):
        refused = False
        try:
            kept = check(text)
        except ValueError:
            refused = True
        assert refused or kept == text


@pytest.mark.parametrize(
    ("account_id", "says"),
    [
        ("a" * 40, "has 40 characters; a service account's id has 6 to 30"),
        ("short", "Lengthen it"),
        ("gpu_job_sa", "does not match"),
        ("gpu-job-", "no hyphen last"),
    ],
)
def test_service_account_ids_that_are_refused(account_id: str, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        names.service_account_id(account_id)


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("a" * 64, "has 64 characters"),
        ("ab", "has 2 characters"),
        ("goog-checkpoints", "keeps for itself"),
        ("my-google-bucket", "keeps for itself"),
        ("Checkpoints", "no bucket name"),
        ("check.points", "a dot would need"),
    ],
)
def test_bucket_names_that_are_refused(name: str, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        names.checked_bucket_name(name)


@pytest.mark.parametrize(
    ("name", "says"), [("j" * 57, "leave room for an execution's suffix"), ("Job", "lower-case"), ("1job", "a letter")]
)
def test_job_names_that_are_refused(name: str, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        names.job_name(name)


def test_the_longest_job_name_fits_with_its_suffix() -> None:
    limits = catalog.cloud_run()
    assert len(names.job_name("j" * limits.job_name_max)) + limits.execution_suffix_length < 63


@pytest.mark.parametrize("image", ["trainer", "host/trainer:latest", "host/trainer@sha256:123", "@sha256:" + "0" * 64])
def test_an_image_without_a_digest_is_refused(image: str) -> None:
    with pytest.raises(ValueError, match="not pinned by a digest"):
        names.pinned_image(image)
