"""Compute Engine v1: custom-mode networks and their subnets."""

from __future__ import annotations

import base64
import ipaddress
from collections.abc import Iterator, Mapping
from typing import Any

from infra import catalog
from mockgcp.errors import ApiError
from mockgcp.operations import Operation
from mockgcp.paging import PARAMS
from mockgcp.service import Call
from mockgcp.services import run_needs
from mockgcp.services.compute import (
    bad,
    check_free,
    check_known,
    check_name,
    check_region,
    check_same,
    found,
    in_use,
    link,
    listed,
    own,
    path_of,
    project_name,
    referenced,
    region_name,
    require,
    service,
    start,
    unimplemented,
)

# -- networks ------------------------------------------------------------------------------------------------------

_NETWORK = (
    "name",
    "description",
    "autoCreateSubnetworks",
    "mtu",
    "routingConfig",
    "networkFirewallPolicyEnforcementOrder",
)
_ROUTING = ("routingMode", "bgpBestPathSelectionMode", "bgpAlwaysCompareMed", "bgpInterRegionCost")
# The server's own, whatever a request says of them.
_OUTPUT_ONLY = frozenset({"selfLink", "subnetworks"})


def network_name(call: Call) -> str:
    return f"{project_name(call)}/global/networks/{call.params['network']}"


def _check_network(call: Call) -> None:
    body = {name: value for name, value in call.body.items() if name not in _OUTPUT_ONLY}
    check_known(call, body, _NETWORK)
    check_known(call, body.get("routingConfig", {}), _ROUTING, "routingConfig.")
    low, high = catalog.fact("compute", "mtu_min"), catalog.fact("compute", "mtu_max")
    if "mtu" in body and not low.value <= body["mtu"] <= high.value:
        raise bad("mtu", body["mtu"], f"Must be {low.value} to {high.value} ({low.source}).")


def _check_insert_network(call: Call) -> None:
    check_name(call)
    _check_network(call)
    if "autoCreateSubnetworks" not in call.body:
        raise unimplemented("without autoCreateSubnetworks it would be a legacy network, which mockgcp does not have")
    if call.body["autoCreateSubnetworks"]:
        raise unimplemented("mockgcp has custom-mode networks only: set autoCreateSubnetworks to false, make subnets")


@service.method(
    "compute.networks.insert",
    permission="compute.networks.create",
    on=project_name,
    rules=_check_insert_network,
    answers="Network",
)
def insert_network(call: Call) -> Operation:
    name = f"{project_name(call)}/global/networks/{call.body['name']}"

    def apply() -> Mapping[str, Any]:
        network = {
            "mtu": catalog.fact("compute", "mtu_default").value,
            "networkFirewallPolicyEnforcementOrder": "AFTER_CLASSIC_FIREWALL",
            **{key: value for key, value in call.body.items() if key not in _OUTPUT_ONLY},
            "routingConfig": {
                "routingMode": "REGIONAL",
                "bgpBestPathSelectionMode": "LEGACY",
                **call.body.get("routingConfig", {}),
            },
            **own(call, "network", name),
        }
        network["selfLinkWithId"] = network["selfLink"].rpartition("/")[0] + f"/{network['id']}"
        call.cloud.table("compute.network")[name] = network
        return _with_subnetworks(call, name, network)

    return start(call, name, apply, lambda: check_free(call, "network", name))


def _with_subnetworks(call: Call, name: str, network: Mapping[str, Any]) -> dict[str, Any]:
    links = [subnet["selfLink"] for subnet in subnets_of(call, name)]
    return {**network, **({"subnetworks": links} if links else {})}


def subnets_of(call: Call, network: str) -> Iterator[dict[str, Any]]:
    wanted = link(call.cloud, network)
    return (subnet for subnet in call.cloud.table("compute.subnetwork").values() if subnet["network"] == wanted)


@service.method("compute.networks.get", permission="compute.networks.get", on=network_name)
def get_network(call: Call) -> Mapping[str, Any]:
    return _with_subnetworks(call, network_name(call), found(call, "network", network_name(call)))


@service.method("compute.networks.list", permission="compute.networks.list", on=project_name, reads=PARAMS)
def list_networks(call: Call) -> Mapping[str, Any]:
    answer = listed(call, "network", f"{project_name(call)}/global")
    of_it = project_name(call)
    items = [_with_subnetworks(call, f"{of_it}/global/networks/{each['name']}", each) for each in answer["items"]]
    return {**answer, "items": items}


@service.method(
    "compute.networks.patch",
    permission="compute.networks.update",
    on=network_name,
    rules=_check_network,
    answers="Network",
)
def patch_network(call: Call) -> Operation:
    name = network_name(call)
    network = found(call, "network", name)
    check_same(network, call.body, ("name", "description", "autoCreateSubnetworks"))

    def apply() -> Mapping[str, Any]:
        routing = {**network["routingConfig"], **call.body.get("routingConfig", {})}
        network.update({k: v for k, v in call.body.items() if k not in _OUTPUT_ONLY}, routingConfig=routing)
        return _with_subnetworks(call, name, network)

    return start(call, name, apply, lambda: found(call, "network", name))


@service.method("compute.networks.delete", permission="compute.networks.delete", on=network_name, answers="Network")
def delete_network(call: Call) -> Operation:
    """What still uses the network fails the operation, not the call, as there."""
    name = network_name(call)
    own_link = link(call.cloud, name)

    def apply() -> Mapping[str, Any]:
        for kind in ("subnetwork", "router", "firewall"):
            for user, resource in call.cloud.table(f"compute.{kind}").items():
                if resource["network"] == own_link:
                    raise in_use("network", name, user)
        return call.cloud.table("compute.network").pop(name)

    return start(call, name, apply, lambda: found(call, "network", name))


# -- subnets -------------------------------------------------------------------------------------------------------

_SUBNET = (
    *("name", "description", "network", "region", "ipCidrRange", "secondaryIpRanges", "privateIpGoogleAccess"),
    *("logConfig", "enableFlowLogs", "purpose", "stackType", "privateIpv6GoogleAccess", "fingerprint"),
)
# What there is of these; other values mean IPv6 or proxies.
_ONLY = {
    "purpose": ("PRIVATE",),
    "stackType": ("IPV4_ONLY",),
    "privateIpv6GoogleAccess": ("DISABLE_GOOGLE_ACCESS",),
}
_SECONDARY = ("rangeName", "ipCidrRange")


def subnet_name(call: Call) -> str:
    return f"{region_name(call)}/subnetworks/{call.params['subnetwork']}"


def _ranges(subnet: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """The field and the range of each of a subnet's ranges."""
    if "ipCidrRange" in subnet:
        yield "ipCidrRange", subnet["ipCidrRange"]
    for index, secondary in enumerate(subnet.get("secondaryIpRanges", ())):
        yield f"secondaryIpRanges[{index}].ipCidrRange", secondary.get("ipCidrRange", "")


def _check_subnet(call: Call) -> None:
    check_region(call)
    body = {name: value for name, value in call.body.items() if name not in _OUTPUT_ONLY}
    check_known(call, body, _SUBNET)
    for field, there in _ONLY.items():
        if field in body and body[field] not in there:
            raise unimplemented(f"mockgcp has {field} {', '.join(there)} only, not {body[field]}")
    for field, cidr in _ranges(body):
        if problem := catalog.subnet_range_problem(cidr):
            raise bad(field, cidr, f"Invalid IPCidrRange: {problem.message}.")
    secondary = body.get("secondaryIpRanges", [])
    most = catalog.fact("compute", "secondary_ranges_max")
    if len(secondary) > most.value:
        raise bad("secondaryIpRanges", len(secondary), f"A subnet has at most {most.value} ({most.source}).")
    for index, range_ in enumerate(secondary):
        field = f"secondaryIpRanges[{index}]"
        check_known(call, range_, _SECONDARY, f"{field}.")
        if problem := catalog.compute_name_problem(range_.get("rangeName", "")):
            raise bad(f"{field}.rangeName", range_.get("rangeName", ""), problem.message)
        if range_["rangeName"] in [other["rangeName"] for other in secondary[:index]]:
            raise bad(f"{field}.rangeName", range_["rangeName"], "A range of that name is in the subnet already.")


def _check_insert_subnet(call: Call) -> None:
    check_name(call)
    for field in ("network", "ipCidrRange"):
        if not call.body.get(field):
            raise bad(field, "", "The field is required.")
    _check_subnet(call)


def _check_overlap(call: Call, subnet: Mapping[str, Any], name: str, network: str) -> None:
    """Ranges are unique in a network, over all its regions, and within the subnet."""
    mine = list(_ranges(subnet))
    for index, (field, cidr) in enumerate(mine):
        if other := catalog.overlapping(cidr, [earlier for _, earlier in mine[:index]]):
            raise bad(field, cidr, f"Invalid IPCidrRange: {cidr} conflicts with the subnet's own range {other}.")
        for theirs in subnets_of(call, network):
            if theirs["selfLink"] != link(call.cloud, name) and catalog.overlapping(
                cidr, [c for _, c in _ranges(theirs)]
            ):
                region = theirs["region"].rpartition("/")[2]
                why = f"{cidr} conflicts with existing subnetwork '{theirs['name']}' in region '{region}'."
                raise bad(field, cidr, f"Invalid IPCidrRange: {why}")


@service.method(
    "compute.subnetworks.insert",
    permission="compute.subnetworks.create",
    on=region_name,
    rules=_check_insert_subnet,
    answers="Subnetwork",
)
def insert_subnet(call: Call) -> Operation:
    name = f"{region_name(call)}/subnetworks/{call.body['name']}"

    def check() -> None:
        check_free(call, "subnetwork", name)
        network = referenced(call, "network", "network", call.body["network"])
        require(call, "compute.networks.updatePolicy", network)
        _check_overlap(call, call.body, name, network)

    def apply() -> Mapping[str, Any]:
        subnet = {
            "privateIpGoogleAccess": False,
            "allowSubnetCidrRoutesOverlap": False,
            **{field: values[0] for field, values in _ONLY.items()},
            **{key: value for key, value in call.body.items() if key not in _OUTPUT_ONLY},
            "network": link(call.cloud, referenced(call, "network", "network", call.body["network"])),
            "region": link(call.cloud, region_name(call)),
            **own(call, "subnetwork", name),
        }
        call.cloud.table("compute.subnetwork")[name] = subnet
        return _touched(call, subnet)

    return start(call, name, apply, check)


def _touched(call: Call, subnet: dict[str, Any]) -> Mapping[str, Any]:
    """The subnet with what follows from its range, and a fresh fingerprint."""
    subnet["gatewayAddress"] = str(ipaddress.IPv4Network(subnet["ipCidrRange"])[1])
    subnet["fingerprint"] = base64.b64encode(call.cloud.random.randbytes(8)).decode()
    return subnet


@service.method("compute.subnetworks.get", permission="compute.subnetworks.get", on=subnet_name)
def get_subnet(call: Call) -> Mapping[str, Any]:
    return found(call, "subnetwork", subnet_name(call))


@service.method("compute.subnetworks.list", permission="compute.subnetworks.list", on=region_name, reads=PARAMS)
def list_subnets(call: Call) -> Mapping[str, Any]:
    return listed(call, "subnetwork", region_name(call))


def _change(call: Call, changes: Mapping[str, Any]) -> Operation:
    """The operation that sets `changes` in the subnet."""
    name = subnet_name(call)
    subnet = found(call, "subnetwork", name)

    def check() -> None:
        found(call, "subnetwork", name)
        network = subnet["network"].partition("/compute/v1/")[2]
        _check_overlap(call, {**subnet, **changes}, name, network)

    def apply() -> Mapping[str, Any]:
        subnet.update(changes)
        return _touched(call, subnet)

    return start(call, name, apply, check)


@service.method(
    "compute.subnetworks.patch",
    permission="compute.subnetworks.update",
    on=subnet_name,
    rules=_check_subnet,
    answers="Subnetwork",
)
def patch_subnet(call: Call) -> Operation:
    """Changes what is named. The range and private Google access have methods of their own."""
    subnet = found(call, "subnetwork", subnet_name(call))
    check_same(subnet, call.body, ("name", "description", "network", "ipCidrRange", "privateIpGoogleAccess"))
    if call.body.get("fingerprint") != subnet["fingerprint"]:
        why = "Supplied fingerprint does not match current metadata fingerprint."
        raise ApiError("FAILED_PRECONDITION", why, reason="conditionNotMet", http=412)
    fixed = {*_OUTPUT_ONLY, "network", "region", "fingerprint"}
    return _change(call, {key: value for key, value in call.body.items() if key not in fixed})


def _check_expansion(call: Call) -> None:
    cidr = call.body.get("ipCidrRange", "")
    if problem := catalog.subnet_range_problem(cidr):
        raise bad("ipCidrRange", cidr, f"Invalid IPCidrRange: {problem.message}.")


@service.method(
    "compute.subnetworks.expandIpCidrRange",
    permission="compute.subnetworks.expandIpCidrRange",
    on=subnet_name,
    rules=_check_expansion,
    answers="Subnetwork",
)
def expand(call: Call) -> Operation:
    """A primary range only grows."""
    before, after = found(call, "subnetwork", subnet_name(call))["ipCidrRange"], call.body["ipCidrRange"]
    if not ipaddress.IPv4Network(before).subnet_of(ipaddress.IPv4Network(after)) or before == after:
        raise bad(
            "ipCidrRange", after, f"The range must contain the subnetwork's present range {before} and be larger."
        )
    return _change(call, {"ipCidrRange": after})


@service.method(
    "compute.subnetworks.setPrivateIpGoogleAccess",
    permission="compute.subnetworks.setPrivateIpGoogleAccess",
    on=subnet_name,
    answers="Subnetwork",
)
def set_private_access(call: Call) -> Operation:
    return _change(call, {"privateIpGoogleAccess": call.body.get("privateIpGoogleAccess", False)})


@service.method(
    "compute.subnetworks.delete", permission="compute.subnetworks.delete", on=subnet_name, answers="Subnetwork"
)
def delete_subnet(call: Call) -> Operation:
    name = subnet_name(call)

    def check() -> None:
        subnet = found(call, "subnetwork", name)
        for user, router in call.cloud.table("compute.router").items():
            named = [each["name"] for nat in router.get("nats", ()) for each in nat.get("subnetworks", ())]
            if subnet["selfLink"] in named:
                raise in_use("subnetwork", name, user)
        if address := run_needs.address_in(call.cloud, name):
            raise in_use("subnetwork", name, address)
        # Its nodes and control plane are in it.
        for user, cluster in call.cloud.table("container.cluster").items():
            if cluster["networkConfig"]["subnetwork"] == name:
                raise in_use("subnetwork", name, user)
        for user, cluster in call.cloud.table("aiplatform.modelDevelopmentCluster").items():
            if path_of(call, cluster["network"]["subnetwork"]) == name:
                raise in_use("subnetwork", name, user)

    return start(call, name, lambda: call.cloud.table("compute.subnetwork").pop(name), check)
