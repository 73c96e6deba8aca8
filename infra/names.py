"""Names that the platform limits: built or checked here, refused with a reason, never shortened in silence.

Every function returns the name or raises ValueError with what is wrong, why, and the way out; the caller adds where.
The limits, with their sources, are the catalog's.
"""

import re

from infra import catalog

LABELS = {"app": "holdfast"}
"""Labels of every resource that takes some: they show in billing exports."""

_PINNED = re.compile(r"[^\s@]+@sha256:[0-9a-f]{64}")


def service_account_id(account_id: str) -> str:
    """A service account's id, the part of its e-mail before the @."""
    limits = catalog.service_account()
    source = catalog.fact("iam", "service_account").source
    if not limits.id_min <= len(account_id) <= limits.id_max:
        raise ValueError(
            f"{account_id!r} has {len(account_id)} characters; a service account's id has {limits.id_min} to "
            f"{limits.id_max} ({source}). {'Shorten' if len(account_id) > limits.id_max else 'Lengthen'} it"
        )
    if not re.fullmatch(limits.id_pattern, account_id):
        raise ValueError(
            f"{account_id!r} does not match {limits.id_pattern} ({source}). Use lower-case letters, digits and "
            "hyphens, a letter first and no hyphen last, such as gpu-job-sa"
        )
    return account_id


def bucket_name(project: str, prefix: str = "gpu-checkpoints") -> str:
    """The name of a project's checkpoint bucket: names are global, so the project's id (unique too) ends it."""
    return checked_bucket_name(f"{prefix}-{project.rpartition(':')[2]}")


def checked_bucket_name(name: str) -> str:
    """A bucket's name, checked against the naming rules. Names with dots need a verified domain and are refused."""
    limits = catalog.storage()
    source = catalog.fact("storage", "bucket_name_pattern").source
    if not limits.bucket_name_min <= len(name) <= limits.bucket_name_max:
        raise ValueError(
            f"{name!r} has {len(name)} characters; a bucket's name has {limits.bucket_name_min} to "
            f"{limits.bucket_name_max} ({source}). Set bucketName to one that fits"
        )
    reserved = [prefix for prefix in limits.bucket_name_reserved_prefixes if name.startswith(prefix)]
    reserved += [word for word in limits.bucket_name_reserved_words if word in name]
    if reserved:
        raise ValueError(
            f"{name!r} has {reserved[0]!r}, which Google keeps for itself ({source}). Set bucketName to another"
        )
    if "." in name or not re.fullmatch(limits.bucket_name_pattern, name):
        raise ValueError(
            f"{name!r} is no bucket name ({source}). Use lower-case letters, digits, hyphens and underscores, a letter "
            "or a digit first and last (a dot would need a domain that you own)"
        )
    return name


def job_name(name: str) -> str:
    """A Cloud Run job's name that leaves room for the suffix of its executions."""
    limits = catalog.cloud_run()
    source = catalog.fact("cloud_run", "job_and_token_max").source
    if len(name) > limits.job_name_max:
        raise ValueError(
            f"{name!r} has {len(name)} characters; at most {limits.job_name_max} leave room for an execution's suffix "
            f"of {limits.execution_suffix_length} under 63 ({source}). Shorten it"
        )
    if not re.fullmatch(limits.job_name_pattern, name):
        raise ValueError(
            f"{name!r} does not match {limits.job_name_pattern} ({source}). Use lower-case letters, digits and "
            "hyphens, a letter first and no hyphen last, such as gpu-resilient-job"
        )
    return name


def pinned_image(image: str) -> str:
    """A container image's reference with its digest. A tag alone can move between two attempts of one training run."""
    if not _PINNED.fullmatch(image):
        raise ValueError(
            f"{image!r} is not pinned by a digest, so a retry could resume with another program than the one that "
            "checkpointed. Write HOST/PROJECT/REPOSITORY/IMAGE@sha256:DIGEST; `gcloud artifacts docker images describe "
            "IMAGE:TAG --format='value(image_summary.digest)'` prints the digest"
        )
    return image
