"""The registration: the SDK's own proxies go in, violations of the right policy come out."""

from typing import Any

import pytest
from pulumi_policy import (
    EnforcementLevel,
    PolicyResourceOptions,
    ResourceValidationArgs,
    ResourceValidationPolicy,
)
from pulumi_policy.policy import PolicyCustomTimeouts
from pulumi_policy.proxy import UNKNOWN_ARRAY_VALUE, UNKNOWN_STRING_VALUE, unknown_checking_proxy

from mockgcp.cloud import Cloud
from mockgcp.frontends.pulumi.mocks import EmulatedGcp
from policies.pack import POLICIES
from stacks import foundation

JOB = "gcp:cloudrunv2/job:Job"
MEMBER = "gcp:storage/bucketIAMMember:BucketIAMMember"


def violations(resource_type: str, props: dict[str, Any]) -> dict[str, list[str]]:
    """What each policy of the pack reports of one resource, by the policy's name."""
    options = PolicyResourceOptions(False, [], None, [], PolicyCustomTimeouts(0, 0, 0), [])
    args = ResourceValidationArgs(resource_type, unknown_checking_proxy(props), "urn", "name", options, None)
    reported: dict[str, list[str]] = {}
    for policy in POLICIES:
        assert isinstance(policy, ResourceValidationPolicy)
        messages: list[str] = []
        policy.validate(args, lambda message, _urn, to=messages: to.append(message))  # type: ignore[misc]
        if messages:
            reported[policy.name] = messages
    return reported


def test_every_policy_is_mandatory() -> None:
    assert [policy.name for policy in POLICIES] == [
        "gpu-job-without-retries",
        "public-bucket",
        "project-wide-storage-role",
    ]
    assert all(policy.enforcement_level is EnforcementLevel.MANDATORY for policy in POLICIES)


@pytest.mark.parametrize(
    ("resource_type", "props", "policy"),
    [
        (
            JOB,
            {
                "template": {
                    "template": {
                        "maxRetries": 0,
                        "timeout": "43200s",
                        "serviceAccount": UNKNOWN_STRING_VALUE,
                        "volumes": UNKNOWN_ARRAY_VALUE,
                        "containers": [{"image": "t", "resources": {"limits": {"nvidia.com/gpu": "1"}}}],
                    }
                }
            },
            "gpu-job-without-retries",
        ),
        (
            MEMBER,
            {"bucket": UNKNOWN_STRING_VALUE, "role": "roles/storage.objectViewer", "member": "allUsers"},
            "public-bucket",
        ),
        ("gcp:storage/bucket:Bucket", {"name": UNKNOWN_STRING_VALUE}, "public-bucket"),
        (
            "gcp:projects/iAMMember:IAMMember",
            {"role": "roles/storage.admin", "member": "m"},
            "project-wide-storage-role",
        ),
    ],
)
def test_a_violation_is_reported_by_its_policy_alone(resource_type: str, props: dict[str, Any], policy: str) -> None:
    assert list(violations(resource_type, props)) == [policy]


@pytest.mark.parametrize(
    ("resource_type", "props"),
    [
        (JOB, {"template": {"template": {"maxRetries": UNKNOWN_STRING_VALUE, "timeout": UNKNOWN_STRING_VALUE}}}),
        ("gcp:storage/bucket:Bucket", {"publicAccessPrevention": UNKNOWN_STRING_VALUE}),
        (MEMBER, {"member": UNKNOWN_STRING_VALUE, "role": UNKNOWN_STRING_VALUE}),
        ("gcp:projects/iAMMember:IAMMember", {"role": UNKNOWN_STRING_VALUE}),
        ("gcp:compute/network:Network", {"name": "n"}),
    ],
)
def test_what_a_preview_cannot_know_is_not_judged(resource_type: str, props: dict[str, Any]) -> None:
    assert violations(resource_type, props) == {}


def test_our_own_foundation_violates_nothing() -> None:
    cloud = Cloud()
    cloud.seed_project("demo-project", number=123456789012)
    result = EmulatedGcp(cloud, project="demo-project", stack="dev-foundation").run(foundation.deploy)
    assert len(result.resources) > 5
    for resource in result.resources:
        assert violations(resource.type, dict(resource.inputs)) == {}
