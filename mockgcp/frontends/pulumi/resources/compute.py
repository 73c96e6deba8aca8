"""gcp:compute: networks and their firewall rules, subnets, routers and NATs."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import pulumi_gcp as gcp

from infra import catalog
from mockgcp.errors import ApiError
from mockgcp.frontends.pulumi.resource import (
    AutoName,
    Create,
    Delete,
    DryRun,
    Props,
    Read,
    Request,
    ResourceType,
    Session,
    deleted_by,
    id_parts,
    read_by,
    updated_by,
    validated_by,
)
from mockgcp.frontends.pulumi.translate import Table

Body = Mapping[str, Any]


class Link(str):
    """A reference to a resource. Two are equal that can mean the same: by full link, by path, or by a bare name."""

    def __new__(cls, reference: str) -> Link:
        return super().__new__(cls, reference.partition("/compute/v1/")[2] or reference)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Link):
            return NotImplemented
        bare = "/" not in self or "/" not in other
        return (_last(self) == _last(other)) if bare else str(self) == str(other)

    def __ne__(self, other: object) -> bool:  # str has its own
        return not self == other

    def __hash__(self) -> int:
        return hash(_last(self))


def _last(reference: str) -> str:
    return str(reference).rpartition("/")[2]


def _in_region(session: Session, properties: Props) -> Props:
    """The properties with the provider's own region where the program names none.

    Raises:
        ApiError: INVALID_ARGUMENT when neither names one.
    """
    region = properties.get("region") or session.region
    if not region:
        raise ApiError("INVALID_ARGUMENT", "region is missing: set it, or gcp:region for the provider")
    return {**properties, "region": _last(region)}


def _body(properties: Props, body: Body) -> dict[str, Any]:
    """The body of a regional resource in a network, with references as the provider writes them out."""
    project, network = properties["project"], properties.get("network")
    sent = {**body, "region": f"projects/{project}/global/regions/{properties['region']}"}
    if network and "/" not in network:
        sent["network"] = f"projects/{project}/global/networks/{network}"
    return sent


# -- networks ------------------------------------------------------------------------------------------------------

_NETWORK = "projects/{project}/global/networks/{name}"
_OF_NETWORK = {"project": "{project}", "network": "{name}"}
_INSERT_NETWORK = Request("compute.networks.insert", {"project": "{project}"})
_PATCH_NETWORK = Request("compute.networks.patch", _OF_NETWORK)
_BGP_OF_NETWORK = ("routingMode", "bgpAlwaysCompareMed", "bgpBestPathSelectionMode", "bgpInterRegionCost")


def _create_network(session: Session, properties: Props, body: Body) -> Body:
    if properties.get("deleteDefaultRoutesOnCreate"):
        raise ApiError("UNIMPLEMENTED", "mockgcp has no routes, so deleteDefaultRoutesOnCreate must be false")
    return session.call(_INSERT_NETWORK.method, _INSERT_NETWORK.fill(properties), body)


NETWORK = ResourceType(
    token="gcp:compute/network:Network",
    resource=gcp.compute.Network,
    args=gcp.compute.NetworkArgs,
    id=_NETWORK,
    import_id=id_parts(_NETWORK),
    create=_create_network,
    read=read_by(Request("compute.networks.get", _OF_NETWORK)),
    update=updated_by(_PATCH_NETWORK),
    delete=deleted_by(Request("compute.networks.delete", _OF_NETWORK)),
    auto_name=AutoName(),
    dry_run=validated_by(_INSERT_NETWORK),
    defaults={
        "autoCreateSubnetworks": True,
        "deleteBgpAlwaysCompareMed": False,
        "deleteDefaultRoutesOnCreate": False,
        "networkFirewallPolicyEnforcementOrder": "AFTER_CLASSIC_FIREWALL",
    },
    replace_on=frozenset(
        {"autoCreateSubnetworks", "description", "internalIpv6Range", "name", "networkProfile", "params", "project"}
    ),
    computed=frozenset({*_BGP_OF_NETWORK, "deletionPolicy", "internalIpv6Range", "mtu", "project"}),
    table=Table(
        names={name: f"routingConfig.{name}" for name in _BGP_OF_NETWORK}
        | {"gatewayIpv4": "gatewayIPv4", "networkId": "id", "numericId": "id"},
        local=frozenset({"deleteBgpAlwaysCompareMed", "deleteDefaultRoutesOnCreate", "deletionPolicy", "project"}),
        sent_when_zero=frozenset({"autoCreateSubnetworks"}),
    ),
    derive=lambda session, properties, rest: {"project": rest["selfLink"].split("/")[-4]},
)


# -- firewall rules ------------------------------------------------------------------------------------------------

_FIREWALL = "projects/{project}/global/firewalls/{name}"
_OF_FIREWALL = {"project": "{project}", "firewall": "{name}"}
_INSERT_FIREWALL = Request("compute.firewalls.insert", {"project": "{project}"})


def _firewall_body(properties: Props, body: Body) -> dict[str, Any]:
    network = properties["network"]
    path = network if "/" in network else f"projects/{properties['project']}/global/networks/{network}"
    logged = properties.get("logConfig") is not None
    log = {**body.get("logConfig", {}), "enable": logged}
    return {**body, "network": path, "disabled": bool(properties.get("disabled")), "logConfig": log}


def _firewall_outputs(session: Session, properties: Props, rest: Body) -> Props:
    off = {} if rest["logConfig"]["enable"] else {"logConfig": None}
    return {"project": rest["selfLink"].split("/")[-4], "network": rest["network"], **off}


def _update_firewall(session: Session, old: Props, new: Props, body: Body) -> Body:
    """With what the program no longer says of lists, so that it is taken away."""
    lists = ("sourceTags", "targetTags", "sourceServiceAccounts", "targetServiceAccounts")
    emptied: Body = {name: [] for name in lists if old.get(name) and not new.get(name)}
    request = Request("compute.firewalls.patch", _OF_FIREWALL)
    return session.call(request.method, request.fill(new), {**emptied, **_firewall_body(new, body)})


FIREWALL = ResourceType(
    token="gcp:compute/firewall:Firewall",
    resource=gcp.compute.Firewall,
    args=gcp.compute.FirewallArgs,
    id=_FIREWALL,
    import_id=id_parts(_FIREWALL),
    create=lambda session, properties, body: session.call(
        _INSERT_FIREWALL.method, _INSERT_FIREWALL.fill(properties), _firewall_body(properties, body)
    ),
    read=read_by(Request("compute.firewalls.get", _OF_FIREWALL)),
    update=_update_firewall,
    delete=deleted_by(Request("compute.firewalls.delete", _OF_FIREWALL)),
    auto_name=AutoName(),
    dry_run=lambda session, properties, body: session.validate(
        _INSERT_FIREWALL, properties, _firewall_body(properties, body)
    ),
    defaults={"priority": 1000},
    replace_on=frozenset({"direction", "name", "params", "project"}),
    computed=frozenset({"deletionPolicy", "destinationRanges", "direction", "enableLogging", "project"}),
    table=Table(
        names={
            "allows": "allowed",
            "allows.protocol": "IPProtocol",
            "denies": "denied",
            "denies.protocol": "IPProtocol",
        },
        local=frozenset({"deletionPolicy", "enableLogging", "project"}),
        sent_when_zero=frozenset({"priority"}),
        spelling={"network": Link},
    ),
    derive=_firewall_outputs,
)


# -- what is in a region -------------------------------------------------------------------------------------------


def _place(session: Session, properties: Props, rest: Body) -> Props:
    """Where a regional resource is, and its network by its full link, whatever the program wrote."""
    project, region = rest["selfLink"].split("/")[-5], _last(rest["region"])
    return {"project": project, "region": region, "network": rest["network"]}


def _in_place(read: Read) -> Read:
    return lambda session, properties: read(session, _in_region(session, properties))


def _gone(delete: Delete) -> Delete:
    return lambda session, properties: delete(session, _in_region(session, properties))


def _made(request: Request, body: Callable[[Props, Body], Body]) -> tuple[Create, DryRun]:
    """A create by one call, and its dry run."""

    def create(session: Session, properties: Props, sent: Body) -> Body:
        here = _in_region(session, properties)
        return session.call(request.method, request.fill(here), body(here, sent))

    def dry_run(session: Session, properties: Props, sent: Body) -> None:
        here = _in_region(session, properties)
        session.validate(request, here, body(here, sent))

    return create, dry_run


_REGION = {"project": "{project}", "region": "{region}"}
_IN_NETWORK = {"network": Link}

# -- subnets -------------------------------------------------------------------------------------------------------

_SUBNET = "projects/{project}/regions/{region}/subnetworks/{name}"
_OF_SUBNET = {**_REGION, "subnetwork": "{name}"}


def _subnet_body(properties: Props, body: Body) -> dict[str, Any]:
    # The provider has no field for it: flow logs are on where there is a logConfig.
    on = properties.get("logConfig") is not None
    return {**_body(properties, body), "logConfig": {**body.get("logConfig", {}), "enable": on}}


_create_subnet, _dry_run_subnet = _made(Request("compute.subnetworks.insert", _REGION), _subnet_body)
_read_subnet = _in_place(read_by(Request("compute.subnetworks.get", _OF_SUBNET)))


def _update_subnet(session: Session, old: Props, new: Props, body: Body) -> Body:
    """Each change by the method that makes it, as the provider does."""
    here = _in_region(session, new)
    sent, params = _subnet_body(here, body), Request("", _OF_SUBNET).fill(here)
    live = session.call("compute.subnetworks.get", params)
    if "ipCidrRange" in sent and sent["ipCidrRange"] != live["ipCidrRange"]:
        range_ = {"ipCidrRange": sent["ipCidrRange"]}
        live = session.call("compute.subnetworks.expandIpCidrRange", params, range_)
    access = bool(new.get("privateIpGoogleAccess"))
    if access != live["privateIpGoogleAccess"]:
        private = {"privateIpGoogleAccess": access}
        live = session.call("compute.subnetworks.setPrivateIpGoogleAccess", params, private)
    rest = {key: sent[key] for key in ("secondaryIpRanges", "logConfig") if key in sent}
    if new.get("sendSecondaryIpRangeIfEmpty"):
        rest = {"secondaryIpRanges": [], **rest}
    if any(value != live.get(key) for key, value in rest.items()):
        live = session.call("compute.subnetworks.patch", params, {**rest, "fingerprint": live["fingerprint"]})
    return live


def _subnet_outputs(session: Session, properties: Props, rest: Body) -> Props:
    off = {} if rest.get("logConfig", {}).get("enable") else {"logConfig": None}
    return {**_place(session, properties, rest), **off}


SUBNETWORK = ResourceType(
    token="gcp:compute/subnetwork:Subnetwork",
    resource=gcp.compute.Subnetwork,
    args=gcp.compute.SubnetworkArgs,
    id=_SUBNET,
    import_id=id_parts(_SUBNET),
    create=_create_subnet,
    read=_read_subnet,
    update=_update_subnet,
    delete=_gone(deleted_by(Request("compute.subnetworks.delete", _OF_SUBNET))),
    auto_name=AutoName(),
    dry_run=_dry_run_subnet,
    defaults={
        "logConfig.aggregationInterval": "INTERVAL_5_SEC",
        "logConfig.filterExpr": "true",
        "logConfig.flowSampling": 0.5,
        "logConfig.metadata": "INCLUDE_ALL_METADATA",
    },
    replace_on=frozenset(
        {
            "description",
            "externalIpv6Prefix",
            "internalIpv6Prefix",
            "name",
            "network",
            "params",
            "project",
            "region",
            "reservedInternalRange",
            "resolveSubnetMask",
        }
    ),
    computed=frozenset(
        {
            "allowSubnetCidrRoutesOverlap",
            "deletionPolicy",
            "externalIpv6Prefix",
            "internalIpv6Prefix",
            "ipCidrRange",
            "privateIpGoogleAccess",
            "privateIpv6GoogleAccess",
            "project",
            "purpose",
            "region",
            "secondaryIpRanges",
            "secondaryIpRanges.ipCidrRange",
            "secondaryIpRanges.ipVersion",
            "stackType",
        }
    ),
    table=Table(
        names={"subnetworkId": "id"},
        local=frozenset({"deletionPolicy", "project", "sendSecondaryIpRangeIfEmpty"}),
        spelling=_IN_NETWORK,
    ),
    derive=_subnet_outputs,
)

# -- routers -------------------------------------------------------------------------------------------------------

_ROUTER = "projects/{project}/regions/{region}/routers/{name}"
_OF_ROUTER = {**_REGION, "router": "{name}"}
_PATCH = "compute.routers.patch"
_create_router, _dry_run_router = _made(Request("compute.routers.insert", _REGION), _body)


def _update_router(session: Session, old: Props, new: Props, body: Body) -> Body:
    """With what the program no longer says, so that it is taken away (resource_compute_router.go)."""
    here = _in_region(session, new)
    sent = {"description": "", "bgp": None, **_body(here, body)}
    return session.call(_PATCH, Request(_PATCH, _OF_ROUTER).fill(here), sent)


ROUTER = ResourceType(
    token="gcp:compute/router:Router",
    resource=gcp.compute.Router,
    args=gcp.compute.RouterArgs,
    id=_ROUTER,
    import_id=id_parts(_ROUTER),
    create=_create_router,
    read=_in_place(read_by(Request("compute.routers.get", _OF_ROUTER))),
    update=_update_router,
    delete=_gone(deleted_by(Request("compute.routers.delete", _OF_ROUTER))),
    auto_name=AutoName(),
    dry_run=_dry_run_router,
    defaults={"bgp.advertiseMode": "DEFAULT", "bgp.keepaliveInterval": 20},
    replace_on=frozenset(
        {"encryptedInterconnectRouter", "name", "nccGateway", "network", "params", "project", "region"}
    ),
    computed=frozenset({"bgp.identifierRange", "deletionPolicy", "project", "region"}),
    table=Table(local=frozenset({"deletionPolicy", "project"}), spelling=_IN_NETWORK),
    derive=_place,
)

# -- NATs ----------------------------------------------------------------------------------------------------------

_NAT = "{project}/{region}/{router}/{name}"
_NAT_LONG = "projects/{project}/regions/{region}/routers/{router}/{name}"
_OF_NAT = Request(_PATCH, {**_REGION, "router": "{router}"})
# A NAT changes by writing the router's whole list: one at a time, as in the provider.
_one_at_a_time = threading.Lock()


def _router_of(session: Session, properties: Props) -> dict[str, Any] | None:
    return session.get("compute.routers.get", _OF_NAT.fill(_in_region(session, properties)))


def _named(nats: Iterable[dict[str, Any]], name: str) -> dict[str, Any] | None:
    return next((nat for nat in nats if nat["name"] == name), None)


def _write_nat(session: Session, properties: Props, nat: Body | None, *, new: bool = False) -> Body:
    """Puts `nat` into its router in the place of the one of its name, or takes that out; answers what is there then.

    Raises:
        ApiError: NOT_FOUND without the router, ALREADY_EXISTS for a new one whose name is taken, or the API's refusal.
    """
    here, name = _in_region(session, properties), properties["name"]
    with _one_at_a_time:
        nats = session.call("compute.routers.get", _OF_NAT.fill(here)).get("nats", [])
        if new and _named(nats, name):
            raise ApiError("ALREADY_EXISTS", f"router {here['router']} has a NAT {name} already; import it, or rename")
        others = [each for each in nats if each["name"] != name]
        router = session.call(_PATCH, _OF_NAT.fill(here), {"nats": [*others, *([nat] if nat else [])]})
    return _named(router.get("nats", []), name) or {}


def _read_nat(session: Session, properties: Props) -> Body | None:
    return _named((_router_of(session, properties) or {}).get("nats", []), properties["name"])


def _delete_nat(session: Session, properties: Props) -> None:
    if _read_nat(session, properties) is not None:
        _write_nat(session, properties, None)


def _import_nat(identifier: str) -> Props:
    return id_parts(_NAT_LONG if identifier.startswith("projects/") else _NAT)(identifier)


_NAT_DEFAULTS = (
    *("icmpIdleTimeoutSec", "tcpEstablishedIdleTimeoutSec", "tcpTimeWaitTimeoutSec", "tcpTransitoryIdleTimeoutSec"),
    *("type", "udpIdleTimeoutSec"),
)

ROUTER_NAT = ResourceType(
    token="gcp:compute/routerNat:RouterNat",
    resource=gcp.compute.RouterNat,
    args=gcp.compute.RouterNatArgs,
    id=_NAT,
    import_id=_import_nat,
    create=lambda session, properties, body: _write_nat(session, properties, body, new=True),
    read=_read_nat,
    update=lambda session, old, new, body: _write_nat(session, new, body),
    delete=_delete_nat,
    auto_name=AutoName(),
    dry_run=lambda session, properties, body: session.validate(
        _OF_NAT, _in_region(session, properties), {"nats": [body]}
    ),
    defaults={name: catalog.nat_defaults()[name] for name in _NAT_DEFAULTS},
    replace_on=frozenset({"endpointTypes", "initialNatIps", "name", "project", "region", "router", "type"}),
    computed=frozenset(
        {
            "autoNetworkTier",
            "deletionPolicy",
            "drainNatIps",
            "enableDynamicPortAllocation",
            "enableEndpointIndependentMapping",
            "endpointTypes",
            "minPortsPerVm",
            "natIps",
            "project",
            "region",
            "rules.action",
        }
    ),
    table=Table(
        names={"subnetworks.sourceIpRangesToNats": "sourceIpRangesToNat"},
        local=frozenset({"deletionPolicy", "project", "region", "router"}),
        sent_when_zero=frozenset({"logConfig.enable"}),
        spelling={"subnetworks.name": Link},
    ),
    derive=lambda session, properties, rest: {"region": _in_region(session, properties)["region"]},
)
