"""The sealed environment: what is copied, what is left out, and what becomes of a rehearsal whose owner died."""

import os
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from holdfast.engine import Engine
from holdfast.rehearsal import sealed as module
from holdfast.rehearsal.sealed import read_stack, sealed_environment
from mockgcp.planes.processes import ProcessLedger


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOLDFAST_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def engine(folder: Path) -> Engine:
    return Engine(folder / "pulumi", "3.999.0", "path", folder, folder / "pulumi-language-python", None)


def test_a_stacks_file_loses_its_ties_and_its_secrets(tmp_path: Path) -> None:
    file = tmp_path / "Pulumi.prod.yaml"
    file.write_text("""
secretsprovider: gcpkms://projects/p/locations/l/keyRings/r/cryptoKeys/k
encryptedkey: abc
encryptionsalt: v1:abc
config:
  holdfast:env: {PLAIN: "1"}
  holdfast:secretEnv:
    TOKEN: {secure: v1:cipher}
  holdfast:list: [{secure: v1:other}]
""")
    found = read_stack(file)
    assert found.config == {
        "holdfast:env": {"PLAIN": "1"},
        "holdfast:secretEnv": {"TOKEN": "rehearsal"},
        "holdfast:list": ["rehearsal"],
    }
    assert found.secrets == ["holdfast:secretEnv.TOKEN", "holdfast:list[0]"]


def test_nothing_of_the_callers_clouds_gets_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("GOOGLE_CREDENTIALS", "PULUMI_ACCESS_TOKEN", "KUBECONFIG", "CLOUDSDK_CONFIG", "PULUMI_CONFIG"):
        monkeypatch.setenv(name, "the-real-one")
    with sealed_environment() as sealed:
        env = sealed.environ(engine(tmp_path), 1234)
        assert "the-real-one" not in env.values()
        for name in ("HOME", "PULUMI_HOME", "CLOUDSDK_CONFIG", "KUBECONFIG"):
            assert Path(env[name]).is_relative_to(sealed.root)
        assert env["PULUMI_BACKEND_URL"].startswith(f"file://{sealed.root}")
        assert not list(sealed.project.rglob("Pulumi.*.yaml"))
    assert not sealed.root.exists()


def test_a_dead_owners_rehearsal_is_ended_and_a_live_ones_is_left(cache: Path, tmp_path: Path) -> None:
    home = cache / "rehearsals"
    dead, alive = home / "rehearsal-dead", home / "rehearsal-alive"
    for folder in (dead, alive):
        folder.mkdir(parents=True)
    gone = subprocess.Popen([sys.executable, "-c", ""])
    created = psutil.Process(gone.pid).create_time()
    gone.wait()
    (dead / "owner.pid").write_text(f"{gone.pid} {created}")
    (alive / "owner.pid").write_text(f"{os.getpid()} {psutil.Process().create_time()}")
    ledger = ProcessLedger(dead / "state" / "processes.jsonl")
    orphan = ledger.spawn([sys.executable, "-c", "import time; time.sleep(60)"], env={}, cwd=tmp_path)
    try:
        module._reap(home)
        assert orphan.wait(timeout=5) != 0
    finally:
        orphan.kill()
        orphan.wait()
    assert not dead.exists()
    assert alive.exists()


def test_a_kept_rehearsal_stays(cache: Path) -> None:
    with sealed_environment(keep=True) as sealed:
        pass
    module._reap(cache / "rehearsals")
    assert sealed.root.exists()
