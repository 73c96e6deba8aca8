"""Components of the GKE stack: cluster and pools on the emulated cloud, Kueue's objects as they are handed over."""

import asyncio
import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pulumi
import pulumi_kubernetes as k8s
import pytest
import yaml

from infra import catalog, kueue
from infra.errors import InputError
from infra.gke_cluster import GkeCluster, GkeClusterArgs
from infra.gke_workload_identity import GkeWorkloadIdentity, GkeWorkloadIdentityArgs
from infra.kubeconfig import PLUGIN, credentials_command, kubeconfig, kubeconfig_of
from infra.kueue import Kueue, KueueArgs, PodsReady, kueue_values, wait_until_answered
from infra.kueue_queues import KueueQueues, KueueQueuesArgs, Retry, manifests
from infra.network import Network, NetworkArgs
from infra.node_pool import NodePool, NodePoolArgs, node_pools
from infra.pool_shape import FLEX_START, PoolShape
from infra.project_services import ProjectServices, ProjectServicesArgs
from infra.queue_quota import JobTemplate, derived
from mockgcp.cloud import Cloud
from mockgcp.frontends.pulumi.core import ProviderError
from mockgcp.frontends.pulumi.mocks import EmulatedGcp, Result

PROJECT, REGION, ZONE, NUMBER = "demo-project", "us-east5", "us-east5-b", 123456789012
ON_DEMAND = PoolShape("on-demand-pool", "ct6e-standard-4t", "4x4")
DWS = replace(ON_DEMAND, name="dws-pool", provisioning=FLEX_START)
POOL = NodePoolArgs(PROJECT, ZONE, "tpu-cluster", DWS, "nodes@example.com")
CLUSTER = GkeClusterArgs(PROJECT, ZONE, "net", "subnet")
FLAVORS = derived(PoolShape("default-pool", "n2-standard-16"), {"on-demand": ON_DEMAND, "dws": DWS}, JobTemplate())
QUEUES = KueueQueuesArgs(FLAVORS)


def run(program: Callable[[pulumi.ResourceOptions], object], preview: bool = False) -> Result:
    cloud = Cloud()
    cloud.seed_project(PROJECT, number=NUMBER)

    def whole() -> None:
        apis = ProjectServices("apis", ProjectServicesArgs(PROJECT, list(catalog.services().gke_tpu)))
        program(pulumi.ResourceOptions(depends_on=[apis]))

    emulated = EmulatedGcp(
        cloud, project=PROJECT, region=REGION, stack="dev-gke-tpu", preview=preview, recorded=["kubernetes"]
    )
    return emulated.run(whole)


def cluster(after: pulumi.ResourceOptions, **change: Any) -> GkeCluster:
    network = Network("network", NetworkArgs(PROJECT, REGION, "tpu"), after)
    args = GkeClusterArgs(PROJECT, ZONE, network.network, network.subnetwork, **change)
    return GkeCluster("cluster", args, after)


@pytest.fixture(scope="module")
def pools() -> dict[str, Any]:
    """The inputs of a cluster and its two pools, in the order in which they were made."""

    def program(after: pulumi.ResourceOptions) -> None:
        made = cluster(after)
        shapes = {"on-demand": ON_DEMAND, "dws": DWS}
        args = [
            (name, NodePoolArgs(PROJECT, ZONE, made.name, shape, made.node_service_account))
            for name, shape in shapes.items()
        ]
        node_pools(args, after)

    return {each.name: dict(each.inputs) for each in run(program).resources if each.type.startswith("gcp:container/")}


def test_pools_come_one_after_the_other(pools: dict[str, Any]) -> None:
    # The emulated GKE refuses a second operation while one runs; that they came up says that they waited.
    assert list(pools) == ["cluster", "on-demand", "dws"]


def test_nodes_follow_from_machine_and_topology(pools: dict[str, Any]) -> None:
    for name in ("on-demand", "dws"):
        pool = pools[name]
        assert pool["autoscaling"] == {"minNodeCount": 0, "maxNodeCount": 4}
        assert pool["initialNodeCount"] == 0
        assert pool["placementPolicy"] == {"type": "COMPACT", "tpuTopology": "4x4"}
        assert pool["nodeConfig"]["machineType"] == "ct6e-standard-4t"
        assert pool["nodeConfig"]["reservationAffinity"] == {"consumeReservationType": "NO_RESERVATION"}
        assert pool["nodeConfig"]["serviceAccount"] == f"gke-nodes@{PROJECT}.iam.gserviceaccount.com"
        assert "upgradeSettings" not in pool


def test_flex_start_is_queued_limited_and_not_repaired(pools: dict[str, Any]) -> None:
    flex, on_demand = pools["dws"], pools["on-demand"]
    assert flex["queuedProvisioning"] == {"enabled": True}
    assert (flex["nodeConfig"]["flexStart"], flex["nodeConfig"]["maxRunDuration"]) == (True, "604800s")
    assert flex["management"] == {"autoRepair": False, "autoUpgrade": True}
    assert "queuedProvisioning" not in on_demand
    assert {"flexStart", "maxRunDuration"}.isdisjoint(on_demand["nodeConfig"])
    assert on_demand["management"] == {"autoRepair": True, "autoUpgrade": True}


def test_the_cluster_is_private_and_leaves_running_slices_alone(pools: dict[str, Any]) -> None:
    made = pools["cluster"]
    assert made["privateClusterConfig"]["enablePrivateNodes"] is True
    assert made["controlPlaneEndpointsConfig"]["ipEndpointsConfig"] == {"enabled": False}
    assert made["controlPlaneEndpointsConfig"]["dnsEndpointConfig"] == {"allowExternalTraffic": True}
    assert "masterAuthorizedNetworksConfig" not in made
    assert made["workloadIdentityConfig"] == {"workloadPool": f"{PROJECT}.svc.id.goog"}
    assert made["addonsConfig"] == {
        "rayOperatorConfigs": [{"enabled": True}],
        "gcsFuseCsiDriverConfig": {"enabled": True},
    }
    [exclusion] = made["maintenancePolicy"]["maintenanceExclusions"]
    assert exclusion["exclusionOptions"] == {
        "scope": "NO_MINOR_OR_NODE_UPGRADES",
        "endTimeBehavior": "UNTIL_END_OF_SUPPORT",
    }
    assert made["nodeConfig"]["gcfsConfig"] == {"enabled": True}
    assert made["nodeConfig"]["serviceAccount"].startswith("gke-nodes@")


def test_nodes_have_one_role(pools: dict[str, Any]) -> None:
    grants = run(lambda after: cluster(after)).of_type("gcp:projects/iAMMember:IAMMember")
    assert [each.inputs["role"] for each in grants] == ["roles/container.defaultNodeServiceAccount"]


def test_gpu_pools_come_by_the_same_component() -> None:
    shape = PoolShape("gpus", "a3-highgpu-8g", slices=2, provisioning=FLEX_START)

    def program(after: pulumi.ResourceOptions) -> None:
        made = cluster(after)
        args = NodePoolArgs(PROJECT, "us-east5-b", made.name, shape, made.node_service_account)
        NodePool("gpus", args, after)

    [pool] = run(program).of_type("gcp:container/nodePool:NodePool")
    assert pool.inputs["autoscaling"]["maxNodeCount"] == 2
    assert "placementPolicy" not in pool.inputs
    [gpus] = pool.inputs["nodeConfig"]["guestAccelerators"]
    assert (gpus["type"], gpus["count"]) == ("nvidia-h100-80gb", 8)


@pytest.mark.parametrize(
    ("change", "shape", "where"),
    [
        ({}, {"topology": "4x5"}, "topology"),
        ({}, {"topology": None}, "topology"),
        ({}, {"machine": "n2-standard-16"}, "topology"),
        ({}, {"machine": "n2-standard-16", "topology": None}, "provisioning"),
        ({}, {"slices": 2}, "slices"),
        ({}, {"slices": 0}, "slices"),
        ({}, {"provisioning": "spot"}, "provisioning"),
        ({}, {"name": "Pool"}, "node_pool_name"),
        ({"zone": "us-central1-b"}, {}, "zone"),
        ({"max_run_duration": "604801s"}, {}, "max_run_duration"),
    ],
)
def test_a_pool_that_cannot_work_is_refused(change: dict[str, Any], shape: dict[str, Any], where: str) -> None:
    with pytest.raises(InputError, match=f"^NodePool dws, {where}: ") as raised:
        NodePool("dws", replace(POOL, **change, shape=replace(DWS, **shape)))
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("change", "where"),
    [
        ({"cluster_name": "Cluster"}, "cluster_name"),
        ({"version": "1.31"}, "version"),
        ({"release_channel": "NONE"}, "release_channel"),
        ({"node_account_id": "n"}, "account_id"),
        ({"default_pool": PoolShape("cpus", "n2-standard-16")}, "default_pool"),
        ({"authorized_networks": {"all": "0.0.0.0/0"}}, "authorized_networks"),
        ({"authorized_networks": {"office": "somewhere"}}, "authorized_networks"),
        ({"universe": catalog.universe("s3nsapis.fr")}, "universe"),
    ],
)
def test_a_cluster_that_cannot_work_is_refused(change: dict[str, Any], where: str) -> None:
    with pytest.raises(InputError, match=f"^GkeCluster cluster, {where}: ") as raised:
        GkeCluster("cluster", replace(CLUSTER, **change))
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("by_address", [True, False])
def test_a_kubeconfig_goes_where_the_cluster_may_be_reached(by_address: bool) -> None:
    texts: list[str] = []
    networks = {"office": "203.0.113.0/24"} if by_address else {}

    def program(after: pulumi.ResourceOptions) -> None:
        text = kubeconfig_of(cluster(after, authorized_networks=networks))
        text.apply(texts.append)
        pulumi.export("secret", pulumi.Output.from_input(text.is_secret()))

    assert run(program).outputs["secret"] is True
    [config] = map(json.loads, texts)
    [reached] = config["clusters"]
    assert reached["cluster"]["server"] != "https://"
    assert ("certificate-authority-data" in reached["cluster"]) is by_address
    assert config["users"][0]["user"]["exec"]["command"] == PLUGIN


def test_a_preview_knows_no_address_that_is_not_there() -> None:
    texts: list[str] = []
    run(lambda after: kubeconfig_of(cluster(after)).apply(texts.append), preview=True)
    assert texts == []


def test_commands_reach_the_cluster_the_same_way() -> None:
    assert kubeconfig("c", "127.0.0.1:6443", "Q0E=")["clusters"][0]["cluster"] == {
        "server": "https://127.0.0.1:6443",
        "certificate-authority-data": "Q0E=",
    }
    command = credentials_command("c", PROJECT, ZONE, by_address=False)
    assert command.endswith(f"get-credentials c --project {PROJECT} --location {ZONE} --dns-endpoint")
    assert "--dns-endpoint" not in credentials_command("c", PROJECT, ZONE, by_address=True)


def test_queues_are_what_kueue_takes() -> None:
    objects = manifests(QUEUES)
    assert {each["apiVersion"] for each in objects.values()} == {"kueue.x-k8s.io/v1beta2"}
    queue = objects["cluster"]["spec"]
    [group] = queue["resourceGroups"]
    assert [flavor["name"] for flavor in group["flavors"]] == ["default-cpu", "on-demand", "dws"]
    for flavor in group["flavors"]:
        assert [each["name"] for each in flavor["resources"]] == group["coveredResources"]
    assert queue["admissionChecksStrategy"] == {"admissionChecks": [{"name": "dws-prov", "onFlavors": ["dws"]}]}
    assert objects["flavor-dws"]["spec"] == {"nodeLabels": {"cloud.google.com/gke-nodepool": "dws-pool"}}
    assert objects["check"]["spec"]["parameters"]["name"] == objects["check-config"]["metadata"]["name"] == "dws-config"
    assert objects["check-config"]["spec"] == {
        "provisioningClassName": "queued-provisioning.gke.io",
        "managedResources": ["google.com/tpu"],
        "retryStrategy": {"backoffLimitCount": 3, "backoffBaseSeconds": 60, "backoffMaxSeconds": 1800},
    }
    assert objects["local"]["metadata"] == {"name": "user-queue", "namespace": "default"}


def test_without_a_queued_flavor_nothing_is_checked() -> None:
    objects = manifests(replace(QUEUES, flavors=FLAVORS[:2]))
    assert set(objects) == {"flavor-default-cpu", "flavor-on-demand", "cluster", "local"}
    assert "admissionChecksStrategy" not in objects["cluster"]["spec"]


@pytest.mark.parametrize(
    ("change", "where"),
    [
        ({"local_queue": "User"}, "local_queue"),
        ({"flavors": [FLAVORS[0], FLAVORS[0]]}, "flavors"),
        ({"retry": Retry(base_s=0)}, "retry"),
    ],
)
def test_queues_that_cannot_work_are_refused(change: dict[str, Any], where: str) -> None:
    with pytest.raises(InputError, match=f"^KueueQueues queues, {where}: "):
        KueueQueues("queues", replace(QUEUES, **change))


def on_kubernetes(program: Callable[[pulumi.ResourceOptions], object], preview: bool = False) -> Result:
    def whole(after: pulumi.ResourceOptions) -> None:
        provider = k8s.Provider("cluster", kubeconfig=json.dumps(kubeconfig("c", "127.0.0.1:1")))
        program(pulumi.ResourceOptions(providers=[provider], depends_on=after.depends_on))

    return run(whole, preview)


@pytest.mark.parametrize("preview", [True, False])
def test_kueue_is_waited_for_but_not_in_a_preview(monkeypatch: pytest.MonkeyPatch, preview: bool) -> None:
    asked: list[str] = []
    monkeypatch.setattr(kueue, "_dry_run", lambda config: asked.append(config["clusters"][0]["cluster"]["server"]))
    args = KueueArgs(json.dumps(kubeconfig("c", "127.0.0.1:1")), feature_gates=["ElasticJobsViaWorkloadSlices"])

    def program(opts: pulumi.ResourceOptions) -> None:
        pulumi.export("ready", Kueue("kueue", args, opts).ready)

    result = on_kubernetes(program, preview)
    [release] = result.of_type("kubernetes:helm.sh/v3:Release")
    assert (release.inputs["chart"], release.inputs["version"]) == (catalog.kueue()["chart"], "0.17.0")
    assert release.inputs["values"]["controllerManager"]["featureGates"] == [
        {"name": "ElasticJobsViaWorkloadSlices", "enabled": True}
    ]
    assert asked == ([] if preview else ["https://127.0.0.1:1"])
    assert preview or result.outputs["ready"] == "kueue-system"


def test_a_chart_on_this_machine_has_its_own_version() -> None:
    result = on_kubernetes(lambda opts: Kueue("kueue", KueueArgs("{}", chart="charts/kueue"), opts), preview=True)
    [release] = result.of_type("kubernetes:helm.sh/v3:Release")
    assert "version" not in release.inputs


def test_more_values_win() -> None:
    values = kueue_values(["B", "A"], {"controllerManager": {"replicas": 2}, "x": 1})
    gates = [{"name": "A", "enabled": True}, {"name": "B", "enabled": True}]
    assert values == {"controllerManager": {"featureGates": gates, "replicas": 2}, "x": 1}
    assert kueue_values([], {}) == {}


def test_a_limit_for_pods_is_added_to_what_the_charts_manager_has() -> None:
    values = kueue_values([], {}, PodsReady(timeout_s=600, retries=2, base_s=5, max_s=50))
    config = yaml.safe_load(values["managerConfig"]["controllerManagerConfigYaml"])
    wait = config.pop("waitForPodsReady")
    strategy = wait.pop("requeuingStrategy")
    assert wait == {"timeout": "600s", "blockAdmission": False}
    assert strategy == {
        "timestamp": "Eviction",
        "backoffLimitCount": 2,
        "backoffBaseSeconds": 5,
        "backoffMaxSeconds": 50,
    }
    assert config == catalog.fact("gke", "kueue_manager_config").value


def test_the_wait_grows_and_ends_with_the_last_error() -> None:
    now, pauses = [0.0], []
    answers = iter([OSError("refused"), OSError("not yet"), None])

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)
        now[0] += seconds

    def attempt() -> None:
        error = next(answers)
        if error is not None:
            raise error

    asyncio.run(wait_until_answered(attempt, 60, lambda: now[0], sleep))
    assert pauses == [0.5, 1.0]

    def never() -> None:
        raise OSError("refused")

    with pytest.raises(InputError, match=r"does not answer after 60s: refused\. Look at it with `kubectl"):
        asyncio.run(wait_until_answered(never, 60, lambda: now[0], sleep))
    assert max(pauses) == 8


def test_a_job_reaches_its_bucket_as_itself() -> None:
    from infra.checkpoint_bucket import CheckpointBucket, CheckpointBucketArgs

    def program(opts: pulumi.ResourceOptions) -> None:
        bucket = CheckpointBucket("b", CheckpointBucketArgs(PROJECT, REGION, "tpu-checkpoints-demo"), opts)
        GkeWorkloadIdentity("jobs", GkeWorkloadIdentityArgs(PROJECT, bucket.bucket), opts)

    [grant] = on_kubernetes(program).of_type("gcp:storage/bucketIAMMember:BucketIAMMember")
    assert grant.inputs["role"] == "roles/storage.objectUser"
    assert grant.inputs["member"] == catalog.workload_principal(PROJECT, str(NUMBER), "default", "ray-job")


def test_a_package_that_is_not_recorded_is_refused() -> None:
    cloud = Cloud()
    cloud.seed_project(PROJECT, number=NUMBER)
    with pytest.raises(ProviderError, match="emulates Google Cloud alone"):
        EmulatedGcp(cloud, project=PROJECT, region=REGION).run(lambda: k8s.Provider("cluster"))
