"""Compute Engine: networks, subnets, routers with their NATs, and operations in its own form."""

from __future__ import annotations

from typing import Any

import pytest
from mockgcp_client import JOB, OTHER, PROJECT, STRANGER, Client

from infra import catalog
from mockgcp.cloud import Cloud

REGION = "europe-west4"
HERE = {"project": PROJECT}
THERE = {**HERE, "region": REGION}
NETWORK = f"projects/{PROJECT}/global/networks/holdfast"
SUBNET = f"projects/{PROJECT}/regions/{REGION}/subnetworks/holdfast"
ROUTER = f"projects/{PROJECT}/regions/{REGION}/routers/holdfast"
THE_NETWORK = {**HERE, "network": "holdfast"}
THE_SUBNET = {**THERE, "subnetwork": "holdfast"}
THE_ROUTER = {**THERE, "router": "holdfast"}
ROOT = "https://www.googleapis.com/compute/v1/"


@pytest.fixture
def cloud(cloud: Cloud) -> Cloud:
    for project in (PROJECT, OTHER):
        cloud.project(project).services.add("compute.googleapis.com")
    return cloud


def network(**fields: Any) -> dict[str, Any]:
    return {"name": "holdfast", "autoCreateSubnetworks": False, **fields}


def subnet(**fields: Any) -> dict[str, Any]:
    return {"name": "holdfast", "network": NETWORK, "ipCidrRange": "10.0.0.0/20", **fields}


def nat(**fields: Any) -> dict[str, Any]:
    source = "ALL_SUBNETWORKS_ALL_IP_RANGES"
    return {"name": "nat", "natIpAllocateOption": "AUTO_ONLY", "sourceSubnetworkIpRangesToNat": source, **fields}


def listed(**fields: Any) -> dict[str, Any]:
    ranges = {"name": SUBNET, "sourceIpRangesToNat": ["ALL_IP_RANGES"]}
    return nat(sourceSubnetworkIpRangesToNat="LIST_OF_SUBNETWORKS", subnetworks=[{**ranges, **fields}])


@pytest.fixture
def made(gcp: Client, cloud: Cloud) -> Client:
    """The owner of a network with a subnet and a router."""
    gcp.finish("compute.networks.insert", HERE, network())
    gcp.finish("compute.subnetworks.insert", THERE, subnet())
    gcp.finish("compute.routers.insert", THERE, {"name": "holdfast", "network": NETWORK})
    return gcp


# -- operations ----------------------------------------------------------------------------------------------------


def test_an_operation_has_computes_own_form_and_passes_through_its_states(gcp: Client, cloud: Cloud) -> None:
    operation = gcp.start("compute.networks.insert", HERE, network())
    get = {**HERE, "operation": operation.name.rpartition("/")[2]}
    running = gcp.call("compute.globalOperations.get", get)
    assert (running["kind"], running["status"], running["operationType"]) == ("compute#operation", "RUNNING", "insert")
    assert running["targetLink"] == ROOT + NETWORK
    assert running["selfLink"] == f"{ROOT}{operation.name}"
    assert gcp.refused("compute.networks.get", THE_NETWORK).reason == "notFound"
    cloud.wait(operation)
    done = gcp.call("compute.globalOperations.wait", get)
    assert (done["status"], done["progress"], "error" in done) == ("DONE", 100, False)
    assert done["insertTime"] < done["endTime"] == cloud.clock.timestamp()
    assert gcp.call("compute.networks.get", THE_NETWORK)["selfLink"] == ROOT + NETWORK


def test_a_regions_operation_is_found_in_its_region_alone(made: Client) -> None:
    operation = made.start("compute.routers.patch", THE_ROUTER, {"description": "x"})
    id_ = operation.name.rpartition("/")[2]
    found = made.call("compute.regionOperations.get", {**THERE, "operation": id_})
    assert found["region"] == f"{ROOT}projects/{PROJECT}/regions/{REGION}"
    elsewhere = {**HERE, "region": "us-central1", "operation": id_}
    assert made.refused("compute.regionOperations.get", elsewhere).status == "NOT_FOUND"
    assert made.refused("compute.globalOperations.get", {**HERE, "operation": id_}).status == "NOT_FOUND"


def test_two_of_a_name_at_once_and_one_wins(gcp: Client, cloud: Cloud) -> None:
    first, second = (gcp.start("compute.networks.insert", HERE, network()) for _ in range(2))
    cloud.clock.advance(60)
    assert (first.error, second.done) == (None, True)
    error = second.to_dict()["error"]["errors"][0]
    assert (error["code"], second.to_dict()["httpErrorStatusCode"]) == ("RESOURCE_ALREADY_EXISTS", 409)


# -- networks ------------------------------------------------------------------------------------------------------


def test_a_network_comes_back_with_the_servers_defaults(made: Client) -> None:
    found = made.call("compute.networks.get", THE_NETWORK)
    assert (found["mtu"], found["routingConfig"]["routingMode"]) == (1460, "REGIONAL")
    assert found["subnetworks"] == [ROOT + SUBNET]
    assert made.call("compute.networks.list", HERE)["items"] == [found]
    assert made.call("compute.networks.list", {"project": OTHER})["items"] == []


def test_a_network_changes_in_what_can_change(made: Client) -> None:
    patched = made.finish("compute.networks.patch", THE_NETWORK, {"routingConfig": {"routingMode": "GLOBAL"}})
    assert patched["routingConfig"] == {"routingMode": "GLOBAL", "bgpBestPathSelectionMode": "LEGACY"}
    error = made.refused("compute.networks.patch", THE_NETWORK, {"description": "other"})
    assert "resource.description" in error.message


def test_a_network_in_use_fails_the_operation_that_deletes_it(made: Client, cloud: Cloud) -> None:
    for method, params, user in (
        ("compute.subnetworks.delete", THE_SUBNET, SUBNET),
        ("compute.routers.delete", THE_ROUTER, ROUTER),
    ):
        operation = made.start("compute.networks.delete", THE_NETWORK)
        cloud.clock.advance(60)
        [error] = operation.to_dict()["error"]["errors"]
        assert error == {
            "code": "RESOURCE_IN_USE_BY_ANOTHER_RESOURCE",
            "message": f"The network resource '{NETWORK}' is already being used by '{user}'",
        }
        made.finish(method, params)
    made.finish("compute.networks.delete", THE_NETWORK)
    assert made.call("compute.networks.list", HERE)["items"] == []


INSERT_NETWORK = ("compute.networks.insert", HERE)


@pytest.mark.parametrize(
    ("fields", "status", "words"),
    [
        ({"name": "Holdfast"}, "INVALID_ARGUMENT", "resource.name"),
        ({"name": "-x"}, "INVALID_ARGUMENT", "resource.name"),
        ({"name": "x" * 64}, "INVALID_ARGUMENT", "resource.name"),
        ({"name": ""}, "INVALID_ARGUMENT", "resource.name"),
        ({"mtu": 1299}, "INVALID_ARGUMENT", "1300 to 8896"),
        ({"mtu": 8897}, "INVALID_ARGUMENT", "1300 to 8896"),
        ({"autoCreateSubnetworks": True}, "UNIMPLEMENTED", "custom-mode"),
        ({"autoCreateSubnetworks": None}, "UNIMPLEMENTED", "legacy"),
        ({"enableUlaInternalIpv6": True}, "UNIMPLEMENTED", "enableUlaInternalIpv6"),
    ],
)
def test_networks_that_are_refused(gcp: Client, fields: dict[str, Any], status: str, words: str) -> None:
    error = gcp.refused(*INSERT_NETWORK, network(**fields))
    assert (error.status, words in error.message) == (status, True), error


@pytest.mark.parametrize("name", ["a", "a" * 63, "a1-b"])
def test_names_at_their_limits(gcp: Client, name: str) -> None:
    assert gcp.finish(*INSERT_NETWORK, network(name=name))["name"] == name


def test_a_name_that_is_taken(made: Client) -> None:
    error = made.refused(*INSERT_NETWORK, network())
    assert (error.http_status, error.reason) == (409, "alreadyExists")
    assert error.message == f"The resource '{NETWORK}' already exists"


# -- subnets -------------------------------------------------------------------------------------------------------

INSERT_SUBNET = ("compute.subnetworks.insert", THERE)


@pytest.mark.parametrize("reference", [NETWORK, ROOT + NETWORK, "global/networks/holdfast"])
def test_a_network_is_referred_to_in_any_form(gcp: Client, reference: str) -> None:
    gcp.finish(*INSERT_NETWORK, network())
    made = gcp.finish(*INSERT_SUBNET, subnet(network=reference))
    assert (made["network"], made["region"]) == (ROOT + NETWORK, f"{ROOT}projects/{PROJECT}/regions/{REGION}")
    assert (made["gatewayAddress"], made["stackType"], made["purpose"]) == ("10.0.0.1", "IPV4_ONLY", "PRIVATE")


def secondary(*ranges: str) -> list[dict[str, str]]:
    return [{"rangeName": f"r{index}", "ipCidrRange": cidr} for index, cidr in enumerate(ranges)]


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"ipCidrRange": "10.0.0.0"}, "prefix is /4 to /29"),
        ({"ipCidrRange": "10.0.0.0/30"}, "prefix is /4 to /29"),
        ({"ipCidrRange": "10.0.0.1/20"}, "host bits"),
        ({"ipCidrRange": "ten"}, "no IPv4 range"),
        ({"ipCidrRange": ""}, "required"),
        ({"ipCidrRange": "169.254.0.0/24"}, "169.254.0.0/16"),
        ({"secondaryIpRanges": secondary("10.8.0.0/30")}, "secondaryIpRanges[0].ipCidrRange"),
        (
            {"secondaryIpRanges": [{"rangeName": "Pods", "ipCidrRange": "10.8.0.0/20"}]},
            "secondaryIpRanges[0].rangeName",
        ),
        ({"secondaryIpRanges": secondary("10.8.0.0/20")[:1] * 2}, "secondaryIpRanges[1].rangeName"),
        ({"secondaryIpRanges": secondary(*(f"10.9.0.{8 * i}/29" for i in range(4)))}, "own range 10.9.0.0/24"),
        ({"network": ""}, "resource.network"),
        ({"network": "global/networks/none"}, "cannot be found"),
        ({"region": "us-central1"}, "resource.region"),
    ],
)
def test_subnets_that_are_refused(made: Client, fields: dict[str, Any], words: str) -> None:
    if "own range" in words:
        fields = {**fields, "ipCidrRange": "10.9.0.0/24"}
    error = made.refused(*INSERT_SUBNET, subnet(**{"name": "second", "ipCidrRange": "10.1.0.0/20", **fields}))
    assert (error.status, words in error.message) == ("INVALID_ARGUMENT", True), error


@pytest.mark.parametrize("fields", [{"stackType": "IPV4_IPV6"}, {"purpose": "PRIVATE_NAT"}, {"role": "ACTIVE"}])
def test_what_subnets_do_not_have_here_is_refused_by_name(made: Client, fields: dict[str, Any]) -> None:
    error = made.refused(*INSERT_SUBNET, subnet(name="second", ipCidrRange="10.1.0.0/20", **fields))
    assert (error.status, next(iter(fields)) in error.message) == ("UNIMPLEMENTED", True)


def test_ranges_overlap_nowhere_in_a_network_and_anywhere_else(made: Client) -> None:
    elsewhere = {**HERE, "region": "us-central1"}
    error = made.refused("compute.subnetworks.insert", elsewhere, subnet(ipCidrRange="10.0.8.0/24"))
    assert error.message == (
        "Invalid value for field 'resource.ipCidrRange': '10.0.8.0/24'. Invalid IPCidrRange: 10.0.8.0/24 conflicts "
        f"with existing subnetwork 'holdfast' in region '{REGION}'."
    )
    pods = subnet(ipCidrRange="10.1.0.0/20", secondaryIpRanges=secondary("10.0.0.0/24"))
    assert "secondaryIpRanges[0]" in made.refused("compute.subnetworks.insert", elsewhere, pods).message
    made.finish(*INSERT_NETWORK, network(name="second"))
    made.finish("compute.subnetworks.insert", elsewhere, subnet(network="global/networks/second"))


def test_a_region_that_does_not_exist(made: Client) -> None:
    error = made.refused("compute.subnetworks.insert", {**HERE, "region": "europe-west99"}, subnet())
    assert (error.status, "europe-west4" in error.message) == ("INVALID_ARGUMENT", True)


def test_a_primary_range_only_grows(made: Client) -> None:
    expand = "compute.subnetworks.expandIpCidrRange"
    for smaller in ("10.0.0.0/21", "10.0.0.0/20", "10.16.0.0/19"):
        assert "10.0.0.0/20" in made.refused(expand, THE_SUBNET, {"ipCidrRange": smaller}).message
    before = made.call("compute.subnetworks.get", THE_SUBNET)
    after = made.finish(expand, THE_SUBNET, {"ipCidrRange": "10.0.0.0/16"})
    assert (after["ipCidrRange"], after["fingerprint"] != before["fingerprint"]) == ("10.0.0.0/16", True)
    made.finish(*INSERT_SUBNET, subnet(name="second", ipCidrRange="10.1.0.0/20"))
    assert "second" in made.refused(expand, THE_SUBNET, {"ipCidrRange": "10.0.0.0/15"}).message


def test_a_patch_of_a_subnet_needs_its_fingerprint(made: Client) -> None:
    patch, pods = "compute.subnetworks.patch", secondary("10.8.0.0/20")
    error = made.refused(patch, THE_SUBNET, {"secondaryIpRanges": pods, "fingerprint": "AAAA"})
    assert (error.http_status, error.reason) == (412, "conditionNotMet")
    fingerprint = made.call("compute.subnetworks.get", THE_SUBNET)["fingerprint"]
    body = {"secondaryIpRanges": pods, "fingerprint": fingerprint}
    assert made.finish(patch, THE_SUBNET, body)["secondaryIpRanges"] == pods
    assert made.refused(patch, THE_SUBNET, body).http_status == 412  # it has a new one
    fixed = {"ipCidrRange": "10.0.0.0/16", "fingerprint": fingerprint}
    assert "resource.ipCidrRange" in made.refused(patch, THE_SUBNET, fixed).message


def test_private_google_access_has_a_method_of_its_own(made: Client) -> None:
    set_ = "compute.subnetworks.setPrivateIpGoogleAccess"
    assert made.finish(set_, THE_SUBNET, {"privateIpGoogleAccess": True})["privateIpGoogleAccess"] is True
    assert made.finish(set_, THE_SUBNET, {})["privateIpGoogleAccess"] is False


# -- routers and NATs ----------------------------------------------------------------------------------------------

PATCH = ("compute.routers.patch", THE_ROUTER)


def test_a_nat_is_a_field_of_its_router(made: Client) -> None:
    assert "nats" not in made.call("compute.routers.get", THE_ROUTER)
    [kept] = made.finish(*PATCH, {"nats": [nat()]})["nats"]
    assert kept == {**catalog.nat_defaults(), **nat()}
    assert made.finish(*PATCH, {"description": "x"})["nats"] == [kept]
    assert "nats" not in made.finish(*PATCH, {"nats": []})


def test_a_nats_subnets_are_held_by_it(made: Client) -> None:
    [kept] = made.finish(*PATCH, {"nats": [listed()]})["nats"]
    assert kept["subnetworks"][0]["name"] == ROOT + SUBNET
    error = made.refused("compute.subnetworks.delete", THE_SUBNET)
    assert (error.http_status, error.reason) == (400, "resourceInUseByAnotherResource")
    assert error.message == f"The subnetwork resource '{SUBNET}' is already being used by '{ROUTER}'"
    made.finish(*PATCH, {"nats": []})
    made.finish("compute.subnetworks.delete", THE_SUBNET)


@pytest.mark.parametrize("interface", [{"subnetwork": "holdfast"}, {"network": "holdfast"}, {"subnetwork": SUBNET}])
def test_a_subnet_with_a_job_in_it_is_in_use(made: Client, interface: dict[str, str]) -> None:
    made.make_account()
    made.make_job(vpcAccess={"networkInterfaces": [interface]})
    error = made.refused("compute.subnetworks.delete", THE_SUBNET)
    assert error.reason == "resourceInUseByAnotherResource"
    assert f"'{SUBNET}' is already being used by '{SUBNET.rpartition('/subnetworks/')[0]}/addresses/serverless-" in (
        error.message
    )
    made.finish("run.projects.locations.jobs.delete", {"name": JOB})
    made.finish("compute.subnetworks.delete", THE_SUBNET)


def test_a_null_or_nothing_takes_a_field_of_a_router_away(made: Client) -> None:
    made.finish(*PATCH, {"description": "d", "bgp": {"asn": 64514, "keepaliveInterval": 30}})
    merged = made.finish(*PATCH, {"bgp": {"asn": 64515}})
    assert (merged["description"], merged["bgp"]) == ("d", {"asn": 64515, "keepaliveInterval": 30})
    assert {"description", "bgp"}.isdisjoint(made.finish(*PATCH, {"description": "", "bgp": None}))


@pytest.mark.parametrize(
    ("nats", "words"),
    [
        ([nat(name="Nat")], "nats[0].name"),
        ([nat(natIpAllocateOption=None)], "AUTO_ONLY or MANUAL_ONLY"),
        ([nat(sourceSubnetworkIpRangesToNat=None)], "LIST_OF_SUBNETWORKS"),
        ([nat(subnetworks=listed()["subnetworks"])], "nats[0].subnetworks"),
        ([listed(sourceIpRangesToNat=[])], "nats[0].subnetworks[0].sourceIpRangesToNat"),
        ([listed(secondaryIpRangeNames=["pods"])], "nats[0].subnetworks[0].secondaryIpRangeNames"),
        ([listed(name="regions/europe-west4/subnetworks/none")], "cannot be found"),
        ([nat(sourceSubnetworkIpRangesToNat="LIST_OF_SUBNETWORKS")], "nats[0].subnetworks"),
        ([nat(sourceSubnetworkIpRangesToNat="EVERYTHING")], "unknown"),
        ([listed(), listed()], "nats[1].name"),
        ([nat(), nat(name="other")], "a Nat with option ALL_SUBNETWORKS_ALL_IP_RANGES exists"),
        ([nat(enableDynamicPortAllocation=True, enableEndpointIndependentMapping=True)], "exclude each other"),
        ([nat(enableDynamicPortAllocation=True, minPortsPerVm=64, maxPortsPerVm=100)], "Powers of two"),
    ],
)
def test_nats_that_are_refused(made: Client, nats: list[dict[str, Any]], words: str) -> None:
    error = made.refused(*PATCH, {"nats": nats})
    said = f"{error.message} {error.violations}"
    assert (error.status, words in said) == ("INVALID_ARGUMENT", True), said


def test_one_nat_for_all_subnets_in_a_network_and_region(made: Client) -> None:
    made.finish(*PATCH, {"nats": [nat()]})
    second = {"name": "second", "network": NETWORK, "nats": [nat()]}
    assert "a Nat with option" in made.refused("compute.routers.insert", THERE, second).message
    made.finish("compute.routers.insert", {**HERE, "region": "us-central1"}, second)
    made.finish(*INSERT_NETWORK, network(name="other"))
    made.finish("compute.routers.insert", THERE, {**second, "network": "global/networks/other"})
    assert "resource.network" in made.refused(*PATCH, {"network": "global/networks/other"}).message


@pytest.mark.parametrize(
    "change", [{"natIpAllocateOption": "MANUAL_ONLY"}, {"type": "PRIVATE"}, {"rules": [{"match": "1"}]}]
)
def test_what_nats_do_not_have_here_is_refused_by_name(made: Client, change: dict[str, Any]) -> None:
    assert made.refused(*PATCH, {"nats": [nat(**change)]}).status == "UNIMPLEMENTED"


# -- who may, and where --------------------------------------------------------------------------------------------


def test_roles(made: Client) -> None:
    stranger = made.as_(STRANGER)
    policy = made.call("cloudresourcemanager.projects.getIamPolicy", {"resource": PROJECT}, {})

    def grant(role: str) -> None:
        bindings = [*policy["bindings"], {"role": role, "members": [STRANGER]}]
        body = {"policy": {"bindings": bindings}}
        made.call("cloudresourcemanager.projects.setIamPolicy", {"resource": PROJECT}, body)

    assert stranger.refused("compute.networks.get", THE_NETWORK).reason == "IAM_PERMISSION_DENIED"
    grant("roles/compute.viewer")
    stranger.call("compute.networks.get", THE_NETWORK)
    stranger.call("compute.routers.list", THERE)
    assert stranger.refused(*INSERT_NETWORK, network(name="second")).http_status == 403
    grant("roles/compute.networkUser")
    stranger.call("compute.subnetworks.get", THE_SUBNET)
    assert stranger.refused(*PATCH, {"description": "x"}).http_status == 403
    grant("roles/compute.networkAdmin")
    stranger.finish(*INSERT_NETWORK, network(name="second"))
    stranger.finish(*INSERT_SUBNET, subnet(network="global/networks/second", name="second"))
    stranger.finish("compute.subnetworks.delete", {**THERE, "subnetwork": "second"})


def test_the_api_must_be_on(gcp: Client, cloud: Cloud) -> None:
    cloud.project(PROJECT).services.remove("compute.googleapis.com")
    assert gcp.refused(*INSERT_NETWORK, network()).reason == "SERVICE_DISABLED"


def test_a_project_names_its_default_account(gcp: Client, cloud: Cloud) -> None:
    number = cloud.project(PROJECT).number
    expected = f"{number}-compute@developer.gserviceaccount.com"
    assert gcp.call("compute.projects.get", HERE)["defaultServiceAccount"] == expected
    assert gcp.call("compute.projects.get", {"project": str(number)})["name"] == PROJECT


def test_regions_and_zones_are_the_universes(gcp: Client) -> None:
    found = gcp.call("compute.regions.list", {**HERE, "maxResults": 500})["items"]
    assert [region["name"] for region in found] == [*catalog.compute_zones()]
    assert gcp.call("compute.regions.get", THERE)["zones"][0] == f"{ROOT}projects/{PROJECT}/zones/{REGION}-a"
    assert gcp.refused("compute.regions.get", {**HERE, "region": "nowhere"}).status == "NOT_FOUND"
    zone = gcp.call("compute.zones.get", {**HERE, "zone": "us-central1-f"})
    assert zone["region"] == f"{ROOT}projects/{PROJECT}/regions/us-central1"
    assert gcp.refused("compute.zones.get", {**HERE, "zone": "us-central1-x"}).status == "NOT_FOUND"
    first = gcp.call("compute.zones.list", {**HERE, "maxResults": 2})
    second = gcp.call("compute.zones.list", {**HERE, "maxResults": 2, "pageToken": first["nextPageToken"]})
    assert len({zone["name"] for zone in first["items"] + second["items"]}) == 4


def test_a_sovereign_universe_has_its_own_links_and_regions() -> None:
    cloud = Cloud(universe="s3nsapis.fr")
    cloud.seed_project("acme").services.add("compute.googleapis.com")
    gcp = Client(cloud)
    made = gcp.finish("compute.networks.insert", {"project": "acme"}, network())
    assert made["selfLink"] == "https://www.s3nsapis.fr/compute/v1/projects/acme/global/networks/holdfast"
    body = {"name": "holdfast", "network": "global/networks/holdfast"}
    gcp.finish("compute.routers.insert", {"project": "acme", "region": "u-france-east1"}, body)
    error = gcp.refused("compute.routers.insert", {"project": "acme", "region": REGION}, body)
    assert "u-france-east1" in error.message


def test_a_reference_into_a_project_that_is_not_there(made: Client) -> None:
    error = made.refused(*INSERT_SUBNET, subnet(name="second", network="projects/none/global/networks/x"))
    assert error.status == "PERMISSION_DENIED"


@pytest.mark.parametrize(
    ("zone", "machine", "there"),
    [
        ("us-east5-b", "ct6e-standard-4t", True),
        ("us-east5-c", "ct6e-standard-4t", False),
        ("us-east5-c", "n2-standard-16", True),
        ("us-east5-z", "n2-standard-16", False),
        ("us-east5-b", "ct9-new-4t", False),
    ],
)
def test_a_zone_has_the_machine_types_that_the_catalog_says(gcp: Client, zone: str, machine: str, there: bool) -> None:
    params = {**HERE, "zone": zone, "machineType": machine}
    if there:
        shown = gcp.call("compute.machineTypes.get", params)
        assert (shown["name"], shown["guestCpus"]) == (machine, catalog.machines()[machine].vcpu)
    else:
        assert gcp.refused("compute.machineTypes.get", params).status == "NOT_FOUND"
