"""Pulumi properties to a REST body and back, by one small table a resource type.

A table says only what differs: which names change, what never leaves Pulumi, which zero values are still sent. Paths
are dotted and without list indexes (`template.template.containers.envs`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from mockgcp.frontends.pulumi.schema import Kind, ListOf, MapOf, Object, Scalar
from mockgcp.frontends.pulumi.values import Value

# The provider marks what it made with this label and hides it from the program.
PROVISIONED = "goog-pulumi-provisioned"


@dataclass(frozen=True)
class Table:
    """How one resource type's properties become its REST resource.

    Attributes:
        names: REST name (dotted: nested further) by property path, where it is not the property's own.
        local: top-level properties that the API does not have in the body.
        sent_when_zero: paths whose false, 0 or empty value still counts.
        spelling: for top-level strings that the API answers in a spelling of its own, what makes two of them equal.
    """

    names: Mapping[str, str] = field(default_factory=dict)
    local: frozenset[str] = frozenset()
    sent_when_zero: frozenset[str] = frozenset()
    spelling: Mapping[str, Callable[[str], str]] = field(default_factory=dict)

    def same(self, path: str, one: Value, other: Value) -> bool:
        """Whether two values differ in nothing but spelling."""
        normal = self.spelling.get(path)
        return normal is not None and isinstance(one, str) and isinstance(other, str) and normal(one) == normal(other)


def to_rest(table: Table, kind: Object, properties: Mapping[str, Value]) -> dict[str, Any]:
    """The REST body for (revealed, known) properties."""
    return _object_to_rest(table, kind, properties, "")


def _object_to_rest(table: Table, kind: Object, properties: Mapping[str, Value], path: str) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for name, value in properties.items():
        here = f"{path}.{name}" if path else name
        if value is None or here in table.local or name not in kind.fields:
            continue
        sent = _value_to_rest(table, kind.fields[name], value, here)
        # An empty object is a choice (`emptyDir: {}`), any other zero is the API's default.
        if sent in (False, 0, "", [], {}) and value != {} and here not in table.sent_when_zero:
            continue
        *parents, last = table.names.get(here, name).split(".")
        target = result
        for parent in parents:
            target = target.setdefault(parent, {})
        target[last] = sent
    return result


def _value_to_rest(table: Table, kind: Kind, value: Value, path: str) -> Any:
    match kind:
        case Object():
            return _object_to_rest(table, kind, value, path)
        case ListOf():
            return [_value_to_rest(table, kind.item, item, path) for item in value]
        case MapOf():
            return {key: _value_to_rest(table, kind.item, item, path) for key, item in value.items()}
        case Scalar():
            return _scalar(kind, value)


def _scalar(kind: Scalar, value: Value) -> Any:
    if kind.name == "string" and not isinstance(value, str):
        return str(value).lower() if isinstance(value, bool) else str(value)
    if kind.name == "integer" and isinstance(value, str):
        return int(value)
    if kind.name == "boolean" and isinstance(value, str):
        return value == "true"
    return value


def from_rest(table: Table, fields: Mapping[str, Kind], rest: Mapping[str, Any], path: str = "") -> dict[str, Value]:
    """The properties that a REST resource shows, of those in `fields`; absent stays absent."""
    result: dict[str, Value] = {}
    for name, kind in fields.items():
        here = f"{path}.{name}" if path else name
        if here in table.local:
            continue
        found: Any = rest
        for step in table.names.get(here, name).split("."):
            found = found.get(step) if isinstance(found, Mapping) else None
        if found is not None:
            result[name] = _value_from_rest(table, kind, found, here)
    return result


def _value_from_rest(table: Table, kind: Kind, value: Any, path: str) -> Value:
    match kind:
        case Object():
            return from_rest(table, kind.fields, value, path)
        case ListOf():
            # The provider shows some single objects as a list of one (terminalConditions).
            items = value if isinstance(value, list) else [value]
            return [_value_from_rest(table, kind.item, item, path) for item in items]
        case MapOf():
            return {key: item for key, item in value.items() if not (path == "labels" and key == PROVISIONED)}
        case Scalar():
            return _scalar(kind, value)


def project(table: Table, kind: Kind, shape: Value, live: Value, computed: frozenset[str], path: str = "") -> Value:
    """What the live value looks like in the shape the program gave: server defaults left out, drift shown.

    Of labels the provider manages only those the program has.
    """
    match kind:
        case Object() if isinstance(shape, Mapping) and isinstance(live, Mapping):
            return {
                name: project(
                    table,
                    kind.fields[name],
                    value,
                    live.get(name, value if _nothing(value) else None),
                    computed,
                    f"{path}.{name}" if path else name,
                )
                for name, value in shape.items()
                if name in kind.fields
            }
        case ListOf() if isinstance(shape, list) and isinstance(live, list) and len(shape) == len(live):
            return [project(table, kind.item, s, v, computed, path) for s, v in zip(shape, live, strict=True)]
        case MapOf() if (
            (path in computed or path == "labels") and isinstance(shape, Mapping) and isinstance(live, Mapping)
        ):
            return {key: live[key] for key in shape if key in live}
        case Scalar():
            return shape if table.same(path, shape, live) or _scalar(kind, shape) == live else live
        case _:
            return live


def _nothing(value: Value) -> bool:
    """Whether a value says nothing but zeros, so that an API which leaves zeros out shows none of it."""
    return all(map(_nothing, value.values())) if isinstance(value, Mapping) else value in (False, 0, "", [])


def with_defaults(defaults: Mapping[str, Value], properties: Mapping[str, Value]) -> dict[str, Value]:
    """The properties with the provider's defaults filled in, by dotted path, wherever their parent is present."""
    result = dict(properties)
    for path, default in defaults.items():
        head, _, rest = path.partition(".")
        if not rest:
            if result.get(head) is None:
                result[head] = default
        elif isinstance(result.get(head), Mapping):
            result[head] = with_defaults({rest: default}, result[head])
        elif isinstance(result.get(head), list):
            result[head] = [
                with_defaults({rest: default}, item) if isinstance(item, Mapping) else item for item in result[head]
            ]
    return result
