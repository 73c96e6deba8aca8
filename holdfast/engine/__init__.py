"""The Pulumi engine: the CLI from PATH, else from our cache, else built from its Go module, and a Python language host.

Use: `found = engine.ensure(print)`, then `subprocess.run([found.pulumi, "up"], env=found.environ())`.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from holdfast import toolcache
from holdfast.engine import build
from holdfast.toolcache import Progress, ToolError

__all__ = ["MINIMUM", "Engine", "ToolError", "ensure", "find"]

MINIMUM = "3.272.0"
"""The oldest CLI that is used: the SDK's version that pyproject.toml asks for."""


@dataclass(frozen=True)
class Engine:
    """A Pulumi CLI that can run Python programs and Python policy packs."""

    pulumi: Path
    version: str
    source: Literal["path", "cache", "built"]
    bin_dir: Path
    """Holds the language host, and `pulumi` too unless that came without a host. `environ` puts it first on PATH."""
    language_host: Path
    language_exec: Path | None
    """The SDK's program runner that our language host starts; None with the official host, which has its own."""

    def environ(self, base: Mapping[str, str] = os.environ, python: str = sys.executable) -> dict[str, str]:
        """`base` with PATH and HOLDFAST_PYTHON set so that this engine and this interpreter are used."""
        first = dict.fromkeys([str(self.bin_dir), str(self.pulumi.parent)])
        path = os.pathsep.join([*first, *filter(None, [base.get("PATH")])])
        return {**base, "PATH": path, "HOLDFAST_PYTHON": python}


def find() -> Engine | None:
    """The engine that is there already, on PATH or in our cache; builds and downloads nothing."""
    if (official := _on_path()) and (engine := _with_host(*official)):
        return engine
    cached = build.cli_entry()
    return _ours(cached.path, "cache") if cached.ready else None


def ensure(progress: Progress) -> Engine:
    """The engine, built when there is none: 4-8 minutes on 2 cores. Raises ToolError, which says what to do."""
    if engine := find():
        return engine
    if official := _on_path():
        folder = build.ensure_host(progress)
        engine = _with_host(*official)
        assert engine is not None, folder
        return engine
    return _ours(build.ensure_cli(progress), "built")


def _ours(folder: Path, source: Literal["cache", "built"]) -> Engine:
    bin_dir = folder / "bin"
    host = bin_dir / "pulumi-language-python"
    return Engine(bin_dir / "pulumi", build.version(), source, bin_dir, host, folder / "lib" / build.EXEC)


def _on_path() -> tuple[Path, str] | None:
    """A `pulumi` on PATH that is new enough and not the cache's own, with its version."""
    found = shutil.which("pulumi")
    if found is None or Path(found).resolve().is_relative_to(toolcache.root().resolve()):
        return None
    quiet = {**os.environ, "PULUMI_SKIP_UPDATE_CHECK": "true"}
    said = subprocess.run([found, "version"], env=quiet, capture_output=True, text=True, check=False).stdout
    version = toolcache.version_key(said)
    return (Path(found), ".".join(map(str, version))) if version >= toolcache.version_key(MINIMUM) else None


def _with_host(pulumi: Path, version: str) -> Engine | None:
    """The engine on PATH with the language host beside it, else on PATH, else our own from the cache."""
    beside = pulumi.resolve().parent / "pulumi-language-python"
    on_path = shutil.which("pulumi-language-python")
    if host := beside if beside.is_file() else Path(on_path) if on_path else None:
        return Engine(pulumi, version, "path", host.parent, host, None)
    own = build.host_entry()
    if not own.ready:
        return None
    bin_dir = own.path / "bin"
    return Engine(pulumi, version, "path", bin_dir, bin_dir / "pulumi-language-python", own.path / "lib" / build.EXEC)
