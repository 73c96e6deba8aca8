"""IAM members: one (role, member) pair of a resource's allow policy, by read-modify-write as the provider does it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from mockgcp.errors import ApiError, invalid
from mockgcp.frontends.pulumi.resource import Props, Request, ResourceType, Session, id_parts
from mockgcp.frontends.pulumi.schema import Object
from mockgcp.frontends.pulumi.translate import Table

# The provider retries a concurrent policy change; so do we, with no wait (the emulated race is over by then).
_ATTEMPTS = 5


@dataclass(frozen=True)
class PolicyCalls:
    """How to read and write the policy: `wrapped` bodies carry it in a field named `policy`, beside `mask`."""

    get: Request
    set: Request
    wrapped: bool
    get_body: Any = None
    mask: Mapping[str, str] = field(default_factory=dict)


def located(session: Session, properties: Props) -> Props:
    """The properties with the provider's own region for a location that the program leaves out.

    Raises:
        ApiError: neither has one.
    """
    location = properties.get("location") or session.region
    if not location:
        raise invalid("location is missing: set it, or gcp:region for the provider", ("location", "required"))
    return {**properties, "location": location}


def iam_member(
    token: str,
    resource: type,
    args: type,
    target: str,
    calls: PolicyCalls,
    spelling: Mapping[str, Callable[[str], str]] | None = None,
    derive: Callable[[Props], Props] = lambda properties: {},
) -> ResourceType:
    """The resource type of one member of one role; `target` is the template of what it is granted on.

    `spelling` is Table's; `derive` gives the outputs that the provider keeps in another spelling than the program's.
    """

    fields = frozenset(Object(args).fields)

    def placed(session: Session, properties: Props) -> Props:
        return located(session, properties) if "location" in fields else properties

    def derived(session: Session, properties: Props, rest: Mapping[str, Any]) -> Props:
        here = placed(session, properties)
        location = {"location": here["location"]} if "location" in fields else {}
        return {**location, **derive(here), "etag": rest.get("etag", "")}

    def edit(session: Session, properties: Props, *, add: bool) -> Mapping[str, Any]:
        properties = placed(session, properties)
        role, member = properties["role"], properties["member"]
        for attempt in range(_ATTEMPTS):
            policy = session.call(calls.get.method, calls.get.fill(properties), calls.get_body)
            bindings = {b["role"]: set(b.get("members", ())) for b in policy.get("bindings", ())}
            members = bindings.setdefault(role, set())
            if (member in members) == add:
                return policy
            members.symmetric_difference_update({member})
            changed = [{"role": r, "members": sorted(m)} for r, m in bindings.items() if m]
            # Version 3, as the provider does: an older one would drop the conditions of others.
            policy = {**{k: v for k, v in policy.items() if k != "kind"}, "bindings": changed, "version": 3}
            body = {"policy": policy, **calls.mask} if calls.wrapped else policy
            try:
                return session.call(calls.set.method, calls.set.fill(properties), body)
            except ApiError as error:
                if error.status != "ABORTED" or attempt + 1 == _ATTEMPTS:
                    raise
        raise AssertionError("unreachable: the last attempt returns or raises")

    def create(session: Session, properties: Props, body: Mapping[str, Any]) -> Mapping[str, Any]:
        if properties.get("condition"):
            raise ApiError("UNIMPLEMENTED", "mockgcp does not evaluate IAM conditions, so it grants none")
        return edit(session, properties, add=True)

    def read(session: Session, properties: Props) -> Mapping[str, Any] | None:
        properties = placed(session, properties)
        try:
            policy = session.call(calls.get.method, calls.get.fill(properties), calls.get_body)
        except ApiError as error:
            if error.status == "NOT_FOUND":
                return None
            raise
        bound = {m for b in policy.get("bindings", ()) if b["role"] == properties["role"] for m in b["members"]}
        return policy if properties["member"] in bound else None

    def delete(session: Session, properties: Props) -> None:
        try:
            edit(session, properties, add=False)
        except ApiError as error:
            if error.status != "NOT_FOUND":
                raise

    identifier = f"{target}/{{role}}/{{member}}"
    return ResourceType(
        token=token,
        resource=resource,
        args=args,
        id=identifier,
        # `pulumi import` takes the three parts with spaces between them, too, as the registry documents.
        import_id=lambda given: id_parts(identifier)(given.replace(" ", "/")),
        create=create,
        read=read,
        delete=delete,
        in_project="project" in fields,
        replace_on=fields,
        computed=(fields - Object(args).required) & {"location", "project"},
        table=Table(local=fields, spelling=spelling or {}),
        derive=derived,
    )
