"""Which module a stack's name, or its configuration, stands for."""

import importlib
from collections.abc import Callable

from infra.errors import InputError

MODULES = {
    "foundation": "stacks.foundation",
    "cloud-run": "stacks.cloud_run",
    "gke-tpu": "stacks.gke_tpu",
    "slurm": "stacks.slurm",
}
"""Each module by the name that ends a stack's name: dev-cloud-run is the cloud-run of environment dev.

Only the chosen one is imported: another's SDKs take time, and need not be installed."""


def choose(stack: str, configured: str | None = None) -> Callable[[], None]:
    """The program of `stack`, as `name` finds it."""
    program: Callable[[], None] = importlib.import_module(MODULES[name(stack, configured)]).deploy
    return program


def name(stack: str, configured: str | None = None) -> str:
    """What `stack` stands for: `configured` (holdfast:stack) if given, else that which the stack's name ends in.

    InputError, naming the modules there are, when neither is one.
    """
    known = ", ".join(MODULES)
    if configured is not None:
        if configured not in MODULES:
            raise InputError(
                f"stacks/Pulumi.{stack}.yaml, holdfast:stack: {configured!r} is not a stack of this project. "
                f"Choose one of: {known}"
            )
        return configured
    module = _ending(stack)
    if module is not None:
        return module
    raise InputError(
        f"stack {stack!r} does not end in the name of a stack of this project ({known}), so nothing says what to "
        "deploy. Name it ENVIRONMENT-STACK, as in dev-foundation, or run `pulumi config set holdfast:stack foundation`"
    )


def environment(stack: str) -> str:
    """The environment that `stack` is in: what its name has before the module's; the whole name if it ends in none."""
    module = _ending(stack)
    return stack if module is None else stack.removesuffix(module).rstrip("-")


def _ending(stack: str) -> str | None:
    return next((module for module in MODULES if stack == module or stack.endswith(f"-{module}")), None)
