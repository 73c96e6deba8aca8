"""Cloud Storage v1: buckets in one global namespace, their IAM policies, and objects as files in a folder.

A bucket's folder is what a Cloud Run volume mounts, so whatever a task writes is an object here at once.
Deliberately not done: ACLs, versioning, holds and retention, resumable uploads (the planes write through the mount),
applying lifecycle rules, reading an object's bytes through the API, and names that a file system cannot have.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from infra import catalog
from mockgcp.crc32c import crc32c
from mockgcp.errors import ApiError, already_exists, failed_precondition, invalid, not_found, permission_denied
from mockgcp.paging import PARAMS, page
from mockgcp.service import Call, Service
from mockgcp.state import Project, State


def _owner(state: State, resource: str) -> Project | None:
    bucket = state.table("storage.bucket").get(resource.removeprefix("projects/_/buckets/"))
    return state.project(bucket["projectNumber"]) if bucket else None


service = Service("storage", host="storage.googleapis.com", project_of=_owner, records=("storage.upload",))

# Entries of a page, at most and when the call does not say (maxResults in the discovery document).
_PAGE = 1000


def _project(call: Call) -> str:
    return call.cloud.project(call.params["project"]).name


def _bucket(call: Call) -> dict[str, Any]:
    bucket = call.cloud.table("storage.bucket").get(call.params["bucket"])
    if bucket is None:
        raise not_found("The specified bucket does not exist.")
    return bucket


def _bucket_name(call: Call) -> str:
    """The full name of an existing bucket: whoever asks for another gets 404, not a lack of permission."""
    return f"projects/_/buckets/{_bucket(call)['name']}"


def folder(state_dir: Path, bucket: str) -> Path:
    """Where a bucket's objects lie."""
    return state_dir / "buckets" / bucket


def _check_bucket(call: Call) -> None:
    limits, body = catalog.storage(), call.body
    name = body.get("name", call.params.get("bucket", ""))
    if problem := catalog.bucket_name_problem(name):
        raise invalid(f"Invalid bucket name: {problem.message}", ("name", "malformed"))
    if storage_class := body.get("storageClass"):
        _one_of("storageClass", storage_class, limits.storage_classes)
    iam = body.get("iamConfiguration", {})
    if prevention := iam.get("publicAccessPrevention"):
        _one_of("iamConfiguration.publicAccessPrevention", prevention, ("enforced", "inherited"))
    hierarchical = body.get("hierarchicalNamespace", {}).get("enabled", False)
    problems = catalog.hierarchical_namespace_problems(
        uniform_access=iam.get("uniformBucketLevelAccess", {}).get("enabled", False),
        versioning=body.get("versioning", {}).get("enabled", False),
    )
    if hierarchical and problems:
        raise invalid("; ".join(f"hierarchicalNamespace: {each.message}" for each in problems))
    retention = int(body.get("softDeletePolicy", {}).get("retentionDurationSeconds", limits.soft_delete_default_s))
    if problem := catalog.soft_delete_problem(retention):
        path = "softDeletePolicy.retentionDurationSeconds"
        raise invalid(f"{path}: {problem.message}", (path, "out of range"))
    for rule in body.get("lifecycle", {}).get("rule", []):
        _check_lifecycle(rule)


# Abort takes these conditions only: https://docs.cloud.google.com/storage/docs/lifecycle (read 2026-11-29, unchecked).
_OF_ABORT = {"age", "matchesPrefix", "matchesSuffix"}


def _check_lifecycle(rule: Mapping[str, Any]) -> None:
    action, condition = rule.get("action", {}), rule.get("condition", {})
    kind = action.get("type", "")
    _one_of("lifecycle.rule.action.type", kind, catalog.storage().lifecycle_actions)
    if kind == "SetStorageClass":
        _one_of("lifecycle.rule.action.storageClass", action.get("storageClass", ""), catalog.storage().storage_classes)
    if not condition:
        raise invalid("A lifecycle rule needs at least one condition.", ("lifecycle.rule.condition", "required"))
    if kind == "AbortIncompleteMultipartUpload" and (others := sorted(condition.keys() - _OF_ABORT)):
        raise invalid(
            f"{kind} takes no condition {', '.join(others)}, only {', '.join(sorted(_OF_ABORT))}.",
            ("lifecycle.rule.condition", "unsupported"),
        )


def _one_of(path: str, value: str, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise invalid(f"Invalid argument: {path} is {value!r}, expected one of {', '.join(allowed)}.", (path, "value"))


# Fields that are the server's own, whatever a request says.
_OUTPUT_ONLY = (
    *("etag", "generation", "id", "kind", "locationType", "metageneration"),
    *("owner", "projectNumber", "selfLink", "timeCreated", "updated"),
)
# Fields that a bucket may be without, and the values of those it always has.
_OPTIONAL = (
    "autoclass",
    "billing",
    "cors",
    "defaultEventBasedHold",
    "encryption",
    "ipFilter",
    "labels",
    "lifecycle",
    "logging",
    "retentionPolicy",
    "rpo",
    "versioning",
    "website",
)


def _defaults() -> dict[str, Any]:
    return {
        "storageClass": "STANDARD",
        "softDeletePolicy": {"retentionDurationSeconds": str(catalog.storage().soft_delete_default_s)},
    }


@service.method("storage.buckets.insert", permission="storage.buckets.create", on=_project, rules=_check_bucket)
def insert(call: Call) -> Mapping[str, Any]:
    project = call.cloud.project(call.params["project"])
    buckets, name = call.cloud.table("storage.bucket"), call.body["name"]
    if existing := buckets.get(name):
        if existing["projectNumber"] == str(project.number):
            raise already_exists("Your previous request to create the named bucket succeeded and you already own it.")
        raise already_exists(
            "The requested bucket name is not available. The bucket namespace is shared by all users of the system. "
            "Please select a different name and try again."
        )
    now = call.cloud.clock.timestamp()
    iam = call.body.get("iamConfiguration", {})
    buckets[name] = {
        **_defaults(),
        **call.body,
        # Names and locations come back in the server's own spelling.
        "location": call.body.get("location", "US").upper(),
        "locationType": "region" if "-" in call.body.get("location", "US") else "multi-region",
        "iamConfiguration": {
            "publicAccessPrevention": iam.get("publicAccessPrevention", "inherited"),
            "uniformBucketLevelAccess": {"enabled": False, **iam.get("uniformBucketLevelAccess", {})},
        },
        "id": name,
        "kind": "storage#bucket",
        "projectNumber": str(project.number),
        "selfLink": f"https://www.{call.cloud.universe.domain}/storage/v1/b/{name}",
        "timeCreated": now,
        "updated": now,
        "metageneration": "1",
        "etag": "CAE=",
    }
    folder(call.cloud.state_dir, name).mkdir(parents=True, exist_ok=True)
    call.cloud.policies.set(
        f"projects/_/buckets/{name}",
        {
            "bindings": [
                {
                    "role": "roles/storage.legacyBucketOwner",
                    "members": [f"projectEditor:{project.id}", f"projectOwner:{project.id}"],
                },
                {"role": "roles/storage.legacyBucketReader", "members": [f"projectViewer:{project.id}"]},
            ]
        },
    )
    return buckets[name]


@service.method("storage.buckets.get", permission="storage.buckets.get", on=_bucket_name)
def get(call: Call) -> Mapping[str, Any]:
    return _bucket(call)


@service.method("storage.buckets.list", permission="storage.buckets.list", on=_project, reads=("prefix", *PARAMS))
def list_(call: Call) -> Mapping[str, Any]:
    number = str(call.cloud.project(call.params["project"]).number)
    prefix = call.params.get("prefix", "")
    found = [b for n, b in sorted(call.cloud.table("storage.bucket").items()) if n.startswith(prefix)]
    buckets, more = page(call, [b for b in found if b["projectNumber"] == number], default=_PAGE, most=_PAGE)
    return {"kind": "storage#buckets", "items": buckets, **more}


def _check_patch(call: Call) -> None:
    bucket = _bucket(call)
    for key in catalog.storage().immutable_fields:
        sent = call.body.get(key)
        same = str(sent).upper() == str(bucket.get(key)).upper() if isinstance(sent, str) else sent == bucket.get(key)
        if sent is not None and not same:
            raise invalid(f"{key} of a bucket cannot change once it is made.", (key, "immutable"))
    _check_bucket(Call(call.cloud, call.method, call.params, _merged(bucket, call.body), call.principal))


def _merged(bucket: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    kept = (*_OUTPUT_ONLY, *catalog.storage().immutable_fields)
    result = {**bucket, **{key: value for key, value in changes.items() if key not in kept}}
    result["iamConfiguration"] = {**bucket["iamConfiguration"], **changes.get("iamConfiguration", {})}
    return result


@service.method("storage.buckets.patch", permission="storage.buckets.update", on=_bucket_name, rules=_check_patch)
def patch(call: Call) -> Mapping[str, Any]:
    """Changes what is named; a null takes a field, or a label, away, and labels are added to those there are."""
    bucket, sent = _bucket(call), call.sent or {}
    for key in [key for key, value in sent.items() if value is None and key in _OPTIONAL]:
        bucket.pop(key, None)
    unset = {key: value for key, value in _defaults().items() if key in sent and sent[key] is None}
    changed = sent.get("labels") or {}
    labels = {k: v for k, v in {**bucket.pop("labels", {}), **changed}.items() if v is not None}
    rest = {key: value for key, value in call.body.items() if key != "labels"}
    return _apply(call, {**rest, **unset, **({"labels": labels} if labels else {})})


def _apply(call: Call, changes: Mapping[str, Any]) -> Mapping[str, Any]:
    bucket = _bucket(call)
    bucket.update(_merged(bucket, changes))
    bucket["metageneration"] = str(int(bucket["metageneration"]) + 1)
    bucket["updated"] = call.cloud.clock.timestamp()
    return bucket


@service.method("storage.buckets.update", permission="storage.buckets.update", on=_bucket_name, rules=_check_patch)
def update(call: Call) -> Mapping[str, Any]:
    """Replaces what can change: a field that is left out goes back to its default."""
    bucket = _bucket(call)
    for key in [key for key in bucket if key in _OPTIONAL and key not in call.body]:
        del bucket[key]
    return _apply(call, {**_defaults(), **call.body})


@service.method("storage.buckets.delete", permission="storage.buckets.delete", on=_bucket_name)
def delete(call: Call) -> Mapping[str, Any]:
    name, resource = _bucket(call)["name"], _bucket_name(call)
    if next(_files(folder(call.cloud.state_dir, name)), None) is not None:
        # The API's status is 409 with reason `conflict`.
        raise already_exists("The bucket you tried to delete is not empty.")
    _remove_empty(folder(call.cloud.state_dir, name))
    del call.cloud.table("storage.bucket")[name]
    call.cloud.policies.drop(resource)
    return {}


@service.method(
    "storage.buckets.getIamPolicy",
    permission="storage.buckets.getIamPolicy",
    on=_bucket_name,
    reads=("optionsRequestedPolicyVersion",),  # without conditions every version says the same
)
def get_iam_policy(call: Call) -> Mapping[str, Any]:
    return {"kind": "storage#policy", **call.cloud.policies.get(_bucket_name(call))}


@service.method("storage.buckets.setIamPolicy", permission="storage.buckets.setIamPolicy", on=_bucket_name)
def set_iam_policy(call: Call) -> Mapping[str, Any]:
    bucket = _bucket(call)
    public = {m for b in call.body.get("bindings", []) for m in b.get("members", []) if m.startswith("all")}
    if public and bucket["iamConfiguration"]["publicAccessPrevention"] == "enforced":
        raise failed_precondition(
            f"Public access prevention is enforced on bucket {bucket['name']}: it cannot be shared with "
            f"{', '.join(sorted(public))}."
        )
    return {"kind": "storage#policy", **call.cloud.policies.set(_bucket_name(call), call.body)}


@service.method("storage.buckets.testIamPermissions", on=_bucket_name)
def test_iam_permissions(call: Call) -> Mapping[str, Any]:
    asked = call.params["permissions"]
    return {"permissions": [p for p in asked if call.cloud.allowed(call.principal, p, _bucket_name(call))]}


def _files(root: Path) -> Iterator[Path]:
    return (path for path in sorted(root.rglob("*")) if path.is_file())


def _remove_empty(root: Path) -> None:
    for path in sorted((p for p in root.rglob("*") if p.is_dir()), reverse=True):
        path.rmdir()
    root.rmdir()


def _object(state: State, bucket: str, path: Path) -> dict[str, Any]:
    stat = path.stat()
    name = path.relative_to(folder(state.state_dir, bucket)).as_posix()
    written = datetime.fromtimestamp(stat.st_mtime, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    generation = str(stat.st_mtime_ns // 1000)
    upload = state.table("storage.upload").get(f"{bucket}/{name}", {})
    return {
        # What came with an upload, unless the file has been written again since then, through a mount.
        **(upload if upload.get("generation") == generation else {}),
        "kind": "storage#object",
        "id": f"{bucket}/{name}/{generation}",
        "bucket": bucket,
        "name": name,
        "size": str(stat.st_size),
        "generation": generation,
        "metageneration": "1",
        "timeCreated": written,
        "updated": written,
    }


def find_object(state: State, bucket: str, name: str) -> dict[str, Any] | None:
    """The object of that name, as the API shows it; None when it is not there."""
    path = _path(state, bucket, name)
    return _object(state, bucket, path) if path is not None and path.is_file() else None


def _path(state: State, bucket: str, name: str) -> Path | None:
    """The file that stands for an object; None for a name that would lie outside the bucket's folder."""
    root = folder(state.state_dir, bucket).resolve()
    path = (root / name).resolve()
    return path if root in path.parents else None


def _object_path(call: Call) -> Path:
    path = _path(call.cloud, call.params["bucket"], call.params["object"])
    if path is None or not path.is_file():
        raise not_found(f"No such object: {call.params['bucket']}/{call.params['object']}")
    return path


@service.method(
    "storage.objects.list",
    permission="storage.objects.list",
    on=_bucket_name,
    reads=("prefix", "delimiter", *PARAMS),
)
def list_objects(call: Call) -> Mapping[str, Any]:
    root = folder(call.cloud.state_dir, call.params["bucket"])
    prefix, delimiter = call.params.get("prefix", ""), call.params.get("delimiter", "")
    found: dict[str, Path | None] = {}  # by name; a prefix has no file
    for path in _files(root):
        name = path.relative_to(root).as_posix()
        if not name.startswith(prefix):
            continue
        before, cut, _ = name[len(prefix) :].partition(delimiter) if delimiter else (name, "", "")
        if cut:
            found[prefix + before + cut] = None
        else:
            found[name] = path
    part, more = page(call, sorted(found.items(), key=lambda entry: entry[0]), default=_PAGE, most=_PAGE)
    return {
        "kind": "storage#objects",
        "items": [_object(call.cloud, call.params["bucket"], path) for _, path in part if path is not None],
        "prefixes": [name for name, path in part if path is None],
        **more,
    }


@service.method("storage.objects.get", permission="storage.objects.get", on=_bucket_name)
def get_object(call: Call) -> Mapping[str, Any]:
    path = _object_path(call)
    digest = hashlib.md5(path.read_bytes(), usedforsecurity=False)
    return {
        **_object(call.cloud, call.params["bucket"], path),
        "md5Hash": base64.b64encode(digest.digest()).decode(),
    }


@service.method("storage.objects.delete", permission="storage.objects.delete", on=_bucket_name)
def delete_object(call: Call) -> Mapping[str, Any]:
    _object_path(call).unlink()
    call.cloud.table("storage.upload").pop(f"{call.params['bucket']}/{call.params['object']}", None)
    return {}


# -- uploads -------------------------------------------------------------------------------------------------------

# What an upload may say of its object; anything else is refused by name.
_OF_UPLOAD = ("contentType", "metadata", "name")


def _check_upload(call: Call) -> None:
    if call.media is None:
        raise ApiError("UNIMPLEMENTED", "mockgcp takes an object with its bytes only (uploadType multipart or media)")
    for key in call.body:
        if key not in _OF_UPLOAD:
            raise ApiError("UNIMPLEMENTED", f"mockgcp does not emulate {key} of an uploaded object; it ignores nothing")
    name = _upload_name(call)
    if not name or len(name.encode()) > catalog.storage().object_name_max_bytes:
        most = catalog.storage().object_name_max_bytes
        raise invalid(f"An object's name has 1 to {most} bytes, got {len(name.encode())}.", ("name", "length"))
    if any(part in ("", ".", "..") for part in name.split("/")):
        raise ApiError("UNIMPLEMENTED", f"mockgcp keeps objects as files, so it has no object {name!r}")


def _upload_name(call: Call) -> str:
    name: str = call.params.get("name") or call.body.get("name", "")
    return name


@service.method(
    "storage.objects.insert",
    permission="storage.objects.create",
    on=_bucket_name,
    rules=_check_upload,
    reads=("ifGenerationMatch", "name"),
)
def insert_object(call: Call) -> Mapping[str, Any]:
    """Writes an object in one go; over an existing one only for who may delete it, too."""
    bucket, name, content = call.params["bucket"], _upload_name(call), call.media or b""
    existing = find_object(call.cloud, bucket, name)
    wanted = call.params.get("ifGenerationMatch")
    if wanted is not None and wanted != (existing or {}).get("generation", "0"):
        # Reason conditionNotMet: https://docs.cloud.google.com/storage/docs/json_api/v1/status-codes
        message = "At least one of the pre-conditions you specified did not hold."
        raise ApiError("FAILED_PRECONDITION", message, reason="conditionNotMet", http=412)
    needed = "storage.objects.delete"
    if existing is not None and not call.cloud.allowed(call.principal, needed, _bucket_name(call)):
        raise permission_denied(
            f"{call.principal} does not have {needed} access to the Google Cloud Storage object. Permission '{needed}' "
            "denied on resource (or it may not exist)."
        )
    path = folder(call.cloud.state_dir, bucket) / name
    if path.is_dir() or any(parent.is_file() for parent in path.parents):
        raise ApiError("UNIMPLEMENTED", f"mockgcp keeps objects as files: {name!r} cannot be a file and a folder")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    # Base64 of the number's big-endian bytes (Object.crc32c in the discovery document).
    checksum = base64.b64encode(crc32c(content).to_bytes(4, "big")).decode()
    made = _object(call.cloud, bucket, path)
    call.cloud.table("storage.upload")[f"{bucket}/{name}"] = {
        "generation": made["generation"],
        "contentType": call.body.get("contentType", "application/octet-stream"),
        "crc32c": checksum,
        **({"metadata": call.body["metadata"]} if "metadata" in call.body else {}),
    }
    digest = hashlib.md5(content, usedforsecurity=False).digest()
    return {**_object(call.cloud, bucket, path), "md5Hash": base64.b64encode(digest).decode()}
