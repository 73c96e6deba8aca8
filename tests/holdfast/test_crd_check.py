"""What a cluster's CRDs say of our manifests, without a cluster."""

from __future__ import annotations

import copy
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from holdfast import crd_check, planes
from infra import catalog
from infra.kueue_queues import manifests
from infra.ray_job import ElasticRange, RayJobSpec, ray_job
from stacks.gke_config import GkeTpuConfig

GOLDEN = Path(__file__).parents[1] / "infra" / "golden"
PROGRAMS = planes.find()
KINDS = {"RayJob", "ResourceFlavor", "ProvisioningRequestConfig", "AdmissionCheck", "ClusterQueue", "LocalQueue"}
QUOTA = {"cpu": "1000000000", "memory": "1000000000Gi", "google.com/tpu": "1000000000"}

SIZE = {
    "x-kubernetes-int-or-string": True,
    "anyOf": [{"type": "integer"}, {"type": "string"}],
    "pattern": "^(?i)[0-9a]+$",
}
SPEC = {
    "type": "object",
    "required": ["size"],
    "properties": {
        "size": SIZE,
        "count": {"type": "integer", "format": "int32", "minimum": 0, "exclusiveMinimum": True},
        "note": {"type": "string", "nullable": True},
        "labels": {"type": "object", "additionalProperties": {"type": "string"}},
        "parts": {"type": "array", "items": {"type": "object", "properties": {"name": {"type": "string"}}}},
        "anything": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
    },
}
CRD = {
    "spec": {
        "group": "example.org",
        "names": {"kind": "Thing"},
        "versions": [
            {
                "name": name,
                "served": served,
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {
                            "apiVersion": {"type": "string"},
                            "kind": {"type": "string"},
                            "metadata": {"type": "object"},
                            "spec": SPEC,
                        },
                    }
                },
            }
            for name, served in (("v1", True), ("v1alpha1", False))
        ],
    }
}
KNOWN = crd_check.of_documents([CRD])


def thing(version: str = "v1", **spec: Any) -> dict[str, Any]:
    metadata = {"name": "one", "labels": {"app": "holdfast"}}
    return {"apiVersion": f"example.org/{version}", "kind": "Thing", "metadata": metadata, "spec": {"size": 1, **spec}}


@pytest.mark.parametrize(
    "spec",
    [
        {},
        {"size": "12A", "count": 1, "note": None, "labels": {"a": "b"}},
        {"parts": [{"name": "a"}, {}], "anything": {"goes": [1]}},
    ],
)
def test_what_the_schema_allows_is_sound(spec: dict[str, Any]) -> None:
    assert crd_check.problems(thing(**spec), KNOWN) == []


@pytest.mark.parametrize(
    ("manifest", "says"),
    [
        (thing(sizes=1), "Thing one: spec: Additional properties are not allowed ('sizes' was unexpected)"),
        (thing(parts=[{"name": "a", "nam": "a"}]), "Thing one: spec.parts[0]: Additional properties"),
        (thing(size=1.5), "Thing one: spec.size: 1.5 is not valid"),
        (thing(size="b"), "Thing one: spec.size: 'b' does not match"),
        (thing(count=0), "Thing one: spec.count: 0 is less than or equal to the minimum"),
        (thing(count=None), "Thing one: spec.count: None is not of type 'integer'"),
        (thing(labels={"a": 1}), "Thing one: spec.labels.a: 1 is not of type 'string'"),
        ({**thing(), "spec": {}}, "Thing one: spec: 'size' is a required property"),
        ({**thing(), "spce": {}}, "Thing one: $: Additional properties"),
        (thing("v1alpha1"), "no CRD has Thing of example.org/v1alpha1; it is served as example.org/v1"),
        ({"apiVersion": "v1", "kind": "ConfigMap"}, "no CRD has ConfigMap of v1"),
    ],
)
def test_what_the_api_server_refuses_is_said(manifest: dict[str, Any], says: str) -> None:
    [message] = crd_check.problems(manifest, KNOWN)
    assert message.startswith(says)


# -- the real CRDs, which come with the built planes ----------------------------------------------------------------

built = pytest.mark.skipif(PROGRAMS is None, reason=f"the CRDs come with the planes: `{planes.COMMAND}`")


@pytest.fixture(scope="module")
def real() -> crd_check.Schemas:
    assert PROGRAMS is not None
    return crd_check.schemas(PROGRAMS, *KINDS)


@built
def test_a_kind_that_is_asked_for_is_there(real: crd_check.Schemas) -> None:
    assert {kind for _, kind in real} >= KINDS


CONFIGS: dict[str, dict[str, Any]] = {
    "shipped": {},
    "on demand alone": {"flexStartSlices": 0},
    "flex-start alone": {"onDemandSlices": 0},
    "the tutorial's quotas": {"quotas": dict.fromkeys(("default-cpu", "on-demand", "dws"), QUOTA)},
    "single hosts": {"machine": "ct5lp-hightpu-1t", "topology": "1x1", "onDemandSlices": 8},
    "half CPUs": {"headCpu": "1500m", "workerMemory": "16384Mi", "namespace": "training"},
    "no retries": {"retryLimit": 0, "retryBaseSeconds": 1, "retryMaxSeconds": 1},
}


@built
@pytest.mark.parametrize("name", CONFIGS)
def test_kueue_takes_our_queues(name: str, real: crd_check.Schemas) -> None:
    made = manifests(GkeTpuConfig(**CONFIGS[name]).queues())
    assert {"cluster", "local"} < made.keys()
    assert [problem for manifest in made.values() for problem in crd_check.problems(manifest, real)] == []


JOB = RayJobSpec("job1", catalog.tpu_slice("ct6e-standard-4t", "4x4"), {"train.py": ""}, "python /app/train.py")
JOBS = {
    "plain": JOB,
    "elastic": replace(JOB, elastic=ElasticRange(1, 2)),
    "all of it": replace(JOB, service_account="ray-job", bucket="b", env={"A": "1"}, packages=()),
    "one chip": replace(JOB, tpu=catalog.tpu_slice("ct5lp-hightpu-1t", "1x1"), slices=3),
}


@built
@pytest.mark.parametrize("name", JOBS)
def test_kuberay_takes_our_jobs(name: str, real: crd_check.Schemas) -> None:
    assert crd_check.problems(ray_job(JOBS[name]), real) == []


@built
@pytest.mark.parametrize("path", sorted(GOLDEN.glob("*.yaml")), ids=lambda path: path.stem)
def test_the_golden_manifests_are_sound(path: Path, real: crd_check.Schemas) -> None:
    jobs = [each for each in yaml.safe_load_all(path.read_text(encoding="utf-8")) if each["kind"] != "ConfigMap"]
    assert jobs
    assert [problem for each in jobs for problem in crd_check.problems(each, real)] == []


@built
def test_a_typing_error_deep_in_a_job_is_found(real: crd_check.Schemas) -> None:
    job = copy.deepcopy(ray_job(JOB))
    job["spec"]["rayClusterSpec"]["workerGroupSpecs"][0]["template"]["spec"]["nodeSelectors"] = {}
    [message] = crd_check.problems(job, real)
    assert message.startswith("RayJob job1: spec.rayClusterSpec.workerGroupSpecs[0].template.spec: ")
    assert "'nodeSelectors' was unexpected" in message
