"""`holdfast image`: the trainer's image, built when there is none yet, and named in the stack's file."""

from __future__ import annotations

from typing import Annotated, Literal

import typer
from rich.markup import escape

from holdfast.commands.cloud import connect
from holdfast.commands.console import LeftRunning, clocked, err, out


def image(
    stack: Annotated[str, typer.Option(help="The stack whose job runs the image.")] = "dev-cloud-run",
    accelerator: Annotated[Literal["gpu", "cpu"], typer.Option(help="What the image trains on.")] = "gpu",
    base: Annotated[
        str | None,
        typer.Option(metavar="IMAGE", help="The image to start from, best with a digest.", show_default=False),
    ] = None,
    builder: Annotated[
        str | None, typer.Option(metavar="IMAGE", help="The image with docker that builds.", show_default=False)
    ] = None,
    build_region: Annotated[
        str | None, typer.Option(metavar="REGION", help="Where Cloud Build builds, if not in the foundation's region.")
    ] = None,
) -> None:
    """Build the trainer's image on Cloud Build and write its digest into the stack's file.

    The tag is a hash of the source: nothing is built when the registry has it. Ctrl-C leaves the build running (130).
    """
    from holdfast.image import of_stack
    from holdfast.image.build import BuildLeftRunning

    try:
        with out.status("") as status:  # shows nothing where the output is no terminal
            of_stack.ensure(
                stack,
                connect,
                clocked(),
                accelerator=accelerator,
                base=base,
                builder=builder,
                build_region=build_region,
                show=lambda text: status.update(escape(text)),
            )
    except BuildLeftRunning as left:
        err.print(escape(str(left)))
        raise LeftRunning(130) from None
