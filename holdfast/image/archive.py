"""The image's source as an archive: the same bytes for the same files, whoever packs them, wherever and whenever.

In a git checkout it holds files that git knows, as they are now; elsewhere all Python files of the trainer.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import shutil
import subprocess
import tarfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from holdfast.errors import OperatorError

ROOT = Path(__file__).resolve().parents[2]
DOCKERFILE = "workloads/Dockerfile"
BASE = "python:3.11-slim-bookworm"
"""The Dockerfile's own default. A tag moves: docs/image.md says how to pin a digest."""
TAG_LENGTH = 20
"""Hexadecimal digits of a tag."""

Accelerator = Literal["gpu", "cpu"]
_TRAINER = ("workloads/__init__.py", "workloads/trainer")
_LOCKS: Mapping[str, str] = {"gpu": "requirements/trainer-gpu.lock", "cpu": "requirements/trainer.lock"}
_PLATFORMS: Mapping[str, str] = {"gpu": "cuda,cpu", "cpu": "cpu"}


@dataclass(frozen=True)
class Source:
    """What an image is built from.

    Attributes:
        archive: a .tar.gz.
        args: the Dockerfile's build arguments.
        tag: the image's tag: a hash of the archive's content and the arguments.
        left_out: the trainer's Python files that git does not know.
    """

    archive: bytes
    args: Mapping[str, str]
    tag: str
    left_out: tuple[str, ...] = ()


def pack(accelerator: Accelerator, base: str = BASE, root: Path = ROOT) -> Source:
    """Packs the image's source.

    Raises:
        OperatorError: a file is missing.
    """
    known = _tracked(root)
    trainer = sorted(_python_files(root))
    files = [name for name in trainer if known is None or name in known]
    lock = _LOCKS[accelerator]
    content = _tar(root, sorted([DOCKERFILE, "requirements/bootstrap.lock", lock, *files]))
    args = {"BASE": base, "LOCK": lock, "PLATFORMS": _PLATFORMS[accelerator]}
    digest = hashlib.sha256(content + json.dumps(args, sort_keys=True).encode()).hexdigest()
    # Uncompressed content: another zlib compresses otherwise.
    archive = gzip.compress(content, mtime=0)
    return Source(archive, args, digest[:TAG_LENGTH], tuple(name for name in trainer if name not in files))


def _python_files(root: Path) -> Iterator[str]:
    for start in _TRAINER:
        path = root / start
        for file in [path] if path.is_file() else path.rglob("*.py"):
            yield file.relative_to(root).as_posix()


def _tracked(root: Path) -> set[str] | None:
    """What git lists of the trainer's files; None where there is no git or no checkout."""
    if not (root / ".git").exists() or shutil.which("git") is None:
        return None
    listed = subprocess.run(
        ["git", "-C", str(root), "ls-files", "-z", "--", *_TRAINER], capture_output=True, check=False
    )
    return set(listed.stdout.decode().split("\0")) if listed.returncode == 0 else None


def _tar(root: Path, names: list[str]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for name in names:
            try:
                data = (root / name).read_bytes()
            except FileNotFoundError as error:
                raise OperatorError(
                    f"{root / name} is missing, and the image needs it: run this in a checkout"
                ) from error
            member = tarfile.TarInfo(name)
            member.size, member.mode = len(data), 0o644  # owner 0, time 0
            tar.addfile(member, io.BytesIO(data))
    return buffer.getvalue()
