"""Where a cluster listens: free ports of loopback, and an address of its own for the pod whose webhooks are called.

The API server calls a webhook by its pod's address, which must not be a loopback one (it refuses those in endpoints),
so the cluster adds one to the loopback device. 198.18.0.0/15 is kept for tests between networks (RFC 2544): no route
leads there from outside.
"""

from __future__ import annotations

import hashlib
import ipaddress
import os
import shutil
import socket
import subprocess
from pathlib import Path

from mockgcp.planes.protocol import Availability

_TESTS = ipaddress.ip_network("198.18.0.0/15")
_LIFETIME_S = "86400"


def free_ports(count: int) -> list[int]:
    """Ports that nobody listens on now. Somebody may before we do: then the program says so and ends."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]
    finally:
        for each in sockets:
            each.close()


def availability() -> Availability:
    """Whether an address can be added, and a pod's program be run within its own files."""
    if os.name != "posix" or os.geteuid() != 0:
        why = "a cluster adds an address to the loopback device and runs pods in folders of their own, for which it "
        return Availability(False, f"{why}must be root", "run as root, in a container for instance")
    for tool, package in (("ip", "iproute2"), ("chroot", "coreutils")):
        if shutil.which(tool) is None:
            return Availability(False, f"there is no `{tool}` on PATH", f"apt-get install {package}")
    return Availability(True)


class PodAddresses:
    """Addresses for pods that really run, added to the loopback device; 254 a cluster, by its folder.

    The kernel takes away after a day what a killed cluster has left.
    """

    def __init__(self, folder: Path) -> None:
        number = int.from_bytes(hashlib.sha256(os.fsencode(folder.resolve())).digest()[:4], "big")
        self._first, self._taken = number % (_TESTS.num_addresses // 256 - 1) * 256, set[str]()

    def take(self) -> str:
        """An address that nobody has: another cluster, one of another process too, may have been given the same ones.

        Raises:
            RuntimeError: none can be added.
        """
        lifetime = ["valid_lft", _LIFETIME_S, "preferred_lft", _LIFETIME_S]
        for number in range(1, 255):
            address = str(_TESTS[self._first + number])
            command = ["ip", "address", "add", f"{address}/32", "dev", "lo", *lifetime]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode == 0:
                self._taken.add(address)
                return address
            if not any(there in done.stderr for there in ("File exists", "already assigned")):
                raise RuntimeError(
                    f"`{' '.join(command)}` failed: {done.stderr.strip()}; the plane needs CAP_NET_ADMIN"
                )
        raise RuntimeError(f"all addresses from {_TESTS[self._first + 1]} on are taken: remove those of dead clusters")

    def give_back(self, address: str) -> None:
        subprocess.run(["ip", "address", "delete", f"{address}/32", "dev", "lo"], capture_output=True, check=False)
        self._taken.discard(address)

    def clear(self) -> None:
        for address in list(self._taken):
            self.give_back(address)
