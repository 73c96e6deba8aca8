"""A control plane that the whole Internet can reach by address."""

import ipaddress
from collections.abc import Mapping
from typing import Any

from policies import gke
from policies.props import UNKNOWN, is_off, is_on, items, mapping
from policies.rule import Props, Rule

_SOURCE = "https://docs.cloud.google.com/kubernetes-engine/docs/concepts/hardening-overview"
_WAY_OUT = "Name your own ranges, or close the address and reach the control plane by its DNS name, which IAM guards"


def check(props: Props) -> list[str]:
    """One message for each range that is everything, or if the address is public and no range is named."""
    networks = props.get("masterAuthorizedNetworksConfig")
    if not _has_public_address(props) or networks == UNKNOWN:
        return []
    if networks is None:
        return [
            "masterAuthorizedNetworksConfig is not set, and the control plane has a public address: anybody can try "
            f"({_SOURCE}). {_WAY_OUT}"
        ]
    ranges = [str(mapping(each).get("cidrBlock")) for each in items(mapping(networks).get("cidrBlocks"))]
    return [
        f"masterAuthorizedNetworksConfig.cidrBlocks: {each} is the whole Internet ({_SOURCE}). {_WAY_OUT}"
        for each in ranges
        if _is_everything(each)
    ]


def _has_public_address(props: Props) -> bool:
    """Whether a public address is not ruled out; what is not known yet is not judged."""
    ways, private = props.get("controlPlaneEndpointsConfig"), props.get("privateClusterConfig")
    if UNKNOWN in (ways, private):
        return False
    by_address: Mapping[str, Any] = mapping(mapping(ways).get("ipEndpointsConfig"))
    closed = by_address.get("enabled") is not None and is_off(by_address["enabled"])
    enabled, is_private = by_address.get("enabled"), mapping(private).get("enablePrivateEndpoint")
    return not closed and UNKNOWN not in (enabled, is_private) and not is_on(is_private)


def _is_everything(cidr: str) -> bool:
    try:
        return ipaddress.ip_network(cidr, strict=False).prefixlen == 0
    except ValueError:
        return False  # the provider refuses it, or it is not known yet


RULE = Rule(
    name="open-control-plane",
    severity="mandatory",
    summary="No cluster's control plane is open to the whole Internet.",
    source=_SOURCE,
    way_out="Set masterAuthorizedNetworksConfig to your own ranges, or ipEndpointsConfig.enabled to false.",
    checks={gke.CLUSTER: check},
)
