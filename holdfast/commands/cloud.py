"""The cloud that a command calls."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from rich.markup import escape

from holdfast.commands.console import err
from holdfast.gcp import ENDPOINT

if TYPE_CHECKING:
    from holdfast.gcp.api import Api
    from stacks.config import Target


def connect(target: Target) -> Api:
    """Google Cloud, or the emulated cloud that HOLDFAST_API_ENDPOINT names, which is said.

    Raises:
        OperatorError: that is no address on this machine.
    """
    from holdfast.gcp import google

    api = google.connect(target.project, target.universe)
    if endpoint := os.environ.get(ENDPOINT):
        err.print(f"[yellow]{ENDPOINT} is set: this is the emulated cloud at {escape(endpoint)}[/]")
    return api
