"""The one seam of the emulated cloud.

`Cloud.call` is keyed by the discovery method's id. In this order a call meets: faults, authentication, parameter and
body validation, the optional parameters that its handler reads, the API being enabled, IAM, the service's rules, its
handler, and the check of the answer. Every front end and every plane goes through it, and the audit log sees them all.
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Iterator, Mapping
from typing import Any

from infra import catalog
from mockgcp import schemas
from mockgcp.audit import AuditEntry
from mockgcp.errors import ApiError, invalid, permission_denied
from mockgcp.operations import Operation
from mockgcp.schemas import validate
from mockgcp.service import Call, Handler, Service, by_api
from mockgcp.services import SERVICES
from mockgcp.state import DEFAULT_OWNER, Project, State

__all__ = ["DEFAULT_OWNER", "PLATFORM", "Cloud", "Project"]

# The principal of a plane: it acts as the platform, may call the mockgcp.* methods and writes the system log.
PLATFORM = "system:mockgcp"
# Optional parameters that say what happens anyway.
_HARMLESS = {"alt": "json", "projection": "noAcl"}


class Cloud(State):
    """An emulated Google Cloud, by its API methods. Thread-safe. The arguments are State's."""

    _services: Mapping[str, Service] = by_api(SERVICES)

    def call(
        self,
        method_id: str,
        params: Mapping[str, Any] | None = None,
        body: Any = None,
        principal: str | None = None,
        media: bytes | None = None,
    ) -> dict[str, Any] | Operation:
        """Makes one API call and returns its answer, or the operation it started. `media`: the bytes of an upload.

        Raises:
            ApiError: whatever the API refuses, in its own words.
        """
        params = params or {}
        with self.changed:
            self.clock.run_due()
            try:
                result = self._dispatch(method_id, params, body, principal, media)
            except ApiError as error:
                self._log(method_id, params, body, principal, error.http_status, error.message)
                raise
            finally:
                if self._wakes(method_id):
                    self.changed.notify_all()
            self._log(method_id, params, body, principal, 200, "")
            return result

    def answer(
        self,
        method_id: str,
        params: Mapping[str, Any] | None = None,
        body: Any = None,
        principal: str | None = None,
        media: bytes | None = None,
    ) -> dict[str, Any]:
        """Makes a call and waits for the operation it may start.

        Raises:
            ApiError: the call's, or the operation's.
        """
        result = self.call(method_id, params, body, principal, media)
        return self.wait(result) if isinstance(result, Operation) else result

    def validate(self, method_id: str, params: Mapping[str, Any], body: Any, principal: str) -> None:
        """Runs a call's schemas and service rules and nothing else: no state, no permission, no audit entry.

        Raises:
            ApiError: what the call itself would be refused for.
        """
        with self.changed:
            call, handler = self._prepare(method_id, params, body, principal)
            if handler.rules is not None:
                handler.rules(call)

    def wait(self, operation: Operation, timeout_s: float = 600.0) -> dict[str, Any]:
        """Waits for an operation, letting the emulated time pass, and returns its response.

        Raises:
            ApiError: the operation's own error, or DEADLINE_EXCEEDED when it is not done in time (emulated seconds;
                at once on a held clock when nothing that is scheduled can finish it).
        """
        deadline = self.clock.seconds() + timeout_s
        with self.changed:
            while not operation.done:
                left = deadline - self.clock.seconds()
                due = self.clock.next_due()
                stuck = due is None and not self.clock.running
                if left <= 0 or stuck:
                    why = "the clock is held and nothing is scheduled" if stuck else f"after {timeout_s:g} s"
                    raise ApiError("DEADLINE_EXCEEDED", f"operation {operation.name} is not done: {why}")
                if self.clock.running:
                    until = left if due is None else min(left, max(0.0, due - self.clock.seconds()))
                    self.changed.wait(timeout=until)
                    self.clock.run_due()
                else:
                    self.clock.advance(max(0.0, min(left, (due or 0.0) - self.clock.seconds())))
        if operation.error is not None:
            raise operation.error
        return dict(operation.response or {})

    def project_of(self, resource: str) -> Project | None:
        """The project a resource belongs to; None for what has none, such as a bucket that does not exist."""
        found = (service.project_of(self, resource) for service in self._services.values())
        return next((project for project in found if project is not None), None) or super().project_of(resource)

    def resources(self) -> list[tuple[str, str]]:
        """The kind and full name of everything that exists and could be deleted."""
        records = {kind for service in self._services.values() for kind in service.records}
        return [(kind, name) for kind, table in self.tables().items() if kind not in records for name in table]

    def _wakes(self, method_id: str) -> bool:
        """Whether a call may have changed something that somebody waits for. (A refused one may have, with a fault.)"""
        method = schemas.method(method_id)
        if method is None or method.http_method == "GET":
            return False
        handler = self._services[method.api].handlers.get(method_id)
        return handler is not None and handler.wakes

    def _dispatch(
        self, method_id: str, params: Mapping[str, Any], body: Any, principal: str | None, media: bytes | None
    ) -> dict[str, Any] | Operation:
        fault = None if principal == PLATFORM else self.faults.strike(method_id, params)
        if fault is not None and fault.effect == "before":
            raise fault.error
        call, handler = self._prepare(method_id, params, body, principal, media)
        self._authorise(call, handler)
        if handler.rules is not None:
            handler.rules(call)
        result = handler.run(call)
        if isinstance(result, Operation) and handler.answers is not None:
            result.check = functools.partial(validate.of_type, call.method, handler.answers)
        if fault is not None:
            raise fault.error
        return result if isinstance(result, Operation) else self._checked(call, result)

    def _prepare(
        self,
        method_id: str,
        params: Mapping[str, Any],
        body: Any,
        principal: str | None,
        media: bytes | None = None,
    ) -> tuple[Call, Handler]:
        method = schemas.method(method_id)
        if method is None:
            raise ApiError("UNIMPLEMENTED", f"no discovery document known to mockgcp has a method {method_id!r}")
        handler = self._services[method.api].handlers.get(method_id)
        if handler is None:
            raise ApiError("UNIMPLEMENTED", f"mockgcp does not emulate {method_id} yet; it never guesses an answer")
        if not principal:
            raise ApiError("UNAUTHENTICATED", "Request is missing required authentication credential.")
        if media is not None and not method.media:
            raise invalid(f"{method_id} takes no upload, but one was sent")
        known, checked = validate.params(method, params), validate.body(method, body)
        call = Call(self, method, known, checked, principal, media, body)
        for name in _unread(call, handler):
            raise ApiError("UNIMPLEMENTED", f"mockgcp does not emulate {name} of {method_id}; it ignores nothing")
        return call, handler

    def _authorise(self, call: Call, handler: Handler) -> None:
        resource = handler.resource(call)
        if call.principal == PLATFORM:
            return
        if call.method.api == "mockgcp":
            raise permission_denied(f"{call.method.id} is for the platform's own planes, not for {call.principal}")
        host = self._services[call.method.api].host
        project = self.project_of(resource)
        if host is not None and project is not None and host not in project.services:
            # The API's own words, but that it has a link to the console in the place of the service's name.
            raise permission_denied(
                f"{catalog.services().known[host]} has not been used in project {project.number} before or it is "
                f"disabled. Enable it ({host}; in a program: gcp.projects.Service) then retry. If you enabled this API "
                "recently, wait a few minutes for the action to propagate to our systems and retry.",
                reason="SERVICE_DISABLED",
            )
        if handler.permission is not None and not self.allowed(call.principal, handler.permission, resource):
            raise permission_denied(
                f"Permission '{handler.permission}' denied on resource '{resource}' (or it may not exist) "
                f"for {call.principal}.",
                reason="IAM_PERMISSION_DENIED",
            )

    def _checked(self, call: Call, result: Mapping[str, Any]) -> dict[str, Any]:
        try:
            answer: dict[str, Any] = copy.deepcopy(validate.response(call.method, result))
        except ApiError as error:
            raise ApiError("INTERNAL", f"defect in mockgcp: answer of {call.method.id}: {error.message}") from error
        return answer

    def _log(
        self, method_id: str, params: Mapping[str, Any], body: Any, principal: str | None, code: int, message: str
    ) -> None:
        request = copy.deepcopy(body)
        self.audit.append(
            AuditEntry(self.clock.timestamp(), method_id, principal or "", dict(params), request, code, message)
        )


def _unread(call: Call, handler: Handler) -> Iterator[str]:
    """What was sent, means something, and is not read by the handler: refused rather than ignored."""
    if (call.body or {}).get("validateOnly"):
        yield "validateOnly"
    for name, value in call.params.items():
        own = call.method.params.get(name)
        needed = own is not None and (own.get("required") or own.get("location") == "path")
        shared = own is None and name != "alt"  # fields, prettyPrint, quotaUser: the answer means the same
        unset = value in (False, "") or _HARMLESS.get(name) == value
        if not (needed or shared or unset or name in handler.reads):
            yield name
