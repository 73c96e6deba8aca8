"""Bad input that a preview of the gke_tpu stack stops: one message with key, reason and way out, and no resource."""

from pathlib import Path
from typing import Any

import pulumi
import pytest
import yaml

from infra.errors import InputError
from mockgcp.cloud import Cloud
from mockgcp.frontends.pulumi.mocks import EmulatedGcp
from stacks.choose import choose

STACK, PROJECT = "dev-gke-tpu", "holdfast-dev"
FILE = Path(__file__).parents[2] / "stacks" / f"Pulumi.{STACK}.yaml"
QUOTA = {"cpu": 40, "memory": "75Gi", "google.com/tpu": 16}
ELASTIC = {"topology": "2x2", "onDemandSlices": 2, "jobElasticMin": 1, "jobElasticMax": 2}

# By what is wrong: the change to the shipped configuration, the key, what is said of it, why, and the way out.
BAD: dict[str, tuple[dict[str, Any], str, str, str, str]] = {
    "a topology that there is not": (
        {"topology": "4x5"},
        "topology",
        "'4x5', which is no TPU topology",
        "docs/concepts/plan-tpus",
        "2x2, 2x4, 4x4, 4x8, 8x8, 8x16, 16x16",
    ),
    "a topology of another machine": (
        {"machine": "ct6e-standard-8t"},
        "topology",
        "'4x4'; ct6e-standard-8t can have 2x4",
        "docs/concepts/plan-tpus",
        "or machine type ct5lp-hightpu-4t or ct6e-standard-4t",
    ),
    "a quota above its pool": (
        {"quotas": {"on-demand": {**QUOTA, "google.com/tpu": 32}}},
        "quotas",
        "on-demand: google.com/tpu 32 is above what pool on-demand-pool can ever hold, 16",
        "Kueue would admit jobs whose pods never get a node",
        "Lower it, or enlarge the pool",
    ),
    "a queued quota above its pool": (
        {"quotas": {"dws": {**QUOTA, "google.com/tpu": 32}}},
        "quotas",
        "dws: google.com/tpu 32 is above what pool dws-pool can ever hold, 16",
        "Kueue would admit jobs whose pods never get a node",
        "or set queuedQuotaAbovePool",
    ),
    "a quota of no flavor": (
        {"quotas": {"spot": QUOTA}},
        "quotas",
        "spot: there is no such flavor",
        "this queue has default-cpu, dws, on-demand",
        "Name one of these",
    ),
    "a queue that there is not": (
        {"jobQueue": "users-queue"},
        "jobQueue",
        "there is no queue 'users-queue'; namespace default has user-queue",
        "Kueue would leave the job suspended for ever",
        "Name one of these",
    ),
    "a way to queue that there is not": (
        {"queueingStrategy": "FIFO"},
        "queueingStrategy",
        "'FIFO'",
        "Kueue knows BestEffortFIFO and StrictFIFO",
        "Choose one",
    ),
    "a name of 60 letters": (
        {"jobName": "j" * 60},
        "jobName",
        "has 60 characters; a RayJob's name has at most 47",
        "kueue/issues/13413",
        "Shorten it",
    ),
    "an elastic job without the gate": (
        {**ELASTIC, "featureGates": []},
        "jobElasticMax",
        "an elastic job needs Kueue's feature gate ElasticJobsViaWorkloadSlices, which is off",
        "concepts/elastic_workload",
        "Add it to the gates, or leave the range out",
    ),
    "an old GKE": (
        {"gkeVersion": "1.31"},
        "gkeVersion",
        "GKE 1.31; TPU pools with Kueue and Ray take 1.34 or newer",
        "scenario B's tutorial",
        "Set 1.34",
    ),
    "a zone without v6e": (
        {"zone": "us-east5-c"},
        "zone",
        "us-east5-c has no TPU v6e",
        "tpu/docs/regions-zones",
        "us-east5-a, us-east5-b",
    ),
    "a zone without v6e by flex-start": (
        {"gcp:region": "us-east1", "zone": "us-east1-d"},
        "zone",
        "us-east1-d has no TPU v6e by flex-start",
        "tpu/docs/request-using-flex-start",
        "Choose one of asia-northeast1-b, us-east5-a, us-east5-b",
    ),
    "memory without a unit": (
        {"quotas": {"on-demand": {**QUOTA, "memory": 75}}},
        "quotas",
        "on-demand: memory: '75' has no unit, so it means bytes",
        "no job would ever be admitted",
        "Write the unit: 75Gi",
    ),
}


@pytest.fixture
def registered(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The types of all resources, components too, that a program makes."""
    made: list[str] = []
    construct = pulumi.Resource.__init__

    def recorded(self: pulumi.Resource, t: str, *args: Any, **more: Any) -> None:
        made.append(t)
        construct(self, t, *args, **more)

    monkeypatch.setattr(pulumi.Resource, "__init__", recorded)
    return made


def preview(change: dict[str, Any]) -> None:
    config: dict[str, Any] = yaml.safe_load(FILE.read_text(encoding="utf-8"))["config"]
    config |= {key if ":" in key else f"holdfast:{key}": value for key, value in change.items()}
    cloud = Cloud()
    cloud.seed_project(PROJECT)
    EmulatedGcp(
        cloud,
        project=PROJECT,
        region=config["gcp:region"],
        config=config,
        stack=STACK,
        preview=True,
        recorded=["kubernetes"],
    ).run(choose(STACK))


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_one_message_before_any_resource(case: str, registered: list[str]) -> None:
    change, key, what, why, way_out = BAD[case]
    with pytest.raises(InputError) as raised:
        preview(change)
    message = str(raised.value)
    assert message.startswith(f"stacks/Pulumi.{STACK}.yaml, holdfast:{key}: ")
    assert "\n" not in message
    assert [part for part in (what, why, way_out) if part not in message] == []
    assert set(registered) == {"pulumi:pulumi:Stack"}


def test_the_same_configuration_without_the_fault_makes_resources(registered: list[str]) -> None:
    preview({**ELASTIC, "quotas": {"on-demand": {**QUOTA, "cpu": 100, "memory": "100Gi", "google.com/tpu": 8}}})
    assert {"gcp:container/cluster:Cluster", "kubernetes:kueue.x-k8s.io/v1beta2:ClusterQueue"} < set(registered)
