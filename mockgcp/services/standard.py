"""Methods that APIs have in one form: a long-running operation by its name, and the IAM policy of a resource."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mockgcp.errors import not_found
from mockgcp.service import Call, ResourceOf, Service


def serve_operations(service: Service, collection: str, permission: str | None, *, on: ResourceOf) -> None:
    """Registers `get` of the operations; `on` is the operation's name. Of their other methods none is emulated."""

    @service.method(f"{collection}.get", permission=permission, on=on)
    def get(call: Call) -> Mapping[str, Any]:
        found = call.cloud.operations.get(on(call))
        if found is None:
            raise not_found(f"Operation {call.params['name']} does not exist.")
        return found.to_dict()


# Without conditions every version of a policy says the same.
_VERSION = "options.requestedPolicyVersion"


def serve_policies(
    service: Service,
    collection: str,
    kind: str,
    *,
    on: ResourceOf,
    there: ResourceOf,
    reads: tuple[str, ...] = (_VERSION,),
) -> None:
    """Registers the methods of a resource's IAM policy. `kind` begins their permissions.

    `on` is the resource's full name; so is `there`, which refuses one that does not exist.
    """

    @service.method(f"{collection}.getIamPolicy", permission=f"{kind}.getIamPolicy", on=on, reads=reads)
    def get(call: Call) -> Mapping[str, Any]:
        return call.cloud.policies.get(there(call))

    @service.method(f"{collection}.setIamPolicy", permission=f"{kind}.setIamPolicy", on=on)
    def set_(call: Call) -> Mapping[str, Any]:
        return call.cloud.policies.set(there(call), call.body.get("policy", {}))

    @service.method(f"{collection}.testIamPermissions", on=on)
    def test(call: Call) -> Mapping[str, Any]:
        asked, name = call.body.get("permissions", []), there(call)
        return {"permissions": [p for p in asked if call.cloud.allowed(call.principal, p, name)]}
