"""A cache of built tools, keyed by name, version and recipe: built once, whole or not at all.

Standard library only: `bootstrap.py` uses it before anything is installed.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import platform
import re
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

Progress = Callable[[str], None]
"""Takes one line that says what is going on."""


class ToolError(RuntimeError):
    """A tool could not be found or built; the message names the way out."""


def root(environ: Mapping[str, str] = os.environ) -> Path:
    """The cache's folder: HOLDFAST_CACHE, else XDG_CACHE_HOME/holdfast, else ~/.cache/holdfast (~ is HOME)."""
    if own := environ.get("HOLDFAST_CACHE"):
        return Path(own).absolute()
    if shared := environ.get("XDG_CACHE_HOME"):
        return Path(shared).absolute() / "holdfast"
    home = environ.get("HOME")
    return (Path(home) if home else Path.home()).absolute() / ".cache" / "holdfast"


def recipe_hash(*parts: str | bytes) -> str:
    """A SHA-256 of everything a build depends on, this machine's system and processor among it."""
    digest = hashlib.sha256()
    for part in (sys.platform, platform.machine(), *parts):
        data = part.encode() if isinstance(part, str) else part
        digest.update(b"%d:" % len(data) + data)  # lengths, so that parts cannot run into one another
    return digest.hexdigest()


def version_key(text: str) -> tuple[int, ...]:
    """The first dotted number of a text as integers: `go version go1.26.8 linux/amd64` is (1, 26, 8). () if none."""
    found = re.search(r"\d+(?:\.\d+)+", text)
    return tuple(int(part) for part in found.group().split(".")) if found else ()


@dataclass(frozen=True)
class Entry:
    """One tool in the cache. `path` is a folder; it exists only when the tool is complete."""

    name: str
    version: str
    recipe: str

    @property
    def key(self) -> str:
        return f"{self.name}-{self.version}-{self.recipe[:12]}"

    @property
    def path(self) -> Path:
        return root() / "tools" / self.key

    @property
    def log(self) -> Path:
        """Where the last build that failed wrote what it said."""
        return root() / "logs" / f"{self.key}.log"

    @property
    def ready(self) -> bool:
        return self.path.is_dir()


def entry(name: str, version: str, recipe: str) -> Entry:
    """The entry for a tool; looks at nothing and makes nothing."""
    return Entry(name, version, recipe)


def entries() -> list[Path]:
    """The folders of all complete tools, by name."""
    tools = root() / "tools"
    return sorted(p for p in tools.iterdir() if not p.name.endswith(".partial")) if tools.is_dir() else []


def size(folder: Path) -> int:
    """Bytes that the files under a folder take (links are not followed)."""
    total = 0
    for where, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(FileNotFoundError):
                total += os.lstat(os.path.join(where, name)).st_size
    return total


@contextlib.contextmanager
def lock(name: str, waiting: Callable[[], None] = lambda: None) -> Iterator[None]:
    """Hold the cache's lock of that name; `waiting` is called once if somebody else holds it.

    The kernel drops the lock with its process, so a killed builder blocks nobody.
    """
    path = root() / "locks" / f"{name}.lock"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle = path.open("a")
    except OSError as error:
        raise ToolError(
            f"Holdfast's cache {root()} cannot be written ({error.strerror}); set HOLDFAST_CACHE to a folder that can."
        ) from error
    with handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            waiting()
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def ensure(wanted: Entry, build: Callable[[Path, Path], None], progress: Progress) -> Path:
    """The folder of a tool, built by `build(folder, log)` if the cache lacks it.

    `build` fills an empty folder and writes what its commands say to `log`. The folder takes its name when `build`
    has returned, in one rename. Raises ToolError, which names the log, when `build` raises; nothing half-made stays.
    """
    if wanted.ready:
        return wanted.path
    with lock(
        wanted.key, lambda: progress(f"another process is making {wanted.name} {wanted.version}: waiting for it")
    ):
        if wanted.ready:
            return wanted.path
        partial = wanted.path.with_name(wanted.key + ".partial")
        shutil.rmtree(partial, ignore_errors=True)  # of a builder that was killed
        partial.mkdir(parents=True)
        wanted.log.parent.mkdir(parents=True, exist_ok=True)
        wanted.log.write_bytes(b"")
        try:
            build(partial, wanted.log)
            partial.rename(wanted.path)
        except Exception as error:
            said = [line for line in wanted.log.read_text(errors="replace").splitlines() if line.strip()][-8:]
            what = f"{wanted.name} {wanted.version} could not be made: {error}"
            raise ToolError("\n".join([what, *said, f"The whole log: {wanted.log}"])) from error
        finally:
            shutil.rmtree(partial, ignore_errors=True)
        wanted.log.unlink()
    return wanted.path
