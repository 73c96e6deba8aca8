"""A firewall rule as the engine uses it: no change the second time, updates in place, imports."""

from __future__ import annotations

import pytest
from scenario_a import NETWORK, PROJECT, Desk

from mockgcp.cloud import DEFAULT_OWNER
from mockgcp.frontends.pulumi.core import State
from mockgcp.frontends.pulumi.values import Value

FIREWALL = "gcp:compute/firewall:Firewall"
ID = f"projects/{PROJECT}/global/firewalls/internal"
INPUTS: dict[str, Value] = {
    "name": "internal",
    "network": "holdfast",
    "direction": "INGRESS",
    "sourceRanges": ["10.0.0.0/20"],
    "allows": [{"protocol": "tcp", "ports": ["22"]}, {"protocol": "icmp"}],
}


@pytest.fixture
def made(desk: Desk) -> State:
    desk.create(NETWORK, {"name": "holdfast", "autoCreateSubnetworks": False})
    return desk.create(FIREWALL, INPUTS)


def test_a_second_up_changes_nothing_also_after_a_refresh(desk: Desk, made: State) -> None:
    assert made.id == ID
    assert desk.diff(FIREWALL, made, INPUTS) == {}
    refreshed = desk.refresh(FIREWALL, made)
    assert refreshed is not None
    assert desk.diff(FIREWALL, refreshed, INPUTS) == {}


@pytest.mark.parametrize(
    "change",
    [
        {"sourceRanges": ["10.1.0.0/20"]},
        {"allows": [{"protocol": "tcp"}]},
        {"priority": 0},
        {"targetTags": ["login"]},
        {"disabled": True},
        {"logConfig": {"metadata": "EXCLUDE_ALL_METADATA"}},
    ],
)
def test_what_changes_in_place(desk: Desk, made: State, change: dict[str, Value]) -> None:
    changed = desk.settles(FIREWALL, made, {**INPUTS, **change})
    desk.settles(FIREWALL, changed, INPUTS)
    rest = desk.cloud.answer("compute.firewalls.get", {"project": PROJECT, "firewall": "internal"}, None, DEFAULT_OWNER)
    assert not rest.get("targetTags")
    assert (rest["priority"], rest["disabled"], rest["logConfig"]["enable"]) == (1000, False, False)


def test_another_name_replaces(desk: Desk, made: State) -> None:
    assert desk.diff(FIREWALL, made, {**INPUTS, "name": "other"}) == {"name": ("update", True)}


def test_a_rule_that_cannot_be_is_refused_before_it_is_made(desk: Desk) -> None:
    [failure] = desk.refused(FIREWALL, {**INPUTS, "direction": "EGRESS"})
    assert "An egress rule has no sources" in failure
