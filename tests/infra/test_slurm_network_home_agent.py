"""What a training cluster stands on, on the emulated cloud: network, home directory, the service agent's roles."""

from collections.abc import Callable
from typing import Any

import pulumi
import pulumi_gcp as gcp
import pytest

from infra import catalog
from infra.errors import InputError
from infra.home_directory import HomeDirectory, HomeDirectoryArgs
from infra.network import Network, NetworkArgs
from infra.project_services import ProjectServices, ProjectServicesArgs
from infra.service_agent import ServiceAgent, ServiceAgentArgs, agent_email
from mockgcp.cloud import DEFAULT_OWNER, Cloud
from mockgcp.frontends.pulumi.mocks import EmulatedGcp, Result

PROJECT, NUMBER, REGION, ZONE = "demo-project", 123456789012, "us-central1", "us-central1-b"
AGENT = f"serviceAccount:{NUMBER}@cloudservices.gserviceaccount.com"
FIREWALL, MEMBER = "gcp:compute/firewall:Firewall", "gcp:projects/iAMMember:IAMMember"
ACCOUNT_MEMBER = "gcp:serviceaccount/iAMMember:IAMMember"


@pytest.fixture
def cloud() -> Cloud:
    cloud = Cloud()
    cloud.seed_project(PROJECT, number=NUMBER)
    return cloud


def run(cloud: Cloud, program: Callable[[pulumi.ResourceOptions], object], preview: bool = False) -> Result:
    def whole() -> None:
        apis = ProjectServices("apis", ProjectServicesArgs(PROJECT, list(catalog.services().slurm)))
        program(pulumi.ResourceOptions(depends_on=[apis]))

    return EmulatedGcp(cloud, project=PROJECT, region=REGION, stack="dev-slurm", preview=preview).run(whole)


@pytest.mark.parametrize("nat", [True, False])
def test_nodes_reach_each_other_and_are_reached_through_the_proxy_alone(cloud: Cloud, nat: bool) -> None:
    args = NetworkArgs(PROJECT, REGION, "slurm", internal=True, ssh_by_iap=True, nat=nat)
    result = run(cloud, lambda after: Network("network", args, after))
    rules = {each.name: each.inputs for each in result.of_type(FIREWALL)}
    assert rules["network-internal"]["sourceRanges"] == ["10.0.0.0/20"]
    assert {each["protocol"] for each in rules["network-internal"]["allows"]} == {"tcp", "udp", "icmp"}
    assert rules["network-iap"]["sourceRanges"] == ["35.235.240.0/20"]
    assert rules["network-iap"]["allows"] == [{"protocol": "tcp", "ports": ["22"]}]
    assert len(result.of_type("gcp:compute/routerNat:RouterNat")) == nat


def test_a_network_has_no_rules_but_those_that_are_asked_for(cloud: Cloud) -> None:
    result = run(cloud, lambda after: Network("network", NetworkArgs(PROJECT, REGION), after))
    assert result.of_type(FIREWALL) == []


def home(change: dict[str, Any], after: pulumi.ResourceOptions | None = None) -> HomeDirectory:
    network = Network("network", NetworkArgs(PROJECT, REGION, "slurm"), after)
    return HomeDirectory("home", HomeDirectoryArgs(PROJECT, ZONE, network.network, **change), after)


def test_a_home_directory_is_known_by_its_full_name(cloud: Cloud) -> None:
    result = run(cloud, lambda after: pulumi.export("home", home({"deletion_protection": False}, after).instance))
    assert result.outputs["home"] == f"projects/{PROJECT}/locations/{ZONE}/instances/slurm-home"
    [made] = result.of_type("gcp:filestore/instance:Instance")
    assert made.inputs["deletionProtectionEnabled"] is False
    assert made.inputs["fileShares"] == {"name": "home", "capacityGb": 1024}


@pytest.mark.parametrize(
    ("change", "where"),
    [
        ({"instance_name": "Home"}, "instance_name"),
        ({"tier": "FAST"}, "tier"),
        ({"capacity_gib": 1000}, "capacity_gib"),
        ({"share_name": "my-home"}, "share_name"),
        ({"tier": "REGIONAL"}, "location"),
    ],
)
def test_a_home_directory_that_cannot_be_is_refused(change: dict[str, Any], where: str) -> None:
    with pytest.raises(InputError, match=f"^HomeDirectory home, {where}: "):
        HomeDirectory("home", HomeDirectoryArgs(PROJECT, ZONE, "n", **change))


def agent(account: pulumi.Input[str] | None, after: pulumi.ResourceOptions) -> None:
    made = ServiceAgent("agent", ServiceAgentArgs(PROJECT, account), after)
    pulumi.export("email", made.email)
    pulumi.export("roles", made.roles)


def bind(cloud: Cloud, role: str, member: str) -> None:
    cloud.project(PROJECT).services.add("cloudresourcemanager.googleapis.com")
    path = {"resource": PROJECT}
    policy = cloud.answer("cloudresourcemanager.projects.getIamPolicy", path, {}, DEFAULT_OWNER)
    policy["bindings"].append({"role": role, "members": [member]})
    cloud.answer("cloudresourcemanager.projects.setIamPolicy", path, {"policy": policy}, DEFAULT_OWNER)


@pytest.mark.parametrize("own", [False, True])
def test_the_agent_gets_its_two_roles_and_no_more(cloud: Cloud, own: bool) -> None:
    def program(after: pulumi.ResourceOptions) -> None:
        account = gcp.serviceaccount.Account("nodes", account_id="slurm-nodes", opts=after).email if own else None
        agent(account, after)

    result = run(cloud, program)
    [machines], [account] = result.of_type(MEMBER), result.of_type(ACCOUNT_MEMBER)
    assert (machines.inputs["role"], machines.inputs["member"]) == ("roles/compute.instanceAdmin.v1", AGENT)
    assert (account.inputs["role"], account.inputs["member"]) == ("roles/iam.serviceAccountUser", AGENT)
    nodes = f"slurm-nodes@{PROJECT}.iam" if own else f"{NUMBER}-compute@developer"
    assert account.inputs["serviceAccountId"] == f"projects/{PROJECT}/serviceAccounts/{nodes}.gserviceaccount.com"
    assert result.outputs["email"] == AGENT.partition(":")[2]
    # They are there now, which changes nothing: the same is registered again.
    again = run(cloud, lambda after: agent(None, after))
    assert (len(again.of_type(MEMBER)), len(again.of_type(ACCOUNT_MEMBER))) == (1, 1)


def test_an_agent_that_is_editor_gets_nothing(cloud: Cloud) -> None:
    bind(cloud, "roles/editor", AGENT)
    result = run(cloud, lambda after: agent(None, after))
    assert (result.of_type(MEMBER), result.of_type(ACCOUNT_MEMBER)) == ([], [])
    assert result.outputs["roles"] == []


def test_an_editor_that_is_somebody_else_does_not_count(cloud: Cloud) -> None:
    bind(cloud, "roles/editor", "user:somebody@example.com")
    assert len(run(cloud, lambda after: agent(None, after)).of_type(MEMBER)) == 1


def test_a_first_preview_does_not_ask_what_nobody_can_answer_yet(cloud: Cloud) -> None:
    assert run(cloud, lambda after: agent(None, after), preview=True).of_type(MEMBER) == []


def test_the_agents_address_follows_the_universe() -> None:
    universe = catalog.universe("s3nsapis.fr")
    assert agent_email("1", universe) == "1@cloudservices.s3ns-system.iam.gserviceaccount.com"
