"""Compute Engine: firewall rules of a network."""

from __future__ import annotations

from typing import Any

import pytest
from mockgcp_client import PROJECT, STRANGER, Client

from mockgcp.cloud import Cloud

HERE = {"project": PROJECT}
NETWORK = f"projects/{PROJECT}/global/networks/holdfast"
RULE = {**HERE, "firewall": "internal"}


@pytest.fixture
def cloud(cloud: Cloud) -> Cloud:
    cloud.project(PROJECT).services.add("compute.googleapis.com")
    return cloud


def rule(**fields: Any) -> dict[str, Any]:
    allowed = [{"IPProtocol": "tcp", "ports": ["22"]}]
    return {"name": "internal", "network": NETWORK, "sourceRanges": ["10.0.0.0/20"], "allowed": allowed, **fields}


@pytest.fixture
def made(gcp: Client) -> Client:
    gcp.finish("compute.networks.insert", HERE, {"name": "holdfast", "autoCreateSubnetworks": False})
    gcp.finish("compute.firewalls.insert", HERE, rule())
    return gcp


def test_a_rule_is_kept_with_what_the_server_fills_in(made: Client) -> None:
    found = made.call("compute.firewalls.get", RULE)
    assert (found["direction"], found["priority"], found["disabled"]) == ("INGRESS", 1000, False)
    assert found["network"].endswith(f"/compute/v1/{NETWORK}")
    assert [each["name"] for each in made.call("compute.firewalls.list", HERE)["items"]] == ["internal"]


def test_a_rule_from_nowhere_in_particular_is_from_everywhere(made: Client) -> None:
    made.finish("compute.firewalls.insert", HERE, rule(name="open", sourceRanges=None))
    assert made.call("compute.firewalls.get", {**HERE, "firewall": "open"})["sourceRanges"] == ["0.0.0.0/0"]


def test_a_patch_changes_what_is_named(made: Client) -> None:
    made.finish("compute.firewalls.patch", RULE, {"priority": 900, "sourceRanges": ["10.1.0.0/20"]})
    found = made.call("compute.firewalls.get", RULE)
    assert (found["priority"], found["sourceRanges"]) == (900, ["10.1.0.0/20"])
    assert found["allowed"] == rule()["allowed"]


@pytest.mark.parametrize(
    "fields",
    [
        {"allowed": []},
        {"denied": [{"IPProtocol": "udp"}]},
        {"allowed": [{"ports": ["22"]}]},
        {"allowed": [{"IPProtocol": "icmp", "ports": ["22"]}]},
        {"sourceRanges": ["10.0.0.1/20"]},
        {"priority": 65536},
        {"direction": "EGRESS"},
        {"sourceTags": ["a"], "targetServiceAccounts": ["b@example.com"]},
        {"network": f"projects/{PROJECT}/global/networks/other"},
        {"network": ""},
        {"name": "Internal"},
    ],
)
def test_a_rule_that_cannot_be_is_refused(made: Client, fields: dict[str, Any]) -> None:
    error = made.refused("compute.firewalls.insert", HERE, rule(**{"name": "another", **fields}))
    assert error.status == "INVALID_ARGUMENT"


def test_names_are_taken_and_direction_is_for_good(made: Client) -> None:
    assert made.refused("compute.firewalls.insert", HERE, rule()).reason == "alreadyExists"
    assert made.refused("compute.firewalls.patch", RULE, {"direction": "EGRESS"}).status == "INVALID_ARGUMENT"


def test_a_network_with_rules_is_in_use(made: Client, cloud: Cloud) -> None:
    operation = made.start("compute.networks.delete", {**HERE, "network": "holdfast"})
    with pytest.raises(Exception, match="already being used by"):
        cloud.wait(operation)
    made.finish("compute.firewalls.delete", RULE)
    assert made.refused("compute.firewalls.get", RULE).reason == "notFound"
    made.finish("compute.networks.delete", {**HERE, "network": "holdfast"})


def test_who_holds_no_role_makes_no_rule(made: Client) -> None:
    error = made.as_(STRANGER).refused("compute.firewalls.insert", HERE, rule(name="another"))
    assert error.status == "PERMISSION_DENIED"
