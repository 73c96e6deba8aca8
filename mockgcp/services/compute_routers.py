"""Compute Engine v1: Cloud Routers and the NATs in them. A NAT is a field of its router, and changes with it."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from typing import Any

from infra import catalog
from mockgcp.operations import Operation
from mockgcp.paging import PARAMS
from mockgcp.service import Call
from mockgcp.services.compute import (
    bad,
    check_free,
    check_known,
    check_name,
    check_region,
    check_same,
    found,
    link,
    listed,
    own,
    path_of,
    referenced,
    region_name,
    require,
    service,
    start,
    unimplemented,
)

_ROUTER = ("name", "description", "network", "region", "bgp", "nats")
_BGP = ("asn", "advertiseMode", "advertisedGroups", "advertisedIpRanges", "keepaliveInterval")
_NAT = (
    *("name", "natIpAllocateOption", "sourceSubnetworkIpRangesToNat", "subnetworks", "logConfig"),
    *("minPortsPerVm", "maxPortsPerVm", *catalog.nat_defaults()),
)
_ALL = ("ALL_SUBNETWORKS_ALL_IP_RANGES", "ALL_SUBNETWORKS_ALL_PRIMARY_IP_RANGES")
_LIST = "LIST_OF_SUBNETWORKS"
_SOURCE = "sourceSubnetworkIpRangesToNat"
_SECONDARY = "LIST_OF_SECONDARY_IP_RANGES"
_OPTIONAL = ("bgp", "description", "nats")
_OUTPUT_ONLY = frozenset({"id", "selfLink"})


def router_name(call: Call) -> str:
    return f"{region_name(call)}/routers/{call.params['router']}"


def _check_router(call: Call) -> None:
    check_region(call)
    check_known(call, {k: v for k, v in call.body.items() if k not in _OUTPUT_ONLY}, _ROUTER)
    check_known(call, call.body.get("bgp", {}), _BGP, "bgp.")
    names: list[str] = []
    for index, nat in enumerate(call.body.get("nats", ())):
        _check_nat(call, nat, f"nats[{index}]")
        if nat["name"] in names:
            raise bad(f"nats[{index}].name", nat["name"], "A NAT of that name is in the router already.")
        names.append(nat["name"])


def _check_nat(call: Call, nat: Mapping[str, Any], field: str) -> None:
    """What the discovery document's descriptions of RouterNat say, and nat/docs/ports-and-addresses (unchecked)."""
    check_known(call, nat, _NAT, f"{field}.")
    name, allocation = nat.get("name", ""), nat.get("natIpAllocateOption")
    if problem := catalog.compute_name_problem(name):
        raise bad(f"{field}.name", name, problem.message)
    if nat.get("type", "PUBLIC") != "PUBLIC" or allocation == "MANUAL_ONLY":
        raise unimplemented(f"mockgcp has public NATs with addresses of Google's choice only (NAT {name})")
    if allocation is None:
        raise bad(f"{field}.natIpAllocateOption", "", "A public NAT needs AUTO_ONLY or MANUAL_ONLY.")
    source = nat.get("sourceSubnetworkIpRangesToNat")
    if source is None:
        raise bad(f"{field}.sourceSubnetworkIpRangesToNat", "", f"Choose {', '.join((*_ALL, _LIST))}.")
    if (source == _LIST) != bool(nat.get("subnetworks")):
        raise bad(f"{field}.subnetworks", "", f"Subnetworks are named with {_LIST}, and only with it; it is {source}.")
    for index, subnet in enumerate(nat.get("subnetworks", ())):
        ranges, here = subnet.get("sourceIpRangesToNat", []), f"{field}.subnetworks[{index}]"
        if not ranges:
            raise bad(f"{here}.sourceIpRangesToNat", "", "Say which of the subnetwork's ranges.")
        if bool(subnet.get("secondaryIpRangeNames")) != (_SECONDARY in ranges):
            raise bad(
                f"{here}.secondaryIpRangeNames", "", f"Secondary ranges are named with {_SECONDARY}, and only so."
            )
    if nat.get("enableDynamicPortAllocation"):
        if nat.get("enableEndpointIndependentMapping"):
            why = "Dynamic port allocation and endpoint-independent mapping exclude each other."
            raise bad(f"{field}.enableEndpointIndependentMapping", True, why)
        least, most = nat.get("minPortsPerVm", 32), nat.get("maxPortsPerVm", 65536)
        if least & (least - 1) or most & (most - 1) or most <= least:
            raise bad(f"{field}.maxPortsPerVm", most, f"Powers of two, the most above the least, which is {least}.")


def _check_insert(call: Call) -> None:
    check_name(call)
    if not call.body.get("network"):
        raise bad("network", "", "The field is required.")
    _check_router(call)


def _with_defaults(call: Call, nat: Mapping[str, Any], network: str, field: str) -> dict[str, Any]:
    """The NAT as the server keeps it, its subnets by their full links."""
    subnets = copy.deepcopy(nat.get("subnetworks", []))
    for index, subnet in enumerate(subnets):
        here = f"{field}.subnetworks[{index}].name"
        name = referenced(call, "subnetwork", here, subnet.get("name", ""))
        if call.cloud.table("compute.subnetwork")[name]["network"] != network:
            raise bad(here, subnet["name"], "The subnetwork is in another network than the router.")
        subnet["name"] = link(call.cloud, name)
    return {**catalog.nat_defaults(), **nat, **({"subnetworks": subnets} if subnets else {})}


def _nats(call: Call, nats: list[Mapping[str, Any]], network: str, router: str) -> list[dict[str, Any]]:
    """The NATs as they are kept, if they go together with each other and with those of the region's other routers."""
    kept = [_with_defaults(call, nat, network, f"nats[{index}]") for index, nat in enumerate(nats)]
    others = list(_other_nats(call, network, router))
    for index, nat in enumerate(kept):
        for other in (*others, *kept[:index]):
            option = next((o for o in _ALL if o in (nat[_SOURCE], other[_SOURCE])), None)
            if option:
                why = f"Can not create new Nats since a Nat with option {option} exists."
                raise bad(f"nats[{index}].{_SOURCE}", nat[_SOURCE], why)
    return kept


def _other_nats(call: Call, network: str, router: str) -> Iterator[dict[str, Any]]:
    for name, resource in call.cloud.table("compute.router").items():
        if name != router and resource["network"] == network and name.startswith(f"{region_name(call)}/"):
            yield from resource.get("nats", ())


@service.method(
    "compute.routers.insert",
    permission="compute.routers.create",
    on=region_name,
    rules=_check_insert,
    answers="Router",
)
def insert_router(call: Call) -> Operation:
    name = f"{region_name(call)}/routers/{call.body['name']}"

    def kept() -> dict[str, Any]:
        check_free(call, "router", name)
        network = referenced(call, "network", "network", call.body["network"])
        require(call, "compute.networks.updatePolicy", network)
        nats = _nats(call, call.body.get("nats", []), link(call.cloud, network), name)
        return {"network": link(call.cloud, network), **({"nats": nats} if nats else {})}

    def apply() -> Mapping[str, Any]:
        router = {
            **{key: value for key, value in call.body.items() if key not in _OUTPUT_ONLY},
            **kept(),
            "region": link(call.cloud, region_name(call)),
            **own(call, "router", name),
        }
        call.cloud.table("compute.router")[name] = router
        return router

    return start(call, name, apply, kept)


@service.method("compute.routers.get", permission="compute.routers.get", on=router_name)
def get_router(call: Call) -> Mapping[str, Any]:
    return found(call, "router", router_name(call))


@service.method("compute.routers.list", permission="compute.routers.list", on=region_name, reads=PARAMS)
def list_routers(call: Call) -> Mapping[str, Any]:
    return listed(call, "router", region_name(call))


@service.method(
    "compute.routers.patch",
    permission="compute.routers.update",
    on=router_name,
    rules=_check_router,
    answers="Router",
)
def patch_router(call: Call) -> Operation:
    """Changes what is named; `nats` is the whole list. A null or nothing takes an optional field away."""
    name = router_name(call)

    def changes() -> dict[str, Any]:
        router = found(call, "router", name)
        check_same(router, call.body, ("name",))
        if "network" in call.body and link(call.cloud, path_of(call, call.body["network"])) != router["network"]:
            raise bad("network", call.body["network"], "The field cannot change once the resource is made.")
        named = {k: v for k, v in call.body.items() if k not in (*_OUTPUT_ONLY, "network", "region")}
        if "nats" in named:
            named["nats"] = _nats(call, named["nats"], router["network"], name)
        if "bgp" in named:  # a merge patch, so what is not said of it stays
            named["bgp"] = {**router.get("bgp", {}), **named["bgp"]}
        return named | {key: None for key, value in (call.sent or {}).items() if value is None and key in _OPTIONAL}

    def apply() -> Mapping[str, Any]:
        router = found(call, "router", name)
        router.update(changes())
        for key in _OPTIONAL:
            if not router.get(key):
                router.pop(key, None)
        return router

    return start(call, name, apply, changes)


@service.method("compute.routers.delete", permission="compute.routers.delete", on=router_name, answers="Router")
def delete_router(call: Call) -> Operation:
    """With its NATs."""
    name = router_name(call)

    return start(call, name, lambda: call.cloud.table("compute.router").pop(name), lambda: found(call, "router", name))
