"""Cloud Build v1: builds of container images from an archive in a bucket, on the cloud's clock.

A build fetches its source, runs its steps (`Cloud.builder` stands in for them), and pushes its images, each with the
build's service account; what that account may not do fails there, with a line in the log. Only
one step `docker build` is emulated. Deliberately not done: substitutions, triggers, approval, worker pools, secrets,
artifacts other than images, logs in a bucket, and whether Cloud Build is in the location.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NoReturn

from infra import catalog
from mockgcp import schemas
from mockgcp.builder import BuildFailed, docker_build
from mockgcp.errors import ApiError, failed_precondition, invalid, not_found, permission_denied
from mockgcp.operations import Operation
from mockgcp.paging import PARAMS, page
from mockgcp.service import Call, Service, canonical
from mockgcp.services import artifactregistry, iam, logging, storage
from mockgcp.services.standard import serve_operations
from mockgcp.state import State

service = Service("cloudbuild", host="cloudbuild.googleapis.com", records=("cloudbuild.build",))

_BUILDS = "cloudbuild.projects.locations.builds"
# The shares of a build's time that it waits, runs its steps and pushes; no figures of Google's.
_QUEUED, _STEPS, _PUSH = 0.1, 0.7, 0.2
_STEP_IMAGE = re.compile(r"gcr\.io/cloud-builders/docker(?::[\w.-]+|@sha256:[0-9a-f]{64})?")
# What a build may say here; anything else is refused by name.
_FIELDS = ("images", "options", "serviceAccount", "source", "steps", "tags", "timeout")
_STEP_FIELDS = ("args", "id", "name")
_OPTIONS = ("defaultLogsBucketBehavior", "diskSizeGb", "logging", "machineType", "requestedVerifyOption")
_LOGGED = ("CLOUD_LOGGING_ONLY", "STACKDRIVER_ONLY")
_PAGE, _PAGE_MAX = 100, 1000  # unchecked: the discovery document gives no numbers
_DONE = ("SUCCESS", "FAILURE", "TIMEOUT", "CANCELLED")


def _parent(call: Call) -> str:
    return canonical(call, call.params["parent"])


def _name(call: Call) -> str:
    return canonical(call, call.params["name"])


def _build(call: Call) -> dict[str, Any]:
    found = call.cloud.table("cloudbuild.build").get(_name(call))
    if found is None:
        raise not_found(f"Build {_name(call)} does not exist.")
    return found


# -- rules ---------------------------------------------------------------------------------------------------------


def _check(call: Call) -> None:
    body, options = call.body, call.body.get("options", {})
    _all_known("a build", body, _FIELDS)
    _all_known("a build's options", options, _OPTIONS)
    if not body.get("steps"):
        raise invalid("invalid build: at least one step is required", ("steps", "required"))
    if len(body["steps"]) > 1:
        raise ApiError("UNIMPLEMENTED", "mockgcp runs builds of one step only, `docker build`")
    _check_step(body["steps"][0])
    source = body.get("source", {})
    if not source.get("storageSource", {}).get("bucket") or not source["storageSource"].get("object"):
        raise ApiError("UNIMPLEMENTED", "mockgcp builds a source.storageSource with bucket and object only")
    _all_known("a source", source, ("storageSource",))
    _, most = catalog.build_timeout_s()
    if not 0 < _timeout_s(body) <= most:
        raise invalid(f"invalid build: timeout {body['timeout']} is not above 0 and at most {most}s", ("timeout", ""))
    chosen = options.get("logging") in (*_LOGGED, "NONE")
    if body.get("serviceAccount") and not chosen and "defaultLogsBucketBehavior" not in options:
        # The API's words, as reported in github.com/cert-manager/cert-manager/pull/8851.
        raise invalid(
            "if 'build.service_account' is specified, the build must either (a) specify 'build.logs_bucket', (b) use "
            "the REGIONAL_USER_OWNED_BUCKET build.options.default_logs_bucket_behavior option, or (c) use either "
            "CLOUD_LOGGING_ONLY / NONE logging options",
            ("options.logging", "required"),
        )
    if not chosen:
        raise ApiError("UNIMPLEMENTED", "mockgcp keeps no build logs in a bucket: set options.logging")


def _all_known(what: str, sent: Mapping[str, Any], known: tuple[str, ...]) -> None:
    for key, value in sent.items():
        if key not in known and value not in (None, "", [], {}, False):
            raise ApiError("UNIMPLEMENTED", f"mockgcp does not emulate {key} of {what}; it ignores nothing")


def _check_step(step: Mapping[str, Any]) -> None:
    _all_known("a step", step, _STEP_FIELDS)
    name, args = step.get("name", ""), step.get("args", [])
    if not name:
        raise invalid("invalid build: invalid build step: name must be specified", ("steps.name", "required"))
    if not _STEP_IMAGE.fullmatch(name) or args[:1] != ["build"]:
        raise ApiError("UNIMPLEMENTED", f"mockgcp runs steps `docker build` only, not {' '.join([name, *args])!r}")
    if any("$" in arg for arg in args):
        raise ApiError("UNIMPLEMENTED", "mockgcp does not emulate substitutions in a build's steps")
    if unread := docker_build(args).unread:
        raise ApiError("UNIMPLEMENTED", f"mockgcp does not emulate {', '.join(unread)} of docker build")


def _timeout_s(build: Mapping[str, Any]) -> float:
    default, _ = catalog.build_timeout_s()
    text = build.get("timeout")
    return float(text.removesuffix("s")) if text else float(default)


def _identity(call: Call, project: str) -> str:
    """The e-mail of the account that the build runs as, which the caller may use.

    Raises:
        ApiError: the account is not there or is disabled, or the caller may not act as it.
    """
    named = call.body.get("serviceAccount", "")
    if not named:
        # Since 2024 a new project's builds run as Compute Engine's default account:
        # https://docs.cloud.google.com/build/docs/cloud-build-service-account-updates
        default = iam.default_account(call.cloud, call.cloud.project(project))
        if default is None:
            raise failed_precondition(
                "the project has no default service account (Compute Engine is off): set serviceAccount"
            )
        return default
    match = re.fullmatch(r"projects/[^/]+/serviceAccounts/([^/]+)", named)
    if match is None:
        raise invalid(
            f"invalid build: serviceAccount {named!r} is not of the form projects/PROJECT_ID/serviceAccounts/ACCOUNT",
            ("serviceAccount", "malformed"),
        )
    accounts = call.cloud.table("iam.serviceAccount").values()
    account = next((a for a in accounts if match[1] in (a["email"], a["uniqueId"])), None)
    if account is None or not call.cloud.allowed(call.principal, "iam.serviceAccounts.actAs", account["name"]):
        # As reported in github.com/kohei321dev/spot-diggz/issues/164.
        which = account["uniqueId"] if account else match[1]
        raise permission_denied(f"caller does not have permission to act as service account {which}")
    if account.get("disabled"):
        raise failed_precondition(f"service account {account['email']} is disabled")
    email: str = account["email"]
    return email


def _source(call: Call, identity: str) -> dict[str, Any]:
    """The build's source with its generation resolved, as the build's own account finds it.

    Raises:
        ApiError: INVALID_ARGUMENT, in the words that `gcloud builds submit` shows.
    """
    source = dict(call.body["source"]["storageSource"])
    bucket, name = source["bucket"], source["object"]
    resource = f"projects/_/buckets/{bucket}"
    if bucket not in call.cloud.table("storage.bucket"):
        why = "googleapi: Error 404: The specified bucket does not exist., notFound"
    elif not call.cloud.allowed(f"serviceAccount:{identity}", "storage.objects.get", resource):
        why = (
            f"googleapi: Error 403: {identity} does not have storage.objects.get access to the Google Cloud Storage "
            "object. Permission 'storage.objects.get' denied on resource (or it may not exist)., forbidden"
        )
    elif (found := storage.find_object(call.cloud, bucket, name)) is None:
        why = f"googleapi: Error 404: No such object: {bucket}/{name}, notFound"
    elif source.get("generation", found["generation"]) != found["generation"]:
        why = f"googleapi: Error 404: No such object: {bucket}/{name}#{source['generation']}, notFound"
    else:
        return {**source, "generation": found["generation"]}
    raise invalid(f"could not resolve source: {why}", ("source.storageSource", "unresolved"))


# -- a build's life ------------------------------------------------------------------------------------------------


@service.method(
    f"{_BUILDS}.create",
    permission="cloudbuild.builds.create",
    on=_parent,
    rules=_check,
    reads=("projectId",),
    answers="Build",
)
def create(call: Call) -> Operation:
    parent, project = _parent(call), _parent(call).split("/")[1]
    if call.cloud.project(call.params.get("projectId") or project).id != project:
        raise invalid(f"projectId {call.params['projectId']!r} is not the parent's project", ("projectId", "mismatch"))
    identity = _identity(call, project)
    source, uid = _source(call, identity), call.cloud.uid()
    stored: dict[str, Any] = {
        **call.body,
        "id": uid,
        "name": f"{parent}/builds/{uid}",
        "projectId": project,
        "status": "QUEUED",
        "createTime": call.cloud.clock.timestamp(),
        "timeout": call.body.get("timeout") or f"{catalog.build_timeout_s()[0]}s",
        "steps": [dict(step) for step in call.body["steps"]],
        "sourceProvenance": {"resolvedStorageSource": source},
        "serviceAccount": call.body.get("serviceAccount") or f"projects/{project}/serviceAccounts/{identity}",
    }
    call.cloud.table("cloudbuild.build")[stored["name"]] = stored
    token = base64.urlsafe_b64encode(uid.encode()).decode().rstrip("=")
    operation = Operation(f"{parent}/operations/{token}", {"build": stored})
    run = _Run(call.cloud, stored, identity)
    total, limit = call.duration_s, _timeout_s(stored)
    in_time = total * (_STEPS + _PUSH) <= limit
    return call.cloud.operations.run(
        operation,
        (total * _QUEUED, run.start),
        (total * _STEPS if in_time else limit, lambda: run.step(in_time=in_time)),
        (total * _PUSH, run.push),
    )


class _Run:
    """A build that goes through its stages; each is a step of its operation, and ends it by an ApiError."""

    def __init__(self, state: State, build: dict[str, Any], identity: str) -> None:
        self._state, self._build, self._identity = state, build, identity
        self._digest = self._started = ""

    def start(self) -> None:
        self._require_running()
        self._build.update(status="WORKING", startTime=self._now())
        if not self._allowed("logging.logEntries.create", f"projects/{self._build['projectId']}"):
            # A warning in the build, and no log, as in
            # github.com/GoogleCloudPlatform/terraform-google-enterprise-application/issues/120.
            text = (
                f"The service account running this build {self._build['serviceAccount']} does not have permission to "
                "write logs to Cloud Logging. To fix this, grant the Logs Writer (roles/logging.logWriter) role to the "
                "service account."
            )
            self._build["warnings"] = [{"text": text, "priority": "ALERT"}]
        source = self._build["sourceProvenance"]["resolvedStorageSource"]
        self._log("MAIN", f'starting build "{self._build["id"]}"', "FETCHSOURCE")
        self._log("MAIN", f"Fetching storage object: gs://{source['bucket']}/{source['object']}#{source['generation']}")
        now = self._now()
        self._build["timing"] = {"FETCHSOURCE": {"startTime": now, "endTime": now}}
        self._started = now

    def step(self, *, in_time: bool) -> None:
        self._require_running()
        self._log("MAIN", "BUILD")
        source = self._build["sourceProvenance"]["resolvedStorageSource"]
        archive = storage.folder(self._state.state_dir, source["bucket"]) / source["object"]
        with self._stage("BUILD", self._started):
            if not in_time:
                self._end_step("CANCELLED")
                self._fail("TIMEOUT", "", f"build timed out after {self._build['timeout']}")
            found = storage.find_object(self._state, source["bucket"], source["object"])
            if found is None or found["generation"] != source["generation"]:
                self._end_step("QUEUED")
                self._fail("FAILURE", "FETCH_SOURCE_FAILED", f"No such object: {source['bucket']}/{source['object']}")
            try:
                self._digest = self._state.builder.build(archive, self._build)
            except BuildFailed as error:
                self._log("Step #0", *error.lines)
                self._end_step("FAILURE")
                self._fail(
                    "FAILURE",
                    "USER_BUILD_STEP",
                    f'build step 0 "{self._build["steps"][0]["name"]}" failed: step exited with non-zero status: 1',
                )
            self._end_step("SUCCESS")
            self._log("Step #0", f"Successfully built {self._digest}")

    def push(self) -> Mapping[str, Any]:
        self._require_running()
        built = docker_build(self._build["steps"][0]["args"]).tags
        pushed, now = [], self._now()
        with self._stage("PUSH", now):
            self._log("MAIN", "PUSH")
            for reference in self._build.get("images", []):
                self._log("MAIN", f"Pushing {reference}")
                if reference not in built:
                    text = f"An image with this tag does not exist locally: {reference}"
                    self._fail("FAILURE", "PUSH_IMAGE_NOT_FOUND", text)
                self._push(reference)
                timing = {"startTime": now, "endTime": self._now()}
                pushed.append({"name": reference, "digest": self._digest, "pushTiming": timing})
        self._build["results"] = {"images": pushed, "buildStepImages": [""]}
        self._build.update(status="SUCCESS", finishTime=self._now())
        self._log("MAIN", "DONE")
        return dict(self._build)

    def _push(self, reference: str) -> None:
        image = artifactregistry.parse(self._state, reference)
        if image is None:
            raise ApiError("UNIMPLEMENTED", f"mockgcp pushes to its own Artifact Registry only, not to {reference}")
        # What docker prints of the registry's refusals; the words of the last one are unchecked.
        project = next((p for p in self._state.projects if p.id == image.project), None)
        if project is not None and "artifactregistry.googleapis.com" not in project.services:
            text = (
                f"denied: Artifact Registry API has not been used in project {project.number} before or it is disabled"
            )
            self._fail("FAILURE", "PUSH_FAILED", text)
        permission = "artifactregistry.repositories.uploadArtifacts"
        if project is None or not self._allowed(permission, image.repository):
            self._fail(
                "FAILURE",
                "PUSH_NOT_AUTHORIZED",
                f'denied: Permission "{permission}" denied on resource "{image.repository}" (or it may not exist)',
            )
        try:
            artifactregistry.push(self._state, image, self._digest)
        except ApiError as error:
            self._fail("FAILURE", "PUSH_FAILED", error.message)

    # -- what the stages share -------------------------------------------------------------------------------------

    def _now(self) -> str:
        return self._state.clock.timestamp()

    def _allowed(self, permission: str, resource: str) -> bool:
        return self._state.allowed(f"serviceAccount:{self._identity}", permission, resource)

    def _require_running(self) -> None:
        if self._build["status"] in _DONE:  # cancelled meanwhile
            raise ApiError("CANCELLED", "Build cancelled")

    @contextmanager
    def _stage(self, name: str, started: str) -> Iterator[None]:
        try:
            yield
        finally:
            self._build["timing"][name] = {"startTime": started, "endTime": self._now()}

    def _end_step(self, status: str) -> None:
        timing = {"startTime": self._started, "endTime": self._now()}
        self._build["steps"][0].update(status=status, timing=timing)

    def _fail(self, status: str, kind: str, detail: str) -> NoReturn:
        """Ends the build.

        Raises:
            ApiError: always, the operation's error.
        """
        self._log("MAIN", "ERROR", f"ERROR: {detail}")
        self._build.update(status=status, statusDetail=detail, finishTime=self._now())
        if kind:
            self._build["failureInfo"] = {"type": kind, "detail": detail}
        # The operation's own words say no more, whatever went wrong (unchecked).
        raise ApiError("UNKNOWN", "Build failed; check build logs for details")

    def _log(self, step: str, *lines: str) -> None:
        """Writes lines of the build's log as its account, if it may and the build wants one."""
        if self._build.get("options", {}).get("logging") not in _LOGGED or "warnings" in self._build:
            return
        project = self._build["projectId"]
        labels = {"build_id": self._build["id"], "build_trigger_id": "", "project_id": project}
        shared = {
            "logName": f"projects/{project}/logs/cloudbuild",
            "resource": {"type": "build", "labels": labels},
            "labels": {"build_step": step},
        }
        method = schemas.method("logging.entries.write")
        assert method is not None
        entries = [{**shared, "severity": "INFO", "textPayload": line} for line in lines]
        principal = f"serviceAccount:{self._identity}"
        logging.write(Call(self._state, method, {}, {"entries": entries}, principal))


@service.method(f"{_BUILDS}.get", permission="cloudbuild.builds.get", on=_name, reads=("id", "projectId"))
def get(call: Call) -> Mapping[str, Any]:
    return _build(call)


@service.method(f"{_BUILDS}.list", permission="cloudbuild.builds.list", on=_parent, reads=("projectId", *PARAMS))
def list_(call: Call) -> Mapping[str, Any]:
    builds = call.cloud.table("cloudbuild.build").items()
    found = [build for name, build in builds if name.startswith(f"{_parent(call)}/builds/")]
    shown, more = page(call, found[::-1], default=_PAGE, most=_PAGE_MAX)
    return {"builds": shown, **more}


@service.method(f"{_BUILDS}.cancel", permission="cloudbuild.builds.update", on=_name)
def cancel(call: Call) -> Mapping[str, Any]:
    build = _build(call)
    if build["status"] in _DONE:
        raise failed_precondition(f"build {build['id']} is {build['status']}: it cannot be cancelled")
    build.update(status="CANCELLED", finishTime=call.cloud.clock.timestamp())
    return build


serve_operations(service, "cloudbuild.projects.locations.operations", "cloudbuild.operations.get", on=_name)
