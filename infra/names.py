"""Names that the project gives, and labels. What the platform refuses of a name is the catalog's to say."""

import re

LABELS = {"app": "holdfast"}
"""Labels of every resource that takes some: they show in billing exports."""

_PINNED = re.compile(r"[^\s@]+@sha256:[0-9a-f]{64}")


def bucket_name(project: str, prefix: str = "gpu-checkpoints") -> str:
    """The name of a project's checkpoint bucket: names are global, so the project's id (unique too) ends it."""
    return f"{prefix}-{project.rpartition(':')[2]}"


def pinned_image(image: str) -> str:
    """A container image's reference with its digest. A tag alone can move between two attempts of one training run.

    ValueError, with what is wrong, why and the way out, for one without a digest; the caller adds where.
    """
    if not _PINNED.fullmatch(image):
        raise ValueError(
            f"{image!r} is not pinned by a digest, so a retry could resume with another program than the one that "
            "checkpointed. Write HOST/PROJECT/REPOSITORY/IMAGE@sha256:DIGEST; `gcloud artifacts docker images describe "
            "IMAGE:TAG --format='value(image_summary.digest)'` prints the digest"
        )
    return image
