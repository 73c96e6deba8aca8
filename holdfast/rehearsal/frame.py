"""What every rehearsal does around its scenario: preview and up with the policies, a second up, destroy, a last look.

Each part appends its story to the report, so that a report says how far a rehearsal came even when it failed.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from holdfast.errors import OperatorError
from holdfast.rehearsal.pulumi_cli import Outcome, Pulumi, PulumiError
from holdfast.rehearsal.report import Report, Story, phase
from holdfast.rehearsal.sealed import Sealed, StackFile, write_stack
from holdfast.toolcache import Progress
from mockgcp.audit import AuditEntry
from mockgcp.cloud import Cloud
from mockgcp.errors import ApiError
from mockgcp.planes.processes import ProcessLedger
from mockgcp.planes.protocol import Plane

# How long the last processes may take to see that their parent is gone.
_SETTLE_S = 3.0


@dataclass(frozen=True)
class Frame:
    """A rehearsal that is set up. `files` are the stacks' configuration by stack, in the order they come up.

    `others`: who else started processes, besides the engine and the planes.
    """

    sealed: Sealed
    cloud: Cloud
    planes: Sequence[Plane]
    pulumi: Pulumi
    files: Mapping[str, StackFile]
    report: Report
    say: Progress
    others: Sequence[ProcessLedger] = ()

    @property
    def ledgers(self) -> list[ProcessLedger]:
        """Everybody who started processes."""
        return [self.pulumi.processes, *(plane.processes for plane in self.planes), *self.others]


def deploy(
    frame: Frame, before: Callable[[str], None] = lambda stack: None, verbs: Sequence[str] = ("preview", "up")
) -> None:
    """Previews and brings up every stack, judged by the policy pack; `before` is called ahead of each.

    `verbs`: without `up`, all is previewed, and nothing deployed.

    Raises:
        PulumiError: a command failed.
    """
    outcomes: list[Outcome] = []
    try:
        with phase(frame.report.phases, "init"):
            for stack, file in frame.files.items():
                write_stack(frame.sealed, stack, file)
                frame.pulumi.run("stack", "init", stack)
                for path in file.secrets:
                    frame.pulumi.run("config", "set", "--stack", stack, "--secret", "--path", path, "rehearsal")
        for stack in frame.files:
            before(stack)
            for verb in verbs:
                with phase(frame.report.phases, verb):
                    outcomes.append(_operate(frame, verb, stack))
    except PulumiError as error:
        outcomes += [error.outcome] if error.outcome else []
        raise
    finally:
        ups = [outcome for outcome in outcomes if outcome.command.startswith("up ")]
        frame.report.resources_created = sum(outcome.changes.get("create", 0) for outcome in ups)
        frame.report.policy_violations = sum(len(outcome.policy_violations) for outcome in outcomes)
        if "up" in verbs:
            frame.report.stories.append(deployed_story(outcomes, len(frame.files), frame.cloud.audit.entries()))
        frame.report.stories.append(policy_story(outcomes))


@contextmanager
def ends_in(report: Report) -> Iterator[None]:
    """What goes wrong in the block ends up in the report's error, beside the stories so far."""
    try:
        yield
    except ApiError as error:
        report.error = f"the emulated cloud refused: {error}"
    except OperatorError as error:
        report.error = str(error)


def second_up(frame: Frame) -> None:
    """Brings every stack up again, which must change nothing.

    Raises:
        PulumiError: a command failed.
    """
    with phase(frame.report.phases, "second up"):
        again = [_operate(frame, "up", stack) for stack in frame.files]
    changes = sum(outcome.changed for outcome in again)
    frame.report.second_up_changes = changes
    evidence = {outcome.command: dict(outcome.changes) for outcome in again}
    frame.report.stories.append(Story(name="second-up-changes-nothing", held=changes == 0, evidence=evidence))


def destroy(frame: Frame) -> None:
    """Destroys every stack, last first, and looks for what is left over, before anything is ended by force.

    Raises:
        PulumiError: a command failed.
    """
    with phase(frame.report.phases, "destroy"):
        gone = [_operate(frame, "destroy", stack) for stack in reversed(list(frame.files))]
        frame.report.leftover_resources = [f"{kind} {name}" for kind, name in frame.cloud.resources()]
        frame.report.leftover_processes = _leftover_processes(frame.ledgers)
    frame.report.stories.append(
        Story(
            name="nothing-left-over",
            held=not frame.report.leftover_resources and not frame.report.leftover_processes,
            evidence={outcome.command: dict(outcome.changes) for outcome in gone},
        )
    )


def _leftover_processes(ledgers: Sequence[ProcessLedger]) -> list[str]:
    deadline = time.monotonic() + _SETTLE_S
    while True:
        alive = [process for ledger in ledgers for process in ledger.alive()]
        if not alive or time.monotonic() > deadline:
            return [str(process) for process in alive]
        time.sleep(0.1)


def _operate(frame: Frame, verb: str, stack: str) -> Outcome:
    began = time.monotonic()
    packs = () if verb == "destroy" else ("--policy-pack", str(frame.sealed.policies))
    outcome = frame.pulumi.operate(verb, stack, *packs)
    counts = ", ".join(f"{count} {operation}" for operation, count in outcome.changes.items()) or "nothing to do"
    judged = f"; policies: {len(outcome.policy_violations)} violations" if outcome.policy_packs else ""
    frame.say(f"pulumi {verb} {stack}: {counts}{judged} ({time.monotonic() - began:.1f} s)")
    return outcome


def deployed_story(outcomes: Sequence[Outcome], stacks: int, audit: Sequence[AuditEntry]) -> Story:
    """Every stack came up, and the last answer to each request that makes something was a good one.

    The last, because a client rightly repeats what was refused for a while (a concurrent change of a policy).
    """
    made = [entry for entry in audit if entry.method.endswith((".create", ".insert", ".enable", ".setIamPolicy"))]
    last = {(entry.method, json.dumps(entry.params, sort_keys=True)): entry.code for entry in made}
    ups = [outcome for outcome in outcomes if outcome.command.startswith("up ")]
    return Story(
        name="deployed",
        held=len(ups) == stacks and all(outcome.changes for outcome in ups) and set(last.values()) == {200},
        evidence={
            "summaries": {outcome.command: dict(outcome.changes) for outcome in outcomes},
            "requests": [{"method": e.method, "code": e.code, "time": e.time} for e in made],
        },
    )


def policy_story(outcomes: Sequence[Outcome]) -> Story:
    """Every preview and up was judged by our pack, and it had nothing against it."""
    violations: list[dict[str, Any]] = [dict(event) for outcome in outcomes for event in outcome.policy_violations]
    packs = {outcome.command: dict(outcome.policy_packs) for outcome in outcomes}
    judged = bool(packs) and all(any("holdfast" in name for name in found) for found in packs.values())
    return Story(name="policies", held=judged and not violations, evidence={"packs": packs, "violations": violations})
