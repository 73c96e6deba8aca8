"""A resource's plain inputs, read as the provider reads them; what a preview cannot know yet is UNKNOWN."""

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

UNKNOWN: Final = "<unknown>"
"""Stands for a value that is not known before `up`: a rule must not judge it."""

EVERYBODY = ("allUsers", "allAuthenticatedUsers")
"""The members and entities that stand for anybody on the Internet."""


def mapping(value: Any) -> Mapping[str, Any]:
    """`value` if it is a mapping, else an empty one: an absent or unknown block has no fields to judge."""
    return value if isinstance(value, Mapping) else {}


def items(value: Any) -> Sequence[Any]:
    """`value` if it is a list, else an empty one."""
    return value if isinstance(value, list | tuple) else []


def whole(value: Any) -> int | None:
    """A whole number as the provider reads it (0, 0.0, "0", "0x0"); None for what is not one."""
    with suppress(ValueError):
        return int(str(value), 0)
    with suppress(ValueError, OverflowError):
        return int(float(str(value)))
    return None


def is_off(value: Any) -> bool:
    """Whether a switch is off: absent, false, or false as text. One that is not known is not off."""
    return value is None or value is False or str(value).lower() in ("", "0", "f", "false")


def is_on(value: Any) -> bool:
    """Whether a switch is known to be on."""
    return not is_off(value) and value != UNKNOWN


def bindings(props: Mapping[str, Any]) -> list[tuple[str, list[str]]]:
    """The (role, members) pairs of any IAM resource: a member's, a binding's, or a whole policy's."""
    if isinstance(props.get("policyData"), str):
        try:
            policy = mapping(json.loads(props["policyData"]))
        except ValueError:
            return []  # not JSON, or not known yet: the provider refuses the one, and `up` shows the other
        found = [mapping(each) for each in items(policy.get("bindings"))]
        return [(str(each.get("role")), [str(member) for member in items(each.get("members"))]) for each in found]
    members = [*items(props.get("members")), *([props["member"]] if props.get("member") else [])]
    return [(str(props.get("role")), [str(member) for member in members])]
