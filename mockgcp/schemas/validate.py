"""Checks and normalises JSON against a discovery schema, as lenient as proto-JSON and no more.

Taken: snake_case names, null for absent, 64-bit integers as numbers or strings, integral floats, "true"/"false" for
booleans, numbers as strings. Refused: unknown names, wrong types, unknown enum values, malformed formats, each with its
path and in the words of Google's front end. Output-only fields are dropped from requests, as the servers do.
Deliberately not done: enum values by number (a discovery document does not carry the numbers).
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from mockgcp.errors import invalid
from mockgcp.schemas import Method, Schema

_INT_RANGES = {
    "int32": (-(2**31), 2**31 - 1),
    "uint32": (0, 2**32 - 1),
    "int64": (-(2**63), 2**63 - 1),
    "uint64": (0, 2**64 - 1),
}
_DURATION = re.compile(r"-?\d{1,12}(\.\d{1,9})?s")
_TIMESTAMP = re.compile(r"\d{4}-\d{2}-\d{2}[Tt]\d{2}:\d{2}:\d{2}(\.\d+)?([Zz]|[+-]\d{2}:\d{2})")
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")
_FIELD_MASK = re.compile(r"[A-Za-z0-9_.*,]*")
_SNAKE = re.compile(r"_([a-z0-9])")
_INTEGER = re.compile(r"-?[0-9]+")


def body(method: Method, value: Any) -> Any:
    """The normalised request body of a call.

    Raises:
        ApiError: INVALID_ARGUMENT naming the first offending path.
    """
    if method.request is None:
        if value:
            raise invalid(f"{method.id} takes no request body, but one was sent")
        return None
    return _walk(method.request, {} if value is None else value, "", method.schemas, output=False)


def response(method: Method, value: Any) -> Any:
    """The normalised response; an error here is a defect of the emulator, not of the caller."""
    if method.response is None:
        return {}
    return _walk(method.response, value, "", method.schemas, output=True)


def of_type(method: Method, name: str, value: Any) -> Any:
    """The normalised value of the schema `name` in the method's document; as in `response`, an error is a defect."""
    return _walk({"$ref": name}, value, "", method.schemas, output=True)


def params(method: Method, values: Mapping[str, Any]) -> dict[str, Any]:
    """The normalised path and query parameters.

    Raises:
        ApiError: INVALID_ARGUMENT for an unknown, missing or malformed parameter.
    """
    known = {**method.global_params, **method.params}
    result: dict[str, Any] = {}
    for name, value in values.items():
        if name not in known:
            raise invalid(
                f'Invalid JSON payload received. Unknown name "{name}": Cannot bind query parameter. '
                f"Field '{name}' could not be found in request message of {method.id}.",
                (name, "unknown parameter"),
            )
        if value is None:
            continue
        schema = known[name]
        many = schema.get("repeated", False)
        items = value if many and isinstance(value, (list, tuple)) else [value]
        checked = [_walk(schema, item, name, method.schemas, output=False) for item in items]
        if pattern := schema.get("pattern"):
            for item in checked:
                if not re.search(pattern, str(item)):
                    raise invalid(f"Invalid value for {name}: {item!r} does not match {pattern}", (name, "malformed"))
        result[name] = checked if many else checked[0]
    for name, schema in method.params.items():
        if (schema.get("required") or schema.get("location") == "path") and name not in result:
            raise invalid(f"Missing required parameter {name!r} of {method.id}.", (name, "required"))
    return result


def _walk(schema: Schema, value: Any, path: str, schemas: Mapping[str, Schema], *, output: bool) -> Any:
    if "$ref" in schema:
        return _walk(schemas[schema["$ref"]], value, path, schemas, output=output)
    kind = schema.get("type", "any")
    if kind == "object":
        return _object(schema, value, path, schemas, output=output)
    if kind == "array":
        if not isinstance(value, (list, tuple)):
            raise _bad(path, "list", value)
        return [
            _walk(schema["items"], item, f"{path}[{i}]", schemas, output=output)
            for i, item in enumerate(value)
            if item is not None
        ]
    return value if kind == "any" else _SCALARS[kind](schema, value, path)


def _object(schema: Schema, value: Any, path: str, schemas: Mapping[str, Schema], *, output: bool) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        raise _bad(path, "object", value)
    fields: Mapping[str, Schema] = schema.get("properties", {})
    extra: Schema | None = schema.get("additionalProperties")
    result: dict[str, Any] = {}
    for name, item in value.items():
        key = name if name in fields or extra is not None else _SNAKE.sub(lambda m: m.group(1).upper(), name)
        field = fields.get(key, extra)
        if field is None:
            where = f" at '{path}'" if path else ""
            raise invalid(
                f'Invalid JSON payload received. Unknown name "{name}"{where}: Cannot find field.',
                (f"{path}.{name}".lstrip("."), "unknown field"),
            )
        if item is None or (field.get("readOnly") and not output):
            continue
        result[key] = _walk(field, item, f"{path}.{key}".lstrip("."), schemas, output=output)
    return result


def _string(schema: Schema, value: Any, path: str) -> str:
    fmt = schema.get("format", "")
    if fmt in _INT_RANGES:
        return str(_integer(schema, value, path))
    if not isinstance(value, str):
        raise _bad(path, "string", value)
    if enum := schema.get("enum"):
        if value not in enum:
            raise invalid(
                f"Invalid value at '{path}' (enum), \"{value}\": expected one of {', '.join(enum)}",
                (path, "unknown enum value"),
            )
    elif (check := _FORMATS.get(fmt)) and not check(value):
        raise invalid(f"Invalid value at '{path}' ({fmt}), \"{value}\"", (path, f"malformed {fmt}"))
    return value


def _integer(schema: Schema, value: Any, path: str) -> int:
    fmt = schema.get("format", "int64")
    try:
        if isinstance(value, bool) or (isinstance(value, float) and not value.is_integer()):
            raise ValueError
        if isinstance(value, str) and not _INTEGER.fullmatch(value):
            raise ValueError
        number = int(value)
    except (TypeError, ValueError):
        raise _bad(path, fmt, value) from None
    low, high = _INT_RANGES.get(fmt, _INT_RANGES["int64"])
    if not low <= number <= high:
        raise invalid(f"Invalid value at '{path}' ({fmt}), {number}: out of range", (path, "out of range"))
    return number


def _number(schema: Schema, value: Any, path: str) -> float:
    try:
        if isinstance(value, bool):
            raise ValueError
        return value if isinstance(value, int) else float(value)
    except (TypeError, ValueError):
        raise _bad(path, schema.get("format", "double"), value) from None


def _boolean(schema: Schema, value: Any, path: str) -> bool:
    if isinstance(value, bool):
        return value
    if value in ("true", "false"):
        return bool(value == "true")
    raise _bad(path, "bool", value)


def _is_base64(value: str) -> bool:
    try:
        base64.b64decode(value.replace("-", "+").replace("_", "/") + "=" * (-len(value) % 4), validate=True)
    except binascii.Error:
        return False
    return True


def _is_timestamp(value: str) -> bool:
    if not _TIMESTAMP.fullmatch(value):
        return False
    try:
        datetime.fromisoformat(value[:19])
    except ValueError:
        return False
    return True


def _is_date(value: str) -> bool:
    try:
        return bool(_DATE.fullmatch(value) and datetime.fromisoformat(value))
    except ValueError:
        return False


_FORMATS: Mapping[str, Callable[[str], Any]] = {
    "google-duration": _DURATION.fullmatch,
    "google-datetime": _is_timestamp,
    "date-time": _is_timestamp,
    "date": _is_date,
    "google-fieldmask": _FIELD_MASK.fullmatch,
    "byte": _is_base64,
}
_SCALARS: Mapping[str, Callable[[Schema, Any, str], Any]] = {
    "string": _string,
    "integer": _integer,
    "number": _number,
    "boolean": _boolean,
}


def _bad(path: str, expected: str, value: Any) -> Exception:
    shown = f'"{value}"' if isinstance(value, str) else repr(value)
    return invalid(f"Invalid value at '{path or 'body'}' ({expected}), {shown}", (path, f"expected {expected}"))
