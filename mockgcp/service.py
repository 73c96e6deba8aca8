"""How a service plugs into the cloud: a table of methods, each with its permission, its rules and its handler."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, TypeVar

from mockgcp.operations import Operation
from mockgcp.schemas import Method
from mockgcp.state import Project, State


@dataclass(frozen=True)
class Call:
    """One validated call on its way through a service.

    `media`: the bytes of an upload. `sent`: the body as it came, with the nulls that `body` is without.
    """

    cloud: State
    method: Method
    params: Mapping[str, Any]
    body: Any
    principal: str
    media: bytes | None = None
    sent: Any = None

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
    `reads` names the optional parameters that it honours: any other is refused, not ignored. `answers` is the schema of
    what the operation it starts responds, which the discovery document does not say.
    `wakes`: whether the call changes what anybody waits for on `State.changed` (a read never does).
    """

    run: Callable[[Call], Result]
    permission: str | None
    resource: ResourceOf
    rules: Callable[[Call], None] | None
    reads: tuple[str, ...]
    answers: str | None
    wakes: bool


def canonical(call: Call, name: str) -> str:
    """The full name of a resource of a project, with the project's id where a number was given."""
    kind, project, *rest = name.split("/")
    return "/".join([kind, call.cloud.project(project).id, *rest])


class Service:
    """One API's methods.

    Args:
        host: the API's service name, which a project must have enabled; None: always there.
        project_of: the project of a resource whose name does not say it; None for what is not this API's or not there.
        records: the kinds of table whose rows are not resources that somebody could delete.
    """

    def __init__(
        self,
        api: str,
        host: str | None,
        *,
        project_of: Callable[[State, str], Project | None] = lambda state, resource: None,
        records: tuple[str, ...] = (),
    ) -> None:
        self.api = api
        self.host = host
        self.project_of = project_of
        self.records = records
        self.handlers: dict[str, Handler] = {}

    def method(
        self,
        method_id: str,
        *,
        on: ResourceOf,
        permission: str | None = None,
        rules: Callable[[Call], None] | None = None,
        reads: tuple[str, ...] = (),
        answers: str | None = None,
        wakes: bool = True,
    ) -> Callable[[Run], Run]:
        """Registers the decorated function as the handler of `method_id`."""

        def register(run: Run) -> Run:
            if method_id in self.handlers:
                raise ValueError(f"{method_id} has a handler already: {self.handlers[method_id].run.__qualname__}")
            self.handlers[method_id] = Handler(run, permission, on, rules, reads, answers, wakes)
            return run

        return register


def by_api(services: Iterable[Service]) -> Mapping[str, Service]:
    """The services by API name.

    Raises:
        ValueError: two are of one API.
    """
    found: dict[str, Service] = {}
    for service in services:
        if service.api in found:
            raise ValueError(f"two services of the API {service.api}: register the methods with one")
        found[service.api] = service
    return MappingProxyType(found)
