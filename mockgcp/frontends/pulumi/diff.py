"""What changed between two sets of checked inputs, and whether it can change in place."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from mockgcp.frontends.pulumi.values import MADE_UP, UNKNOWN, Value, reveal

Action = Literal["add", "delete", "update"]
_INDEX = re.compile(r'\[(?:\d+|"[^"]*")\]')


@dataclass(frozen=True)
class Change:
    """One changed property: its path with indexes, how, and whether the resource must be replaced for it."""

    path: str
    action: Action
    replace: bool


def compare(
    old: Mapping[str, Value],
    new: Mapping[str, Value],
    *,
    replace_on: frozenset[str],
    computed: frozenset[str],
    in_place: frozenset[str] = frozenset(),
) -> list[Change]:
    """The changes from `old` to `new`.

    `replace_on` are paths without indexes; anything at or below one replaces, but for what is at or below one of
    `in_place`. Leaving out a property in `computed` keeps what the server chose, so it is no change; neither is a
    false, 0 or empty list where there was none. An object that comes or goes replaces if something in it does.
    """
    return [
        Change(path, action, any(_replaces(each, replace_on, in_place) for each in _paths(_bare(path), value)))
        for path, action, value in _walk(reveal(old), reveal(new), "", computed)
    ]


def _replaces(path: str, replace_on: frozenset[str], in_place: frozenset[str]) -> bool:
    return _at_or_below(path, replace_on) and not _at_or_below(path, in_place)


def _paths(path: str, value: Value) -> Iterator[str]:
    """The path, and those of all that the value holds, without indexes."""
    yield path
    if isinstance(value, Mapping):
        for key, item in value.items():
            if not _absent(item):
                yield from _paths(f"{path}.{key}", item)
    elif isinstance(value, list):
        for item in value:
            yield from _paths(path, item)


def _walk(old: Value, new: Value, path: str, computed: frozenset[str]) -> Iterator[tuple[str, Action, Value]]:
    """Each changed path, how, and what came or went there; an update has nothing of its own inside."""
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        for key in sorted({*old, *new} - {MADE_UP}):
            here = _child(path, key)
            if new.get(key) is None:
                if not _absent(old.get(key)) and _bare(here) not in computed:
                    yield here, "delete", old[key]
            elif old.get(key) is None:
                if not _absent(new[key]):
                    yield here, "add", new[key]
            else:
                yield from _walk(old[key], new[key], here, computed)
    elif isinstance(old, list) and isinstance(new, list):
        for index in range(max(len(old), len(new))):
            here = f"{path}[{index}]"
            if index >= len(new):
                yield here, "delete", old[index]
            elif index >= len(old):
                yield here, "add", new[index]
            else:
                yield from _walk(old[index], new[index], here, computed)
    elif new is UNKNOWN or old != new:
        yield path, "update", None


def _absent(value: Value) -> bool:
    """Whether the provider sees no difference between the value and none (defaults are filled in by now)."""
    return value is None or value in (False, 0, [])


def _child(path: str, key: str) -> str:
    if not re.fullmatch(r"[A-Za-z_]\w*", key):
        return f'{path}["{key}"]'
    return f"{path}.{key}" if path else key


def _bare(path: str) -> str:
    return _INDEX.sub("", path)


def _at_or_below(path: str, roots: frozenset[str]) -> bool:
    return any(path == root or path.startswith((f"{root}.", f"{root}[")) for root in roots)
