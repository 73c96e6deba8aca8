"""The options of an emulated cloud that is served, as `python -m mockgcp` and `holdfast emulate` have them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Project = Annotated[str, typer.Option(help="Id of the one project; its owner is user:owner@example.com.")]
PROJECT = "holdfast-dev"
Port = Annotated[int, typer.Option(min=0, max=65535, help="Port on the loopback address; 0: a free one.")]
StateDir = Annotated[
    Path | None, typer.Option(help="Where objects and tasks keep files; by default a folder that goes at the end.")
]
Universe = Annotated[str, typer.Option(help="The universe domain.")]
UNIVERSE = "googleapis.com"
Images = Annotated[
    list[str] | None,
    typer.Option(
        "--image",
        metavar="REFERENCE=COMMAND",
        help="An image that is there, and what stands for it here; repeatable.",
    ),
]
GpuQuota = Annotated[int, typer.Option(min=0, help="GPUs of each kind in each region.")]
TpuQuota = Annotated[int, typer.Option(min=0, help="TPU chips of each kind in each region.")]
Operations = Annotated[
    float | None,
    typer.Option(
        min=0.0, metavar="SECONDS", help="What each long-running operation takes; by default seconds to minutes."
    ),
]
