"""What an operator does before `up`, in a rehearsal: the preflight of each stack, and the image."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from holdfast.gcp.emulated import EmulatedApi
from holdfast.image import of_stack
from holdfast.image.build import Image
from holdfast.preflight import PreflightReport
from holdfast.preflight import run as look
from holdfast.rehearsal.frame import Frame
from holdfast.rehearsal.report import Story, phase
from mockgcp.audit import AuditEntry

_POLL_S = 0.1


def preflight(stage: Frame, stack: str, skip: Sequence[str] = ()) -> PreflightReport:
    """Looks at what the stack's `up` needs, with the operator's own command on the emulated cloud."""
    with phase(stage.report.phases, "preflight"):
        found = look(stack, lambda target: EmulatedApi(stage.cloud), folder=stage.sealed.project / "stacks", skip=skip)
    counts = {status: sum(check.status == status for check in found.checks) for status in ("ok", "warn", "failed")}
    stage.say(f"preflight {stack}: {', '.join(f'{count} {status}' for status, count in counts.items() if count)}")
    for check in found.checks:
        if check.status != "ok" or check.name in ("quota", "price"):
            stage.say(f"  {check.name}: {'' if check.status == 'ok' else f'{check.status}: '}{check.found}")
    return found


def preflight_story(found: Sequence[PreflightReport], stacks: int) -> Story:
    """Every stack was looked at before its `up`, and nothing stood in its way."""
    held = len(found) == stacks and all(report.exit_code == 0 for report in found)
    return Story(name="preflight", held=held, evidence={report.stack: report.model_dump() for report in found})


def price(found: Sequence[PreflightReport]) -> tuple[float | None, str]:
    """What an hour costs, and its currency; None where that is not known."""
    known: dict[str, Any] = next((c.figures for each in found for c in each.checks if c.name == "price"), {})
    return known.get("hour"), known.get("currency", "")


def image(stage: Frame, stack: str) -> Image:
    """Builds the job's image on the emulated Cloud Build, twice, and names it in the stack's file of this rehearsal.

    Raises:
        OperatorError: it cannot be built.
    """
    folder = stage.sealed.project / "stacks"

    def ensure() -> Image:
        return of_stack.ensure(
            stack,
            lambda target: EmulatedApi(stage.cloud),
            stage.say,
            folder=folder,
            accelerator="cpu",
            pause=lambda seconds: time.sleep(_POLL_S),
        )

    with phase(stage.report.phases, "image"):
        made, again = ensure(), ensure()
    builds = stage.cloud.audit.entries("cloudbuild.*.create", ok=True)
    stage.report.stories.append(image_story(made, again, builds))
    return made


def image_story(made: Image, again: Image, builds: Sequence[AuditEntry]) -> Story:
    """The first call built the image; the second found the same one, and nothing was built."""
    held = made.built and not again.built and made.reference == again.reference and len(builds) == 1
    return Story(
        name="image",
        held=held,
        evidence={
            "first": {"reference": made.reference, "built": made.built},
            "second": {"reference": again.reference, "built": again.built},
            "builds": [{"request": entry.request, "time": entry.time} for entry in builds],
        },
    )
