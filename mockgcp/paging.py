"""Lists in pages, the same for every API: how many entries a page has, and the token that leads to the next."""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
from collections.abc import Sequence
from typing import Any, TypeVar

from mockgcp.errors import invalid
from mockgcp.service import Call

# What a list's handler declares that it reads. Cloud Storage says maxResults, all others pageSize.
PARAMS = ("pageSize", "maxResults", "pageToken")
Entry = TypeVar("Entry")


def page(
    call: Call, entries: Sequence[Entry], *, default: int | None = None, most: int | None = None
) -> tuple[list[Entry], dict[str, Any]]:
    """The page of `entries` that the call's parameters, or its body, ask for.

    Args:
        default: entries of a page when the call does not say; None: all.
        most: entries that a page has at most, whatever the call says.

    Returns:
        The entries, and the `nextPageToken` field where there are more.

    Raises:
        ApiError: INVALID_ARGUMENT for a negative size, or a token that this very list did not hand out.
    """
    sent = {**(call.body or {}), **call.params}
    asked = int(sent.get("pageSize") or sent.get("maxResults") or 0)
    if asked < 0:
        raise invalid(f"The page size must not be negative, got {asked}.", ("pageSize", "out of range"))
    size = asked or default or len(entries)
    size = min(size, most) if most else size
    list_ = _fingerprint(call)
    start = _start(sent.get("pageToken"), list_)
    end = start + size
    return list(entries[start:end]), {"nextPageToken": _token(end, list_)} if end < len(entries) else {}


def _fingerprint(call: Call) -> str:
    """Tells this list from others: its method, and what it was asked but for the page."""
    sent = [{k: v for k, v in (part or {}).items() if k not in PARAMS} for part in (call.params, call.body)]
    return hashlib.sha256(json.dumps([call.method.id, sent], sort_keys=True).encode()).hexdigest()[:12]


def _token(start: int, list_: str) -> str:
    return base64.urlsafe_b64encode(f"{list_}{start:06d}".encode()).decode()


def _start(token: str | None, list_: str) -> int:
    if not token:
        return 0
    try:
        text = base64.b64decode(token, altchars=b"-_", validate=True).decode()
        start = int(text.removeprefix(list_))
    except (binascii.Error, ValueError):
        start = 0
    if not start or _token(start, list_) != token:
        raise invalid(f"The page token {token!r} was not handed out for this list.", ("pageToken", "malformed"))
    return start
