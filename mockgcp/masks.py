"""Update masks: which fields of a resource a patch names, and the resource with those fields from its body."""

from __future__ import annotations

import copy
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from mockgcp.errors import ApiError


def paths(mask: str) -> list[str]:
    """The paths of an updateMask, as the discovery document spells their names."""
    return [re.sub(r"_([a-z])", lambda m: m[1].upper(), path.strip()) for path in mask.split(",") if path]


def merged(old: Mapping[str, Any], new: Mapping[str, Any], named: Iterable[str]) -> dict[str, Any]:
    """`old` with the named paths as `new` has them; what `new` lacks is taken away.

    Raises:
        ApiError: UNIMPLEMENTED for a path that is none, such as `*`.
    """
    result = copy.deepcopy(dict(old))
    for path in named:
        if not re.fullmatch(r"\w+(\.\w+)*", path):
            raise ApiError("UNIMPLEMENTED", f"mockgcp takes an updateMask of field paths, not {path!r}")
        _take(path.split("."), new, result)
    return result


def _take(keys: Sequence[str], source: Mapping[str, Any], target: dict[str, Any]) -> None:
    head, *rest = keys
    if rest and (head in source or head in target):
        _take(rest, source.get(head, {}), target.setdefault(head, {}))
    elif head in source:
        target[head] = source[head]
    else:
        target.pop(head, None)
