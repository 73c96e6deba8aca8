"""A stack's configuration file, read without the engine by the operator's commands."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from holdfast.errors import OperatorError

if TYPE_CHECKING:
    from stacks.config import StackConfig, Target

    C = TypeVar("C", bound=StackConfig)

FOLDER = Path(__file__).resolve().parents[1] / "stacks"
"""Where the project's stacks have their files."""


def module(stack: str, folder: Path = FOLDER) -> str:
    """What the stack stands for: foundation, cloud-run, ...

    Raises:
        OperatorError: there is no such file, it cannot be read, or nothing says it.
    """
    from infra.errors import InputError
    from stacks.choose import name
    from stacks.source import of_file

    try:
        return name(stack, of_file(stack, path(stack, folder)).values.get("holdfast:stack"))
    except InputError as error:
        raise OperatorError(str(error)) from error


def read(model: type[C], stack: str, folder: Path = FOLDER) -> tuple[C, Target]:
    """The stack's configuration and where it is deployed.

    Raises:
        OperatorError: a line for each thing that is wrong: the key, why, and the way out.
    """
    from infra.errors import InputError
    from stacks import config

    try:
        return config.read(model, stack, path(stack, folder))
    except InputError as error:
        raise OperatorError(str(error)) from error


def path(stack: str, folder: Path = FOLDER) -> Path:
    """The stack's file.

    Raises:
        OperatorError: there is none; names those there are.
    """
    found = folder / f"Pulumi.{stack}.yaml"
    if not found.is_file():
        there = ", ".join(sorted(each.name[len("Pulumi.") : -len(".yaml")] for each in folder.glob("Pulumi.*.yaml")))
        raise OperatorError(f"{found} is missing: {stack} is no stack of this checkout, which has {there or 'none'}")
    return found
