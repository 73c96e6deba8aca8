"""The users of a cluster's machines: this machine's system accounts, and whoever runs something, as OS Login has it.

The files are the machines' /etc/passwd and /etc/group. They are mounted, so they are written in place.
"""

from __future__ import annotations

import os
import re
import threading
from dataclasses import dataclass
from pathlib import Path

_FIRST = 20001
_SYSTEM = 1000
_NOBODY = 65534
# What Debian's useradd takes (NAME_REGEX), and Linux's limit.
_NAME = re.compile(r"[a-z_][a-z0-9_-]{0,31}")


@dataclass(frozen=True)
class User:
    name: str
    uid: int
    home: str


class Users:
    """Adds a user when it is first asked for, with a home directory in `home`."""

    def __init__(self, folder: Path, home: Path) -> None:
        self.passwd, self.group, self._home = folder / "passwd", folder / "group", home
        self._lock = threading.Lock()
        self._known = {"root": User("root", 0, "/root")}
        folder.mkdir(parents=True, exist_ok=True)
        home.mkdir(parents=True, exist_ok=True)
        home.chmod(0o755)
        for file in (self.passwd, self.group):
            lines = (Path("/etc") / file.name).read_text(encoding="utf-8").splitlines(keepends=True)
            file.write_text("".join(line for line in lines if _is_system(line)), encoding="utf-8")
            file.chmod(0o644)

    def __contains__(self, name: str) -> bool:
        return name in self._known

    def get(self, name: str) -> User:
        """Raises ValueError: it cannot be a name."""
        if not _NAME.fullmatch(name):
            raise ValueError(
                f"{name!r} is no user name: a small letter or _, then up to 31 small letters, digits, - and _"
            )
        with self._lock:
            if name not in self._known:
                self._known[name] = self._add(name)
            return self._known[name]

    def _add(self, name: str) -> User:
        user = User(name, _FIRST + len(self._known) - 1, f"/home/{name}")
        with self.group.open("a", encoding="utf-8") as file:
            file.write(f"{name}:x:{user.uid}:\n")
        with self.passwd.open("a", encoding="utf-8") as file:
            file.write(f"{name}:x:{user.uid}:{user.uid}::{user.home}:/bin/bash\n")
        home = self._home / name
        home.mkdir(mode=0o700, exist_ok=True)
        os.chown(home, user.uid, user.uid)
        return user


def _is_system(line: str) -> bool:
    number = line.split(":")[2:3]
    return bool(number and number[0].isdigit() and (int(number[0]) < _SYSTEM or int(number[0]) == _NOBODY))


def os_login_name(principal: str) -> str:
    """The user that a principal is on the machines: NAME of `user:NAME@DOMAIN`, with _ for what a name cannot have."""
    name = re.sub(r"[^a-z0-9_-]", "_", principal.rpartition(":")[2].partition("@")[0].lower())[:32]
    return name if _NAME.fullmatch(name) else f"_{name}"[:32]
