"""The Pulumi CLI as a rehearsal uses it: one command, its engine events, and what they add up to."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from holdfast.engine import Engine
from holdfast.errors import OperatorError
from mockgcp.planes.processes import ProcessLedger


@dataclass(frozen=True)
class Outcome:
    """What a command did and printed.

    `changes` counts resources by operation (create, same, delete, ...), the stack included.
    """

    command: str
    changes: Mapping[str, int]
    policy_violations: Sequence[Mapping[str, Any]]
    policy_packs: Mapping[str, str]
    stdout: str = ""

    @property
    def changed(self) -> int:
        """How many resources were not left as they were."""
        return sum(count for operation, count in self.changes.items() if operation != "same")


class PulumiError(OperatorError):
    """A Pulumi command failed; the message carries what the engine said, `outcome` what it did until then."""

    def __init__(self, message: str, outcome: Outcome | None = None) -> None:
        super().__init__(message)
        self.outcome = outcome


@dataclass(frozen=True)
class Pulumi:
    """A project with the engine that runs it, the whole environment of its commands, and who counts its processes."""

    engine: Engine
    project: Path
    env: Mapping[str, str]
    processes: ProcessLedger

    def run(self, *args: str) -> str:
        """Runs a command that changes no resource and returns its output.

        Raises:
            PulumiError: it failed.
        """
        done = self._run(*args)
        if done.returncode != 0:
            raise PulumiError(f"`pulumi {' '.join(args)}` failed:\n{(done.stdout + done.stderr).strip()}")
        return done.stdout

    def operate(self, verb: str, stack: str, *args: str) -> Outcome:
        """Runs preview, up, refresh or destroy on a stack and adds up the engine's events.

        Raises:
            PulumiError: the engine refused or failed.
        """
        log = self.project / f".events-{stack}.jsonl"
        log.unlink(missing_ok=True)
        yes = () if verb == "preview" else ("--yes", "--skip-preview")
        done = self._run(verb, "--stack", stack, *yes, "--event-log", str(log), *args)
        lines = log.read_text(encoding="utf-8").splitlines() if log.exists() else []
        events = [json.loads(line) for line in lines]
        summary: dict[str, Any] = next((e["summaryEvent"] for e in events if "summaryEvent" in e), {})
        outcome = Outcome(
            command=f"{verb} {stack}",
            changes=summary.get("resourceChanges", {}),
            policy_violations=[e["policyEvent"] for e in events if "policyEvent" in e],
            policy_packs=summary.get("PolicyPacks") or summary.get("policyPacks") or {},
            stdout=done.stdout,
        )
        if done.returncode != 0:
            said = _errors(events) or [(done.stdout + done.stderr).strip()]
            raise PulumiError(f"`pulumi {verb}` of {stack} failed:\n" + "\n".join(said), outcome)
        return outcome

    def outputs(self, stack: str) -> dict[str, Any]:
        """The stack's outputs."""
        found: dict[str, Any] = json.loads(self.run("stack", "output", "--stack", stack, "--json"))
        return found

    def _run(self, *args: str) -> subprocess.CompletedProcess[str]:
        command = [str(self.engine.pulumi), *args, "--non-interactive"]
        return self.processes.run(command, env=self.env, cwd=self.project)


def _errors(events: Sequence[Mapping[str, Any]]) -> list[str]:
    """What went wrong, each thing once: mandatory policy violations, then the engine's error messages."""
    violations = [
        f"policy {event['policyName']}: {event['message']}"
        for event in (e["policyEvent"] for e in events if "policyEvent" in e)
        if event.get("enforcementLevel") == "mandatory"
    ]
    diagnostics = [e["diagnosticEvent"] for e in events if "diagnosticEvent" in e]
    errors = [d for d in diagnostics if d.get("severity") == "error"]
    messages = [f"{d.get('urn', '').rpartition('::')[2]}: {_plain(d['message'])}".removeprefix(": ") for d in errors]
    found = list(dict.fromkeys([*violations, *messages]))
    # The engine adds that the program ended; where the program said why, that says nothing.
    return [text for text in found if "an unhandled error occurred" not in text] or found


def _plain(text: str) -> str:
    """The text without the engine's colour marks."""
    return re.sub(r"<\{%.*?%\}>", "", text).strip()
