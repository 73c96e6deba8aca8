"""A resource's inputs as plain values, with what a preview cannot know yet marked as such."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from pulumi_policy.proxy import UnknownValueError

UNKNOWN: Final = "<unknown>"
"""Stands for a value that is not known before `up`: a rule must not judge it."""


def plain(value: Any) -> Any:
    """`value` with the SDK's proxies resolved: dicts, lists and scalars, and UNKNOWN where the SDK would raise."""
    if isinstance(value, Mapping):
        return {key: _item(value, key) for key in value}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_item(value, index) for index in range(len(value))]
    return value


def _item(container: Any, key: Any) -> Any:
    try:
        return plain(container[key])
    except UnknownValueError:
        return UNKNOWN


def mapping(value: Any) -> Mapping[str, Any]:
    """`value` if it is a mapping, else an empty one: an absent or unknown block has no fields to judge."""
    return value if isinstance(value, Mapping) else {}


def items(value: Any) -> Sequence[Any]:
    """`value` if it is a list, else an empty one."""
    return value if isinstance(value, list | tuple) else []


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
