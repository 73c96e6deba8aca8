"""The machine's time as Kubernetes writes it. Its controllers compare it with their own, so it is never emulated."""

from __future__ import annotations

from datetime import UTC, datetime


def now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
