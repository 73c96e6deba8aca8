"""How wrong input is reported: where, what, why and the way out, without a Python traceback."""

from collections.abc import Iterator
from contextlib import contextmanager

import pulumi


class InputError(pulumi.RunError, ValueError):
    """An argument or a configuration value that cannot work. Pulumi prints a RunError's message alone."""


@contextmanager
def located(where: str) -> Iterator[None]:
    """Turn a ValueError raised inside, which says what, why and the way out, into an InputError that says where too."""
    try:
        yield
    except InputError:
        raise
    except ValueError as error:
        raise InputError(f"{where}: {error}") from error
