"""Quotas on GPUs and TPUs: the catalog's names, the limits that were granted, and how Service Usage tells them."""

from __future__ import annotations

from typing import Any

import pytest
from mockgcp_client import OTHER, PROJECT, STRANGER, Client

from infra import catalog
from mockgcp.cloud import Cloud

QUOTA = catalog.gpu_quota("nvidia-l4", zonal_redundancy=False)
METRICS = "serviceusage.services.consumerQuotaMetrics"
PARENT = {"parent": f"projects/{PROJECT}/services/run.googleapis.com"}


@pytest.fixture(autouse=True)
def nothing_granted(cloud: Cloud) -> None:
    cloud.quotas.clear()


def metric(gcp: Client, **params: str) -> dict[str, Any]:
    found = gcp.call(f"{METRICS}.list", {**PARENT, **params})["metrics"]
    return next(each for each in found if each["metric"] == QUOTA.metric)


def buckets(gcp: Client, **params: str) -> dict[str, str]:
    limit = metric(gcp, **params)["consumerQuotaLimits"][0]
    return {b.get("dimensions", {}).get("region", "*"): b["effectiveLimit"] for b in limit["quotaBuckets"]}


def test_every_gpu_has_a_quota_with_and_one_without_zonal_redundancy() -> None:
    for accelerator in catalog.cloud_run().gpus:
        both = [catalog.gpu_quota(accelerator, zonal_redundancy=redundant) for redundant in (True, False)]
        assert len({quota.quota_id for quota in both} | {quota.metric for quota in both}) == 4
        assert {quota.default_limit for quota in both} == {0}
    assert QUOTA.quota_id == "NvidiaL4GpuAllocNoZonalRedundancyPerProjectRegion"
    with pytest.raises(ValueError, match="no quota of GPU 'nvidia-t4'; known: nvidia-l4"):
        catalog.gpu_quota("nvidia-t4", zonal_redundancy=False)


def test_a_limit_is_the_regions_else_that_of_all_else_the_default(cloud: Cloud) -> None:
    quotas = cloud.quotas
    assert quotas.limit(PROJECT, QUOTA.quota_id, "us-central1") == 0
    quotas.set(PROJECT, QUOTA.quota_id, "*", 3)
    quotas.set(PROJECT, QUOTA.quota_id, "us-central1", 8)
    assert quotas.limit(PROJECT, QUOTA.quota_id, "us-central1") == 8
    assert quotas.limit(PROJECT, QUOTA.quota_id, "europe-west4") == 3
    assert quotas.limit(OTHER, QUOTA.quota_id, "us-central1") == 0
    cloud.reset()
    assert quotas.limit(PROJECT, QUOTA.quota_id, "us-central1") == 0


def test_a_quota_that_does_not_exist_and_a_negative_one_are_refused(cloud: Cloud) -> None:
    with pytest.raises(ValueError, match="no quota 'Nvidia'; it has: NvidiaL4"):
        cloud.quotas.set(PROJECT, "Nvidia", "*", 1)
    with pytest.raises(ValueError, match="0 or more"):
        cloud.quotas.set(PROJECT, QUOTA.quota_id, "*", -1)


def test_the_basic_view_has_the_granted_regions_and_the_full_one_all(cloud: Cloud, gcp: Client) -> None:
    assert buckets(gcp) == {"*": "0"}
    cloud.quotas.set(PROJECT, QUOTA.quota_id, "us-central1", 8)
    assert buckets(gcp) == {"*": "0", "us-central1": "8"}
    full = buckets(gcp, view="FULL")
    assert full["us-central1"] == "8"
    assert full["europe-west4"] == "0"
    limit = metric(gcp)["consumerQuotaLimits"][0]
    assert limit["unit"] == "1/{project}/{region}"
    assert "us-central1" in limit["supportedLocations"]
    assert limit["quotaBuckets"][0]["defaultLimit"] == "0"


def test_a_metric_and_a_limit_by_their_names(gcp: Client) -> None:
    whole = metric(gcp)
    assert gcp.call(f"{METRICS}.get", {"name": whole["name"]}) == whole
    (limit,) = whole["consumerQuotaLimits"]
    assert gcp.call(f"{METRICS}.limits.get", {"name": limit["name"]}) == limit
    unknown = f"{PARENT['parent']}/consumerQuotaMetrics/run.googleapis.com%2Fnone"
    assert gcp.refused(f"{METRICS}.get", {"name": unknown}).status == "NOT_FOUND"
    assert gcp.refused(f"{METRICS}.limits.get", {"name": f"{whole['name']}/limits/none"}).status == "NOT_FOUND"


def test_every_generation_of_tpus_has_a_quota_on_demand_and_a_preemptible_one(cloud: Cloud, gcp: Client) -> None:
    for generation in catalog.fact("tpu", "generations").value:
        both = [catalog.tpu_quota(generation, preemptible=preemptible) for preemptible in (False, True)]
        assert len({quota.quota_id for quota in both} | {quota.metric for quota in both}) == 4
        assert {quota.service for quota in both} == {"compute.googleapis.com"}
    with pytest.raises(ValueError, match="no quota of TPU 'v9'; known: v5e, v5p, v6e"):
        catalog.tpu_quota("v9", preemptible=False)


def test_every_gpu_of_a_training_cluster_has_a_quota_on_demand_and_a_preemptible_one(cloud: Cloud) -> None:
    gpus = {machine.gpu for machine in catalog.gpu_machines().values()}
    on_demand, preemptible = (
        [catalog.node_gpu_quota(gpu, preemptible=preemptible) for gpu in gpus] for preemptible in (False, True)
    )
    assert len({quota.quota_id for quota in preemptible} | {quota.metric for quota in preemptible}) == 2 * len(gpus)
    assert len({quota.dimensions["gpu_family"] for quota in on_demand}) == len(gpus)
    assert len({quota.quota_id for quota in on_demand}) == 1
    assert {quota.service for quota in (*on_demand, *preemptible)} == {"compute.googleapis.com"}
    with pytest.raises(ValueError, match="no quota of GPU 'NVIDIA_T4'; known: NVIDIA_B200, "):
        catalog.node_gpu_quota("NVIDIA_T4", preemptible=True)


def test_a_quota_of_a_tpu_family_has_the_family_among_its_dimensions(cloud: Cloud, gcp: Client) -> None:
    quota = catalog.tpu_quota("v6e", preemptible=False)
    cloud.quotas.set(PROJECT, quota.quota_id, "us-east5", 16)
    found = gcp.call(f"{METRICS}.list", {"parent": f"projects/{PROJECT}/services/{quota.service}", "view": "FULL"})
    (limit,) = next(each for each in found["metrics"] if each["metric"] == quota.metric)["consumerQuotaLimits"]
    assert limit["unit"] == "1/{project}/{region}/{tpu_family}"
    shown = {bucket["dimensions"]["region"]: bucket for bucket in limit["quotaBuckets"] if "dimensions" in bucket}
    assert shown["us-east5"]["dimensions"] == {"region": "us-east5", "tpu_family": "CT6E"}
    assert (shown["us-east5"]["effectiveLimit"], shown["us-east1"]["effectiveLimit"]) == ("16", "0")
    assert gcp.call(f"{METRICS}.limits.get", {"name": limit["name"], "view": "FULL"}) == limit
    nodes = {**catalog.tpu_quotas(), **catalog.node_gpu_quotas()}
    assert {each["metric"] for each in found["metrics"]} == {each.metric for each in nodes.values()}


def test_who_may_look(cloud: Cloud, gcp: Client) -> None:
    assert gcp.as_(STRANGER).refused(f"{METRICS}.list", PARENT).status == "PERMISSION_DENIED"
    cloud.policies.grant(f"projects/{PROJECT}", "roles/servicemanagement.quotaViewer", STRANGER)
    assert metric(gcp.as_(STRANGER))


@pytest.mark.parametrize(
    ("parent", "words"),
    [
        (f"projects/{PROJECT}/services/storage.googleapis.com", "not of storage.googleapis.com"),
        ("folders/1/services/run.googleapis.com", "not of folders"),
    ],
)
def test_what_is_not_emulated_is_refused_by_name(gcp: Client, parent: str, words: str) -> None:
    error = gcp.refused(f"{METRICS}.list", {"parent": parent})
    assert (error.status, words in error.message) == ("UNIMPLEMENTED", True)
