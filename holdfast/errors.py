"""The errors that end a command with a message and no traceback."""

from __future__ import annotations


class OperatorError(Exception):
    """Something the operator can mend: the message says what, where, why and the way out."""
