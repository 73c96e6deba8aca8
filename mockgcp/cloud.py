"""The one seam of the emulated cloud.

`Cloud.call` is keyed by the discovery method's id. In this order a call meets: faults, authentication, parameter and
body validation, the API being enabled, IAM, the service's rules, its handler, and the check of the answer. Every front
end and every plane goes through it, and the audit log sees them all.
"""

from __future__ import annotations

import copy
import random
import shutil
import tempfile
import threading
import uuid
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from infra import catalog
from mockgcp import schemas
from mockgcp.audit import AuditEntry, AuditLog
from mockgcp.clock import Clock
from mockgcp.durations import NOMINAL
from mockgcp.errors import ApiError, permission_denied
from mockgcp.faults import Faults
from mockgcp.operations import Operation, Operations
from mockgcp.policy import Policies
from mockgcp.schemas import validate
from mockgcp.service import Call, Handler, Service
from mockgcp.services import SERVICES

# The principal of a plane: it acts as the platform, may call the mockgcp.* methods and writes the system log.
PLATFORM = "system:mockgcp"
DEFAULT_OWNER = "user:owner@example.com"
# What changes a call's meaning and no handler reads: refused rather than ignored.
_UNREAD = (
    "generation",
    "ifGenerationMatch",
    "ifGenerationNotMatch",
    "ifMetagenerationMatch",
    "ifMetagenerationNotMatch",
    "validateOnly",
)


@dataclass
class Project:
    """A seeded project. `services` are the enabled APIs by service name."""

    id: str
    number: int
    owner: str
    services: set[str] = field(default_factory=set)

    @property
    def name(self) -> str:
        return f"projects/{self.id}"


class Cloud:
    """An emulated Google Cloud. Thread-safe.

    Args:
        clock: its time; held still by default.
        seed: makes every generated id and probabilistic fault repeatable.
        state_dir: where buckets keep their objects; a temporary directory by default.
        durations: seconds by method id that replace the nominal ones of long-running operations.
        universe: the universe domain the projects are in.
    """

    def __init__(
        self,
        *,
        clock: Clock | None = None,
        seed: int = 0,
        state_dir: Path | None = None,
        durations: Mapping[str, float] | None = None,
        universe: str = "googleapis.com",
    ) -> None:
        self.clock = clock or Clock()
        self.universe = catalog.universe(universe)
        self.durations: Mapping[str, float] = {**NOMINAL, **(durations or {})}
        self.audit = AuditLog()
        self.random = random.Random(seed)
        self.faults = Faults(self.random)
        self.operations = Operations(self.clock)
        self.policies = Policies(self.service_account_exists)
        self.changed = threading.Condition(self.clock.lock)
        self._seed = seed
        self._tables: defaultdict[str, dict[str, dict[str, Any]]] = defaultdict(dict)
        self._projects: dict[str, Project] = {}
        self._temporary = None if state_dir else tempfile.TemporaryDirectory(prefix="mockgcp-")
        self.state_dir = state_dir or Path(self._temporary.name if self._temporary else "")
        self._services: Mapping[str, Service] = {s.api: s for s in SERVICES}

    # -- the seam ------------------------------------------------------------------------------------------------

    def call(
        self,
        method_id: str,
        params: Mapping[str, Any] | None = None,
        body: Any = None,
        principal: str | None = None,
    ) -> dict[str, Any] | Operation:
        """Makes one API call and returns its answer, or the operation it started.

        Raises:
            ApiError: whatever the API refuses, in its own words.
        """
        params = params or {}
        with self.changed:
            self.clock.run_due()
            try:
                result = self._dispatch(method_id, params, body, principal)
            except ApiError as error:
                self._log(method_id, params, body, principal, error.http_status, error.message)
                raise
            finally:
                if (method := schemas.method(method_id)) is not None and method.http_method != "GET":
                    self.changed.notify_all()
            self._log(method_id, params, body, principal, 200, "")
            return result

    def answer(
        self,
        method_id: str,
        params: Mapping[str, Any] | None = None,
        body: Any = None,
        principal: str | None = None,
    ) -> dict[str, Any]:
        """Makes a call and waits for the operation it may start.

        Raises:
            ApiError: the call's, or the operation's.
        """
        result = self.call(method_id, params, body, principal)
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

    def _dispatch(
        self, method_id: str, params: Mapping[str, Any], body: Any, principal: str | None
    ) -> dict[str, Any] | Operation:
        fault = None if principal == PLATFORM else self.faults.strike(method_id, params)
        if fault is not None and fault.effect == "before":
            raise fault.error
        call, handler = self._prepare(method_id, params, body, principal)
        self._authorise(call, handler)
        if handler.rules is not None:
            handler.rules(call)
        result = handler.run(call)
        if fault is not None:
            raise fault.error
        return result if isinstance(result, Operation) else self._checked(call, result)

    def _prepare(
        self, method_id: str, params: Mapping[str, Any], body: Any, principal: str | None
    ) -> tuple[Call, Handler]:
        method = schemas.method(method_id)
        if method is None:
            raise ApiError("UNIMPLEMENTED", f"no discovery document known to mockgcp has a method {method_id!r}")
        handler = self._services[method.api].handlers.get(method_id)
        if handler is None:
            raise ApiError("UNIMPLEMENTED", f"mockgcp does not emulate {method_id} yet; it never guesses an answer")
        if not principal:
            raise ApiError("UNAUTHENTICATED", "Request is missing required authentication credential.")
        call = Call(self, method, validate.params(method, params), validate.body(method, body), principal)
        for name in _UNREAD:
            if call.params.get(name) or (name == "validateOnly" and (call.body or {}).get(name)):
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
            raise permission_denied(
                f"{host} has not been used in project {project.number} before or it is disabled. "
                f"Enable it (gcp.projects.Service) and retry.",
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

    # -- what services stand on ----------------------------------------------------------------------------------

    def table(self, kind: str) -> dict[str, dict[str, Any]]:
        """The resources of one kind (`run.job`, `storage.bucket`, ...) by full name."""
        return self._tables[kind]

    def uid(self) -> str:
        """A fresh id, repeatable under the seed."""
        return str(uuid.UUID(int=self.random.getrandbits(128), version=4))

    def allowed(self, principal: str, permission: str, resource: str) -> bool:
        """Whether the principal holds the permission on the resource or above it."""
        parts, project = resource.split("/"), self.project_of(resource)
        chain = ["/".join(parts[:end]) for end in range(len(parts), 1, -2)]
        return self.policies.allowed(principal, permission, [*chain, project.name] if project else chain)

    def service_account_exists(self, email: str) -> bool:
        """Whether a service account has that e-mail: one that was created, or a Google-managed agent of a project."""
        if any(account["email"] == email for account in self.table("iam.serviceAccount").values()):
            return True
        agent = email.partition("@")[0].removeprefix("service-")
        return any(agent == str(project.number) for project in self._projects.values())

    # -- projects ------------------------------------------------------------------------------------------------

    def seed_project(self, project_id: str, *, number: int | None = None, owner: str = DEFAULT_OWNER) -> Project:
        """Makes a project exist, with an owner and the APIs that are on in every new project."""
        if project_id in self._projects:
            raise ValueError(f"project {project_id!r} is seeded already")
        number = number if number is not None else self.random.randrange(10**11, 10**12)
        project = Project(project_id, number, owner, set(catalog.services().enabled_by_default))
        self._projects[project_id] = project
        self.policies.grant(project.name, "roles/owner", owner)
        return project

    @property
    def projects(self) -> tuple[Project, ...]:
        return tuple(self._projects.values())

    def project(self, id_or_number: str) -> Project:
        """The project of that id or number.

        Raises:
            ApiError: PERMISSION_DENIED, as the API answers for a project that does not exist, too.
        """
        for project in self._projects.values():
            if id_or_number in (project.id, str(project.number)):
                return project
        raise permission_denied(
            f"Permission denied on resource project {id_or_number} (or it may not exist).", reason="CONSUMER_INVALID"
        )

    def project_of(self, resource: str) -> Project | None:
        """The project a resource name belongs to; None for what has none, such as a bucket that does not exist."""
        if bucket := self.table("storage.bucket").get(resource.removeprefix("projects/_/buckets/")):
            return self.project(bucket["projectNumber"])
        parts = resource.split("/")
        return self.project(parts[1]) if parts[0] == "projects" and parts[1] != "_" else None

    def reset(self) -> None:
        """Forgets all but the time: projects, resources and objects, policies, operations, faults, the audit log."""
        with self.changed:
            shutil.rmtree(self.state_dir / "buckets", ignore_errors=True)
            self._tables.clear()
            self._projects.clear()
            self.random.seed(self._seed)
            self.policies = Policies(self.service_account_exists)
            self.operations.clear()
            self.clock.clear()
            self.faults.clear()
            self.audit.clear()
