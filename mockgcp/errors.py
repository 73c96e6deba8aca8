"""The one error of the seam: what a Google API answers when it refuses, as google.rpc.Status carries it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

# google.rpc.Code names and the HTTP status each maps to (google/rpc/code.proto, read 2026-11-29).
HTTP_STATUS: Mapping[str, int] = {
    "INVALID_ARGUMENT": 400,
    "FAILED_PRECONDITION": 400,
    "UNAUTHENTICATED": 401,
    "PERMISSION_DENIED": 403,
    "NOT_FOUND": 404,
    "ALREADY_EXISTS": 409,
    "ABORTED": 409,
    "RESOURCE_EXHAUSTED": 429,
    "CANCELLED": 499,
    "UNKNOWN": 500,
    "INTERNAL": 500,
    "UNIMPLEMENTED": 501,
    "UNAVAILABLE": 503,
    "DEADLINE_EXCEEDED": 504,
}
RPC_CODE: Mapping[str, int] = {
    "CANCELLED": 1,
    "UNKNOWN": 2,
    "INVALID_ARGUMENT": 3,
    "DEADLINE_EXCEEDED": 4,
    "NOT_FOUND": 5,
    "ALREADY_EXISTS": 6,
    "PERMISSION_DENIED": 7,
    "RESOURCE_EXHAUSTED": 8,
    "FAILED_PRECONDITION": 9,
    "ABORTED": 10,
    "UNIMPLEMENTED": 12,
    "INTERNAL": 13,
    "UNAVAILABLE": 14,
    "UNAUTHENTICATED": 16,
}


@dataclass
class ApiError(Exception):
    """A refused call. `status` is a google.rpc.Code name; `violations` are (field path, description) pairs.

    `http`: the HTTP status, where the API answers another than the one of `status`.
    """

    status: str
    message: str
    violations: Sequence[tuple[str, str]] = field(default_factory=tuple)
    reason: str = ""
    http: int = 0

    def __str__(self) -> str:
        return f"{self.http_status} {self.status}: {self.message}"

    @property
    def http_status(self) -> int:
        return self.http or HTTP_STATUS[self.status]

    def to_status(self) -> dict[str, Any]:
        """The google.rpc.Status of a failed long-running operation."""
        return {"code": RPC_CODE[self.status], "message": self.message}


def invalid(message: str, *violations: tuple[str, str]) -> ApiError:
    return ApiError("INVALID_ARGUMENT", message, violations)


def not_found(message: str) -> ApiError:
    return ApiError("NOT_FOUND", message)


def already_exists(message: str) -> ApiError:
    return ApiError("ALREADY_EXISTS", message)


def failed_precondition(message: str) -> ApiError:
    return ApiError("FAILED_PRECONDITION", message)


def permission_denied(message: str, reason: str = "") -> ApiError:
    return ApiError("PERMISSION_DENIED", message, reason=reason)
