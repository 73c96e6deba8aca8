"""The seam: calls keyed by the discovery method's id (`run.projects.locations.jobs.run`), as mockgcp's own."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Protocol

from google.rpc import code_pb2  # type: ignore[import-untyped]

from holdfast.errors import OperatorError


class CloudError(OperatorError):
    """What an API refused, or why it could not be asked.

    Attributes:
        status: Google's word for it (PERMISSION_DENIED, NOT_FOUND, ...); UNAUTHENTICATED without credentials,
            UNAVAILABLE when nothing answered.
        http_status: the HTTP code; 0 when nothing answered.
        message: the API's own words.
        reason: of the error's details (SERVICE_DISABLED, IAM_PERMISSION_DENIED, ...); empty without any.
    """

    def __init__(self, status: str, message: str, *, http_status: int = 0, reason: str = "", method: str = "") -> None:
        super().__init__(f"{method}: {status}: {message}".removeprefix(": "))
        self.status, self.message, self.http_status, self.reason = status, message, http_status, reason


class Api(Protocol):
    """Google Cloud's APIs, called by one principal."""

    def call(
        self, method_id: str, params: Mapping[str, Any] | None = None, body: Any = None, media: bytes | None = None
    ) -> dict[str, Any]:
        """Makes one call and returns its answer; a long-running operation as it is now.

        Raises:
            CloudError: the API refused it, or could not be reached.
        """
        ...


def find(api: Api, method_id: str, params: Mapping[str, Any]) -> dict[str, Any] | None:
    """A read; None where there is nothing.

    Raises:
        CloudError: any other refusal.
    """
    try:
        return api.call(method_id, params)
    except CloudError as error:
        if error.status == "NOT_FOUND":
            return None
        raise


def pages(
    api: Api, method_id: str, params: Mapping[str, Any], key: str, body: Mapping[str, Any] | None = None
) -> Iterator[dict[str, Any]]:
    """Every item of a list call, page by page. `key` names the list in the answer.

    A call with a body (entries.list) takes its page token there, any other as a parameter.

    Raises:
        CloudError: the call's.
    """
    token: dict[str, str] = {}
    while True:
        answer = (
            api.call(method_id, {**params, **token}) if body is None else api.call(method_id, params, {**body, **token})
        )
        yield from answer.get(key, ())
        if not answer.get("nextPageToken"):
            return
        token = {"pageToken": answer["nextPageToken"]}


def wait(
    api: Api,
    get: str,
    operation: Mapping[str, Any],
    *,
    timeout_s: float,
    poll_s: float = 2.0,
    on_poll: Callable[[Mapping[str, Any]], None] = lambda operation: None,
) -> dict[str, Any]:
    """Follows a google.longrunning.Operation to its end and returns its response.

    Args:
        get: the method that reads an operation by `name`.
        on_poll: told of the operation each time it was read.

    Raises:
        CloudError: the operation's own error, a call's, or DEADLINE_EXCEEDED after `timeout_s` seconds.
    """
    deadline = time.monotonic() + timeout_s
    while not operation.get("done"):
        if time.monotonic() > deadline:
            raise CloudError("DEADLINE_EXCEEDED", f"operation {operation['name']} is not done after {timeout_s:g} s")
        time.sleep(poll_s)
        operation = api.call(get, {"name": operation["name"]})
        on_poll(operation)
    if "error" in operation:
        error = operation["error"]
        raise CloudError(code_pb2.Code.Name(error["code"]), error.get("message", ""))
    return dict(operation.get("response", {}))
