"""Slurm for the emulated cloud: Debian's packages, downloaded by apt and unpacked into the tool cache.

Nothing is installed: the plane lays them over the file system of its machines alone. No service is started.
"""

from __future__ import annotations

import functools
import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from holdfast import toolcache
from holdfast.toolcache import Entry, Progress, ToolError
from mockgcp.planes.protocol import Availability
from mockgcp.planes.slurm_ import machine
from mockgcp.planes.slurm_.programs import Programs

PACKAGES = ("slurmctld", "slurmd", "slurmdbd", "slurm-client", "munge", "mariadb-server-core")
"""By name; what they need comes along where this machine lacks it."""

_RECIPE = "1"
_VERSIONS = "versions"
_NO_APT = "Slurm is brought by apt, which does not know slurmctld here"
_USE = "apt-get update, on Debian 12 or Ubuntu 24.04 with universe"


def availability() -> Availability:
    """Whether the plane can run here; says what is skipped if not, and how to get it."""
    can = machine.availability()
    if not can.usable:
        return can
    found = find()
    if found is not None:
        return Availability(True, versions=found.versions)
    if version() is None:
        return Availability(False, _NO_APT, _USE)
    return Availability(False, "Slurm is not in the tool cache", "make planes")


def wanted() -> bool:
    """Whether it could run here, and is not there yet."""
    return find() is None and machine.availability().usable and version() is not None


def bring(progress: Progress) -> None:
    """What `make planes` does: brings it where it can run; else says what is skipped. Raises ToolError."""
    if machine.availability().usable and shutil.which("apt-get"):
        ensure(progress)
    elif not (can := availability()).usable:
        progress(f"Slurm is skipped: {can.why}; {can.how}")


def summary() -> str:
    """One line: where it is, or why not."""
    found, can = find(), availability()
    where = str(found.folder) if found else "missing"
    return f"slurm {version() or ''}: {where if can.usable or found is None else f'{where}, skipped: {can.why}'}"


@functools.cache
def version() -> str | None:
    """Of slurmctld, as apt would bring it; None where apt cannot."""
    if shutil.which("apt-cache") is None or shutil.which("dpkg-deb") is None:
        return None
    asked = ["apt-cache", "show", "--no-all-versions", "slurmctld"]
    said = subprocess.run(asked, capture_output=True, text=True, check=False).stdout
    return next((line.removeprefix("Version: ") for line in said.splitlines() if line.startswith("Version: ")), None)


def entry() -> Entry | None:
    """The entry of the cache; None where apt cannot bring it."""
    found = version()
    if found is None:
        return None
    return toolcache.entry("slurm", found, toolcache.recipe_hash(_RECIPE, *PACKAGES))


def find() -> Programs | None:
    """The programs, if they are there already; downloads nothing."""
    found = entry()
    if found is None or not found.ready:
        return None
    lines = (found.path / _VERSIONS).read_text(encoding="utf-8").splitlines()
    return Programs(found.path, dict(line.split("=", 1) for line in lines))


def ensure(progress: Progress) -> Programs:
    """The programs, brought if need be: 12 MB, a few seconds. Raises ToolError, which says what to do."""
    if entry() is None and shutil.which("apt-get"):
        progress("Slurm: apt does not know the package here: apt-get update")
        subprocess.run(["apt-get", "update"], capture_output=True, check=False)
        version.cache_clear()
    wanted = entry()
    if wanted is None:
        raise ToolError(f"{_NO_APT}: {_USE}")

    def build(folder: Path, log: Path) -> None:
        progress(f"Slurm {wanted.version}: Debian's packages are downloaded and unpacked into the cache, not installed")
        _fetch(folder, log)

    toolcache.ensure(wanted, build, progress)
    found = find()
    assert found is not None
    return found


def _fetch(folder: Path, log: Path) -> None:
    downloads = folder / "downloads"
    downloads.mkdir()
    _run(["apt-get", "download", *sorted({*_missing(log), *PACKAGES})], downloads, log)
    versions = ""
    for package in sorted(downloads.iterdir()):
        _run(["dpkg-deb", "-x", str(package), str(folder)], folder, log)
        versions += _run(["dpkg-deb", "--show", str(package)], folder, log).replace("\t", "=")
    shutil.rmtree(downloads)
    for program in (folder / "usr" / "sbin").glob("*-wlm"):
        link = program.with_name(program.name.removesuffix("-wlm"))  # else made by update-alternatives
        if not link.exists():
            link.symlink_to(program.name)
    (folder / _VERSIONS).write_text(versions, encoding="utf-8")


def _missing(log: Path) -> list[str]:
    """The packages that apt would add; what this machine has is used as it is. Asking needs no root."""
    said = _run(["apt-get", "install", "--simulate", "--no-install-recommends", *PACKAGES], Path("/"), log)
    return re.findall(r"^Inst (\S+) \(", said, re.MULTILINE)


def _run(argv: Sequence[str], cwd: Path, log: Path) -> str:
    done = subprocess.run(argv, cwd=cwd, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    with log.open("a", encoding="utf-8") as out:
        out.write(f"$ {' '.join(argv)}\n{done.stdout}{done.stderr}")
    if done.returncode:
        raise ToolError(f"`{' '.join(argv[:2])}` ended with {done.returncode}; its lists may be old: apt-get update")
    return done.stdout
