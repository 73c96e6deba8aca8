"""What the core knows of one resource type: its SDK classes, its table, and the calls that make, read and end it."""

from __future__ import annotations

import re
import string
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from mockgcp.cloud import Cloud
from mockgcp.errors import ApiError
from mockgcp.frontends.pulumi import schema
from mockgcp.frontends.pulumi.schema import Kind, Object
from mockgcp.frontends.pulumi.translate import Table
from mockgcp.frontends.pulumi.values import Value
from mockgcp.operations import Operation

Props = Mapping[str, Value]


class OperationError(ApiError):
    """A call was accepted, and the operation that it started failed: something may be there all the same."""


@dataclass(frozen=True)
class Session:
    """Who calls the cloud, and for which project and region (empty: none) by default."""

    cloud: Cloud
    principal: str
    project: str
    region: str = ""

    def call(self, method_id: str, params: Mapping[str, Any], body: Any = None) -> dict[str, Any]:
        """Makes a call and waits for the operation it may start.

        Raises:
            ApiError: the call's. OperationError: the operation's, which may also be that it is not done in time.
        """
        answer = self.cloud.call(method_id, params, body, self.principal)
        if not isinstance(answer, Operation):
            return answer
        try:
            return self.cloud.wait(answer)
        except ApiError as error:
            raise OperationError(error.status, error.message, error.violations, error.reason, error.http) from error

    def validate(self, request: Request, properties: Props, body: Any) -> None:
        """Asks for the call's schemas and rules alone.

        Raises:
            ApiError: what the call would be refused for.
        """
        self.cloud.validate(request.method, request.fill(properties), body, self.principal)

    def get(self, method_id: str, params: Mapping[str, Any]) -> dict[str, Any] | None:
        """A read; None where there is nothing."""
        try:
            return self.call(method_id, params)
        except ApiError as error:
            if error.status == "NOT_FOUND":
                return None
            raise


@dataclass(frozen=True)
class AutoName:
    """The property that gets a generated name when the program gives none, and the longest it may be."""

    field: str = "name"
    max_length: int = 63


@dataclass(frozen=True)
class Request:
    """A REST call: the method's id and its parameters, as templates over the resource's properties."""

    method: str
    params: Mapping[str, str] = field(default_factory=dict)

    def fill(self, properties: Props) -> dict[str, str]:
        """The parameters with the properties put in; a name that a property lacks is an error of the table."""
        return {name: string.Formatter().vformat(t, (), properties) for name, t in self.params.items()}


Create = Callable[[Session, Props, Mapping[str, Any]], Mapping[str, Any]]
Read = Callable[[Session, Props], Mapping[str, Any] | None]
Update = Callable[[Session, Props, Props, Mapping[str, Any]], Mapping[str, Any]]
Delete = Callable[[Session, Props], None]
DryRun = Callable[[Session, Props, Mapping[str, Any]], None]


@dataclass(frozen=True)
class ResourceType:
    """One resource type of the provider.

    Attributes:
        token: as the engine has it, `gcp:storage/bucket:Bucket`.
        resource, args: the pulumi_gcp classes that name its outputs and inputs.
        id: template of the resource's id over its properties.
        import_id: how an id given to `pulumi import` or `get` is taken apart into properties; None: not importable.
        table: how properties become REST and back.
        defaults: the provider's own defaults by dotted path.
        replace_on: paths whose change replaces; `in_place`: paths below one of them whose change does not.
        computed: paths the server fills in when they are left out.
        auto_name: the property that gets a generated name.
        in_project: whether `project` comes from the provider's configuration when it is left out.
        create, read, update, delete: the calls; update None: every change replaces.
        derive: outputs that no REST field carries.
        dry_run: checks the API's rules before anything is created; None: only the types are checked.
        kept_unready: whether the official provider keeps one whose creation began and then failed. Others it forgets.
    """

    token: str
    resource: type
    args: type
    id: str
    create: Create
    read: Read
    delete: Delete
    update: Update | None = None
    import_id: Callable[[str], Props] | None = None
    table: Table = field(default_factory=Table)
    defaults: Mapping[str, Value] = field(default_factory=dict)
    replace_on: frozenset[str] = frozenset()
    in_place: frozenset[str] = frozenset()
    computed: frozenset[str] = frozenset()
    auto_name: AutoName | None = None
    in_project: bool = True
    derive: Callable[[Session, Props, Mapping[str, Any]], Props] = lambda session, properties, rest: {}
    dry_run: DryRun | None = None
    kept_unready: bool = False

    @property
    def inputs(self) -> Object:
        return Object(self.args)

    @property
    def outputs(self) -> Mapping[str, Kind]:
        return schema.outputs(self.resource)


def created_by(request: Request) -> Create:
    """A create that is one call with the translated body."""
    return lambda session, properties, body: session.call(request.method, request.fill(properties), body)


def validated_by(request: Request) -> DryRun:
    """A dry run of a create that is one call with the translated body."""
    return lambda session, properties, body: session.validate(request, properties, body)


def read_by(request: Request) -> Read:
    return lambda session, properties: session.get(request.method, request.fill(properties))


def updated_by(request: Request) -> Update:
    """An update that is one call with the whole translated body."""
    return lambda session, old, new, body: session.call(request.method, request.fill(new), body)


def deleted_by(request: Request) -> Delete:
    def delete(session: Session, properties: Props) -> None:
        try:
            session.call(request.method, request.fill(properties))
        except ApiError as error:
            if error.status != "NOT_FOUND":
                raise

    return delete


def id_parts(template: str) -> Callable[[str], Props]:
    """Takes an id of the form of `template` apart; the last property takes what is left of it.

    Raises:
        ValueError: the id has another form (from the returned function).
    """
    fields = string.Formatter().parse(template)
    parts = (re.escape(text) + (_group(name) if name else "") for text, name, _, _ in fields)
    pattern = re.compile("".join(parts))

    def parse(identifier: str) -> Props:
        match = pattern.fullmatch(identifier)
        if match is None:
            raise ValueError(f"id {identifier!r} does not have the form {template}")
        return match.groupdict()

    return parse


# What may hold slashes in an id: custom roles, accounts, and members such as principal://.../subject/ns/...
_WITH_SLASHES = {
    "role": r"(?:(?:projects|organizations)/[^/]+/)?roles/[^/]+",
    "serviceAccountId": r"projects/[^/]+/serviceAccounts/[^/]+",
    "member": ".+",
}


def _group(name: str) -> str:
    return f"(?P<{name}>{_WITH_SLASHES.get(name, '[^/]+')})"
