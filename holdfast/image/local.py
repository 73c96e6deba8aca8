"""The image built on this machine: a base image by debootstrap, and a builder for the emulated Cloud Build.

No registry of images is asked. Debian's packages come from the mirror that this machine's apt uses, Python's from the
index that its pip or uv uses; neither is written into the image.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from holdfast import toolcache
from holdfast.engine.gobuild import REPORT_EVERY
from holdfast.errors import OperatorError
from holdfast.toolcache import Entry, Progress, ToolError
from mockgcp.planes import container
from mockgcp.planes.cloud_build import BuildahBuilder
from mockgcp.planes.container import Buildah
from mockgcp.planes.processes import ProcessLedger
from mockgcp.planes.protocol import Availability

RELEASE = "bookworm"
"""Of Debian: that of the Dockerfile's own base, and Python 3.11."""
PACKAGES = ("ca-certificates", "python3", "python3-venv")

_CERTIFICATES = Path("/etc/ssl/certs")
_DOCKERFILE = """FROM scratch
COPY rootfs /
ENV PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8
CMD ["python3"]
"""


def availability() -> Availability:
    """Whether the image can be built and run here."""
    found = container.availability()
    if found.usable and _debootstrap() is None:
        return Availability(False, "debootstrap missing", "apt-get install debootstrap")
    return found


def builder(state: Path, processes: ProcessLedger, say: Progress) -> BuildahBuilder:
    """A builder for `Cloud.builder`, which keeps everything it makes in `state` (some 3 GB an image).

    Raises:
        OperatorError: it cannot work here. ToolError: the base image could not be made.
    """
    found = availability()
    if not found.usable:
        raise OperatorError(f"no image can be built here: {found.why}; {found.how}")
    state.mkdir(parents=True, exist_ok=True)
    base = ensure_base(say)
    return BuildahBuilder(
        Buildah(state / "store", processes), base, volumes=package_settings(state, os.environ), say=say
    )


def base_entry() -> Entry:
    """The base image in the cache: an OCI layout in `oci/`."""
    return toolcache.entry("debian-python", RELEASE, toolcache.recipe_hash(RELEASE, *PACKAGES, _DOCKERFILE))


def ensure_base(say: Progress) -> Path:
    """The base image's OCI layout, made if need be: one or two minutes, once.

    Raises:
        ToolError: it could not be made; names the log.
    """

    def build(folder: Path, log: Path) -> None:
        say(f"making a base image of Debian {RELEASE} with Python by debootstrap: one or two minutes, once")
        began = time.monotonic()
        work = folder / "work"
        work.mkdir()
        (work / "Dockerfile").write_text(_DOCKERFILE, encoding="utf-8")
        bootstrap = [
            *(str(_debootstrap()), "--variant=minbase", f"--include={','.join(PACKAGES)}"),
            *(RELEASE, str(work / "rootfs"), *_mirror()),
        ]
        # With mounts of its own: what a killed debootstrap leaves mounted is gone with it.
        _run(["unshare", "--mount", *bootstrap], work, log, say)
        for cache in ("var/cache/apt/archives", "var/lib/apt/lists"):
            shutil.rmtree(work / "rootfs" / cache, ignore_errors=True)
        buildah = ["buildah", "--storage-driver=vfs", f"--root={work}/root", f"--runroot={work}/run"]
        _run([*buildah, "bud", "--isolation=chroot", "--tag=base", "."], work, log, say)
        _run([*buildah, "push", "base", f"oci:{folder / 'oci'}"], work, log, say)
        shutil.rmtree(work)
        say(f"made the base image in {time.monotonic() - began:.0f} s: {toolcache.size(folder) / 1e6:.0f} MB")

    return toolcache.ensure(base_entry(), build, say) / "oci"


def package_settings(folder: Path, environ: Mapping[str, str]) -> dict[str, Path]:
    """How pip and uv reach their index from inside a build, as they do on this machine: files by their paths there."""
    index = next((environ[n] for n in ("UV_DEFAULT_INDEX", "UV_INDEX_URL", "PIP_INDEX_URL") if environ.get(n)), "")
    pip, uv = folder / "pip.conf", folder / "uv.toml"
    certificates = {str(_CERTIFICATES): _CERTIFICATES} if _CERTIFICATES.is_dir() else {}
    for file in (pip, uv):
        file.touch(mode=0o600)  # an index's address may hold a password
    pip.write_text(
        "[global]\n"
        + (f"cert = {_CERTIFICATES}/ca-certificates.crt\n" if certificates else "")
        + (f"index-url = {index}\n" if index else ""),
        encoding="utf-8",
    )
    uv.write_text(
        "native-tls = true\n" + (f'[[index]]\nurl = "{index}"\ndefault = true\n' if index else ""), encoding="utf-8"
    )
    return {**certificates, "/etc/pip.conf": pip, "/etc/uv/uv.toml": uv}


def _debootstrap() -> str | None:
    return shutil.which("debootstrap", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")


def _mirror() -> list[str]:
    """Where apt gets the release from on this machine; empty (debootstrap's own choice) when it does not."""
    if shutil.which("apt-get") is None:
        return []
    asked = ["apt-get", "indextargets", "--format", "$(REPO_URI)", "Created-By: Packages", f"Codename: {RELEASE}"]
    return subprocess.run(asked, capture_output=True, text=True, check=False).stdout.split()[:1]


def _run(argv: Sequence[str], cwd: Path, log: Path, say: Progress) -> None:
    began = time.monotonic()
    with log.open("ab") as out:
        out.write(f"$ {' '.join(argv)}\n".encode())
        out.flush()
        process = subprocess.Popen(
            argv, cwd=cwd, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT, start_new_session=True
        )
        try:
            while process.poll() is None:
                try:
                    process.wait(REPORT_EVERY)
                except subprocess.TimeoutExpired:
                    last = log.read_text(errors="replace").splitlines()[-1]
                    say(f"base image: {last} ({time.monotonic() - began:.0f} s)")
        finally:
            if process.returncode is None:
                os.killpg(process.pid, signal.SIGKILL)  # its children too
            process.wait()
    if process.returncode:
        raise ToolError(f"`{argv[0]}` ended with {process.returncode} (no way to a Debian mirror?)")
