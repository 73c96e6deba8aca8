"""IAM allow policies: where they are kept, how they change, and whether a principal may do a thing.

A permission is granted on a resource or any of its ancestors. Roles and their permissions are in infra/catalog.
Deliberately not done: conditional bindings (refused, not ignored), deny policies, groups' membership.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from infra import catalog
from mockgcp.errors import ApiError, invalid

_MEMBER = re.compile(
    r"allUsers|allAuthenticatedUsers|(user|serviceAccount|group|domain):[^\s:]+|project(Owner|Editor|Viewer):\S+"
    r"|principal(Set)?://\S+|deleted:serviceAccount:[^\s:?]+\?uid=\d+"
)
PUBLIC_MEMBERS = ("allUsers", "allAuthenticatedUsers")
# Members that stand for whoever holds a basic role on a project.
_CONVENIENCE = {"projectOwner": "roles/owner", "projectEditor": "roles/editor", "projectViewer": "roles/viewer"}


class Policies:
    """The allow policy of every resource, by full resource name."""

    def __init__(self, service_account_exists: Callable[[str], bool]) -> None:
        self._policies: dict[str, dict[str, Any]] = {}
        self._service_account_exists = service_account_exists

    def get(self, resource: str) -> dict[str, Any]:
        """The resource's policy: bindings sorted by role, version and etag."""
        return copy.deepcopy(self._policies.get(resource, {"version": 1, "etag": "ACAB", "bindings": []}))

    def set(self, resource: str, policy: Mapping[str, Any]) -> dict[str, Any]:
        """Replaces the policy.

        Raises:
            ApiError: ABORTED for a stale etag; INVALID_ARGUMENT for a member or role that does not exist.
        """
        current = self.get(resource)
        if policy.get("etag") not in (None, "", current["etag"]):
            raise ApiError(
                "ABORTED",
                "There were concurrent policy changes. "
                "Please retry the whole read-modify-write with exponential backoff.",
            )
        members: dict[str, set[str]] = {}
        for binding in policy.get("bindings", ()):
            if binding.get("condition"):
                raise ApiError("UNIMPLEMENTED", "mockgcp does not evaluate IAM conditions, so it refuses to store one")
            self._check(binding.get("role", ""), binding.get("members", ()))
            members.setdefault(binding["role"], set()).update(binding.get("members", ()))
        bindings = [{"role": role, "members": sorted(who)} for role, who in sorted(members.items()) if who]
        # Eight characters are whole base64 groups, whatever the count.
        etag = f"AC{int(current['etag'][2:], 16) + 1:06X}"
        self._policies[resource] = {"version": policy.get("version", 1), "etag": etag, "bindings": bindings}
        return self.get(resource)

    def grant(self, resource: str, role: str, member: str) -> None:
        """Adds one binding, as a seed does."""
        policy = self.get(resource)
        policy["bindings"].append({"role": role, "members": [member]})
        self.set(resource, policy)

    def drop(self, resource: str) -> None:
        """The resource is gone, and its policy with it."""
        self._policies.pop(resource, None)

    def delete_service_account(self, email: str, unique_id: str) -> None:
        """Marks the account's bindings as deleted: a new account of that e-mail does not get them back."""
        old, new = f"serviceAccount:{email}", f"deleted:serviceAccount:{email}?uid={unique_id}"
        for policy in self._policies.values():
            for binding in policy["bindings"]:
                binding["members"] = sorted(new if member == old else member for member in binding["members"])

    def allowed(self, principal: str, permission: str, resources: Iterable[str]) -> bool:
        """Whether `principal` holds `permission` on any of `resources` (a resource and its ancestors)."""
        roles = catalog.roles()
        for resource in resources:
            for binding in self._policies.get(resource, {}).get("bindings", ()):
                granted = roles.get(binding["role"], frozenset())
                if permission not in granted and "*" not in granted:
                    continue
                if any(self._means(member, principal) for member in binding["members"]):
                    return True
        return False

    def _means(self, member: str, principal: str) -> bool:
        if member == principal or member in PUBLIC_MEMBERS:
            return True
        kind, _, project = member.partition(":")
        policy = self._policies.get(f"projects/{project}", {}) if kind in _CONVENIENCE else {}
        return any(b["role"] == _CONVENIENCE[kind] and principal in b["members"] for b in policy.get("bindings", ()))

    def _check(self, role: str, members: Iterable[str]) -> None:
        if role not in catalog.roles():
            raise invalid(f"Role {role} is not supported for this resource.", ("policy.bindings.role", "unknown role"))
        for member in members:
            if not _MEMBER.fullmatch(member):
                raise invalid(
                    f"The member {member} is of an unknown type. Please set a valid type prefix for the member.",
                    ("policy.bindings.members", "malformed"),
                )
            kind, _, email = member.partition(":")
            if kind == "serviceAccount" and not self._service_account_exists(email):
                raise invalid(f"Service account {email} does not exist.", ("policy.bindings.members", "not found"))
