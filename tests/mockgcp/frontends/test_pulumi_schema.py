"""The provider's types, and the refusal of what they do not have, with its path."""

from collections.abc import Iterator

import pulumi_gcp as gcp
import pytest

from mockgcp.frontends.pulumi.resource import ResourceType
from mockgcp.frontends.pulumi.resources import RESOURCES
from mockgcp.frontends.pulumi.schema import Kind, ListOf, MapOf, Object, Scalar, check
from mockgcp.frontends.pulumi.values import UNKNOWN, Secret, Value

BUCKET = Object(gcp.storage.BucketArgs)
JOB = Object(gcp.cloudrunv2.JobArgs)


def scalars(kind: Kind, path: str = "", above: tuple[type, ...] = ()) -> Iterator[tuple[str, str]]:
    match kind:
        case Scalar(name):
            yield path, name
        case ListOf(item) | MapOf(item):
            yield from scalars(item, path, above)
        case Object(cls) if cls not in above:
            for name, inner in kind.fields.items():
                yield from scalars(inner, f"{path}.{name}", (*above, cls))


@pytest.mark.parametrize("kind", RESOURCES.values(), ids=RESOURCES)
def test_every_property_of_every_type_has_a_kind(kind: ResourceType) -> None:
    found = dict(scalars(kind.inputs)) | {
        path: name for key, out in kind.outputs.items() for path, name in scalars(out, key)
    }
    assert found
    assert set(found.values()) <= {"string", "integer", "number", "boolean"}


def test_names_are_the_engines_and_kinds_the_sdks() -> None:
    assert BUCKET.fields["uniformBucketLevelAccess"] == Scalar("boolean")
    assert BUCKET.fields["labels"] == MapOf(Scalar("string"))
    assert BUCKET.fields["lifecycleRules"] == ListOf(Object(gcp.storage.BucketLifecycleRuleArgs))
    assert "uniform_bucket_level_access" not in BUCKET.fields
    assert BUCKET.required == {"location"}
    assert JOB.required == {"location", "template"}
    retention = BUCKET.fields["softDeletePolicy"]
    assert isinstance(retention, Object)
    assert retention.fields["retentionDurationSeconds"] == Scalar("integer")


def of_bucket(**values: Value) -> list[str]:
    return [str(failure) for failure in check(BUCKET, {"location": "us-central1", **values})]


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({"storageClas": "STANDARD"}, "storageClas is not a property of Bucket: did you mean 'storageClass'?"),
        ({"zzz": 1}, "zzz is not a property of Bucket: it has "),
        (
            {"lifecycleRules": [{"action": {"type": "Delete"}, "condition": {"agee": 3}}]},
            "lifecycleRules[0].condition.agee is not a property of BucketLifecycleRuleCondition: did you mean 'age'?",
        ),
        ({"labels": "app"}, "labels expected a map, got str"),
        ({"labels": {"app": ["x"]}}, 'labels["app"] expected a string, got list'),
        ({"lifecycleRules": {}}, "lifecycleRules expected a list, got dict"),
        ({"softDeletePolicy": 3}, "softDeletePolicy expected an object, got int"),
        ({"softDeletePolicy": {"retentionDurationSeconds": "week"}}, "expected an integer, got str"),
        ({"softDeletePolicy": {"retentionDurationSeconds": 1.5}}, "expected an integer, got float"),
        ({"forceDestroy": 1}, "forceDestroy expected a boolean, got int"),
        ({"location": None}, "location is required and missing"),
        ({"lifecycleRules": [{"action": {"type": "Delete"}}]}, "lifecycleRules[0].condition is required and missing"),
        ({"versioning": {}}, "versioning.enabled is required and missing"),
    ],
)
def test_a_wrong_input_is_named_with_its_path(values: dict[str, Value], says: str) -> None:
    [failure] = of_bucket(**values)
    assert says in failure


@pytest.mark.parametrize(
    "values",
    [
        {"forceDestroy": "true"},
        {"softDeletePolicy": {"retentionDurationSeconds": "0"}},
        {"labels": {"count": 3, "on": True}},
        {"labels": UNKNOWN, "lifecycleRules": UNKNOWN, "softDeletePolicy": {"retentionDurationSeconds": UNKNOWN}},
        {"labels": Secret({"a": Secret("b")}), "location": Secret("us-central1")},
        {"labels": None, "__defaults": ["name"], "softDeletePolicy": {"__defaults": []}},
    ],
)
def test_what_the_engines_providers_take_is_taken(values: dict[str, Value]) -> None:
    assert of_bucket(**values) == []


def test_a_refused_secret_is_not_repeated() -> None:
    [failure] = of_bucket(lifecycleRules=Secret("hunter2"))
    assert failure == "lifecycleRules expected a list, got str"


def test_every_mistake_is_told() -> None:
    assert len(of_bucket(labels=1, cors={}, nameless="x")) == 3
