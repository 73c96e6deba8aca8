"""The codec: what the engine and the mock monitor put on the wire, and plain Python values with two marks.

Decoded values are None, bool, int, float, str, lists and dicts, plus `Secret(value)` and `UNKNOWN` (a preview's "known
after apply"). Numbers that are whole become ints: the wire has only doubles.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from google.protobuf import struct_pb2
from pulumi.runtime import rpc

Value = Any

# The wire's marks are part of Pulumi's protocol (sdk/go/common/resource/plugin/rpc.go); the SDK names them privately.
_SIG = rpc._special_sig_key
_SECRET = rpc._special_secret_sig
_OUTPUT = rpc._special_output_value_sig
_RESOURCE = rpc._special_resource_sig
_UNKNOWNS = frozenset(
    {
        rpc.UNKNOWN,  # a string
        "1c4a061d-8072-4f0a-a4cb-0ff528b18fe7",  # bool
        "3eeb2bf0-c639-47a8-9e75-3b44932eb421",  # number
        "6a19a0b0-7e62-4c92-b797-7f8e31da9cc2",  # list
        "030794c1-ac77-496b-92df-f27374a8bd58",  # asset
        "e48ece36-62e2-4504-bad9-02848725956a",  # archive
        "dd056dcd-154b-4c76-9bd3-c8f88648b5ff",  # object
    }
)


class _Unknown:
    def __repr__(self) -> str:
        return "UNKNOWN"

    def __deepcopy__(self, memo: Any) -> _Unknown:
        return self


UNKNOWN: Final = _Unknown()


@dataclass(frozen=True)
class Secret:
    """A value the engine must encrypt wherever it is kept and never show."""

    value: Value

    def __repr__(self) -> str:
        return "Secret(...)"


# The official provider notes under this key which inputs it made up itself; the engine keeps it out of sight.
MADE_UP = "__defaults"


class UnsupportedValueError(ValueError):
    """A kind of value the emulator cannot take."""


def decode(wire: Value) -> Value:
    """A decoded value from plain wire JSON, or from what the mock monitor passes.

    Raises:
        UnsupportedValueError: an asset or archive.
    """
    if isinstance(wire, struct_pb2.Struct):
        return {key: decode(item) for key, item in wire.fields.items()}
    if isinstance(wire, struct_pb2.Value):
        return _decode_proto(wire)
    if isinstance(wire, Mapping):
        return _decode_mapping({key: decode(item) for key, item in wire.items()})
    if isinstance(wire, (list, tuple)):
        return [decode(item) for item in wire]
    if isinstance(wire, str):
        return UNKNOWN if wire in _UNKNOWNS else wire
    if isinstance(wire, float) and wire.is_integer():
        return int(wire)
    if wire is None or isinstance(wire, (bool, int, float, Secret, _Unknown)):
        return wire
    if type(wire).__name__ == "Unknown":
        return UNKNOWN
    raise UnsupportedValueError(f"mockgcp takes no {type(wire).__name__} as a property value")


def _decode_proto(wire: struct_pb2.Value) -> Value:
    kind = wire.WhichOneof("kind")
    if kind == "struct_value":
        return _decode_mapping({key: _decode_proto(item) for key, item in wire.struct_value.fields.items()})
    if kind == "list_value":
        return [_decode_proto(item) for item in wire.list_value.values]
    return decode(
        {"string_value": wire.string_value, "number_value": wire.number_value, "bool_value": wire.bool_value}.get(
            kind or ""
        )
    )


def _decode_mapping(items: dict[str, Value]) -> Value:
    match items.get(_SIG):
        case None:
            return items
        case sig if sig == _SECRET:
            return Secret(items.get("value"))
        case sig if sig == _OUTPUT:
            inner = items.get("value", UNKNOWN)
            return Secret(inner) if items.get("secret") else inner
        case sig if sig == _RESOURCE:
            return items.get("id", UNKNOWN)
        case _:
            raise UnsupportedValueError("mockgcp takes no assets or archives yet")


def encode(value: Value) -> Value:
    """A decoded value as plain wire JSON."""
    if isinstance(value, Secret):
        return {_SIG: _SECRET, "value": encode(value.value)}
    if value is UNKNOWN:
        return rpc.UNKNOWN
    if isinstance(value, Mapping):
        return {key: encode(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [encode(item) for item in value]
    return value


def to_struct(value: Mapping[str, Value]) -> struct_pb2.Struct:
    """A decoded object as a protobuf Struct."""
    result = struct_pb2.Struct()
    result.update(encode(value))
    return result


def reveal(value: Value) -> Value:
    """The value with every Secret taken off, at any depth."""
    if isinstance(value, Secret):
        return reveal(value.value)
    if isinstance(value, Mapping):
        return {key: reveal(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [reveal(item) for item in value]
    return value


def _leaves(value: Value) -> Iterator[Value]:
    yield value
    if isinstance(value, Secret):
        yield from _leaves(value.value)
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from _leaves(item)
    elif isinstance(value, Sequence) and not isinstance(value, str):
        for item in value:
            yield from _leaves(item)


def has_unknown(value: Value) -> bool:
    return any(leaf is UNKNOWN for leaf in _leaves(value))


def has_secret(value: Value) -> bool:
    return any(isinstance(leaf, Secret) for leaf in _leaves(value))


def keep_secrets(inputs: Mapping[str, Value], outputs: Mapping[str, Value]) -> dict[str, Value]:
    """The outputs with every property marked secret whose input holds a secret anywhere."""
    return {
        key: Secret(value) if has_secret(inputs.get(key)) and not isinstance(value, Secret) else value
        for key, value in outputs.items()
    }
