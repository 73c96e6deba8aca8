"""Names that the project gives, and labels. What the platform refuses of a name is the catalog's to say."""

import re

_LABEL_MAX = 63
_NOT_IN_LABELS = re.compile(r"[^-_a-z0-9]")


def labels(**more: str) -> dict[str, str]:
    """Labels of every resource that takes some: they show in billing exports. Values are made to fit the platform's
    alphabet and length (letters in lower case, digits, - and _, at most 63)."""
    fitting = {key: _NOT_IN_LABELS.sub("-", value.lower())[:_LABEL_MAX] for key, value in more.items() if value}
    return {"app": "holdfast", **fitting}


def bucket_name(project: str, prefix: str = "gpu-checkpoints") -> str:
    """The name of a project's checkpoint bucket: names are global, so the project's id (unique too) ends it."""
    return f"{prefix}-{bare_project(project)}"


def source_bucket_name(project: str) -> str:
    """The name of the bucket that image sources are uploaded to, which begins with the project's id."""
    return f"{bare_project(project)}-build-source"


def bare_project(project: str) -> str:
    """A project's id without the prefix of its universe, or of its domain."""
    return project.rpartition(":")[2]
