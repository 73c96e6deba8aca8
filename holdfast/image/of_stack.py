"""The image of a stack's job: from its files, and named in them."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast import stackfile
from holdfast.errors import OperatorError
from holdfast.gcp.api import Api
from holdfast.image import archive, stack_image
from holdfast.image.build import BUILDER, Image, Place, ensure_image
from holdfast.toolcache import Progress

if TYPE_CHECKING:
    from stacks.config import Target


def ensure(
    stack: str,
    connect: Callable[[Target], Api],
    say: Progress,
    *,
    accelerator: archive.Accelerator,
    base: str | None = None,
    builder: str | None = None,
    build_region: str | None = None,
    folder: Path = stackfile.FOLDER,
    show: Progress = lambda text: None,
    pause: Callable[[float], None] = time.sleep,
) -> Image:
    """Builds the image unless the registry has it, and writes its digest into the stack's file.

    Args:
        base, builder: in place of the configuration's, and those in place of the defaults.
        build_region: in place of the foundation's.
        folder: where the stacks' files are.
        show, pause: as of `ensure_image`.

    Raises:
        OperatorError: a stack's file is missing or wrong, or the build is refused or failed. BuildLeftRunning.
    """
    from stacks.config import CloudRunConfig, FoundationConfig

    if (module := stackfile.module(stack, folder)) != "cloud-run":
        raise OperatorError(f"stack {stack} ({module}) runs no image; --stack names one whose job does: cloud-run")
    config, target = stackfile.read(CloudRunConfig, stack, folder)
    foundation, there = stackfile.read(FoundationConfig, config.foundation_stack(stack), folder)
    source = archive.pack(accelerator, base or config.image_base or archive.BASE)
    for name in source.left_out:
        say(f"warning: {name} is not in git, so it is not in the image: `git add` it")
    where = Place(
        there.project,
        there.region,
        foundation.repository(there),
        foundation.source_bucket(there),
        foundation.build_account_email(there),
        build_region,
    )
    image = ensure_image(
        connect(target), where, source, say, builder=builder or config.image_builder or BUILDER, show=show, pause=pause
    )
    path = stackfile.path(stack, folder)
    written = stack_image.write(path, image.reference)
    say(f"{stack_image.KEY}: {image.reference}")
    say(f"written into {path.name}" if written else f"{path.name} has it already")
    return image
