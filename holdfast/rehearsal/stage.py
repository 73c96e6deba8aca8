"""What the stages of all rehearsals share: the stacks' files, and the emulated cloud that they meet."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from holdfast.errors import OperatorError
from holdfast.rehearsal.report import TimeOverride
from holdfast.rehearsal.sealed import REPOSITORY, StackFile, read_stack
from infra import catalog
from mockgcp.clock import Clock
from mockgcp.cloud import Cloud
from mockgcp.durations import NOMINAL
from mockgcp.services import billing

# An operation of the emulated cloud takes this long instead of its nominal seconds.
_OPERATION_S = 0.05


class RehearsalError(OperatorError):
    """The rehearsal cannot be run as asked; the message says the way out."""


def shipped(stack: str) -> StackFile:
    """The stack's configuration as it is in the checkout.

    Raises:
        RehearsalError: there is no such stack.
    """
    path = REPOSITORY / "stacks" / f"Pulumi.{stack}.yaml"
    if not path.exists():
        raise RehearsalError(f"no stack {stack}: {path} does not exist; choose another --environment or add the file")
    return read_stack(path)


def emulated_cloud(files: Mapping[str, StackFile], seed: int, state: Path) -> Cloud:
    """A cloud with the stacks' projects, in the universe of the first one, that keeps what it holds below `state`.

    Raises:
        RehearsalError: a stack names no project, or a universe that there is not.
    """
    first = next(iter(files))
    try:
        cloud = Cloud(
            clock=Clock.wall(),
            seed=seed,
            state_dir=state,
            durations=dict.fromkeys(NOMINAL, _OPERATION_S),
            universe=files[first].config.get("gcp:universeDomain") or catalog.universe().domain,
        )
    except ValueError as error:
        raise RehearsalError(f"stacks/Pulumi.{first}.yaml, gcp:universeDomain: {error}") from error
    for project in sorted({_needed(files, stack, "gcp:project") for stack in files}):
        cloud.seed_project(project).services.update(catalog.services().by_hand)
        billing.seed_billing(cloud, project)
    return cloud


def operations_override() -> TimeOverride:
    """What an emulated cloud's operations take."""
    return TimeOverride(
        name="long-running operations",
        platform=f"{min(NOMINAL.values()):g} to {max(NOMINAL.values()):g} s (nominal)",
        rehearsal=f"{_OPERATION_S:g} s",
    )


def _needed(files: Mapping[str, StackFile], stack: str, key: str) -> str:
    value = files[stack].config.get(key)
    if not value:
        raise RehearsalError(f"stacks/Pulumi.{stack}.yaml has no {key}, and nothing can be rehearsed without; set it")
    return str(value)
