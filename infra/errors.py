"""How wrong input is reported: where, what, why and the way out, without a Python traceback."""

import pulumi

from infra.catalog import Problem


class InputError(pulumi.RunError, ValueError):
    """An argument or a configuration value that cannot work. Pulumi prints a RunError's message alone."""


def refuse(component: str, *problems: Problem | None) -> None:
    """Raise InputError, with a line for each problem, unless there is none. `component`: its type and its name."""
    lines = [f"{component}, {each.field}: {each.message}" for each in problems if each is not None]
    if lines:
        raise InputError("\n".join(lines))
