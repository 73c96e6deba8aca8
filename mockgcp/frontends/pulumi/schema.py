"""The provider's types, read from the pulumi_gcp classes: property names as the engine has them, and their kinds.

The SDK's own classes are the only description of the provider that travels with it, so names and types are checked
against exactly what the user's program imports.
"""

from __future__ import annotations

import difflib
import enum
import inspect
import types
import typing
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import pulumi
from pulumi import _types as sdk

from mockgcp.frontends.pulumi.values import MADE_UP, UNKNOWN, Secret, Value


@dataclass(frozen=True)
class Scalar:
    """string, integer, number, boolean or any."""

    name: str


@dataclass(frozen=True)
class ListOf:
    item: Kind


@dataclass(frozen=True)
class MapOf:
    item: Kind


@dataclass(frozen=True)
class Object:
    """An object by its SDK class; its fields are looked up when needed, since types may refer to themselves."""

    cls: type

    @property
    def fields(self) -> Mapping[str, Kind]:
        return _fields(self.cls)

    @property
    def required(self) -> frozenset[str]:
        return _required(self.cls)


Kind = Scalar | ListOf | MapOf | Object

_SCALARS: Mapping[Any, str] = {str: "string", int: "integer", float: "number", bool: "boolean"}


@cache
def _fields(cls: type) -> Mapping[str, Kind]:
    hints = sdk.input_type_types(cls) if sdk.is_input_type(cls) else sdk.output_type_types(cls)
    return {name: _kind(hint) for name, hint in hints.items()}


@cache
def outputs(resource: type) -> Mapping[str, Kind]:
    """The output properties of a resource class by their engine names."""
    names = sdk.resource_py_to_pulumi_names(resource)
    types_ = sdk.resource_types(resource)
    return {name: _kind(types_[name]) for name in names.values() if name in types_}


@cache
def _required(cls: type) -> frozenset[str]:
    names = sdk.input_type_py_to_pulumi_names(cls)
    parameters = inspect.signature(cls.__init__).parameters  # type: ignore[misc]
    return frozenset(
        names[name] for name, p in parameters.items() if name in names and p.default is inspect.Parameter.empty
    )


def _kind(hint: Any) -> Kind:
    hint = _strip(hint)
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if origin is not None and isinstance(origin, type):
        if issubclass(origin, Mapping):
            return MapOf(_kind(args[1]))
        if issubclass(origin, Sequence):
            return ListOf(_kind(args[0]))
    if isinstance(hint, type):
        if hint in _SCALARS:
            return Scalar(_SCALARS[hint])
        if sdk.is_input_type(hint) or sdk.is_output_type(hint):
            return Object(hint)
        if issubclass(hint, enum.Enum):
            return Scalar("string")
    return Scalar("any")


def _strip(hint: Any) -> Any:
    """The one type that Input[...], Output[...] and Optional[...] are wrapped around."""
    if typing.get_origin(hint) is pulumi.Output:
        return _strip(typing.get_args(hint)[0])
    if typing.get_origin(hint) not in (typing.Union, types.UnionType):
        return hint
    plain = [
        arg
        for arg in typing.get_args(hint)
        if arg is not type(None)
        and typing.get_origin(arg) is not pulumi.Output
        and getattr(typing.get_origin(arg), "__name__", "") != "Awaitable"
    ]
    typed = [arg for arg in plain if isinstance(arg, type) and sdk.is_input_type(arg)] or plain
    return _strip(typed[0]) if len(typed) == 1 else Any


@dataclass(frozen=True)
class Failure:
    """One refused input: its property path, and why."""

    path: str
    reason: str

    def __str__(self) -> str:
        return f"{self.path} {self.reason}".strip()


def check(kind: Object, values: Mapping[str, Value]) -> list[Failure]:
    """Unknown names, wrong types and missing required properties, each with its path."""
    return list(_check(kind, values, ""))


def _check(kind: Kind, value: Value, path: str) -> typing.Iterator[Failure]:
    if isinstance(value, Secret):
        value = value.value
    if value is None or value is UNKNOWN:
        return
    match kind:
        case Object():
            if not isinstance(value, Mapping):
                yield _wrong(path, "an object", value)
                return
            for name, item in value.items():
                if name == MADE_UP:
                    continue
                if name not in kind.fields:
                    yield Failure(_join(path, name), unknown_name(kind, name))
                else:
                    yield from _check(kind.fields[name], item, _join(path, name))
            for name in sorted(kind.required - {n for n, item in value.items() if item is not None}):
                yield Failure(_join(path, name), "is required and missing")
        case ListOf():
            if not isinstance(value, list):
                yield _wrong(path, "a list", value)
                return
            for index, item in enumerate(value):
                yield from _check(kind.item, item, f"{path}[{index}]")
        case MapOf():
            if not isinstance(value, Mapping):
                yield _wrong(path, "a map", value)
                return
            for key, item in value.items():
                yield from _check(kind.item, item, f'{path}["{key}"]')
        case Scalar():
            if not _is_scalar(kind.name, value):
                yield _wrong(path, f"{'an' if kind.name == 'integer' else 'a'} {kind.name}", value)


def _is_scalar(name: str, value: Value) -> bool:
    match name:
        case "any":
            return True
        case "boolean":
            return isinstance(value, bool) or value in ("true", "false")
        case "string":
            # The engine's providers take numbers and booleans for strings, as YAML users expect.
            return isinstance(value, (str, int, float))
        case "integer":
            return (isinstance(value, int) and not isinstance(value, bool)) or _parses(int, value)
        case _:
            return (isinstance(value, (int, float)) and not isinstance(value, bool)) or _parses(float, value)


def _parses(kind: type, value: Value) -> bool:
    if not isinstance(value, str):
        return False
    try:
        kind(value)
    except ValueError:
        return False
    return True


def _wrong(path: str, expected: str, value: Value) -> Failure:
    # The value itself stays out: it may have been a secret.
    return Failure(path, f"expected {expected}, got {type(value).__name__}")


def unknown_name(kind: Object, name: str) -> str:
    near = difflib.get_close_matches(name, kind.fields, n=1)
    hint = f"did you mean {near[0]!r}?" if near else f"it has {', '.join(sorted(kind.fields))}"
    return f"is not a property of {kind.cls.__name__.removesuffix('Args')}: {hint}"


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name
