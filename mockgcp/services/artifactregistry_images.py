"""Artifact Registry v1: images by the views that the API has of them: docker images; packages, versions and tags."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mockgcp.errors import already_exists, failed_precondition, not_found
from mockgcp.operations import Operation
from mockgcp.paging import PARAMS, page
from mockgcp.service import Call, canonical
from mockgcp.services.artifactregistry import (
    MEDIA_TYPE,
    PAGE,
    REFERENCE,
    REPOSITORIES,
    Image,
    below,
    drop,
    listed,
    name_of,
    operation,
    repository_name,
    require_mutable,
    service,
    the_repository,
)
from mockgcp.state import State


def _in_repository(call: Call) -> str:
    """The repository that a call lists or reads from; it must be there."""
    name: str = the_repository(call)["name"]
    return name


def _tags(state: State, version: str) -> list[str]:
    package = version.partition("/versions/")[0]
    return [t["name"] for t in below(state, "artifactregistry.tag", f"{package}/tags/") if t["version"] == version]


def _docker_image(state: State, version: Mapping[str, Any]) -> dict[str, Any]:
    package, _, digest = version["name"].partition("/versions/")
    repository, _, name = package.partition("/packages/")
    registry = state.table("artifactregistry.repository")[repository]["registryUri"]
    return {
        "name": f"{repository}/dockerImages/{name}@{digest}",
        "uri": f"{registry}/{name.replace('%2F', '/')}@{digest}",
        "tags": [tag.rpartition("/")[2] for tag in _tags(state, version["name"])],
        "imageSizeBytes": version["metadata"]["imageSizeBytes"],
        "mediaType": MEDIA_TYPE,
        "uploadTime": version["createTime"],
        "updateTime": version["updateTime"],
    }


@service.method(
    f"{REPOSITORIES}.dockerImages.list",
    permission="artifactregistry.dockerimages.list",
    on=repository_name,
    reads=PARAMS,
)
def list_images(call: Call) -> Mapping[str, Any]:
    versions = list(below(call.cloud, "artifactregistry.version", f"{_in_repository(call)}/"))
    found, more = page(call, versions, default=PAGE, most=PAGE)
    return {"dockerImages": [_docker_image(call.cloud, version) for version in found], **more}


@service.method(f"{REPOSITORIES}.dockerImages.get", permission="artifactregistry.dockerimages.get", on=repository_name)
def get_image(call: Call) -> Mapping[str, Any]:
    """By digest (`NAME@sha256:...`), or by tag (`NAME:TAG`), as the resource names of the API allow."""
    repository, short = _in_repository(call), call.params["name"].rpartition("/")[2]
    match = REFERENCE.fullmatch(short)
    image = match and Image("", "", "", match["path"], match["tag"] or "", match["digest"] or "")
    package = f"{repository}/packages/{image.name}" if image else ""
    tag = call.cloud.table("artifactregistry.tag").get(f"{package}/tags/{image.tag}") if image else None
    name = tag["version"] if tag else f"{package}/versions/{image.digest if image else ''}"
    version = call.cloud.table("artifactregistry.version").get(name)
    if version is None:
        raise not_found(f"Image {call.params['name']} was not found.")
    return _docker_image(call.cloud, version)


def _packages(state: State, repository: str) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    for version in below(state, "artifactregistry.version", f"{repository}/"):
        name = version["name"].partition("/versions/")[0]
        package = found.setdefault(name, {"name": name, "createTime": version["createTime"]})
        package["updateTime"] = max(package.get("updateTime", ""), version["updateTime"])
    return found


def _package(call: Call) -> dict[str, Any]:
    """The package that a call is about or in."""
    name = call.params.get("name") or call.params["parent"]
    name = canonical(call, "/".join(name.split("/")[:8]))
    found = _packages(call.cloud, _in_repository(call)).get(name)
    if found is None:
        raise not_found(f'Package "{name}" was not found.')
    return found


@service.method(
    f"{REPOSITORIES}.packages.list",
    permission="artifactregistry.packages.list",
    on=repository_name,
    reads=PARAMS,
)
def list_packages(call: Call) -> Mapping[str, Any]:
    found, more = page(call, list(_packages(call.cloud, _in_repository(call)).values()), default=PAGE, most=PAGE)
    return {"packages": found, **more}


@service.method(f"{REPOSITORIES}.packages.get", permission="artifactregistry.packages.get", on=repository_name)
def get_package(call: Call) -> Mapping[str, Any]:
    return _package(call)


@service.method(
    f"{REPOSITORIES}.packages.delete",
    permission="artifactregistry.packages.delete",
    on=repository_name,
    answers="Empty",
)
def delete_package(call: Call) -> Operation:
    name = _package(call)["name"]
    for tag in below(call.cloud, "artifactregistry.tag", f"{name}/tags/"):
        require_mutable(the_repository(call), tag["name"])

    def gone() -> Mapping[str, Any]:
        for kind in ("artifactregistry.version", "artifactregistry.tag"):
            drop(call.cloud, kind, f"{name}/")
        return {}

    return call.cloud.operations.run(operation(call, name), (call.duration_s, gone))


def _row(call: Call, kind: str) -> dict[str, Any]:
    """The version or tag that a call is about."""
    _in_repository(call)
    found = call.cloud.table(f"artifactregistry.{kind}").get(name_of(call))
    if found is None:
        raise not_found(f'{kind.capitalize()} "{name_of(call)}" was not found.')
    return found


def _version_shown(call: Call, version: Mapping[str, Any]) -> dict[str, Any]:
    names = _tags(call.cloud, version["name"]) if call.params.get("view") == "FULL" else []
    tags = call.cloud.table("artifactregistry.tag")
    return {**version, **({"relatedTags": [tags[name] for name in names]} if names else {})}


@service.method(
    f"{REPOSITORIES}.packages.versions.list",
    permission="artifactregistry.versions.list",
    on=repository_name,
    reads=("view", *PARAMS),
)
def list_versions(call: Call) -> Mapping[str, Any]:
    prefix = f"{_package(call)['name']}/versions/"
    found, more = page(call, list(below(call.cloud, "artifactregistry.version", prefix)), default=PAGE, most=PAGE)
    return {"versions": [_version_shown(call, version) for version in found], **more}


@service.method(
    f"{REPOSITORIES}.packages.versions.get",
    permission="artifactregistry.versions.get",
    on=repository_name,
    reads=("view",),
)
def get_version(call: Call) -> Mapping[str, Any]:
    return _version_shown(call, _row(call, "version"))


@service.method(
    f"{REPOSITORIES}.packages.versions.delete",
    permission="artifactregistry.versions.delete",
    on=repository_name,
    reads=("force",),
    answers="Empty",
)
def delete_version(call: Call) -> Operation:
    name = _row(call, "version")["name"]
    tags = _tags(call.cloud, name)
    for tag in tags:
        require_mutable(the_repository(call), tag)
    if tags and not call.params.get("force"):
        raise failed_precondition(f"The version {name} is tagged: delete its tags first, or say force.")

    def gone() -> Mapping[str, Any]:
        call.cloud.table("artifactregistry.version").pop(name, None)
        for tag in tags:
            call.cloud.table("artifactregistry.tag").pop(tag, None)
        return {}

    return call.cloud.operations.run(operation(call, name), (call.duration_s, gone))


@service.method(
    f"{REPOSITORIES}.packages.tags.list",
    permission="artifactregistry.tags.list",
    on=repository_name,
    reads=PARAMS,
)
def list_tags(call: Call) -> Mapping[str, Any]:
    return listed(call, "artifactregistry.tag", f"{_package(call)['name']}/tags/", "tags")


@service.method(f"{REPOSITORIES}.packages.tags.get", permission="artifactregistry.tags.get", on=repository_name)
def get_tag(call: Call) -> Mapping[str, Any]:
    return _row(call, "tag")


@service.method(
    f"{REPOSITORIES}.packages.tags.create",
    permission="artifactregistry.tags.create",
    on=repository_name,
    reads=("tagId",),
)
def create_tag(call: Call) -> Mapping[str, Any]:
    name = f"{_package(call)['name']}/tags/{call.params.get('tagId', '')}"
    if name in call.cloud.table("artifactregistry.tag"):
        raise already_exists(f'Tag "{name}" already exists.')
    return _tagged(call, name)


@service.method(
    f"{REPOSITORIES}.packages.tags.patch",
    permission="artifactregistry.tags.update",
    on=repository_name,
    reads=("updateMask",),  # a tag has but one field to change
)
def patch_tag(call: Call) -> Mapping[str, Any]:
    tag = _row(call, "tag")
    if call.body.get("version") != tag["version"]:
        require_mutable(the_repository(call), tag["name"])
    return _tagged(call, tag["name"])


def _tagged(call: Call, name: str) -> dict[str, Any]:
    version = canonical(call, call.body.get("version") or "projects/-")
    if (
        version not in call.cloud.table("artifactregistry.version")
        or version.partition("/versions/")[0] != (name.partition("/tags/")[0])
    ):
        raise not_found(f'Version "{version}" was not found in the package of the tag.')
    tag = call.cloud.table("artifactregistry.tag")[name] = {"name": name, "version": version}
    return tag


@service.method(f"{REPOSITORIES}.packages.tags.delete", permission="artifactregistry.tags.delete", on=repository_name)
def delete_tag(call: Call) -> Mapping[str, Any]:
    tag = _row(call, "tag")
    require_mutable(the_repository(call), tag["name"])
    del call.cloud.table("artifactregistry.tag")[tag["name"]]
    return {}
