"""gcp:storage: buckets and their IAM members."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pulumi_gcp as gcp

from infra import catalog
from mockgcp.errors import ApiError
from mockgcp.frontends.pulumi.resource import (
    AutoName,
    Props,
    Request,
    ResourceType,
    Session,
    created_by,
    deleted_by,
    read_by,
    validated_by,
)
from mockgcp.frontends.pulumi.resources.iam_member import PolicyCalls, iam_member
from mockgcp.frontends.pulumi.resources.masked import mask
from mockgcp.frontends.pulumi.translate import Table

_BUCKET = {"bucket": "{name}"}
_INSERT = Request("storage.buckets.insert", {"project": "{project}"})
_delete_bucket = deleted_by(Request("storage.buckets.delete", _BUCKET))


def _delete(session: Session, properties: Props) -> None:
    if properties.get("forceDestroy"):
        _empty(session, properties["name"])
    try:
        _delete_bucket(session, properties)
    except ApiError as error:
        if error.status == "ALREADY_EXISTS":
            raise ApiError(
                "FAILED_PRECONDITION",
                f"Error trying to delete bucket {properties['name']} containing objects without `forceDestroy` set to "
                "true: set it, run `pulumi up`, and destroy again.",
            ) from error
        raise


def _update(session: Session, old: Props, new: Props, body: Mapping[str, Any]) -> Mapping[str, Any]:
    """Patches what changed, as resource_storage_bucket.go does: what others set stays, what is dropped is null."""
    table = BUCKET.table
    paths = {n: (table.names.get(n, n).partition(".")[0],) for n in BUCKET.inputs.fields if n not in table.local}
    sent = {field: body.get(field) for field in mask(paths, BUCKET.computed, old, new)}
    if "labels" in sent:
        sent["labels"] = {**dict.fromkeys(old.get("labels") or {}), **body["labels"]}
    return session.call("storage.buckets.patch", {"bucket": old["name"]}, sent)


def _empty(session: Session, bucket: str) -> None:
    # What was listed is gone, so the next first page is what is left.
    while items := (session.get("storage.objects.list", {"bucket": bucket}) or {}).get("items", []):
        for item in items:
            session.call("storage.objects.delete", {"bucket": bucket, "object": item["name"]})


def _derive(session: Session, properties: Props, rest: Mapping[str, Any]) -> Props:
    return {"url": f"gs://{rest['name']}", "project": session.cloud.project(rest["projectNumber"]).id}


BUCKET = ResourceType(
    token="gcp:storage/bucket:Bucket",
    resource=gcp.storage.Bucket,
    args=gcp.storage.BucketArgs,
    id="{name}",
    import_id=lambda identifier: {"name": identifier.removeprefix("gs://").split("/")[-1]},
    create=created_by(_INSERT),
    read=read_by(Request("storage.buckets.get", _BUCKET)),
    update=_update,
    delete=_delete,
    auto_name=AutoName(),
    dry_run=validated_by(_INSERT),
    defaults={
        "forceDestroy": False,
        "storageClass": "STANDARD",
        "softDeletePolicy.retentionDurationSeconds": catalog.storage().soft_delete_default_s,
    },
    replace_on=frozenset(
        {
            "customPlacementConfig.dataLocations",
            "enableObjectRetention",
            "hierarchicalNamespace",
            "location",
            "name",
            "project",
        }
    ),
    computed=frozenset(
        {
            "autoclass.terminalStorageClass",
            "deletionPolicy",
            "lifecycleRules.condition.withState",
            "logging.logObjectPrefix",
            "project",
            "publicAccessPrevention",
            "rpo",
            "softDeletePolicy",
            "uniformBucketLevelAccess",
            "versioning",
            "website",
        }
    ),
    table=Table(
        names={
            "publicAccessPrevention": "iamConfiguration.publicAccessPrevention",
            "uniformBucketLevelAccess": "iamConfiguration.uniformBucketLevelAccess.enabled",
            "lifecycleRules": "lifecycle.rule",
            "lifecycleRules.condition.matchesPrefixes": "matchesPrefix",
            "lifecycleRules.condition.matchesSuffixes": "matchesSuffix",
            "lifecycleRules.condition.matchesStorageClasses": "matchesStorageClass",
            "requesterPays": "billing.requesterPays",
            "cors.methods": "method",
            "cors.origins": "origin",
            "cors.responseHeaders": "responseHeader",
        },
        local=frozenset({"deletionPolicy", "enableObjectRetention", "forceDestroy", "project"}),
        sent_when_zero=frozenset({"softDeletePolicy.retentionDurationSeconds", "uniformBucketLevelAccess"}),
        spelling={"location": str.lower},
    ),
    derive=_derive,
)


def _bare(bucket: str) -> str:
    return bucket.removeprefix("b/")


BUCKET_IAM_MEMBER = iam_member(
    "gcp:storage/bucketIAMMember:BucketIAMMember",
    gcp.storage.BucketIAMMember,
    gcp.storage.BucketIAMMemberArgs,
    "b/{bucket}",
    PolicyCalls(
        get=Request("storage.buckets.getIamPolicy", {"bucket": "{bucket}", "optionsRequestedPolicyVersion": "3"}),
        set=Request("storage.buckets.setIamPolicy", {"bucket": "{bucket}"}),
        wrapped=False,
    ),
    # The provider keeps the bucket under this name in the state.
    spelling={"bucket": _bare},
    derive=lambda properties: {"bucket": f"b/{_bare(properties['bucket'])}"},
)
