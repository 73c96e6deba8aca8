"""What the checks look at: the configuration of a stack, and of the foundation under it, and the cloud."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from holdfast.gcp.api import Api, CloudError, find
from holdfast.preflight.report import Finding

if TYPE_CHECKING:
    from stacks.config import CloudRunConfig, FoundationConfig, Target
    from stacks.gke_config import GkeTpuConfig
    from stacks.slurm_config import SlurmConfig


@dataclass(frozen=True)
class Base:
    """A foundation: its stack, and where it is."""

    config: FoundationConfig
    stack: str
    there: Target


@dataclass(frozen=True)
class Job:
    """The stack of a Cloud Run job, and what it stands on."""

    config: CloudRunConfig
    base: Base
    hours: float
    """Hours of a run that are to be priced."""


@dataclass(frozen=True)
class Tpus:
    """The stack of a cluster with TPU pools, which stands alone."""

    config: GkeTpuConfig
    hours: float
    """As of a job's."""


@dataclass(frozen=True)
class Training:
    """The stack of a training cluster, which stands alone."""

    config: SlurmConfig
    hours: float
    """As of a job's."""


@dataclass(frozen=True)
class Site:
    """`part`: what is deployed; `target`: where; `apis`: those that it needs."""

    connect: Callable[[Target], Api]
    module: str
    stack: str
    target: Target
    part: Base | Job | Tpus | Training
    apis: tuple[str, ...]

    @cached_property
    def api(self) -> Api:
        """The cloud. OperatorError as of `connect`."""
        return self.connect(self.target)

    @cached_property
    def project(self) -> dict[str, Any]:
        """The project as the API shows it. CloudError."""
        return self.api.call("cloudresourcemanager.projects.get", {"projectId": self.target.project})

    @cached_property
    def principal(self) -> str:
        """Who makes the calls; empty when it cannot be told."""
        who = getattr(self.api, "principal", "")
        try:
            return str((who() if callable(who) else who) or "")
        except CloudError:
            return ""

    def granted(self, permissions: list[str]) -> set[str]:
        """Those that the principal has on the project. CloudError."""
        found: set[str] = set()
        for start in range(0, len(permissions), _BATCH):
            body = {"permissions": permissions[start : start + _BATCH]}
            answer = self.api.call(
                "cloudresourcemanager.projects.testIamPermissions", {"resource": self.target.project}, body
            )
            found.update(answer.get("permissions", ()))
        return found

    def bucket(self, name: str) -> dict[str, Any] | None:
        """A bucket by its name; None where there is none. CloudError, PERMISSION_DENIED for somebody else's."""
        return find(self.api, "storage.buckets.get", {"bucket": name})


# What one testIamPermissions takes (docs.cloud.google.com/iam/docs/testing-permissions, read 2026-11-29; unchecked).
_BATCH = 100


def could_not_look(error: CloudError, turned_on: Sequence[str] = ()) -> Finding:
    """The finding of a look that the API refused; a warning only, when the API is one that `up` itself turns on."""
    for api in turned_on:
        if error.reason == "SERVICE_DISABLED" and api in error.message:
            return Finding(
                status="warn",
                found=f"could not look yet: {api} is off, and `up` turns it on",
                do=f"`gcloud services enable {api}` and look again, to know it before `up`",
            )
    return Finding(status="unknown", found=f"could not look: {error}", do=_way_to_look(error))


def _way_to_look(error: CloudError) -> str:
    if error.reason == "SERVICE_DISABLED":
        return "enable the API that the message names (`gcloud services enable NAME`), and look again"
    return {
        "PERMISSION_DENIED": "ask for the permission that the message names, or let somebody look who has it",
        "UNAUTHENTICATED": "`gcloud auth application-default login`",
        "UNAVAILABLE": "look at the network and at status.cloud.google.com, and try again",
    }.get(error.status, "try again; if it stays so, `--skip` leaves this check out")
