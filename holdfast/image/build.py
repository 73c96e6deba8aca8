"""An image for a source: the registry's if it has one, else built by Cloud Build. Without command line and Pulumi."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from holdfast.errors import OperatorError
from holdfast.gcp.api import Api, CloudError, find
from holdfast.image.archive import DOCKERFILE, Source
from holdfast.toolcache import Progress

NAME = "holdfast-trainer"
BUILDER = "gcr.io/cloud-builders/docker"
"""Google's builder with docker in it."""
TIMEOUT_S = 3600
"""Of a build. A GPU image is some 5 GB, which take minutes to push."""
POLL_S = 3.0

_BUILDS = "cloudbuild.projects.locations.builds"
_TAGS = "artifactregistry.projects.locations.repositories.packages.tags"
_RUNNING = ("STATUS_UNKNOWN", "PENDING", "QUEUED", "WORKING")
_LOG_LINES = 20
_UP = "bring up the foundation stack first (`pulumi up`)"


@dataclass(frozen=True)
class Place:
    """Where images are built and kept.

    Attributes:
        region: the registry's.
        repository: the registry's, HOST/PROJECT/REPOSITORY.
        source_bucket: takes the archives.
        build_account: the e-mail of the service account that builds.
        build_region: where Cloud Build builds, if not in `region`.
    """

    project: str
    region: str
    repository: str
    source_bucket: str
    build_account: str
    build_region: str | None = None

    @property
    def builds(self) -> str:
        return f"projects/{self.project}/locations/{self.build_region or self.region}"

    @property
    def repository_name(self) -> str:
        return f"projects/{self.project}/locations/{self.region}/repositories/{self.repository.rpartition('/')[2]}"


@dataclass(frozen=True)
class Image:
    """An image in the registry. `reference` has the digest; `built` says whether it was not there before."""

    reference: str
    tag: str
    built: bool


class BuildLeftRunning(Exception):
    """The wait for a build was interrupted; the build goes on, and the message says how to follow it."""


def ensure_image(
    api: Api,
    place: Place,
    source: Source,
    say: Progress,
    *,
    builder: str = BUILDER,
    show: Progress = lambda text: None,
    pause: Callable[[float], None] = time.sleep,
) -> Image:
    """The image of a source. Nothing is uploaded or built when the registry has it.

    Args:
        say: takes a line for each thing that happened.
        show: takes what is going on right now, again and again.
        pause: waits for that many seconds.

    Raises:
        OperatorError: what is missing or refused, and the way out; a build that failed, with its last lines.
        BuildLeftRunning: it was interrupted while it waited.
    """
    if image := _registered(api, place, source, built=False):
        say(f"{image.reference} is there: nothing to build")
        return image
    build = _running(api, place, source)
    if build is None:
        _upload(api, place, source, say)
        build = _start(api, place, source, builder)
        say(f"build {build['id']} started as {place.build_account}: {_link(build)}")
    else:
        say(f"build {build['id']} of the same source is under way: following it")
    try:
        build = _follow(api, build, say, show, pause)
    except (KeyboardInterrupt, SystemExit) as interrupt:  # Ctrl-C, or SIGTERM as the command line takes it
        raise BuildLeftRunning(
            f"build {build['id']} goes on: run the same command again to follow it, or look at {_link(build)}"
        ) from interrupt
    if build["status"] != "SUCCESS":
        # Tags are immutable: of two builds of one source the slower one cannot push.
        if image := _registered(api, place, source, built=True):
            return image
        raise OperatorError(_failure(api, place, build))
    for pushed in build.get("results", {}).get("images", ()):
        if pushed["name"] == _reference(place, source):
            return Image(f"{place.repository}/{NAME}@{pushed['digest']}", source.tag, built=True)
    raise OperatorError(f"build {build['id']} succeeded without pushing {_reference(place, source)}: {_link(build)}")


def _reference(place: Place, source: Source) -> str:
    return f"{place.repository}/{NAME}:{source.tag}"


def _registered(api: Api, place: Place, source: Source, *, built: bool) -> Image | None:
    """The image as the registry has it; None without.

    Raises:
        OperatorError: the repository is not there, or cannot be read.
    """
    try:
        tag = find(api, f"{_TAGS}.get", {"name": f"{place.repository_name}/packages/{NAME}/tags/{source.tag}"})
        if tag is None and find(api, _TAGS.partition(".packages")[0] + ".get", {"name": place.repository_name}) is None:
            raise OperatorError(f"there is no repository {place.repository}: {_UP}")
    except CloudError as error:
        raise _refused(
            error, f"the registry {place.repository} cannot be read", "roles/artifactregistry.reader"
        ) from error
    if tag is None:
        return None
    return Image(f"{place.repository}/{NAME}@{tag['version'].rpartition('/')[2]}", source.tag, built)


def _running(api: Api, place: Place, source: Source) -> dict[str, Any] | None:
    """A build of the same source that has not ended, among the newest ones."""
    try:
        newest = api.call(f"{_BUILDS}.list", {"parent": place.builds, "pageSize": 50})
    except CloudError as error:
        raise _refused(
            error, f"builds in {place.project} cannot be listed", "roles/cloudbuild.builds.editor"
        ) from error
    same = (each for each in newest.get("builds", ()) if {NAME, source.tag} <= set(each.get("tags", ())))
    return next((each for each in same if each["status"] in _RUNNING), None)


def _upload(api: Api, place: Place, source: Source, say: Progress) -> None:
    params = {"bucket": place.source_bucket, "name": _object(source), "ifGenerationMatch": "0"}
    where = f"gs://{place.source_bucket}/{_object(source)}"
    try:
        api.call("storage.objects.insert", params, {"contentType": "application/gzip"}, source.archive)
    except CloudError as error:
        if error.http_status == 412:  # the same bytes, by their name
            say(f"source: {where} (was there)")
            return
        if error.status == "NOT_FOUND":
            raise OperatorError(f"there is no bucket {place.source_bucket}: {_UP}") from error
        raise _refused(error, f"{where} cannot be written", "roles/storage.objectCreator on the bucket") from error
    say(f"source: {where} ({len(source.archive) / 1024:.0f} KiB)")


def _object(source: Source) -> str:
    return f"{NAME}/{source.tag}.tar.gz"


def _start(api: Api, place: Place, source: Source, builder: str) -> dict[str, Any]:
    reference = _reference(place, source)
    args = [f"--build-arg={name}={value}" for name, value in (*source.args.items(), ("SOURCE_HASH", source.tag))]
    body = {
        "source": {"storageSource": {"bucket": place.source_bucket, "object": _object(source)}},
        "steps": [
            {
                "id": "image",
                "name": builder,
                "args": ["build", f"--file={DOCKERFILE}", f"--tag={reference}", *args, "."],
            }
        ],
        "images": [reference],
        "serviceAccount": f"projects/{place.project}/serviceAccounts/{place.build_account}",
        # An account of one's own needs one of the logging modes without a Google-owned bucket.
        "options": {"logging": "CLOUD_LOGGING_ONLY"},
        "timeout": f"{TIMEOUT_S}s",
        "tags": [NAME, source.tag],
    }
    try:
        operation = api.call(f"{_BUILDS}.create", {"parent": place.builds}, body)
    except CloudError as error:
        raise _refused(
            error,
            f"the build as {place.build_account} was not started",
            f"roles/cloudbuild.builds.editor, and roles/iam.serviceAccountUser on {place.build_account}",
        ) from error
    build: dict[str, Any] = operation["metadata"]["build"]
    return build


def _follow(
    api: Api, build: dict[str, Any], say: Progress, show: Progress, pause: Callable[[float], None]
) -> dict[str, Any]:
    """Follows a build to its end."""
    said: set[str] = set()
    waited_s = 0.0
    while True:
        for line in _progress(build):
            if line not in said:
                said.add(line)
                say(line)
        if build["status"] not in _RUNNING:
            return build
        show(f"build {build['id'][:8]}: {build['status'].lower()}, {waited_s:.0f} s")
        pause(POLL_S)
        waited_s += POLL_S
        try:
            build = api.call(f"{_BUILDS}.get", {"name": build["name"]})
        except CloudError as error:
            raise OperatorError(
                f"{error.message}\nBuild {build['id']} goes on: run the same command again to follow it, "
                f"or look at {_link(build)}"
            ) from error


def _progress(build: Mapping[str, Any]) -> list[str]:
    """What there is to say of a build as it stands; a line that was said is not said again."""
    lines = [f"build: {build['status'].lower()}"]
    for step in build.get("steps", ()):
        if "status" in step and step["status"] != "QUEUED":
            lines.append(f"build step {step.get('id') or step['name']}: {step['status'].lower()}")
    return lines + [f"build warning: {warning['text']}" for warning in build.get("warnings", ())]


def _failure(api: Api, place: Place, build: Mapping[str, Any]) -> str:
    detail = build.get("failureInfo", {}).get("detail") or build.get("statusDetail", "")
    query = {
        "resourceNames": [f"projects/{place.project}"],
        "filter": f'resource.type="build" AND resource.labels.build_id="{build["id"]}"',
        "orderBy": "timestamp desc",
        "pageSize": _LOG_LINES,
    }
    try:
        entries = api.call("logging.entries.list", {}, query).get("entries", [])
        lines = [entry["textPayload"] for entry in reversed(entries) if "textPayload" in entry]
    except CloudError as error:
        lines = [f"(its log cannot be read: {error.message})"]
    return "\n".join([f"build {build['id']}: {build['status']} {detail}".strip(), *lines, f"All of it: {_link(build)}"])


def _link(build: Mapping[str, Any]) -> str:
    return str(build.get("logUrl") or build["name"])


def _refused(error: CloudError, what: str, roles: str) -> OperatorError:
    """What an API refused, with the way out."""
    if error.reason == "SERVICE_DISABLED":
        way_out = f"enable the API: {_UP}, or `gcloud services enable` with the name above"
    elif error.status in ("PERMISSION_DENIED", "NOT_FOUND"):
        way_out = f"you need {roles}"
    elif error.status == "FAILED_PRECONDITION":
        # https://docs.cloud.google.com/build/docs/locations#restricted_regions_for_some_projects, read 2026-11-29
        way_out = (
            "if it is the region: some projects may build in a few only (docs/image.md); choose with --build-region"
        )
    else:
        return OperatorError(f"{what}: {error}")
    return OperatorError(f"{what}: {error.message}\n{way_out[0].upper()}{way_out[1:]}")
