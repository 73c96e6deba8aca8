"""Which module a stack's name, or its configuration, stands for."""

from collections.abc import Callable

from infra.errors import InputError
from stacks import cloud_run, foundation

MODULES: dict[str, Callable[[], None]] = {"foundation": foundation.deploy, "cloud-run": cloud_run.deploy}
"""Each module by the name that ends a stack's name: dev-cloud-run is the cloud-run of environment dev."""


def choose(stack: str, configured: str | None = None) -> Callable[[], None]:
    """The program of `stack`: that of `configured` (holdfast:stack) if given, else that which the stack's name ends in.

    InputError, naming the modules there are, when neither is one.
    """
    known = ", ".join(MODULES)
    if configured is not None:
        if configured not in MODULES:
            raise InputError(
                f"stacks/Pulumi.{stack}.yaml, holdfast:stack: {configured!r} is not a stack of this project. "
                f"Choose one of: {known}"
            )
        return MODULES[configured]
    for name, program in MODULES.items():
        if stack == name or stack.endswith(f"-{name}"):
            return program
    raise InputError(
        f"stack {stack!r} does not end in the name of a stack of this project ({known}), so nothing says what to "
        "deploy. Name it ENVIRONMENT-STACK, as in dev-foundation, or run `pulumi config set holdfast:stack foundation`"
    )
