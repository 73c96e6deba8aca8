"""Updates that name in updateMask what changed, as the official provider's do: the rest stays as the API has it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from mockgcp.frontends.pulumi.resource import Props, Request, Session, Update

Paths = Mapping[str, Iterable[str]]


def mask(paths: Paths, computed: frozenset[str], old: Props, new: Props) -> list[str]:
    """The REST paths, by property in `paths`, of what changed. What the program leaves to the server did not."""
    changed = (name for name in paths if old.get(name) != new.get(name) and not (name in computed and name not in new))
    return [path for name in changed for path in paths[name]]


def masked_update(patch: Request, get: Request, paths: Paths, computed: frozenset[str]) -> Update:
    """An update by one call; where only the provider's own properties changed, it is but a read."""

    def update(session: Session, old: Props, new: Props, body: Mapping[str, Any]) -> Mapping[str, Any]:
        named, changed = {**new, "name": old["name"]}, mask(paths, computed, old, new)
        if not changed:
            return session.call(get.method, get.fill(named))
        return session.call(patch.method, {**patch.fill(named), "updateMask": ",".join(changed)}, body)

    return update
