"""Where a cluster's machines listen.

Each machine has an address of loopback of its own, so that jobs on two nodes may use the same port; all of 127.0.0.0/8
is there without being added, on Linux. Slurm's own programs have ports that no other cluster on this machine has: they
call one another back at the address that they see a connection come from, and that is always 127.0.0.1.
"""

from __future__ import annotations

import contextlib
import hashlib
import ipaddress
import os
import socket
from pathlib import Path

CONTROLLER = "127.0.0.1"
NODES_MAX = 125
_LOOPBACK = ipaddress.ip_network("127.0.0.0/8")
# Below those ports that the kernel gives to whoever asks for none (from 32768).
_FIRST_PORT, _CLUSTERS, _PORTS = 19_000, 100, 128


class Addresses:
    """A cluster's addresses and ports, its own until `close` or the process's end. A name keeps what it was given."""

    def __init__(self, folder: Path) -> None:
        number = int.from_bytes(hashlib.sha256(os.fsencode(folder.resolve())).digest()[:4], "big")
        for slot in ((number + each) % _CLUSTERS for each in range(_CLUSTERS)):
            port = _FIRST_PORT + slot * _PORTS
            with contextlib.suppress(OSError):
                self._claim = socket.create_server((CONTROLLER, port))  # whoever comes second is refused
                break
        else:
            raise RuntimeError(f"{_CLUSTERS} clusters run on this machine already")
        self.controller_port, self.accounting_port, self._node_port = port + 1, port + 2, port + 3
        self._first = (slot + 1) << 8
        self._of: dict[str, int] = {}

    def node(self, name: str) -> tuple[str, int]:
        """The address and port of a node. Raises RuntimeError when there are no more."""
        if name not in self._of:
            if len(self._of) >= NODES_MAX:
                raise RuntimeError(f"a cluster of the plane has no more than {NODES_MAX} nodes, login nodes among them")
            self._of[name] = len(self._of)
        number = self._of[name]
        return self._address(number), self._node_port + number

    def hosts(self, controller: str) -> str:
        """As /etc/hosts has them."""
        of = {"localhost": CONTROLLER, controller: CONTROLLER}
        of |= {name: self._address(number) for name, number in self._of.items()}
        return "".join(f"{address} {name}\n" for name, address in of.items())

    def close(self) -> None:
        self._claim.close()

    def _address(self, number: int) -> str:
        return str(_LOOPBACK[self._first + number + 1])
