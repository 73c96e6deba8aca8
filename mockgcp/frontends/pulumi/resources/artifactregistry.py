"""gcp:artifactregistry: repositories and their IAM members."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pulumi_gcp as gcp

from mockgcp.errors import invalid
from mockgcp.frontends.pulumi.resource import Props, Request, ResourceType, Session, deleted_by, id_parts
from mockgcp.frontends.pulumi.resources.iam_member import PolicyCalls, iam_member, located
from mockgcp.frontends.pulumi.resources.masked import mask
from mockgcp.frontends.pulumi.translate import Table

_FULL_NAME = "projects/{project}/locations/{location}/repositories/{repositoryId}"
_NAME = {"name": _FULL_NAME}
_METHODS = "artifactregistry.projects.locations.repositories"
_CREATE = Request(
    f"{_METHODS}.create", {"parent": "projects/{project}/locations/{location}", "repositoryId": "{repositoryId}"}
)
_GET = Request(f"{_METHODS}.get", _NAME)
# What an update may name beside the labels.
_UPDATABLE = {
    name: (name,)
    for name in (
        *("cleanupPolicies", "cleanupPolicyDryRun", "description"),
        *("dockerConfig", "vulnerabilityScanningConfig"),
    )
}


def _sent(body: Mapping[str, Any]) -> dict[str, Any]:
    """The body with the clean-up policies as the API has them: by their ids, which are no field of theirs.

    Raises:
        ApiError: two policies of one id.
    """
    policies = body.get("cleanupPolicies", [])
    by_id = {policy["id"]: {k: v for k, v in policy.items() if k != "id"} for policy in policies}
    if len(by_id) < len(policies):
        raise invalid("cleanupPolicies: two policies have the same id", ("cleanupPolicies", "duplicate id"))
    return {**body, **({"cleanupPolicies": by_id} if by_id else {})}


def _shown(rest: Mapping[str, Any]) -> dict[str, Any]:
    policies = [{**policy, "id": key} for key, policy in rest.get("cleanupPolicies", {}).items()]
    return {**rest, **({"cleanupPolicies": policies} if policies else {})}


def _create(session: Session, properties: Props, body: Mapping[str, Any]) -> Mapping[str, Any]:
    return _shown(session.call(_CREATE.method, _CREATE.fill(located(session, properties)), _sent(body)))


def _read(session: Session, properties: Props) -> Mapping[str, Any] | None:
    found = session.get(_GET.method, _GET.fill(properties))
    return _shown(found) if found is not None else None


def _update(session: Session, old: Props, new: Props, body: Mapping[str, Any]) -> Mapping[str, Any]:
    # Of labels the outputs have the provider's own, too: they are named always, which changes nothing.
    changed = [*mask(_UPDATABLE, REPOSITORY.computed, old, new), "labels"]
    params = {**_GET.fill(located(session, new)), "updateMask": ",".join(changed)}
    return _shown(session.call(f"{_METHODS}.patch", params, _sent(body)))


def _dry_run(session: Session, properties: Props, body: Mapping[str, Any]) -> None:
    session.validate(_CREATE, located(session, properties), _sent(body))


def _derive(session: Session, properties: Props, rest: Mapping[str, Any]) -> Props:
    _, project, _, location, _, name = rest["name"].split("/")
    return {"name": name, "repositoryId": name, "project": project, "location": location}


REPOSITORY = ResourceType(
    token="gcp:artifactregistry/repository:Repository",
    resource=gcp.artifactregistry.Repository,
    args=gcp.artifactregistry.RepositoryArgs,
    id=_FULL_NAME,
    import_id=id_parts(_FULL_NAME),
    create=_create,
    read=_read,
    update=_update,
    delete=deleted_by(Request(f"{_METHODS}.delete", _NAME)),
    dry_run=_dry_run,
    defaults={
        "mode": "STANDARD_REPOSITORY",
        "cleanupPolicies.condition.tagState": "ANY",
        "mavenConfig.versionPolicy": "VERSION_POLICY_UNSPECIFIED",
    },
    replace_on=frozenset(
        {
            *("format", "kmsKeyName", "location", "mode", "project", "repositoryId"),
            *("mavenConfig.allowSnapshotOverwrites", "mavenConfig.versionPolicy"),
            "remoteRepositoryConfig",
        }
    ),
    computed=frozenset({"deletionPolicy", "location", "project", "vulnerabilityScanningConfig"}),
    table=Table(local=frozenset({"deletionPolicy", "location", "project", "repositoryId"})),
    derive=_derive,
)

_RESOURCE = {"resource": "projects/{project}/locations/{location}/repositories/{repository}"}


def _short(repository: str) -> str:
    return repository.rpartition("/")[2]


REPOSITORY_IAM_MEMBER = iam_member(
    "gcp:artifactregistry/repositoryIamMember:RepositoryIamMember",
    gcp.artifactregistry.RepositoryIamMember,
    gcp.artifactregistry.RepositoryIamMemberArgs,
    "projects/{project}/locations/{location}/repositories/{repository}",
    PolicyCalls(
        get=Request(f"{_METHODS}.getIamPolicy", {**_RESOURCE, "options.requestedPolicyVersion": "3"}),
        set=Request(f"{_METHODS}.setIamPolicy", _RESOURCE),
        wrapped=True,
    ),
    # The provider keeps the repository under its full name in the state.
    spelling={"repository": _short},
    derive=lambda properties: {
        "repository": f"projects/{properties['project']}/locations/{properties['location']}/repositories/"
        f"{_short(properties['repository'])}"
    },
)
