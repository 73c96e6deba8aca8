"""Google's discovery documents as the emulator's law: which methods exist, and what they take and answer.

The documents come with google-api-python-client (static discovery). A discovery-shaped document beside this file is
laid over Google's of the same name, or stands alone (`mockgcp.v1.json`: what the planes report to the services).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

Schema = Mapping[str, Any]

# The versions of each API that the emulator answers. A discovery method's id carries no version: the first one that has
# the id is meant (monitoring's dashboards are in v1 alone, the rest in v3).
VERSIONS: Mapping[str, tuple[str, ...]] = {
    "aiplatform": ("v1beta1",),
    "artifactregistry": ("v1",),
    "billingbudgets": ("v1",),
    "cloudbilling": ("v1",),
    "cloudbuild": ("v1",),
    "cloudresourcemanager": ("v1",),
    "compute": ("v1",),
    "container": ("v1beta1",),
    "file": ("v1",),
    "iam": ("v1",),
    "logging": ("v2",),
    "mockgcp": ("v1",),
    "monitoring": ("v3", "v1"),
    "run": ("v2",),
    "serviceusage": ("v1", "v1beta1"),
    "storage": ("v1",),
}


@dataclass(frozen=True)
class Method:
    """One method of a discovery document. `path`: URI template below the API's root. `media`: it takes an upload."""

    id: str
    api: str
    version: str
    http_method: str
    path: str
    media: bool
    params: Mapping[str, Schema]
    global_params: Mapping[str, Schema]
    request: Schema | None
    response: Schema | None
    schemas: Mapping[str, Schema]


def document(api: str, version: str) -> dict[str, Any]:
    """Google's discovery document of an API, with ours laid over it. FileNotFoundError: there is neither."""
    name = f"{api}.{version}.json"
    folders = ("googleapiclient.discovery_cache.documents", __package__)
    paths = [path for path in (resources.files(folder) / name for folder in folders) if path.is_file()]
    if not paths:
        raise FileNotFoundError(f"neither google-api-python-client nor mockgcp has a discovery document {name}")
    both: dict[str, Any] = {}
    for path in paths:
        both = overlaid(both, json.loads(path.read_text(encoding="utf-8")))
    return both


def overlaid(under: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Two documents as one: objects are merged key by key, and of anything else `over` has the last word."""
    both = {key: overlaid(under[key], over[key]) for key in under.keys() & over.keys() if _objects(under, over, key)}
    return {**under, **over, **both}


def _objects(under: Mapping[str, Any], over: Mapping[str, Any], key: str) -> bool:
    return isinstance(under[key], Mapping) and isinstance(over[key], Mapping)


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
    found: dict[str, Method] = {}
    for version in VERSIONS[api]:
        found_in = document(api, version)
        for m in _walk(found_in):
            found.setdefault(
                m["id"],
                Method(
                    id=m["id"],
                    api=api,
                    version=version,
                    http_method=m["httpMethod"],
                    path=found_in.get("servicePath", "") + m["path"],
                    media=m.get("supportsMediaUpload", False),
                    params=m.get("parameters", {}),
                    global_params=found_in.get("parameters", {}),
                    request=m.get("request"),
                    response=m.get("response"),
                    schemas=found_in["schemas"],
                ),
            )
    return found


def method(method_id: str) -> Method | None:
    """The method of that id, or None where no document of the emulator has it."""
    api = method_id.partition(".")[0]
    return methods(api).get(method_id) if api in VERSIONS else None
