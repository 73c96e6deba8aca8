"""Manifests against the schemas of the CRDs in a cluster, without one: what the API server's strict validation refuses.

Deliberately not done: the rules in CEL (x-kubernetes-validations), and what webhooks refuse. Those take the plane.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

import yaml
from jsonschema import Draft4Validator  # type: ignore[import-untyped]

from mockgcp.planes.k8s.programs import Programs

Schemas = Mapping[tuple[str, str], Any]
"""The validator of each apiVersion and kind."""

_PLACEHOLDER = re.compile(r"\{\{.*?\}\}", re.DOTALL)
# Python has a pattern's flags first, Go anywhere.
_GO_FLAG = re.compile(r"^\^(\(\?\w+\))")
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def schemas(programs: Programs, *kinds: str) -> Schemas:
    """Those of KubeRay, of ProvisioningRequest, and of Kueue as its chart has them; or of `kinds` alone.

    KubeRay's are a megabyte each, and take seconds to read.
    """
    texts = (
        path.read_text(encoding="utf-8") for path in [*programs.crds, *(programs.chart / "templates/crd").iterdir()]
    )
    wanted = [text for text in texts if not kinds or any(f"\n    kind: {kind}\n" in text for kind in kinds)]
    # The chart's placeholders are in the metadata and the webhook's address, in no schema.
    loaded = (each for text in wanted for each in yaml.load_all(_PLACEHOLDER.sub("", text), _LOADER))
    return of_documents(each for each in loaded if each)


def of_documents(crds: Iterable[Mapping[str, Any]]) -> Schemas:
    """Those of CRDs, in each version that is served."""
    return {
        (f"{spec['group']}/{version['name']}", spec["names"]["kind"]): Draft4Validator(
            _object(version["schema"]["openAPIV3Schema"])
        )
        for spec in (crd["spec"] for crd in crds)
        for version in spec["versions"]
        if version["served"]
    }


def problems(manifest: Mapping[str, Any], known: Schemas) -> list[str]:
    """What is wrong with a custom resource: where, and what. One of a kind that no CRD has is wrong as a whole."""
    version, kind = str(manifest.get("apiVersion")), str(manifest.get("kind"))
    if (version, kind) not in known:
        versions = sorted(each for each, its_kind in known if its_kind == kind)
        return [f"no CRD has {kind} of {version}" + (f"; it is served as {', '.join(versions)}" if versions else "")]
    name = f"{kind} {manifest.get('metadata', {}).get('name', '')}"
    errors = sorted(known[version, kind].iter_errors(manifest), key=lambda error: error.json_path)
    return [f"{name}: {error.json_path.removeprefix('$.')}: {error.message}" for error in errors]


def _object(schema: Mapping[str, Any]) -> dict[str, Any]:
    """The schema of a whole object. Its metadata is Kubernetes' own, and the CRD says nothing of it."""
    made = _strict(schema)
    made["properties"] = {**made["properties"], "metadata": {"type": "object"}}
    return made


def _strict(schema: Mapping[str, Any]) -> dict[str, Any]:
    """A structural schema in JSON Schema's words, in which an object has only the fields that it names.

    OpenAPI 3.0's exclusive bounds are draft 4's. anyOf and the like only judge values: fields are not named in them.
    """
    made = {key: value for key, value in schema.items() if not key.startswith("x-kubernetes-") and key != "nullable"}
    if "properties" in made:
        made["properties"] = {name: _strict(each) for name, each in made["properties"].items()}
    for key in ("items", "additionalProperties"):
        if isinstance(made.get(key), Mapping):
            made[key] = _strict(made[key])
    if schema.get("type") == "object" and not schema.get("x-kubernetes-preserve-unknown-fields"):
        made.setdefault("additionalProperties", False)
    if "pattern" in made:
        made["pattern"] = _GO_FLAG.sub(r"\1^", made["pattern"])
    if schema.get("nullable") and "type" in made:
        made["type"] = [made["type"], "null"]
    return made
