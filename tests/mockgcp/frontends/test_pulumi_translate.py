"""Pulumi properties to REST bodies and back, on scenario A's resources."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scenario_a import ACCOUNT, BUCKET, BUCKET_NAME, EMAIL, JOB, account, bucket, job

from mockgcp.frontends.pulumi.resources import RESOURCES
from mockgcp.frontends.pulumi.translate import from_rest, project, to_rest, with_defaults
from mockgcp.frontends.pulumi.values import Value


def sent(token: str, properties: dict[str, Value]) -> dict[str, Any]:
    kind = RESOURCES[token]
    return to_rest(kind.table, kind.inputs, properties)


def shown(token: str, rest: dict[str, Any]) -> dict[str, Value]:
    kind = RESOURCES[token]
    return from_rest(kind.table, kind.outputs, rest)


GOLDEN = {
    BUCKET: (
        bucket(),
        {
            "name": BUCKET_NAME,
            "location": "us-central1",
            "storageClass": "STANDARD",
            "hierarchicalNamespace": {"enabled": True},
            "iamConfiguration": {
                "uniformBucketLevelAccess": {"enabled": True},
                "publicAccessPrevention": "enforced",
            },
            "softDeletePolicy": {"retentionDurationSeconds": 0},
            "lifecycle": {
                "rule": [{"action": {"type": "Delete"}, "condition": {"age": 30, "matchesPrefix": ["tmp/"]}}]
            },
            "labels": {"app": "holdfast"},
        },
    ),
    ACCOUNT: (account(), {"displayName": "GPU job"}),
    JOB: (
        job(),
        {
            "launchStage": "BETA",
            "template": {
                "taskCount": 1,
                "template": {
                    "containers": [
                        {
                            "image": job()["template"]["template"]["containers"][0]["image"],
                            "env": [{"name": "CHECKPOINT_DIR", "value": "/checkpoints"}],
                            "resources": {"limits": {"cpu": "8", "memory": "32Gi", "nvidia.com/gpu": "1"}},
                            "volumeMounts": [{"name": "checkpoints", "mountPath": "/checkpoints"}],
                        }
                    ],
                    "executionEnvironment": "EXECUTION_ENVIRONMENT_GEN2",
                    "gpuZonalRedundancyDisabled": True,
                    "maxRetries": 3,
                    "nodeSelector": {"accelerator": "nvidia-l4"},
                    "serviceAccount": EMAIL,
                    "timeout": "43200s",
                    "volumes": [{"name": "checkpoints", "gcs": {"bucket": BUCKET_NAME}}],
                },
            },
        },
    ),
}


@pytest.mark.parametrize("token", GOLDEN)
def test_the_body_that_is_sent(token: str) -> None:
    properties, body = GOLDEN[token]
    assert sent(token, properties) == body


@pytest.mark.parametrize("token", GOLDEN)
def test_what_is_sent_comes_back_as_it_was(token: str) -> None:
    kind = RESOURCES[token]
    properties, _ = GOLDEN[token]
    back = shown(token, sent(token, properties))
    given_ = {key: value for key, value in properties.items() if key not in kind.table.local}
    assert project(kind.table, kind.inputs, given_, back, frozenset()) == given_


NAMES = st.text("abcdefghij-", min_size=1, max_size=8)
CONTAINERS = st.fixed_dictionaries(
    {"image": NAMES},
    optional={
        "args": st.lists(NAMES, min_size=1),
        "commands": st.lists(NAMES, min_size=1),
        "envs": st.lists(st.fixed_dictionaries({"name": NAMES, "value": NAMES}), min_size=1),
        "resources": st.fixed_dictionaries({"limits": st.dictionaries(NAMES, NAMES, min_size=1)}),
        "startupProbe": st.fixed_dictionaries({"periodSeconds": st.integers(1, 99)}),
    },
)


@given(st.lists(CONTAINERS, min_size=1, max_size=3), st.integers(0, 10))
def test_any_jobs_template_comes_back_as_it_was(containers: list[dict[str, Value]], retries: int) -> None:
    properties = {"template": {"template": {"containers": containers, "maxRetries": retries}}}
    assert shown(JOB, sent(JOB, properties)) == properties


def test_zero_is_the_apis_default_but_where_it_counts() -> None:
    assert sent(BUCKET, {"requesterPays": False, "rpo": "", "cors": []}) == {}
    assert sent(BUCKET, {"softDeletePolicy": {"retentionDurationSeconds": 0}}) == {
        "softDeletePolicy": {"retentionDurationSeconds": 0}
    }
    assert sent(BUCKET, {"uniformBucketLevelAccess": False}) == {
        "iamConfiguration": {"uniformBucketLevelAccess": {"enabled": False}}
    }
    assert sent(JOB, {"template": {"template": {"maxRetries": 0}}}) == {"template": {"template": {"maxRetries": 0}}}
    # An empty object is a choice.
    volume = {"name": "scratch", "emptyDir": {}}
    assert sent(JOB, {"template": {"template": {"volumes": [volume]}}})["template"]["template"]["volumes"] == [volume]


def test_strings_become_the_types_the_api_wants() -> None:
    assert sent(BUCKET, {"uniformBucketLevelAccess": "true", "labels": {"count": 3, "on": True}}) == {
        "iamConfiguration": {"uniformBucketLevelAccess": {"enabled": True}},
        "labels": {"count": "3", "on": "true"},
    }
    assert shown(BUCKET, {"projectNumber": "123"}) == {"projectNumber": 123}


def test_a_single_object_is_shown_as_the_list_the_provider_has() -> None:
    assert shown(JOB, {"terminalCondition": {"type": "Ready", "state": "CONDITION_SUCCEEDED"}}) == {
        "terminalConditions": [{"type": "Ready", "state": "CONDITION_SUCCEEDED"}]
    }


def test_defaults_fill_in_where_their_parent_is() -> None:
    defaults = {"kind": "A", "spec.size": 3, "items.value": ""}
    assert with_defaults(defaults, {}) == {"kind": "A"}
    assert with_defaults(defaults, {"kind": "B", "spec": {}, "items": [{}, {"value": "x"}, "odd"]}) == {
        "kind": "B",
        "spec": {"size": 3},
        "items": [{"value": ""}, {"value": "x"}, "odd"],
    }


def test_defaults_change_nothing_of_what_they_are_given() -> None:
    given_ = {"spec": {"size": None}}
    assert with_defaults({"spec.size": 3}, given_) == {"spec": {"size": 3}}
    assert given_ == {"spec": {"size": None}}


def in_shape(shape: dict[str, Value], live: dict[str, Value], token: str = BUCKET) -> Value:
    kind = RESOURCES[token]
    return project(kind.table, kind.inputs, shape, live, kind.computed)


def test_the_live_value_in_the_programs_shape() -> None:
    live = {
        "location": "US-CENTRAL1",
        "storageClass": "NEARLINE",
        "timeCreated": "2026",
        "labels": {"a": "1", "b": "2"},
    }
    assert in_shape({"location": "us-central1", "storageClass": "STANDARD", "labels": {"a": "1", "c": "3"}}, live) == {
        "location": "us-central1",
        "storageClass": "NEARLINE",
        "labels": {"a": "1"},
    }
    assert in_shape({"rpo": "DEFAULT", "requesterPays": False}, {}) == {"rpo": None, "requesterPays": False}
    assert in_shape(
        {"softDeletePolicy": {"retentionDurationSeconds": "0"}}, {"softDeletePolicy": {"retentionDurationSeconds": 0}}
    ) == {"softDeletePolicy": {"retentionDurationSeconds": "0"}}


def test_a_list_of_another_length_is_shown_whole() -> None:
    live = {"cors": [{"methods": ["GET"]}, {"methods": ["PUT"]}]}
    assert in_shape({"cors": [{"methods": ["GET"]}]}, live) == live
