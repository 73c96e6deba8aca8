"""Artifact Registry v1: repositories of container images, their policies, and images with their tags.

An image comes here by a build (cloudbuild.py) or by `seed_image`; the registry's own push protocol is not emulated.
Deliberately not done: other formats, remote and virtual repositories, encryption keys, vulnerability scanning, and the
daily job that applies clean-up policies (they are checked and kept). Where tags are immutable no tagged image can be
deleted (https://docs.cloud.google.com/artifact-registry/docs/repositories/update-repo-settings, read 2026-11-29); no
page says that this job could, so nothing may count on it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from infra import catalog
from mockgcp import masks
from mockgcp.errors import ApiError, already_exists, failed_precondition, invalid, not_found
from mockgcp.operations import Operation
from mockgcp.paging import PARAMS, page
from mockgcp.service import Call, Service, canonical
from mockgcp.services.standard import serve_operations, serve_policies
from mockgcp.state import State

service = Service("artifactregistry", host="artifactregistry.googleapis.com")

REPOSITORIES = "artifactregistry.projects.locations.repositories"
MEDIA_TYPE = "application/vnd.oci.image.manifest.v1+json"
# 1000: the API's reference pages of these lists (pageSize); of the default no page says more than "server-chosen".
PAGE = 1000


# -- image references ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Image:
    """An image in this universe's Artifact Registry: HOST/PROJECT/REPOSITORY/NAME, with a tag, a digest or both."""

    location: str
    project: str
    repository_id: str
    name: str
    tag: str
    digest: str

    @property
    def repository(self) -> str:
        """The repository's full name."""
        return f"projects/{self.project}/locations/{self.location}/repositories/{self.repository_id}"

    @property
    def package(self) -> str:
        """The package's full name; a slash in the image's name is escaped, as in the API."""
        return f"{self.repository}/packages/{self.name.replace('/', '%2F')}"


REFERENCE = re.compile(r"(?P<path>[^:@]+)(?::(?P<tag>[\w][\w.-]{0,127}))?(?:@(?P<digest>sha256:[0-9a-f]{64}))?")


def parse(state: State, reference: str) -> Image | None:
    """The image that a reference names; None when it is not one of this universe's Artifact Registry."""
    host, _, rest = reference.partition("/")
    location = host.removesuffix(state.universe.docker_registry(""))
    match = REFERENCE.fullmatch(rest)
    if location == host or match is None:
        return None
    parts = match["path"].split("/")
    # A project id's colon (a domain's project, a universe's prefix) is a slash in a reference.
    prefix = state.universe.project_prefix.removesuffix(":")
    if prefix and parts[0] == prefix:
        parts[:2] = [":".join(parts[:2])]
    if len(parts) < 3:
        return None
    project, repository, *name = parts
    digest = match["digest"] or ""
    return Image(location, project, repository, "/".join(name), match["tag"] or ("" if digest else "latest"), digest)


def find(state: State, image: Image) -> str | None:
    """The digest of an image that is there, by its digest, else by its tag; None when it is not."""
    if image.digest:
        found = f"{image.package}/versions/{image.digest}" in state.table("artifactregistry.version")
        return image.digest if found else None
    tag = state.table("artifactregistry.tag").get(f"{image.package}/tags/{image.tag}")
    return tag["version"].rpartition("/")[2] if tag else None


def push(state: State, image: Image, digest: str, size: int = 0) -> None:
    """Puts an image of that digest, and the reference's tag on it, into its repository.

    Raises:
        ApiError: NOT_FOUND without the repository, FAILED_PRECONDITION for a tag that is taken and immutable.
    """
    repository = state.table("artifactregistry.repository").get(image.repository)
    if repository is None:
        raise not_found(f'name unknown: Repository "{image.repository_id}" not found')
    version, tag = f"{image.package}/versions/{digest}", f"{image.package}/tags/{image.tag}"
    tags, now = state.table("artifactregistry.tag"), state.clock.timestamp()
    if image.tag and tags.get(tag, {}).get("version", version) != version:
        require_mutable(repository, tag)
    made = state.table("artifactregistry.version").setdefault(
        version, {"name": version, "createTime": now, "metadata": {"imageSizeBytes": str(size)}}
    )
    made["updateTime"] = now
    if image.tag:
        tags[tag] = {"name": tag, "version": version}


def seed_image(state: State, reference: str, tag: str = "") -> None:
    """Makes an image, its tag if one is given, and its repository exist; the reference has a digest.

    Raises:
        ValueError: the reference has no digest or is not of this universe's Artifact Registry.
    """
    image = parse(state, reference)
    if image is None or not image.digest:
        raise ValueError(f"{reference!r} is no image with a digest in {state.universe.docker_registry('LOCATION')}")
    with state.changed:
        if image.repository not in state.table("artifactregistry.repository"):
            _store(state, image.repository, {"format": "DOCKER", "mode": "STANDARD_REPOSITORY"})
        named = Image(image.location, image.project, image.repository_id, image.name, tag or image.tag, "")
        push(state, named, image.digest)


def require_mutable(repository: Mapping[str, Any], tag: str) -> None:
    # What immutable tags forbid: DockerRepositoryConfig in the discovery document; the message's words are unchecked.
    if repository.get("dockerConfig", {}).get("immutableTags"):
        raise failed_precondition(
            f"The repository {repository['name']} has enabled tag immutability: tag {tag.rpartition('/')[2]!r} exists "
            "and cannot be moved or deleted."
        )


# -- repositories --------------------------------------------------------------------------------------------------


def _parent(call: Call) -> str:
    return canonical(call, call.params["parent"])


def name_of(call: Call) -> str:
    return canonical(call, call.params.get("name") or call.params["resource"])


def repository_name(call: Call) -> str:
    """The full name of the repository that a call is about or in."""
    name = call.params.get("name") or call.params.get("parent") or call.params["resource"]
    return canonical(call, "/".join(name.split("/")[:6]))


def the_repository(call: Call) -> dict[str, Any]:
    name = repository_name(call)
    found = call.cloud.table("artifactregistry.repository").get(name)
    if found is None:
        raise not_found(f'Repository "{name}" was not found.')
    return found


# Of a repository, what is refused rather than ignored.
_NOT_EMULATED = (
    *("disallowUnspecifiedMode", "kmsKeyName", "mavenConfig"),
    *("platformLogsConfig", "remoteRepositoryConfig", "virtualRepositoryConfig"),
)


def _check_create(call: Call) -> None:
    if problem := catalog.repository_id_problem(call.params.get("repositoryId", "")):
        raise invalid(f"repositoryId: {problem.message}", ("repositoryId", "malformed"))
    location = call.params["parent"].split("/")[3]
    if problem := catalog.repository_location_problem(location, call.cloud.universe):
        raise invalid(f"location: {problem.message}", ("parent", "unknown location"))
    if call.body.get("format", "FORMAT_UNSPECIFIED") == "FORMAT_UNSPECIFIED":
        raise invalid("format: a repository needs one, such as DOCKER", ("format", "required"))
    _check(call.body)


def _check(body: Mapping[str, Any]) -> None:
    for key in _NOT_EMULATED:
        if body.get(key):
            raise ApiError("UNIMPLEMENTED", f"mockgcp does not emulate {key} of a repository; it ignores nothing")
    for key, known in (("format", "DOCKER"), ("mode", "STANDARD_REPOSITORY")):
        if body.get(key, known) not in (known, f"{key.upper()}_UNSPECIFIED"):
            raise ApiError("UNIMPLEMENTED", f"mockgcp has repositories of {key} {known} only, not {body[key]}")
    problems = catalog.label_problems(body.get("labels", {}))
    problems += catalog.cleanup_policy_problems(body.get("cleanupPolicies", {}))
    if problems:
        raise invalid("; ".join(f"{p.field}: {p.message}" for p in problems), *((p.field, p.message) for p in problems))


def _store(state: State, name: str, body: Mapping[str, Any]) -> dict[str, Any]:
    _, project, _, location, _, repository_id = name.split("/")
    now = state.clock.timestamp()
    stored = state.table("artifactregistry.repository")[name] = {
        **_shown(body),
        "mode": "STANDARD_REPOSITORY",
        "name": name,
        "registryUri": f"{state.universe.docker_registry(location)}/{project.replace(':', '/')}/{repository_id}",
        "createTime": now,
        "updateTime": now,
    }
    return stored


def _shown(body: Mapping[str, Any]) -> dict[str, Any]:
    """The fields as the server shows them: each clean-up policy with its id, scanning with its state."""
    policies = {key: {**policy, "id": key} for key, policy in body.get("cleanupPolicies", {}).items()}
    scanning = body.get("vulnerabilityScanningConfig", {})
    return {
        **body,
        **({"cleanupPolicies": policies} if policies else {}),
        "vulnerabilityScanningConfig": {**scanning, "enablementState": "SCANNING_DISABLED"},
    }


@service.method(
    f"{REPOSITORIES}.create",
    permission="artifactregistry.repositories.create",
    on=_parent,
    rules=_check_create,
    reads=("repositoryId",),
    answers="Repository",
)
def create(call: Call) -> Operation:
    name = f"{_parent(call)}/repositories/{call.params['repositoryId']}"
    if name in call.cloud.table("artifactregistry.repository"):
        raise already_exists("the repository already exists")
    # Taken at once, so that a second creation meanwhile is refused.
    stored = _store(call.cloud, name, call.body)
    return call.cloud.operations.run(operation(call, name), (call.duration_s, lambda: dict(stored)))


def operation(call: Call, name: str) -> Operation:
    location = "/".join(name.split("/")[:4])
    return Operation(f"{location}/operations/{call.cloud.uid()}", {})


@service.method(f"{REPOSITORIES}.get", permission="artifactregistry.repositories.get", on=repository_name)
def get(call: Call) -> Mapping[str, Any]:
    return {**the_repository(call), "sizeBytes": "0"}


@service.method(f"{REPOSITORIES}.list", permission="artifactregistry.repositories.list", on=_parent, reads=PARAMS)
def list_(call: Call) -> Mapping[str, Any]:
    return listed(call, "artifactregistry.repository", f"{_parent(call)}/repositories/", "repositories")


def listed(call: Call, kind: str, prefix: str, key: str) -> Mapping[str, Any]:
    found, more = page(call, list(below(call.cloud, kind, prefix)), default=PAGE, most=PAGE)
    return {key: found, **more}


def below(state: State, kind: str, prefix: str) -> Iterator[dict[str, Any]]:
    return (row for name, row in sorted(state.table(kind).items()) if name.startswith(prefix))


_CHANGEABLE = (
    *("cleanupPolicies", "cleanupPolicyDryRun", "description"),
    *("dockerConfig", "labels", "vulnerabilityScanningConfig"),
)


def _check_patch(call: Call) -> None:
    mask = masks.paths(call.params.get("updateMask", ""))
    if not mask or any(path.split(".")[0] not in _CHANGEABLE for path in mask):
        raise invalid(
            f"updateMask {','.join(mask)!r}: name what changes, of {', '.join(_CHANGEABLE)}",
            ("updateMask", "unsupported"),
        )
    _check(call.body)


@service.method(
    f"{REPOSITORIES}.patch",
    permission="artifactregistry.repositories.update",
    on=repository_name,
    rules=_check_patch,
    reads=("updateMask",),
)
def patch(call: Call) -> Mapping[str, Any]:
    repository = the_repository(call)
    changed = masks.merged(repository, _shown(call.body), masks.paths(call.params["updateMask"]))
    repository.clear()  # and not another one in its place: a deletion on its way knows it by identity
    repository.update(changed, updateTime=call.cloud.clock.timestamp())
    return repository


@service.method(
    f"{REPOSITORIES}.delete",
    permission="artifactregistry.repositories.delete",
    on=repository_name,
    answers="Empty",
)
def delete(call: Call) -> Operation:
    """Deletes the repository with all that is in it, tags that cannot move included."""
    name, stored = repository_name(call), the_repository(call)

    def gone() -> Mapping[str, Any]:
        if call.cloud.table("artifactregistry.repository").get(name) is stored:
            del call.cloud.table("artifactregistry.repository")[name]
            for kind in ("artifactregistry.version", "artifactregistry.tag"):
                drop(call.cloud, kind, f"{name}/")
            call.cloud.policies.drop(name)
        return {}

    return call.cloud.operations.run(operation(call, name), (call.duration_s, gone))


def drop(state: State, kind: str, prefix: str) -> None:
    table = state.table(kind)
    for name in [name for name in table if name.startswith(prefix)]:
        del table[name]


serve_policies(
    service,
    REPOSITORIES,
    "artifactregistry.repositories",
    on=repository_name,
    there=lambda call: str(the_repository(call)["name"]),
)

# -- locations and operations --------------------------------------------------------------------------------------


@service.method(
    "artifactregistry.projects.locations.list",
    permission="artifactregistry.locations.list",
    on=lambda call: canonical(call, call.params["name"]),
    reads=PARAMS,
)
def list_locations(call: Call) -> Mapping[str, Any]:
    project = canonical(call, call.params["name"])
    found, more = page(call, catalog.repository_locations(call.cloud.universe))
    return {"locations": [{"name": f"{project}/locations/{at}", "locationId": at} for at in found], **more}


@service.method("artifactregistry.projects.locations.get", permission="artifactregistry.locations.get", on=name_of)
def get_location(call: Call) -> Mapping[str, Any]:
    at = name_of(call).rpartition("/")[2]
    if catalog.repository_location_problem(at, call.cloud.universe):
        raise not_found(f"Location {name_of(call)} is not found.")
    return {"name": name_of(call), "locationId": at}


# The API has no permission of its own for reading an operation.
serve_operations(service, "artifactregistry.projects.locations.operations", None, on=name_of)
