"""The slurm stack on the emulated cloud with the configuration that is shipped, and all its bad input."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from infra.errors import InputError
from mockgcp.cloud import Cloud
from mockgcp.frontends.pulumi.mocks import EmulatedGcp, Resource, Result
from stacks.choose import choose
from stacks.config import read
from stacks.slurm_config import SlurmConfig

STACK, PROJECT, NUMBER = "dev-slurm", "holdfast-dev", 123456789012
FILE = Path(__file__).parents[2] / "stacks" / f"Pulumi.{STACK}.yaml"
CLUSTER = "gcp:vertex/aiModelDevelopmentCluster:AiModelDevelopmentCluster"
LOGIN = {"id": "login", "machine": "n2-standard-8", "minNodes": 1, "maxNodes": 1}
GPUS = {"id": "a3u", "machine": "a3-ultragpu-8g", "provisioning": "FLEX_START", "maxNodes": 2}
RESERVATION = "projects/holdfast-dev/zones/us-central1-b/reservations/r"
EXISTING = "projects/holdfast-dev/locations/us-central1-b/instances/slurm-home"


@pytest.fixture
def cloud() -> Cloud:
    cloud = Cloud()
    cloud.seed_project(PROJECT, number=NUMBER)
    return cloud


def shipped(**change: Any) -> dict[str, Any]:
    config: dict[str, Any] = yaml.safe_load(FILE.read_text(encoding="utf-8"))["config"]
    return {**config, **{f"holdfast:{key}": value for key, value in change.items()}}


def up(cloud: Cloud, config: dict[str, Any], preview: bool = False, stack: str = STACK) -> Result:
    emulated = EmulatedGcp(
        cloud, project=PROJECT, region=config["gcp:region"], config=config, stack=stack, preview=preview
    )
    return emulated.run(choose(stack))


def cluster(result: Result) -> Resource:
    [found] = result.of_type(CLUSTER)
    return found


def test_the_shipped_stack_comes_up(cloud: Cloud) -> None:
    result = up(cloud, shipped())
    outputs = result.outputs
    assert outputs["clusterId"] == f"projects/{NUMBER}/locations/us-central1/modelDevelopmentClusters/flexvm"
    assert (outputs["clusterName"], outputs["zone"]) == ("flexvm", "us-central1-b")
    assert outputs["sshCommand"] == (
        f"gcloud compute ssh flexvm-login-0 --project {PROJECT} --zone us-central1-b --tunnel-through-iap"
    )
    assert outputs["submitCommand"] == f"holdfast submit slurm --stack {STACK}"
    assert (outputs["partitions"], outputs["defaultPartition"]) == (["a3u"], "a3u")
    assert outputs["homeStorage"] == EXISTING
    inputs = cluster(result).inputs
    assert inputs["network"] == {
        "network": f"projects/{PROJECT}/global/networks/slurm",
        "subnetwork": f"projects/{PROJECT}/regions/us-central1/subnetworks/slurm-us-central1",
    }
    slurm = inputs["orchestratorSpec"]["slurmSpec"]
    assert slurm["homeDirectoryStorage"] == EXISTING
    assert slurm["config"]["PriorityWeightFairshare"] == "10000"
    login, gpus = inputs["nodePools"]
    assert (login["enablePublicIps"], gpus["enablePublicIps"]) == (False, False)
    assert (gpus["provisioningModel"], gpus["flexStartMaxDuration"]) == ("FLEX_START", "604800s")
    assert gpus["scalingSpec"] == {"minNodeCount": 0, "maxNodeCount": 2}
    assert "runtimeSpec" not in inputs


def test_the_file_that_is_shipped_says_what_the_defaults_are() -> None:
    written, _ = read(SlurmConfig, STACK, FILE)
    default = SlurmConfig.model_validate({})
    assert (written.pools, written.partitions, written.config) == (default.pools, default.partitions, default.config)


def test_the_cluster_waits_for_what_makes_its_nodes(cloud: Cloud) -> None:
    names = [each.name for each in up(cloud, shipped()).resources]
    for before in ("apis-aiplatform", "home", "network-nat", "network-internal", "agent-machines", "agent-account"):
        assert names.index(before) < names.index("cluster", names.index("cluster") + 1), before


def test_a_preview_makes_nothing(cloud: Cloud) -> None:
    before = cloud.resources()
    assert cluster(up(cloud, shipped(), preview=True)).inputs["modelDevelopmentClusterId"] == "flexvm"
    assert cloud.resources() == before


def test_without_flex_start_the_agent_is_left_alone(cloud: Cloud) -> None:
    pools = [LOGIN, {**GPUS, "provisioning": "RESERVATION", "reservations": [RESERVATION]}]
    result = up(cloud, shipped(pools=pools), preview=True)
    assert result.of_type("holdfast:service_agent:ServiceAgent") == []


def test_with_public_addresses_there_is_no_nat(cloud: Cloud) -> None:
    pools = [{**LOGIN, "publicIps": True}, {**GPUS, "publicIps": True}]
    result = up(cloud, shipped(pools=pools), preview=True)
    assert result.of_type("gcp:compute/routerNat:RouterNat") == []
    assert len(result.of_type("gcp:compute/firewall:Firewall")) == 2


def test_a_home_that_is_there_is_used(cloud: Cloud) -> None:
    result = up(cloud, shipped(homeStorage=EXISTING), preview=True)
    assert result.of_type("gcp:filestore/instance:Instance") == []
    assert cluster(result).inputs["orchestratorSpec"]["slurmSpec"]["homeDirectoryStorage"] == EXISTING


def test_scripts_come_from_files_in_their_order(cloud: Cloud, tmp_path: Path) -> None:
    texts = {"b.sh": "#!/bin/bash\ntrue b\n", "a.sh": "#!/bin/bash\ntrue a\n"}
    for name, text in texts.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    paths = [str(tmp_path / name) for name in texts]
    result = up(cloud, shipped(prologScripts=paths, epilogScripts=paths[:1]), preview=True)
    slurm = cluster(result).inputs["orchestratorSpec"]["slurmSpec"]
    assert slurm["prologBashScripts"] == list(texts.values())
    assert slurm["epilogBashScripts"] == [texts["b.sh"]]


@pytest.mark.parametrize(("stack", "protected"), [("dev-slurm", False), ("prod-slurm", True)])
def test_home_and_cluster_are_protected_outside_dev(cloud: Cloud, stack: str, protected: bool) -> None:
    [home] = up(cloud, shipped(), preview=True, stack=stack).of_type("gcp:filestore/instance:Instance")
    assert home.inputs["deletionProtectionEnabled"] is protected


@pytest.mark.parametrize(
    ("change", "key", "says"),
    [
        ({"clusterId": "flex-vm"}, "clusterId", "does not match"),
        ({"zone": "us-east1-b"}, "zone", "no zone of us-central1"),
        ({"networkName": "Net"}, "networkName", "does not match"),
        ({"subnetCidr": "10.0.0.1/20"}, "subnetCidr", "no IPv4 range"),
        ({"loginPool": "logins"}, "loginPool", "Did you mean 'login'?"),
        ({"defaultPartition": "b"}, "defaultPartition", "there is no partition 'b'"),
        ({"partitions": [{"id": "a", "pools": ["login"]}]}, "partitions", "the login pool"),
        ({"partitions": [{"id": "a", "pools": ["a3u"], "config": {"Default": "YES"}}]}, "partitions", "refused"),
        ({"partitions": []}, "partitions", "there is none"),
        ({"pools": [LOGIN, {**GPUS, "provisioning": None}]}, "pools", "says how its nodes come"),
        ({"pools": [LOGIN, {**GPUS, "maxDuration": "7d"}]}, "pools", "write 604800s"),
        ({"pools": [LOGIN, {**GPUS, "config": {"PriorityTier": "1"}}]}, "pools", "Move it to a partition's config"),
        (
            {"pools": [LOGIN, {**GPUS, "machin": "x"}]},
            "pools.1",
            "'machin' is no field of a pool; did you mean machine?",
        ),
        ({"pools": [LOGIN, {**GPUS, "startupScript": "no/such.sh"}]}, "pools", "no/such.sh cannot be read"),
        ({"prologScripts": ["no/such.sh"]}, "prologScripts", "by its path from the project's root"),
        ({"epilogScripts": ["tests/stacks"]}, "epilogScripts", "cannot be read"),
        ({"config": {"PreemptExemptTime": "10m"}}, "config", "Write 00:10:00"),
        ({"config": {"GraceTime": 60}}, "config", "Move it to a partition's config"),
        ({"homeStorage": "home"}, "homeStorage", "'home' is no full name"),
        ({"homeTier": "FAST"}, "homeTier", "no tier 'FAST'"),
        ({"homeCapacityGib": 1000}, "homeCapacityGib", "1024 to"),
        ({"homeShare": "my-home"}, "homeShare", "no name of a share"),
        ({"homeInstance": "Home"}, "homeInstance", "does not match"),
        ({"clusterid": "x"}, "clusterid", "did you mean holdfast:clusterId?"),
    ],
)
def test_bad_input_is_one_message_before_anything_is_made(
    cloud: Cloud, change: dict[str, Any], key: str, says: str
) -> None:
    before = len(cloud.audit.entries())
    with pytest.raises(InputError) as raised:
        up(cloud, shipped(**change))
    assert "\n" not in str(raised.value)
    assert str(raised.value).startswith(f"stacks/Pulumi.{STACK}.yaml, holdfast:{key}: ")
    assert says in str(raised.value)
    assert len(cloud.audit.entries()) == before
