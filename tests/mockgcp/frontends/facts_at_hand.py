"""What is known of the official provider, where it is at hand: its schema, and what it was seen to send.

The folder is HOLDFAST_FACTS, else ../shared/facts beside the repository. It is no part of the project: where it is
absent, conftest.py leaves the tests of it out.
"""

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from mockgcp.frontends.pulumi.resources import RESOURCES

FACTS = Path(os.environ.get("HOLDFAST_FACTS") or Path(__file__).parents[4] / "shared" / "facts")


def _schemas() -> dict[str, Mapping[str, Any]]:
    path = FACTS / "provider_schema.json"
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


def _states() -> list[Mapping[str, Any]]:
    path = FACTS / "recorded" / "state.json"
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else []


def requests() -> list[Mapping[str, Any]]:
    """The recorded requests, in order."""
    return [json.loads(line) for line in (FACTS / "recorded" / "requests.jsonl").read_text().splitlines()]


SCHEMAS = {token: schema["inputs"] for token, schema in _schemas().items() if token in RESOURCES}
STATES = [state for state in _states() if state["type"] in RESOURCES]


def properties(inputs: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Every property of a recorded schema by its dotted path."""
    for name, schema in inputs.items():
        here = f"{path}.{name}" if path else name
        yield here, schema
        yield from properties(schema.get("fields", {}), here)
