"""Filestore: instances, their sizes, addresses and states."""

from __future__ import annotations

from typing import Any

import pytest
from mockgcp_client import PROJECT, STRANGER, Client

from infra import catalog
from mockgcp.cloud import Cloud

ZONE = f"projects/{PROJECT}/locations/us-east5-b"
NAME = f"{ZONE}/instances/home"
METHODS = "file.projects.locations.instances"
NEW = {"parent": ZONE, "instanceId": "home"}
IT = {"name": NAME}


@pytest.fixture
def gcp(cloud: Cloud) -> Client:
    """The owner of a project with a network and a subnet."""
    cloud.project(PROJECT).services.update({"compute.googleapis.com", "file.googleapis.com"})
    owner = Client(cloud)
    owner.finish("compute.networks.insert", {"project": PROJECT}, {"name": "holdfast", "autoCreateSubnetworks": False})
    subnet = {
        "name": "holdfast",
        "network": f"projects/{PROJECT}/global/networks/holdfast",
        "ipCidrRange": "10.192.0.0/20",
    }
    owner.finish("compute.subnetworks.insert", {"project": PROJECT, "region": "us-east5"}, subnet)
    return owner


def instance(capacity: int = 1024, **fields: Any) -> dict[str, Any]:
    return {
        "tier": "BASIC_HDD",
        "fileShares": [{"name": "home", "capacityGb": capacity}],
        "networks": [{"network": "holdfast", "modes": ["MODE_IPV4"]}],
        **fields,
    }


@pytest.fixture
def made(gcp: Client) -> Client:
    gcp.finish(f"{METHODS}.create", NEW, instance())
    return gcp


def get(gcp: Client) -> dict[str, Any]:
    return gcp.call(f"{METHODS}.get", IT)


def patch(gcp: Client, mask: str, **fields: Any) -> dict[str, Any]:
    return gcp.finish(f"{METHODS}.patch", {**IT, "updateMask": mask}, fields)


def test_an_instance_passes_through_its_states_and_gets_an_address_that_is_free(gcp: Client, cloud: Cloud) -> None:
    operation = gcp.start(f"{METHODS}.create", NEW, instance(labels={"app": "holdfast"}))
    assert get(gcp)["state"] == "CREATING"
    assert gcp.refused(f"{METHODS}.delete", IT).status == "FAILED_PRECONDITION"
    assert gcp.refused(f"{METHODS}.create", NEW, instance()).status == "ALREADY_EXISTS"
    running = gcp.call("file.projects.locations.operations.get", {"name": operation.name})
    assert (running["done"], running["metadata"]["verb"], running["metadata"]["target"]) == (False, "create", NAME)
    assert cloud.wait(operation)["state"] == "READY"
    found = get(gcp)
    assert (found["name"], found["labels"], found["protocol"]) == (NAME, {"app": "holdfast"}, "NFS_V3")
    [network] = found["networks"]
    # The subnet has the first ranges.
    assert network["reservedIpRange"] == "10.192.16.0/29"
    assert (network["ipAddresses"], network["connectMode"]) == (["10.192.16.2"], "DIRECT_PEERING")
    assert found["fileShares"] == [{"name": "home", "capacityGb": "1024"}]


def test_two_instances_of_a_network_have_ranges_of_their_own(made: Client) -> None:
    other = {"parent": ZONE, "instanceId": "other"}
    [network] = made.finish(f"{METHODS}.create", other, instance())["networks"]
    assert network["reservedIpRange"] == "10.192.16.8/29"
    taken = instance(networks=[{"network": "holdfast", "reservedIpRange": "10.192.16.0/29"}])
    refused = made.refused(f"{METHODS}.create", {**NEW, "instanceId": "third"}, taken)
    assert "overlaps 10.192.16.0/29" in refused.message


def test_a_network_of_another_project_is_named_in_full(gcp: Client) -> None:
    full = f"projects/{PROJECT}/global/networks/holdfast"
    assert (
        gcp.finish(f"{METHODS}.create", NEW, instance(networks=[{"network": full}]))["networks"][0]["network"] == full
    )


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"tier": "GOLD"}, "Invalid value at 'tier'"),
        ({"tier": None}, "tier: Filestore has no tier ''; choose BASIC_HDD"),
        ({"tier": "REGIONAL"}, "location: an instance of tier REGIONAL is in a region, and 'us-east5-b' is none"),
        ({"capacity": 1023}, "fileShares[0].capacityGb: 1023 GiB; tier BASIC_HDD has 1024 to 65433 in steps of 1 GiB"),
        ({"capacity": 1025, "tier": "ZONAL"}, "1024 to 9984 in steps of 256 or 10240 to 102400 in steps of 2560"),
        ({"capacity": 1024, "tier": "BASIC_SSD"}, "tier BASIC_SSD has 2560 to"),
        ({"fileShares": []}, "fileShares: an instance has exactly one, got 0"),
        ({"fileShares": [{"name": "home"}]}, "fileShares[0].capacityGb is required"),
        ({"fileShares": [{"name": "Home", "capacityGb": 1024}]}, "fileShares[0].name: 'Home' is no name of a share"),
        ({"fileShares": [{"name": "h" * 17, "capacityGb": 1024}]}, "1 to 16 lower-case letters"),
        ({"networks": []}, "networks: an instance has exactly one, got 0"),
        ({"networks": [{"modes": ["MODE_IPV4"]}]}, "networks[0].network: the VPC network is required"),
        ({"networks": [{"network": "none"}]}, f"'projects/{PROJECT}/global/networks/none' does not exist"),
        ({"networks": [{"network": "holdfast", "reservedIpRange": "10.3.0.0/24"}]}, "BASIC_HDD takes a /29"),
        ({"networks": [{"network": "holdfast", "reservedIpRange": "lan"}]}, "'lan' is no IPv4 range"),
        ({"protocol": "NFS_V4_1"}, "protocol: tier BASIC_HDD has NFS_V3 alone"),
        ({"description": "x" * 2049}, "description: more than 2048 characters"),
        ({"labels": {"App": "x"}}, "labels: key 'App'"),
    ],
)
def test_what_is_refused_says_where_and_why(gcp: Client, fields: dict[str, Any], says: str) -> None:
    refused = gcp.refused(f"{METHODS}.create", NEW, instance(**fields))
    assert (refused.status, says in refused.message) == ("INVALID_ARGUMENT", True), refused.message
    assert gcp.call(f"{METHODS}.list", {"parent": ZONE})["instances"] == []


@pytest.mark.parametrize(
    ("option", "says"),
    [
        ({"squashMode": "NO_ROOT_SQUASH", "anonUid": "7"}, "anonUid and anonGid are for squashMode ROOT_SQUASH alone"),
        ({"ipRanges": ["10.0.0.0/8", "10.1.0.0/16"]}, "10.1.0.0/16 overlaps 10.0.0.0/8"),
        ({"ipRanges": ["lan"]}, "'lan' is no IPv4 address or range"),
        ({"ipRanges": [f"10.0.0.{i}" for i in range(65)]}, "65 ranges; a share has at most 64"),
    ],
)
def test_what_is_refused_of_export_options(option: dict[str, Any], says: str) -> None:
    assert says in "; ".join(each.message for each in catalog.filestore_export_problems([option]))
    assert catalog.filestore_export_problems([{"squashMode": "ROOT_SQUASH", "anonUid": "7"}]) == []


@pytest.mark.parametrize(
    "fields",
    [
        {"networks": [{"network": "holdfast", "connectMode": "PRIVATE_SERVICE_ACCESS"}]},
        {"networks": [{"network": "holdfast", "modes": ["MODE_IPV6"]}]},
        {"kmsKeyName": "projects/p/locations/l/keyRings/r/cryptoKeys/k"},
        {"tags": {"123/env": "prod"}},
        {"fileShares": [{"name": "home", "capacityGb": 1024, "sourceBackup": "projects/1/locations/l/backups/b"}]},
    ],
)
def test_what_is_not_emulated_is_named(gcp: Client, fields: dict[str, Any]) -> None:
    assert gcp.refused(f"{METHODS}.create", NEW, instance(**fields)).status == "UNIMPLEMENTED"


def test_a_regional_instance_and_the_older_name_of_a_tier(gcp: Client) -> None:
    region = {"parent": f"projects/{PROJECT}/locations/us-east5", "instanceId": "home"}
    [network] = gcp.finish(f"{METHODS}.create", region, instance(tier="REGIONAL"))["networks"]
    assert network["reservedIpRange"].endswith("/26")
    assert gcp.finish(f"{METHODS}.create", NEW, instance(tier="STANDARD"))["tier"] == "STANDARD"
    everywhere = gcp.call(f"{METHODS}.list", {"parent": f"projects/{PROJECT}/locations/-"})["instances"]
    assert {each["tier"] for each in everywhere} == {"REGIONAL", "STANDARD"}


def test_a_patch_changes_what_it_names(made: Client, cloud: Cloud) -> None:
    etag = get(made)["etag"]
    operation = made.start(
        f"{METHODS}.patch", {**IT, "updateMask": "labels,file_shares"}, instance(2048, labels={"a": "b"})
    )
    assert get(made)["state"] == "REPAIRING"
    changed = cloud.wait(operation)
    assert (changed["labels"], changed["fileShares"][0]["capacityGb"], changed["state"]) == (
        {"a": "b"},
        "2048",
        "READY",
    )
    assert changed["etag"] != etag
    assert "description" not in patch(made, "description", **instance(2048))


@pytest.mark.parametrize(
    ("mask", "fields", "says"),
    [
        ("", {}, "name what changes"),
        ("tier", {"tier": "ZONAL"}, "name what changes"),
        ("fileShares", instance(1023 + 1024), "only grows, and it has 2048"),
        ("fileShares", {"fileShares": [{"name": "other", "capacityGb": 2048}]}, "the share's name is for good"),
        ("fileShares", {}, "fileShares: an instance has exactly one"),
    ],
)
def test_a_patch_that_is_refused(gcp: Client, mask: str, fields: dict[str, Any], says: str) -> None:
    gcp.finish(f"{METHODS}.create", NEW, instance(2048))
    assert says in gcp.refused(f"{METHODS}.patch", {**IT, "updateMask": mask}, fields).message
    assert get(gcp)["state"] == "READY"


def test_a_zonal_instance_shrinks_within_its_band(gcp: Client) -> None:
    gcp.finish(f"{METHODS}.create", NEW, instance(9984, tier="ZONAL"))
    assert patch(gcp, "fileShares", **instance(1024))["fileShares"][0]["capacityGb"] == "1024"
    refused = gcp.refused(f"{METHODS}.patch", {**IT, "updateMask": "fileShares"}, instance(10240))
    assert "stays between 1024 and 9984" in refused.message


def test_a_protected_instance_is_kept_until_the_protection_is_off(made: Client) -> None:
    patch(
        made,
        "deletionProtectionEnabled,deletionProtectionReason",
        **instance(deletionProtectionEnabled=True, deletionProtectionReason="home"),
    )
    refused = made.refused(f"{METHODS}.delete", IT)
    assert (refused.status, "(home)" in refused.message) == ("FAILED_PRECONDITION", True)
    patch(made, "deletionProtectionEnabled", **instance())
    made.finish(f"{METHODS}.delete", {**IT, "force": True})
    assert made.refused(f"{METHODS}.get", IT).status == "NOT_FOUND"


def test_a_stranger_and_a_project_without_the_api(made: Client, cloud: Cloud) -> None:
    assert made.as_(STRANGER).refused(f"{METHODS}.get", IT).status == "PERMISSION_DENIED"
    cloud.policies.grant(f"projects/{PROJECT}", "roles/file.viewer", STRANGER)
    assert made.as_(STRANGER).call(f"{METHODS}.get", IT)["name"] == NAME
    assert made.as_(STRANGER).refused(f"{METHODS}.delete", IT).status == "PERMISSION_DENIED"
    cloud.project(PROJECT).services.discard("file.googleapis.com")
    assert made.refused(f"{METHODS}.get", IT).reason == "SERVICE_DISABLED"
