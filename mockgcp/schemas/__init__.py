"""Google's discovery documents as the emulator's law: which methods exist, and what they take and answer.

The documents come with google-api-python-client (static discovery); APIs that have none have a hand-written,
discovery-shaped one beside this file (`mockgcp.v1.json`: what the planes report to the services).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

Schema = Mapping[str, Any]

# The version of each API that the emulator answers. A discovery method id carries no version, so there is one an API.
VERSIONS: Mapping[str, str] = {
    "cloudresourcemanager": "v1",
    "iam": "v1",
    "logging": "v2",
    "mockgcp": "v1",
    "run": "v2",
    "serviceusage": "v1",
    "storage": "v1",
}


@dataclass(frozen=True)
class Method:
    """One method of a discovery document."""

    id: str
    api: str
    http_method: str
    path: str
    params: Mapping[str, Schema]
    global_params: Mapping[str, Schema]
    request: Schema | None
    response: Schema | None
    schemas: Mapping[str, Schema]


def _read(api: str) -> dict[str, Any]:
    name = f"{api}.{VERSIONS[api]}.json"
    own = resources.files(__package__) / name
    path = own if own.is_file() else resources.files("googleapiclient.discovery_cache.documents") / name
    document: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return document


def _walk(node: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    yield from node.get("methods", {}).values()
    for child in node.get("resources", {}).values():
        yield from _walk(child)


@cache
def methods(api: str) -> Mapping[str, Method]:
    """Every method of an API by id.

    Raises:
        KeyError: the emulator answers no API of that name.
    """
    document = _read(api)
    return {
        m["id"]: Method(
            id=m["id"],
            api=api,
            http_method=m["httpMethod"],
            path=m["path"],
            params=m.get("parameters", {}),
            global_params=document.get("parameters", {}),
            request=m.get("request"),
            response=m.get("response"),
            schemas=document["schemas"],
        )
        for m in _walk(document)
    }


def method(method_id: str) -> Method | None:
    """The method of that id, or None where no document of the emulator has it."""
    api = method_id.partition(".")[0]
    return methods(api).get(method_id) if api in VERSIONS else None
