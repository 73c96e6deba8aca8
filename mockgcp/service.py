"""How a service plugs into the cloud: a table of methods, each with its permission, its rules and its handler."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from mockgcp.operations import Operation
from mockgcp.schemas import Method
from mockgcp.state import State


@dataclass(frozen=True)
class Call:
    """One validated call on its way through a service."""

    cloud: State
    method: Method
    params: Mapping[str, Any]
    body: Any
    principal: str

    @property
    def duration_s(self) -> float:
        """How long the method's long-running operation takes."""
        return self.cloud.durations[self.method.id]


Result = Mapping[str, Any] | Operation
ResourceOf = Callable[[Call], str]
Run = TypeVar("Run", bound=Callable[[Call], Result])


@dataclass(frozen=True)
class Handler:
    """`resource(call)` names what `permission` is checked on; None: any authenticated caller.

    `rules` raises ApiError for what the service refuses before it does anything (a dry run stops after them).
    """

    run: Callable[[Call], Result]
    permission: str | None
    resource: ResourceOf
    rules: Callable[[Call], None] | None


class Service:
    """One API's methods. `host` is the API's service name, which a project must have enabled; None: always there."""

    def __init__(self, api: str, host: str | None) -> None:
        self.api = api
        self.host = host
        self.handlers: dict[str, Handler] = {}

    def method(
        self,
        method_id: str,
        *,
        on: ResourceOf,
        permission: str | None = None,
        rules: Callable[[Call], None] | None = None,
    ) -> Callable[[Run], Run]:
        """Registers the decorated function as the handler of `method_id`."""

        def register(run: Run) -> Run:
            self.handlers[method_id] = Handler(run, permission, on, rules)
            return run

        return register
