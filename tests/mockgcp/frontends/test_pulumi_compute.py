"""The network's resource types as the engine uses them: no change the second time, drift, imports, updates in place."""

from __future__ import annotations

from typing import Any

import pytest
from scenario_a import NETWORK, PROJECT, ROUTER, ROUTER_NAT, SUBNETWORK, Desk

from mockgcp.cloud import DEFAULT_OWNER, Cloud
from mockgcp.errors import ApiError
from mockgcp.frontends.pulumi.core import Provider, State
from mockgcp.frontends.pulumi.resources.compute import Link
from mockgcp.frontends.pulumi.values import UNKNOWN, Value

REGION = "europe-west4"
NETWORK_ID = f"projects/{PROJECT}/global/networks/holdfast"
SUBNET_ID = f"projects/{PROJECT}/regions/{REGION}/subnetworks/holdfast"
ROOT = "https://www.googleapis.com/compute/v1/"
THE_SUBNET = {"project": PROJECT, "region": REGION, "subnetwork": "holdfast"}
THE_ROUTER = {"project": PROJECT, "region": REGION, "router": "holdfast"}

INPUTS: dict[str, dict[str, Value]] = {
    NETWORK: {"name": "holdfast", "autoCreateSubnetworks": False, "routingMode": "REGIONAL"},
    SUBNETWORK: {
        "name": "holdfast",
        "network": NETWORK_ID,
        "region": REGION,
        "ipCidrRange": "10.0.0.0/20",
        "privateIpGoogleAccess": True,
        "secondaryIpRanges": [{"rangeName": "pods", "ipCidrRange": "10.4.0.0/14"}],
    },
    ROUTER: {"name": "holdfast", "network": NETWORK_ID, "region": REGION},
    ROUTER_NAT: {
        "name": "holdfast",
        "router": "holdfast",
        "region": REGION,
        "natIpAllocateOption": "AUTO_ONLY",
        "sourceSubnetworkIpRangesToNat": "LIST_OF_SUBNETWORKS",
        "subnetworks": [{"name": ROOT + SUBNET_ID, "sourceIpRangesToNats": ["ALL_IP_RANGES"]}],
        "logConfig": {"enable": True, "filter": "ERRORS_ONLY"},
    },
}
IDS = {
    NETWORK: NETWORK_ID,
    SUBNETWORK: SUBNET_ID,
    ROUTER: f"projects/{PROJECT}/regions/{REGION}/routers/holdfast",
    ROUTER_NAT: f"{PROJECT}/{REGION}/holdfast/holdfast",
}


def call(cloud: Cloud, method: str, params: dict[str, Any], body: Any = None) -> dict[str, Any]:
    """A change behind the engine's back."""
    return cloud.answer(method, params, body, DEFAULT_OWNER)


@pytest.fixture
def made(desk: Desk) -> dict[str, State]:
    """All four, as an `up` leaves them."""
    return {token: desk.create(token, inputs) for token, inputs in INPUTS.items()}


@pytest.mark.parametrize("token", INPUTS)
def test_a_second_up_changes_nothing_also_after_a_refresh(desk: Desk, made: dict[str, State], token: str) -> None:
    assert made[token].id == IDS[token]
    assert desk.diff(token, made[token], INPUTS[token]) == {}
    refreshed = desk.refresh(token, made[token])
    assert refreshed is not None
    assert refreshed.inputs == made[token].inputs
    assert desk.diff(token, refreshed, INPUTS[token]) == {}


@pytest.mark.parametrize("token", INPUTS)
def test_an_import_matches_the_program(desk: Desk, made: dict[str, State], token: str) -> None:
    found = desk.provider.read(token, IDS[token], {}, {})
    assert found is not None
    assert found.id == made[token].id
    assert desk.diff(token, found, INPUTS[token]) == {}


def test_a_nat_is_imported_by_its_long_name_too(desk: Desk, made: dict[str, State]) -> None:
    long = f"projects/{PROJECT}/regions/{REGION}/routers/holdfast/holdfast"
    found = desk.provider.read(ROUTER_NAT, long, {}, {})
    assert found is not None
    assert found.id == IDS[ROUTER_NAT]


def test_outputs_have_full_links_whatever_the_program_wrote(desk: Desk, made: dict[str, State]) -> None:
    outputs = made[SUBNETWORK].outputs
    assert (outputs["selfLink"], outputs["network"]) == (ROOT + SUBNET_ID, ROOT + NETWORK_ID)
    assert (outputs["region"], outputs["project"], outputs["gatewayAddress"]) == (REGION, PROJECT, "10.0.0.1")
    assert isinstance(outputs["subnetworkId"], int)
    assert outputs["logConfig"] is None
    assert made[ROUTER].outputs["network"] == ROOT + NETWORK_ID


@pytest.mark.parametrize("written", [NETWORK_ID, ROOT + NETWORK_ID, "holdfast"])
def test_a_network_is_the_same_in_any_spelling(desk: Desk, written: str) -> None:
    desk.create(NETWORK, INPUTS[NETWORK])
    subnet = desk.create(SUBNETWORK, {**INPUTS[SUBNETWORK], "network": written})
    refreshed = desk.refresh(SUBNETWORK, subnet)
    assert refreshed is not None
    for other in (NETWORK_ID, ROOT + NETWORK_ID, "holdfast"):
        for state in (subnet, refreshed):
            assert desk.diff(SUBNETWORK, state, {**INPUTS[SUBNETWORK], "network": other}) == {}
    other = f"projects/{PROJECT}/global/networks/other"
    assert desk.diff(SUBNETWORK, subnet, {**INPUTS[SUBNETWORK], "network": other}) == {"network": ("update", True)}


def test_a_nats_subnet_keeps_the_programs_spelling(desk: Desk, made: dict[str, State]) -> None:
    subnets: list[Value] = [{"name": SUBNET_ID, "sourceIpRangesToNats": ["ALL_IP_RANGES"]}]
    inputs = {**INPUTS[ROUTER_NAT], "subnetworks": subnets}
    refreshed = desk.refresh(ROUTER_NAT, desk.update(ROUTER_NAT, made[ROUTER_NAT], inputs))
    assert refreshed is not None
    assert desk.diff(ROUTER_NAT, refreshed, inputs) == {}


def test_links_differ_by_project_and_are_hashed_as_they_compare() -> None:
    one, other = Link("projects/a/global/networks/n"), Link("projects/b/global/networks/n")
    assert one != other
    assert one == Link("n") == other
    assert len({one, Link(f"{ROOT}{one}"), Link("n")}) == 1


def test_drift_shows(desk: Desk, cloud: Cloud, made: dict[str, State]) -> None:
    call(
        cloud,
        "compute.networks.patch",
        {"project": PROJECT, "network": "holdfast"},
        {"routingConfig": {"routingMode": "GLOBAL"}},
    )
    call(cloud, "compute.subnetworks.setPrivateIpGoogleAccess", THE_SUBNET, {"privateIpGoogleAccess": False})
    [nat] = call(cloud, "compute.routers.get", THE_ROUTER)["nats"]
    call(
        cloud,
        "compute.routers.patch",
        THE_ROUTER,
        {"nats": [{**nat, "udpIdleTimeoutSec": 60, "logConfig": {"enable": False, "filter": "ALL"}}]},
    )
    expected = {
        NETWORK: {"routingMode": ("update", False)},
        SUBNETWORK: {"privateIpGoogleAccess": ("update", False)},
        ROUTER_NAT: {"logConfig.enable": ("update", False), "logConfig.filter": ("update", False)},
    }
    for token, changes in expected.items():
        refreshed = desk.refresh(token, made[token])
        assert refreshed is not None
        assert desk.diff(token, refreshed, INPUTS[token]) == changes


def test_what_is_gone_is_gone_at_the_next_refresh(desk: Desk, cloud: Cloud, made: dict[str, State]) -> None:
    call(cloud, "compute.routers.patch", THE_ROUTER, {"nats": []})
    assert desk.refresh(ROUTER_NAT, made[ROUTER_NAT]) is None
    desk.provider.delete(ROUTER_NAT, made[ROUTER_NAT])
    call(cloud, "compute.routers.delete", THE_ROUTER)
    assert desk.refresh(ROUTER, made[ROUTER]) is None
    assert desk.refresh(ROUTER_NAT, made[ROUTER_NAT]) is None
    desk.provider.delete(ROUTER_NAT, made[ROUTER_NAT])


def updated(desk: Desk, made: dict[str, State], token: str, **changes: Value) -> dict[str, Value]:
    """The outputs after an update in place."""
    return desk.settles(token, made[token], {**INPUTS[token], **changes}).outputs


@pytest.mark.parametrize(
    ("token", "change"),
    [
        (NETWORK, {"mtu": 1500}),
        (NETWORK, {"routingMode": "GLOBAL"}),
        (NETWORK, {"bgpBestPathSelectionMode": "STANDARD"}),
        (NETWORK, {"networkFirewallPolicyEnforcementOrder": "BEFORE_CLASSIC_FIREWALL"}),
        (SUBNETWORK, {"privateIpGoogleAccess": False}),
        (SUBNETWORK, {"logConfig": {"flowSampling": 0.1}}),
        (SUBNETWORK, {"secondaryIpRanges": [{"rangeName": "services", "ipCidrRange": "10.8.0.0/20"}]}),
        (ROUTER, {"description": "d"}),
        (ROUTER, {"bgp": {"asn": 64514}}),
        (ROUTER_NAT, {"minPortsPerVm": 128}),
        (ROUTER_NAT, {"udpIdleTimeoutSec": 60}),
        (ROUTER_NAT, {"logConfig": {"enable": False, "filter": "ALL"}}),
        (ROUTER_NAT, {"enableEndpointIndependentMapping": True}),
        (ROUTER_NAT, {"enableDynamicPortAllocation": True, "maxPortsPerVm": 1024}),
    ],
)
def test_each_property_is_set_and_taken_back_in_place(
    desk: Desk, made: dict[str, State], token: str, change: dict[str, Value]
) -> None:
    changed = desk.settles(token, made[token], {**INPUTS[token], **change})
    desk.settles(token, changed, INPUTS[token])


def test_what_a_router_no_longer_says_is_taken_away(desk: Desk, cloud: Cloud, made: dict[str, State]) -> None:
    more = desk.update(ROUTER, made[ROUTER], {**INPUTS[ROUTER], "description": "d", "bgp": {"asn": 64514}})
    desk.settles(ROUTER, more, INPUTS[ROUTER])
    assert {"description", "bgp"}.isdisjoint(call(cloud, "compute.routers.get", THE_ROUTER))


def test_a_subnet_changes_each_thing_by_its_own_method(desk: Desk, cloud: Cloud, made: dict[str, State]) -> None:
    cloud.audit.clear()
    ranges: list[Value] = [{"rangeName": "pods", "ipCidrRange": "10.8.0.0/20"}]
    outputs = updated(
        desk,
        made,
        SUBNETWORK,
        ipCidrRange="10.0.0.0/16",
        privateIpGoogleAccess=False,
        secondaryIpRanges=ranges,
        logConfig={"flowSampling": 0.1},
    )
    assert (outputs["ipCidrRange"], outputs["privateIpGoogleAccess"]) == ("10.0.0.0/16", False)
    assert outputs["logConfig"] == {
        "aggregationInterval": "INTERVAL_5_SEC",
        "filterExpr": "true",
        "flowSampling": 0.1,
        "metadata": "INCLUDE_ALL_METADATA",
    }
    writes = [entry.method.rpartition(".")[2] for entry in cloud.audit.entries(ok=True) if ".get" not in entry.method]
    assert writes == ["expandIpCidrRange", "setPrivateIpGoogleAccess", "patch"]


def test_a_range_that_would_shrink_is_refused_in_the_apis_words(desk: Desk, made: dict[str, State]) -> None:
    with pytest.raises(ApiError, match=r"10\.0\.0\.0/20"):
        desk.update(SUBNETWORK, made[SUBNETWORK], {**INPUTS[SUBNETWORK], "ipCidrRange": "10.0.0.0/24"})


def test_networks_routers_and_nats_change_in_place(desk: Desk, made: dict[str, State]) -> None:
    assert updated(desk, made, NETWORK, routingMode="GLOBAL", mtu=1500)["mtu"] == 1500
    assert updated(desk, made, ROUTER, description="x", bgp={"asn": 64514})["bgp"]["asn"] == 64514
    nat = updated(desk, made, ROUTER_NAT, minPortsPerVm=128, logConfig={"enable": False, "filter": "ALL"})
    assert (nat["minPortsPerVm"], nat["logConfig"]) == (128, {"enable": False, "filter": "ALL"})


@pytest.mark.parametrize(
    ("token", "change"),
    [
        (NETWORK, {"name": "other"}),
        (SUBNETWORK, {"region": "us-central1"}),
        (ROUTER, {"network": "projects/other/global/networks/holdfast"}),
        (ROUTER_NAT, {"router": "other"}),
    ],
)
def test_what_replaces(desk: Desk, made: dict[str, State], token: str, change: dict[str, Value]) -> None:
    [(path, (_, replaces))] = desk.diff(token, made[token], {**INPUTS[token], **change}).items()
    assert (path, replaces) == (next(iter(change)), True)


def test_two_nats_of_one_router_leave_each_other_alone(desk: Desk, made: dict[str, State]) -> None:
    desk.create(
        SUBNETWORK, {**INPUTS[SUBNETWORK], "name": "second", "ipCidrRange": "10.1.0.0/20", "secondaryIpRanges": []}
    )
    subnets: list[Value] = [
        {"name": SUBNET_ID.replace("holdfast", "second"), "sourceIpRangesToNats": ["ALL_IP_RANGES"]}
    ]
    second = desk.create(ROUTER_NAT, {**INPUTS[ROUTER_NAT], "name": "second", "subnetworks": subnets})
    with pytest.raises(ApiError, match="has a NAT second already"):
        desk.create(ROUTER_NAT, {**INPUTS[ROUTER_NAT], "name": "second", "subnetworks": subnets})
    desk.provider.delete(ROUTER_NAT, made[ROUTER_NAT])
    assert desk.refresh(ROUTER_NAT, made[ROUTER_NAT]) is None
    assert desk.refresh(ROUTER_NAT, second) is not None


def test_a_destroy_leaves_nothing(desk: Desk, cloud: Cloud, made: dict[str, State]) -> None:
    for token in reversed(INPUTS):
        desk.provider.delete(token, made[token])
        desk.provider.delete(token, made[token])  # again is fine
    assert [kind for kind, _ in cloud.resources() if kind.startswith("compute.")] == []


def test_the_providers_region_is_the_default(desk: Desk) -> None:
    desk.create(NETWORK, INPUTS[NETWORK])
    inputs = {key: value for key, value in INPUTS[SUBNETWORK].items() if key != "region"}
    subnet = desk.create(SUBNETWORK, inputs)
    assert subnet.outputs["region"] == "us-central1"
    assert desk.diff(SUBNETWORK, subnet, inputs) == {}
    assert desk.diff(SUBNETWORK, subnet, {**inputs, "region": "us-central1"}) == {}


def test_without_any_region_it_says_which_to_set(cloud: Cloud) -> None:
    provider = Provider(cloud)
    provider.configure({"project": PROJECT})
    inputs = {key: value for key, value in INPUTS[ROUTER].items() if key != "region"}
    [failure] = provider.check(ROUTER, "it", inputs, {}).failures
    assert "gcp:region" in str(failure)


@pytest.mark.parametrize(
    ("token", "change", "words"),
    [
        (NETWORK, {"autoCreateSubnetworks": True}, "custom-mode"),
        (SUBNETWORK, {"ipCidrRange": "10.0.0.0/30"}, "/29"),
        (SUBNETWORK, {"region": "europe-west99"}, "europe-west4"),
        (ROUTER_NAT, {"subnetworks": None}, "nats[0].subnetworks"),
    ],
)
def test_a_preview_refuses_what_the_api_would(desk: Desk, token: str, change: dict[str, Value], words: str) -> None:
    [failure] = desk.refused(token, {**INPUTS[token], **change})
    assert words in failure


def test_default_routes_stay(desk: Desk) -> None:
    with pytest.raises(ApiError, match="deleteDefaultRoutesOnCreate"):
        desk.create(NETWORK, {**INPUTS[NETWORK], "deleteDefaultRoutesOnCreate": True})


def test_a_preview_knows_what_it_can(desk: Desk) -> None:
    checked = desk.checked(SUBNETWORK, INPUTS[SUBNETWORK])
    outputs = desk.provider.create(SUBNETWORK, checked, preview=True).outputs
    assert (outputs["name"], outputs["selfLink"]) == ("holdfast", UNKNOWN)
