"""Kueue's manager in the place of its image: with the arguments and configuration of the Deployment that is applied.

Nothing of them is changed but where it listens: the chart names no host, which in a pod means the pod's address.
"""

from __future__ import annotations

import yaml

from mockgcp.planes.k8s.kubelet import ImageProgram
from mockgcp.planes.k8s.programs import Programs

IMAGE = "kueue"
_FILE = "controller_manager_config.yaml"
# Where the manager listens unless its configuration says so: Kueue's reference of its Configuration.
_PORTS = {("health", "healthProbeBindAddress"): ":8081", ("metrics", "bindAddress"): ":8443"}


def image_program(programs: Programs) -> ImageProgram:
    return ImageProgram(programs.program("kueue"), programs.versions["kueue"], adjust)


def adjust(name: str, content: bytes, address: str) -> bytes:
    """The manager's configuration with the pod's address where it says none."""
    if name != _FILE:
        return content
    config = yaml.safe_load(content)
    for (section, field), default in _PORTS.items():
        place = config.setdefault(section, {})
        if place.setdefault(field, default).startswith(":"):
            place[field] = address + place[field]
    config.setdefault("webhook", {}).setdefault("host", address)
    config.setdefault("visibilityServer", {}).setdefault("bindAddress", address)
    return yaml.safe_dump(config, sort_keys=False).encode()
