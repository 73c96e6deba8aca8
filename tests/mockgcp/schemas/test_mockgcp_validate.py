"""Validation against discovery documents: what is taken, in which form it comes out, and what is refused where."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mockgcp import schemas
from mockgcp.errors import ApiError
from mockgcp.schemas import Method, validate


def method(method_id: str) -> Method:
    found = schemas.method(method_id)
    assert found is not None
    return found


JOB = method("run.projects.locations.jobs.create")
BUCKET = method("storage.buckets.insert")
WRITE = method("logging.entries.write")
PATCH_ACCOUNT = method("iam.projects.serviceAccounts.patch")
NOTHING = method("storage.buckets.get")


def refused(method_: Method, body: Any) -> ApiError:
    with pytest.raises(ApiError) as caught:
        validate.body(method_, body)
    assert caught.value.status == "INVALID_ARGUMENT"
    return caught.value


def task(**fields: Any) -> dict[str, Any]:
    return {"template": {"template": fields}}


def test_an_unknown_name_is_refused_with_its_path() -> None:
    error = refused(JOB, task(containers=[{"image": "x", "resources": {"limts": {}}}]))
    assert "Unknown name \"limts\" at 'template.template.containers[0].resources'" in error.message
    assert error.violations == (("template.template.containers[0].resources.limts", "unknown field"),)


def test_an_unknown_name_at_the_top_has_no_path_before_it() -> None:
    error = refused(JOB, {"templat": {}})
    assert 'Unknown name "templat": Cannot find field.' in error.message


def test_snake_case_names_are_taken() -> None:
    body = validate.body(JOB, {"launch_stage": "BETA", "template": {"task_count": 2}})
    assert body == {"launchStage": "BETA", "template": {"taskCount": 2}}


def test_the_keys_of_a_map_are_left_alone() -> None:
    labels = {"labels": {"snake_case": "1", "camelCase": "2"}}
    assert validate.body(JOB, labels) == labels


def test_null_means_absent() -> None:
    assert validate.body(JOB, {"launchStage": None, "template": {"taskCount": None}}) == {"template": {}}
    assert validate.body(JOB, None) == {}


def test_output_only_fields_are_dropped_from_requests_and_kept_in_answers() -> None:
    body = {"uid": "u", "createTime": "not checked", "executionCount": 3, "launchStage": "GA"}
    assert validate.body(JOB, body) == {"launchStage": "GA"}
    read = method("run.projects.locations.jobs.get")
    assert validate.response(read, {"uid": "u", "launchStage": "GA"}) == {"uid": "u", "launchStage": "GA"}


@pytest.mark.parametrize(("sent", "stored"), [(604800, "604800"), ("604800", "604800"), (604800.0, "604800")])
def test_a_64_bit_integer_is_taken_as_number_or_string_and_comes_out_as_string(sent: Any, stored: str) -> None:
    body = {"softDeletePolicy": {"retentionDurationSeconds": sent}}
    assert validate.body(BUCKET, body)["softDeletePolicy"]["retentionDurationSeconds"] == stored


@pytest.mark.parametrize("sent", [3, "3", 3.0])
def test_a_32_bit_integer_comes_out_as_a_number(sent: Any) -> None:
    body = validate.body(JOB, task(maxRetries=sent))
    assert body["template"]["template"]["maxRetries"] == 3
    assert type(body["template"]["template"]["maxRetries"]) is int


@pytest.mark.parametrize("sent", [3.5, "three", "", "1_000", " 3", True, [3], {}])
def test_what_is_no_integer_is_refused_with_its_path(sent: Any) -> None:
    error = refused(JOB, task(maxRetries=sent))
    assert "Invalid value at 'template.template.maxRetries' (int32)" in error.message


@pytest.mark.parametrize("sent", [2**31, -(2**31) - 1, str(2**40)])
def test_an_integer_out_of_range_is_refused(sent: Any) -> None:
    assert "out of range" in refused(JOB, task(maxRetries=sent)).message


def test_64_bit_integers_have_their_range_too() -> None:
    body = {"softDeletePolicy": {"retentionDurationSeconds": str(2**63 - 1)}}
    assert validate.body(BUCKET, body) == body
    refused(BUCKET, {"softDeletePolicy": {"retentionDurationSeconds": str(2**63)}})


@pytest.mark.parametrize(("sent", "stored"), [(True, True), ("true", True), ("false", False)])
def test_booleans_may_be_the_words(sent: Any, stored: bool) -> None:
    assert validate.body(BUCKET, {"versioning": {"enabled": sent}}) == {"versioning": {"enabled": stored}}


@pytest.mark.parametrize("sent", ["True", "yes", 1, 0, []])
def test_other_booleans_are_refused(sent: Any) -> None:
    assert "'versioning.enabled' (bool)" in refused(BUCKET, {"versioning": {"enabled": sent}}).message


def test_an_unknown_enum_value_is_refused_with_the_known_ones() -> None:
    error = refused(JOB, {"launchStage": "GAMMA"})
    assert "Invalid value at 'launchStage' (enum), \"GAMMA\"" in error.message
    assert "BETA" in error.message


@pytest.mark.parametrize("sent", ["600s", "0.5s", "43200s"])
def test_durations_are_seconds(sent: str) -> None:
    assert validate.body(JOB, task(timeout=sent)) == task(timeout=sent)


@pytest.mark.parametrize("sent", ["168h", "10m", "600", "1.0000000001s", "s"])
def test_other_durations_are_refused(sent: str) -> None:
    assert "'template.template.timeout' (google-duration)" in refused(JOB, task(timeout=sent)).message


@pytest.mark.parametrize(
    "sent", ["2026-11-29T10:00:00Z", "2026-11-29T10:00:00.123456789Z", "2026-11-29T10:00:00+01:00"]
)
def test_timestamps_are_rfc_3339(sent: str) -> None:
    assert validate.body(WRITE, {"entries": [{"timestamp": sent}]}) == {"entries": [{"timestamp": sent}]}


@pytest.mark.parametrize(
    "sent", ["2026-11-29", "2026-13-01T00:00:00Z", "2026-11-31T00:00:00Z", "2026-11-29T10:00:00", "now"]
)
def test_other_timestamps_are_refused(sent: str) -> None:
    assert "'entries[0].timestamp'" in refused(WRITE, {"entries": [{"timestamp": sent}]}).message


def test_dates_are_checked_against_the_calendar() -> None:
    rule = {"action": {"type": "Delete"}, "condition": {"createdBefore": "2026-02-28"}}
    assert validate.body(BUCKET, {"lifecycle": {"rule": [rule]}})["lifecycle"]["rule"] == [rule]
    rule["condition"] = {"createdBefore": "2026-02-30"}
    error = refused(BUCKET, {"lifecycle": {"rule": [rule]}})
    assert "'lifecycle.rule[0].condition.createdBefore' (date)" in error.message


@pytest.mark.parametrize(("sent", "taken"), [("displayName,description", True), ("*", True), ("display name", False)])
def test_field_masks_are_paths_with_commas(sent: str, taken: bool) -> None:
    body = {"updateMask": sent}
    if taken:
        assert validate.body(PATCH_ACCOUNT, body) == body
    else:
        assert "google-fieldmask" in refused(PATCH_ACCOUNT, body).message


@pytest.mark.parametrize(
    ("sent", "taken"), [("aGk=", True), ("aGk", True), ("_-8=", True), ("not base64!", False), ("a", False)]
)
def test_bytes_are_base64_of_either_alphabet(sent: str, taken: bool) -> None:
    body = {"etag": sent}
    set_policy = method("storage.buckets.setIamPolicy")
    if taken:
        assert validate.body(set_policy, body) == body
    else:
        assert "(byte)" in refused(set_policy, body).message


@pytest.mark.parametrize(
    ("body", "expected"),
    [([], "'body' (object)"), ({"template": []}, "'template' (object)"), ({"labels": "x"}, "'labels' (object)")],
)
def test_an_object_is_not_anything_else(body: Any, expected: str) -> None:
    assert expected in refused(JOB, body).message


def test_a_list_is_not_anything_else() -> None:
    assert "'template.template.volumes' (list)" in refused(JOB, task(volumes={"name": "v"})).message


def test_a_string_is_not_a_number() -> None:
    assert "'template.template.serviceAccount' (string), 5" in refused(JOB, task(serviceAccount=5)).message


def test_a_body_where_none_is_taken_is_refused() -> None:
    assert validate.body(NOTHING, None) is None
    assert validate.body(NOTHING, {}) is None
    assert "takes no request body" in refused(NOTHING, {"name": "x"}).message


# -- parameters ----------------------------------------------------------------------------------------------------


def refused_params(method_: Method, values: Mapping[str, Any]) -> ApiError:
    with pytest.raises(ApiError) as caught:
        validate.params(method_, values)
    return caught.value


def test_an_unknown_parameter_is_refused_by_name() -> None:
    error = refused_params(NOTHING, {"bucket": "b", "buckett": "c"})
    assert 'Unknown name "buckett": Cannot bind query parameter' in error.message


@pytest.mark.parametrize("values", [{}, {"bucket": None}])
def test_a_missing_parameter_is_refused_by_name(values: dict[str, Any]) -> None:
    assert "Missing required parameter 'bucket' of storage.buckets.get" in refused_params(NOTHING, values).message


def test_a_parameter_keeps_to_its_pattern_and_its_type() -> None:
    error = refused_params(JOB, {"parent": "projects/p", "jobId": "j"})
    assert "Invalid value for parent" in error.message
    list_ = method("run.projects.locations.jobs.list")
    taken = validate.params(list_, {"parent": "projects/p/locations/l", "pageSize": "5", "showDeleted": "true"})
    assert taken == {"parent": "projects/p/locations/l", "pageSize": 5, "showDeleted": True}


def test_a_repeated_parameter_is_a_list_even_of_one() -> None:
    test = method("storage.buckets.testIamPermissions")
    one = validate.params(test, {"bucket": "b", "permissions": "storage.objects.get"})
    assert one["permissions"] == ["storage.objects.get"]
    two = validate.params(test, {"bucket": "b", "permissions": ["storage.objects.get", "storage.objects.list"]})
    assert two["permissions"] == ["storage.objects.get", "storage.objects.list"]


def test_parameters_of_every_method_are_taken() -> None:
    assert validate.params(NOTHING, {"bucket": "b", "prettyPrint": False}) == {"bucket": "b", "prettyPrint": False}


# -- a property ----------------------------------------------------------------------------------------------------

FORMATTED: Mapping[str, st.SearchStrategy[str]] = {
    "google-duration": st.integers(0, 10**6).map(lambda n: f"{n}s"),
    "google-datetime": st.datetimes().map(lambda d: d.isoformat(timespec="seconds") + "Z"),
    "date-time": st.datetimes().map(lambda d: d.isoformat(timespec="seconds") + "Z"),
    "date": st.dates().map(lambda d: d.isoformat()),
    "google-fieldmask": st.just("displayName"),
    "byte": st.binary(max_size=4).map(lambda b: base64.b64encode(b).decode()),
}


def bodies(schema: Mapping[str, Any], all_: Mapping[str, Any], depth: int) -> st.SearchStrategy[Any]:
    """Valid JSON of a schema, in every spelling that is taken."""
    if "$ref" in schema:
        return bodies(all_[schema["$ref"]], all_, depth)
    kind, fmt = schema.get("type", "any"), schema.get("format", "")
    if kind == "object":
        if extra := schema.get("additionalProperties"):
            return st.dictionaries(st.sampled_from(["a", "b_c"]), bodies(extra, all_, depth - 1), max_size=2)
        fields = schema.get("properties", {}) if depth > 0 else {}
        names = st.lists(st.sampled_from(sorted(fields)), max_size=4, unique=True) if fields else st.just([])
        return names.flatmap(
            lambda chosen: st.fixed_dictionaries(
                {name: st.none() | bodies(fields[name], all_, depth - 1) for name in chosen}
            )
        )
    if kind == "array":
        return st.lists(bodies(schema["items"], all_, depth - 1), max_size=2)
    if kind == "boolean":
        return st.sampled_from([True, False, "true", "false"])
    if kind == "integer" or fmt in ("int64", "uint64"):
        return st.integers(0, 2**31 - 1).flatmap(lambda n: st.sampled_from([n, str(n), float(n)]))
    if kind == "number":
        return st.floats(-1e6, 1e6) | st.integers(-5, 5)
    if kind == "string":
        return st.sampled_from(schema["enum"]) if schema.get("enum") else FORMATTED.get(fmt, st.text(max_size=5))
    return st.dictionaries(st.text(max_size=3), st.integers(), max_size=2)


@pytest.mark.parametrize("method_", [JOB, BUCKET, WRITE], ids=lambda m: m.id)
@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_normalising_twice_is_normalising_once(method_: Method, data: st.DataObject) -> None:
    assert method_.request is not None
    body = data.draw(bodies(method_.request, method_.schemas, 6))
    once = validate.body(method_, body)
    assert validate.body(method_, once) == once
