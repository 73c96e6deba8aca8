"""What a rule is: its name, what it asks and why, and the pure functions that judge."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

Props = Mapping[str, Any]
"""A resource's properties in camelCase, with props.UNKNOWN for what a preview cannot know."""

Check = Callable[[Props], list[str]]
"""One message for each thing that is wrong: where, what, why and the way out."""


@dataclass(frozen=True)
class StackResource:
    """A resource as the whole stack ends up with it; `props` are its outputs."""

    type: str
    urn: str
    props: Props


@dataclass(frozen=True)
class Rule:
    """One rule of the pack. It either judges single resources or, with `stack_check`, a whole stack."""

    name: str
    """In kebab case, as violations name it."""
    severity: Literal["mandatory", "advisory"]
    """mandatory stops an `up`, advisory is only said."""
    summary: str
    """What holds when the rule is kept."""
    source: str
    """The page that gives the reason."""
    way_out: str
    """What to do about a violation."""
    checks: Mapping[str, Check] = field(default_factory=dict)
    """The check of each resource type, by token."""
    universe_checks: Mapping[str, Callable[[Props, str], list[str]]] = field(default_factory=dict)
    """The same for limits that differ by universe; the check also gets the universe's domain."""
    stack_check: Callable[[Sequence[StackResource]], list[tuple[str, str]]] | None = None
    """Judges the resources of `stack_types`: a URN and a message for each thing that is wrong."""
    stack_types: tuple[str, ...] = ()


def iam_types(prefix: str) -> tuple[str, ...]:
    """The tokens of a binding, a member and a policy, of a prefix such as `gcp:projects/IAM`."""
    module, _, name = prefix.partition("/")
    variants = (f"{name}{variant}" for variant in ("Binding", "Member", "Policy"))
    return tuple(f"{module}/{each[0].lower()}{each[1:]}:{each}" for each in variants)


PROJECT_IAM = tuple(
    token for module in ("projects", "folder", "organizations") for token in iam_types(f"gcp:{module}/IAM")
)
"""Grants on whole projects, and on the folders and organizations that projects inherit from."""

BUCKET_IAM = (*iam_types("gcp:storage/BucketIAM"), *iam_types("gcp:storage/ManagedFolderIam"))
JOB_IAM = iam_types("gcp:cloudrunv2/JobIam")

EVERY_IAM = (
    *PROJECT_IAM,
    *BUCKET_IAM,
    *JOB_IAM,
    *iam_types("gcp:artifactregistry/RepositoryIam"),
    *iam_types("gcp:serviceaccount/IAM"),
)
