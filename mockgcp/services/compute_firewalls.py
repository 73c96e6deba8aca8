"""Compute Engine v1: firewall rules of a network. They are kept and refused as the API does; no packet is judged."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from typing import Any

from mockgcp.operations import Operation
from mockgcp.paging import PARAMS
from mockgcp.service import Call
from mockgcp.services.compute import (
    bad,
    check_free,
    check_known,
    check_name,
    check_same,
    found,
    link,
    listed,
    own,
    project_name,
    referenced,
    require,
    service,
    start,
)

_FIREWALL = (
    *("name", "description", "network", "priority", "direction", "disabled", "logConfig", "allowed", "denied"),
    *("sourceRanges", "destinationRanges", "sourceTags", "targetTags"),
    *("sourceServiceAccounts", "targetServiceAccounts"),
)
_PORTS_OF = ("tcp", "udp", "sctp", "6", "17", "132")
_OUTPUT_ONLY = frozenset({"id", "kind", "selfLink", "creationTimestamp"})
# The discovery document's descriptions of Firewall: what it says of fields that exclude each other.
_EXCLUSIVE = (
    ("sourceTags", "sourceServiceAccounts"),
    ("sourceTags", "targetServiceAccounts"),
    ("targetTags", "sourceServiceAccounts"),
    ("targetTags", "targetServiceAccounts"),
)


def firewall_name(call: Call) -> str:
    return f"{project_name(call)}/global/firewalls/{call.params['firewall']}"


def _sent(call: Call) -> dict[str, Any]:
    return {key: value for key, value in call.body.items() if key not in _OUTPUT_ONLY}


def _check_shape(call: Call) -> None:
    """What of the body can be judged alone."""
    body = _sent(call)
    check_known(call, body, _FIREWALL)
    check_known(call, body.get("logConfig", {}), ("enable", "metadata"), "logConfig.")
    if not 0 <= body.get("priority", 1000) <= 65535:
        raise bad("priority", body["priority"], "Must be 0 to 65535.")
    for action in ("allowed", "denied"):
        for index, each in enumerate(body.get(action, ())):
            protocol = each.get("IPProtocol")
            if not protocol:
                raise bad(f"{action}[{index}].IPProtocol", "", "The field is required.")
            if each.get("ports") and protocol not in _PORTS_OF:
                raise bad(f"{action}[{index}].ports", each["ports"], "Ports are for TCP, UDP and SCTP only.")
    for field in ("sourceRanges", "destinationRanges"):
        for cidr in body.get(field, ()):
            try:
                ipaddress.ip_network(cidr)
            except ValueError as error:
                raise bad(field, cidr, f"It is no range of addresses: {error}.") from None


def _check_rule(rule: Mapping[str, Any]) -> None:
    """What a rule as a whole must be."""
    if bool(rule.get("allowed")) == bool(rule.get("denied")):
        raise bad("allowed", rule.get("allowed", ""), "Exactly one of allowed and denied is set.")
    for one, other in _EXCLUSIVE:
        if rule.get(one) and rule.get(other):
            raise bad(one, rule[one], f"It cannot be together with {other}.")
    if rule["direction"] == "EGRESS":
        given = next((f for f in ("sourceRanges", "sourceTags", "sourceServiceAccounts") if rule.get(f)), None)
        if given:
            raise bad(given, rule[given], "An egress rule has no sources.")


def _check_insert(call: Call) -> None:
    check_name(call)
    if not call.body.get("network"):
        raise bad("network", "", "The field is required: mockgcp has no default network.")
    _check_shape(call)
    _check_rule({"direction": "INGRESS", **_sent(call)})


@service.method(
    "compute.firewalls.insert",
    permission="compute.firewalls.create",
    on=project_name,
    rules=_check_insert,
    answers="Firewall",
)
def insert_firewall(call: Call) -> Operation:
    name = f"{project_name(call)}/global/firewalls/{call.body['name']}"

    def check() -> str:
        check_free(call, "firewall", name)
        network = referenced(call, "network", "network", call.body["network"])
        require(call, "compute.networks.updatePolicy", network)
        return network

    def apply() -> Mapping[str, Any]:
        ingress = call.body.get("direction", "INGRESS") == "INGRESS"
        anybody = not any(call.body.get(f) for f in ("sourceRanges", "sourceTags", "sourceServiceAccounts"))
        rule = {
            "priority": 1000,
            "direction": "INGRESS",
            "disabled": False,
            "logConfig": {"enable": False},
            **({"sourceRanges": ["0.0.0.0/0"]} if ingress and anybody else {}),
            **({} if ingress else {"destinationRanges": ["0.0.0.0/0"]}),
            **_sent(call),
            "network": link(call.cloud, check()),
            **own(call, "firewall", name),
        }
        call.cloud.table("compute.firewall")[name] = rule
        return rule

    return start(call, name, apply, check)


@service.method("compute.firewalls.get", permission="compute.firewalls.get", on=firewall_name)
def get_firewall(call: Call) -> Mapping[str, Any]:
    return found(call, "firewall", firewall_name(call))


@service.method("compute.firewalls.list", permission="compute.firewalls.list", on=project_name, reads=PARAMS)
def list_firewalls(call: Call) -> Mapping[str, Any]:
    return listed(call, "firewall", f"{project_name(call)}/global")


@service.method(
    "compute.firewalls.patch",
    permission="compute.firewalls.update",
    on=firewall_name,
    rules=_check_shape,
    answers="Firewall",
)
def patch_firewall(call: Call) -> Operation:
    """Changes what is named; a list as a whole."""
    name = firewall_name(call)

    def check() -> dict[str, Any]:
        rule = found(call, "firewall", name)
        check_same(rule, call.body, ("name", "network", "direction"))
        changed = {**rule, **{key: value for key, value in _sent(call).items() if key != "network"}}
        _check_rule(changed)
        return changed

    def apply() -> Mapping[str, Any]:
        changed = check()
        call.cloud.table("compute.firewall")[name] = changed
        return changed

    return start(call, name, apply, check)


@service.method("compute.firewalls.delete", permission="compute.firewalls.delete", on=firewall_name, answers="Firewall")
def delete_firewall(call: Call) -> Operation:
    name = firewall_name(call)
    table = call.cloud.table("compute.firewall")
    return start(call, name, lambda: table.pop(name), lambda: found(call, "firewall", name))
