"""The sealed environment of a rehearsal: it cannot touch a real cloud, and cannot dirty the checkout.

Private PULUMI_HOME, local backend, passphrase, CLOUDSDK_CONFIG and KUBECONFIG; a copy of the project with its stacks'
configuration; an environment of which only PATH and the locale come from outside. Every rehearsal has its own folder,
so two can run at once; one whose owner died is ended and removed by the next.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import yaml

from holdfast import toolcache
from holdfast.engine import Engine
from mockgcp.planes.processes import ProcessLedger, lives

REPOSITORY = Path(__file__).resolve().parents[2]
# What ties a stack's file to its real backend and keys, and the secrets that only those can read.
_KEYS_OF_THE_REAL_STACK = ("encryptionsalt", "encryptedkey", "secretsprovider")
_OWNER = "owner.pid"


@dataclass(frozen=True)
class StackFile:
    """A stack's configuration as the rehearsal has it: plain values, and the paths whose secrets were replaced."""

    config: dict[str, Any]
    secrets: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Sealed:
    """A rehearsal's folder. `project` holds Pulumi.yaml, `policies` the pack, `state` what planes and buckets keep."""

    root: Path

    @property
    def project(self) -> Path:
        return self.root / "project"

    @property
    def policies(self) -> Path:
        return self.project / "policies"

    @property
    def state(self) -> Path:
        return self.root / "state"

    def environ(self, engine: Engine, provider_port: int, path: Sequence[Path] = ()) -> dict[str, str]:
        """The whole environment of every Pulumi command; nothing of the caller's clouds is in it.

        `path`: what comes before the caller's own PATH.
        """
        base = {key: os.environ[key] for key in ("PATH", "LANG", "LC_ALL", "TMPDIR", "TZ") if key in os.environ}
        base["PATH"] = os.pathsep.join([*map(str, path), base.get("PATH", os.defpath)])
        private = {
            "HOME": self.root / "home",
            "PULUMI_HOME": self.root / "pulumi",
            "PULUMI_BACKEND_URL": f"file://{self.root / 'backend'}",
            "CLOUDSDK_CONFIG": self.root / "gcloud",
            "KUBECONFIG": self.root / "kubeconfig",
            "PULUMI_CONFIG_PASSPHRASE": "rehearsal",
            "PULUMI_SKIP_UPDATE_CHECK": "true",
            "PULUMI_DEBUG_COMMANDS": "true",  # for --event-log
            "PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION": "true",
            "PULUMI_DEBUG_PROVIDERS": f"gcp:{provider_port}",
        }
        return engine.environ({**base, **{key: str(value) for key, value in private.items()}}, sys.executable)


def read_stack(path: Path) -> StackFile:
    """A stack's file without its ties to a real backend.

    Raises:
        FileNotFoundError: there is no such stack.
    """
    document: dict[str, Any] = yaml.safe_load(path.read_text(encoding="utf-8")) or {}
    secrets: list[str] = []
    config = {key: _plain(value, key, secrets) for key, value in (document.get("config") or {}).items()}
    return StackFile(config, secrets)


def _plain(value: Any, path: str, secrets: list[str]) -> Any:
    if isinstance(value, Mapping):
        if set(value) == {"secure"}:
            secrets.append(path)
            return "rehearsal"
        return {key: _plain(item, f"{path}.{key}", secrets) for key, item in value.items()}
    if isinstance(value, list):
        return [_plain(item, f"{path}[{index}]", secrets) for index, item in enumerate(value)]
    return value


def _copy_project(target: Path) -> None:
    """Copies what the engine reads, with both runtimes pointed at this interpreter's environment."""
    target.mkdir(parents=True)
    for folder in ("stacks", "policies"):
        shutil.copytree(REPOSITORY / folder, target / folder, ignore=shutil.ignore_patterns("__pycache__", "*.yaml"))
    for name in ("Pulumi.yaml", "policies/PulumiPolicy.yaml"):
        document = yaml.safe_load((REPOSITORY / name).read_text(encoding="utf-8"))
        document["runtime"]["options"]["virtualenv"] = sys.prefix
        (target / name).write_text(yaml.safe_dump(document, sort_keys=False), encoding="utf-8")


def write_stack(sealed: Sealed, stack: str, file: StackFile) -> None:
    """Puts a stack's configuration into the rehearsal's project."""
    path = sealed.project / "stacks" / f"Pulumi.{stack}.yaml"
    path.write_text(yaml.safe_dump({"config": file.config}, sort_keys=False), encoding="utf-8")


@contextlib.contextmanager
def sealed_environment(*, keep: bool = False) -> Iterator[Sealed]:
    """Makes a rehearsal's folder and removes it afterwards; `keep` leaves it for a look."""
    home = toolcache.root() / "rehearsals"
    home.mkdir(parents=True, exist_ok=True)
    _reap(home)
    root = Path(tempfile.mkdtemp(prefix="rehearsal-", dir=home))
    (root / _OWNER).write_text(f"{os.getpid()} {psutil.Process().create_time()}", encoding="utf-8")
    for folder in ("home", "pulumi", "backend", "gcloud", "state"):
        (root / folder).mkdir()
    _copy_project(root / "project")
    try:
        yield Sealed(root)
    finally:
        if keep:
            (root / _OWNER).unlink()  # or the next rehearsal would take it for a dead one's
        else:
            shutil.rmtree(root, ignore_errors=True)


def _reap(home: Path) -> None:
    """Ends and removes rehearsals whose owner died before it could."""
    for root in home.glob("rehearsal-*"):
        owner = root / _OWNER
        try:
            pid, created = owner.read_text(encoding="utf-8").split()
        except (FileNotFoundError, ValueError):
            continue  # being made right now, or kept
        if not lives(int(pid), float(created)):
            for ledger in root.rglob("processes.jsonl"):
                ProcessLedger(ledger).kill()
            shutil.rmtree(root, ignore_errors=True)
