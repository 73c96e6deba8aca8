"""Make .venv from the locks: `python3 holdfast/bootstrap.py [--groups base,mockgcp,trainer,ray,dev]`.

Standard library only; needs Python 3.11 and pip (or a new enough uv on PATH). Writes .venv and Holdfast's cache,
nothing else, and does nothing when .venv is as the locks say.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.util
import os
import shutil
import ssl
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

if __name__ == "__main__":
    if sys.version_info < (3, 11):  # noqa: UP036  a stranger's python3 may be older than pyproject.toml asks for
        sys.exit(
            f"Holdfast needs Python 3.11 or newer; {sys.executable} is {sys.version.split()[0]}. "
            "Name another: make env PYTHON=python3.12"
        )
    sys.path[0] = str(ROOT)  # was this file's folder, whose modules would shadow others by name

from holdfast import toolcache  # noqa: E402
from holdfast.toolcache import ToolError  # noqa: E402

GROUPS = ("base", "mockgcp", "trainer", "ray", "dev")
"""The dependency groups, each with requirements/<group>.lock. `bootstrap` is always installed: it makes the install."""

STAMP = "holdfast.stamp"
UV_LOCK = ROOT / "requirements" / "bootstrap.lock"


def lock_files(groups: Sequence[str], root: Path = ROOT) -> list[Path]:
    """The locks of the groups and of `bootstrap`, in a fixed order. Raises ToolError for an unknown group."""
    if unknown := sorted(set(groups) - set(GROUPS)):
        raise ToolError(f"--groups: no group {', '.join(unknown)}; there are {', '.join(GROUPS)}")
    return [root / "requirements" / f"{name}.lock" for name in ("bootstrap", *GROUPS) if name in {"bootstrap", *groups}]


def stamp(locks: Sequence[Path], root: Path = ROOT) -> str:
    """What .venv was made from: this interpreter, the checkout's place, pyproject.toml and the locks, as a SHA-256."""
    digest = hashlib.sha256(f"{sys.version}\n{_base_python()}\n{root}\n".encode())
    for path in (root / "pyproject.toml", *locks):
        digest.update(f"{path.name}\n".encode() + hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()


def uv_pin(lock: str) -> str:
    """The version of uv that a lock's text asks for."""
    return lock.split("uv==", 1)[1].split()[0]


def main(argv: Sequence[str] | None = None) -> int:
    """Bring .venv up to date; 0, or 1 with a message on stderr."""
    parser = argparse.ArgumentParser(description="Make .venv from requirements/*.lock.")
    parser.add_argument("--groups", default=",".join(GROUPS), help="comma-separated (default: %(default)s)")
    groups = [name for name in parser.parse_args(argv).groups.split(",") if name]
    try:
        locks = lock_files(groups)
        wanted = stamp(locks)
        if not _is_current(wanted):
            _make(locks, wanted)
    except ToolError as error:
        print(f"holdfast: {error}", file=sys.stderr)
        return 1
    return 0


def _is_current(wanted: str) -> bool:
    venv = ROOT / ".venv"
    made_from = venv / STAMP
    return made_from.is_file() and made_from.read_text() == wanted and (venv / "bin" / "python").exists()


def _make(locks: Sequence[Path], wanted: str) -> None:
    name = hashlib.sha256(str(ROOT).encode()).hexdigest()[:12]
    with toolcache.lock(f"venv-{name}", lambda: _say("another process is making .venv: waiting for it")):
        if _is_current(wanted):
            return
        began = time.monotonic()
        uv, environ = ensure_uv(_say)
        venv = ROOT / ".venv"
        (venv / STAMP).unlink(missing_ok=True)
        python = ["--python", str(venv / "bin" / "python")]
        if not _same_python(venv):
            command = [uv, "venv", "--clear", "--python", str(_base_python()), str(venv)]
            _step(f"making .venv with Python {sys.version.split()[0]}", command, environ)
        names = ", ".join(lock.stem for lock in locks)
        command = [uv, "pip", "sync", *python, "--require-hashes", *map(str, locks)]
        _step(f"installing {names} as locked (a first time downloads up to 550 MB)", command, environ)
        command = [uv, "pip", "install", *python, "--no-deps", "--no-build-isolation", "-e", str(ROOT)]
        _step("installing holdfast itself, editable", command, environ)
        fresh = venv / f"{STAMP}.{os.getpid()}"
        fresh.write_text(wanted)
        fresh.replace(venv / STAMP)
        _say(f".venv is ready ({time.monotonic() - began:.1f} s)")


def _base_python() -> Path:
    """The interpreter itself, even when a virtual environment's python runs this."""
    return Path(getattr(sys, "_base_executable", None) or sys.executable).resolve()


def _same_python(venv: Path) -> bool:
    """Whether .venv exists and is of this interpreter."""
    try:
        lines = (venv / "pyvenv.cfg").read_text().splitlines()
    except OSError:
        return False
    config = {key.strip(): value.strip() for key, _, value in (line.partition("=") for line in lines)}
    same_version = config.get("version_info", "").startswith(sys.version.split()[0])
    same_place = Path(config.get("home", "")).resolve() == _base_python().parent
    return same_version and same_place and (venv / "bin" / "python").exists()


def find_uv() -> tuple[str, Path, str] | None:
    """A uv as new as the lock's, on PATH, beside this Python or cached: (path|venv|cache, the file, its version)."""
    cached = _uv_entry()
    on_path = shutil.which("uv")
    places = [("path", Path(on_path))] if on_path else []
    places += [("venv", Path(sys.executable).parent / "uv"), ("cache", cached.path / "bin" / "uv")]
    for source, binary in places:
        if binary.is_file():
            said = subprocess.run([binary, "--version"], capture_output=True, text=True, check=False).stdout
            version = toolcache.version_key(said)
            if version >= toolcache.version_key(cached.version):
                return source, binary, ".".join(map(str, version))
    return None


def _uv_entry() -> toolcache.Entry:
    text = UV_LOCK.read_text()
    return toolcache.entry("uv", uv_pin(text), toolcache.recipe_hash(text))


def ensure_uv(progress: toolcache.Progress) -> tuple[str, dict[str, str]]:
    """uv, fetched with pip into our cache when there is none, and the variables it runs with. Raises ToolError."""
    # A virtual environment that is active in the caller's shell is none of our business.
    environ = {key: value for key, value in os.environ.items() if key not in {"VIRTUAL_ENV", "CONDA_PREFIX"}}
    environ["UV_PYTHON_DOWNLOADS"] = "never"
    if ssl.get_default_verify_paths().cafile:  # trust what this machine trusts, as pip does: a company's own authority
        environ.setdefault("UV_SYSTEM_CERTS", "true")
    found = find_uv()
    if found is None or found[0] != "path":  # whose uv is not the user's leaves no trace in the user's own cache
        environ.setdefault("UV_CACHE_DIR", str(toolcache.root() / "uv"))
    if found is not None:
        return str(found[1]), environ
    wanted = _uv_entry()

    def build(folder: Path, log: Path) -> None:
        if importlib.util.find_spec("pip") is None:
            raise ToolError(
                f"{sys.executable} has no pip. Install it (Debian: apt install python3-pip), "
                f"or put uv {wanted.version} or newer on PATH, or name another Python: make env PYTHON=..."
            )
        began = time.monotonic()
        pip = [sys.executable, "-m", "pip", "install", "--disable-pip-version-check", "--no-cache-dir", "--no-compile"]
        pip += ["--target", str(folder), "--require-hashes", "-r", str(UV_LOCK)]
        with log.open("wb") as out:
            done = subprocess.run(pip, stdout=out, stderr=out, check=False)
        if done.returncode:
            raise ToolError(
                f"pip could not install it from {UV_LOCK.relative_to(ROOT)}; is the package index reachable?"
            )
        progress(f"got the installer, uv {wanted.version}, with pip ({time.monotonic() - began:.1f} s)")

    folder = toolcache.ensure(wanted, build, progress)
    return str(folder / "bin" / "uv"), environ


def _step(what: str, command: Sequence[str], environ: Mapping[str, str]) -> None:
    """Say what happens, do it, say how long it took. uv's own bars show on a terminal, its errors always."""
    _say(f"{what} ...")
    began = time.monotonic()
    quiet = [] if sys.stderr.isatty() else ["--quiet"]
    done = subprocess.run([*command, *quiet], env=dict(environ), check=False)
    if done.returncode:
        shown = " ".join(command)
        raise ToolError(f"{what}: failed, see above. The command was: {shown}")
    _say(f"  done ({time.monotonic() - began:.1f} s)")


def _say(line: str) -> None:
    print(f"holdfast: {line}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
