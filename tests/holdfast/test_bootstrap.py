from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast import bootstrap
from holdfast.toolcache import ToolError

FAKE_UV = """#!/bin/sh
[ "$1" = --version ] && { echo "uv VERSION"; exit; }
echo "$@" >> "$UV_CALLS"
[ "$1" = venv ] || exit 0
for last; do case "$last" in -*) ;; *) venv=$last ;; esac; done
mkdir -p "$venv/bin"
: > "$venv/bin/python"
printf 'home = %s\\nversion_info = %s\\n' "$UV_HOME" "$UV_PY" > "$venv/pyvenv.cfg"
"""


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout with what bootstrap reads, a uv that only notes how it is called, and a home of its own."""
    root = tmp_path / "checkout"
    (root / "holdfast").mkdir(parents=True)
    for name in ("bootstrap.py", "toolcache.py"):
        shutil.copy(bootstrap.ROOT / "holdfast" / name, root / "holdfast")
    shutil.copytree(bootstrap.ROOT / "requirements", root / "requirements")
    shutil.copy(bootstrap.ROOT / "pyproject.toml", root)
    (tmp_path / "home").mkdir()
    _fake_uv(tmp_path, "99.0.0")
    return root


def _fake_uv(tmp_path: Path, version: str) -> None:
    uv = tmp_path / "bin" / "uv"
    uv.parent.mkdir(exist_ok=True)
    uv.write_text(FAKE_UV.replace("VERSION", version))
    uv.chmod(0o755)


def _start(checkout: Path, *args: str, code: str | None = None) -> subprocess.Popen[str]:
    tmp_path = checkout.parent
    environ = {
        "PATH": f"{tmp_path / 'bin'}:/usr/bin:/bin",
        "HOME": str(tmp_path / "home"),
        "UV_CALLS": str(tmp_path / "calls"),
        "UV_HOME": str(bootstrap._base_python().parent),
        "UV_PY": sys.version.split()[0],
    }
    what = ["-c", code] if code else [str(checkout / "holdfast" / "bootstrap.py")]
    # The base interpreter: a virtual environment's would find the real uv beside itself.
    command = [str(bootstrap._base_python()), *what, *args]
    return subprocess.Popen(command, env=environ, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def _run(checkout: Path, *args: str, code: str | None = None) -> tuple[int, str, str]:
    process = _start(checkout, *args, code=code)
    out, err = process.communicate(timeout=60)
    return process.returncode, out, err


def _calls(checkout: Path) -> list[str]:
    calls = checkout.parent / "calls"
    return calls.read_text().splitlines() if calls.exists() else []


def test_makes_syncs_and_installs_then_does_nothing(checkout: Path) -> None:
    code, out, err = _run(checkout, "--groups", "base,dev")
    assert (code, err) == (0, "")
    venv, sync, install = _calls(checkout)
    assert venv.startswith("venv ")
    assert sync.startswith("pip sync ")
    assert "--require-hashes" in sync
    assert [Path(word).name for word in sync.split() if word.endswith(".lock")] == [
        "bootstrap.lock",
        "base.lock",
        "dev.lock",
    ]
    assert install.startswith("pip install ")
    assert "--no-deps --no-build-isolation -e" in install
    assert "installing bootstrap, base, dev" in out
    assert _run(checkout, "--groups", "base,dev") == (0, "", "")
    assert len(_calls(checkout)) == 3


def test_a_changed_lock_syncs_again_into_the_same_environment(checkout: Path) -> None:
    _run(checkout)
    with (checkout / "requirements" / "dev.lock").open("a") as lock:
        lock.write("# changed\n")
    assert _run(checkout)[0] == 0
    assert [call.split()[0] for call in _calls(checkout)] == ["venv", "pip", "pip", "pip", "pip"]


def test_an_environment_of_another_python_is_made_anew(checkout: Path) -> None:
    _run(checkout)
    (checkout / ".venv" / "pyvenv.cfg").write_text("home = /opt/python3.12/bin\nversion_info = 3.12.1\n")
    (checkout / ".venv" / bootstrap.STAMP).unlink()
    _run(checkout)
    assert [call.split()[0] for call in _calls(checkout)] == ["venv", "pip", "pip"] * 2


def test_two_at_once_make_it_once(checkout: Path) -> None:
    both = [_start(checkout) for _ in range(2)]
    for process in both:
        assert process.communicate(timeout=60)[1] == ""
        assert process.returncode == 0
    assert len(_calls(checkout)) == 3


def test_writes_only_the_environment_and_the_cache(checkout: Path) -> None:
    before = sorted(path for path in checkout.rglob("*") if "__pycache__" not in path.parts)
    _run(checkout)
    after = sorted(path for path in checkout.rglob("*") if not {"__pycache__", ".venv"} & set(path.parts))
    assert after == before
    assert os.listdir(checkout.parent / "home") == [".cache"]
    assert os.listdir(checkout.parent / "home" / ".cache") == ["holdfast"]


def test_without_pip_and_with_an_old_uv_it_names_the_ways_out(checkout: Path) -> None:
    _fake_uv(checkout.parent, "0.1.0")
    script = checkout / "holdfast" / "bootstrap.py"
    no_pip = (
        "import importlib.util as u, runpy, sys; find = u.find_spec; "
        "u.find_spec = lambda name, *a: None if name == 'pip' else find(name, *a); "
        f"sys.path.insert(0, ''); runpy.run_path({str(script)!r}, run_name='__main__')"
    )
    code, _, err = _run(checkout, code=no_pip)
    assert code == 1
    for words in ("has no pip", "apt install python3-pip", "put uv ", "make env PYTHON="):
        assert words in err
    assert not (checkout / ".venv").exists()


def test_an_old_python_is_told_what_is_needed(checkout: Path) -> None:
    script = checkout / "holdfast" / "bootstrap.py"
    old = f"import runpy, sys; sys.version_info = (3, 9, 2); runpy.run_path({str(script)!r}, run_name='__main__')"
    code, out, err = _run(checkout, code=old)
    assert (code, out) == (1, "")
    assert "needs Python 3.11 or newer" in err
    assert "make env PYTHON=" in err


def test_an_unknown_group_is_refused(checkout: Path) -> None:
    code, _, err = _run(checkout, "--groups", "base,trainr")
    assert code == 1
    assert "no group trainr; there are base, mockgcp, trainer, ray, dev" in err


def test_stamp_follows_locks_groups_and_pyproject(checkout: Path) -> None:
    few = bootstrap.lock_files(["base"], checkout)
    stamps = {
        bootstrap.stamp(few, checkout),
        bootstrap.stamp(bootstrap.lock_files(["base", "dev"], checkout), checkout),
    }
    (checkout / "pyproject.toml").write_text("changed")
    stamps.add(bootstrap.stamp(few, checkout))
    few[1].write_text("changed")
    stamps.add(bootstrap.stamp(few, checkout))
    assert len(stamps) == 4


def test_bootstrap_is_in_every_choice_of_groups() -> None:
    assert [path.stem for path in bootstrap.lock_files(["dev", "base"])] == ["bootstrap", "base", "dev"]
    with pytest.raises(ToolError, match="no group gpu"):
        bootstrap.lock_files(["gpu"])


def test_uv_pin() -> None:
    assert bootstrap.uv_pin("tomlkit==0.15.2 \\\n    --hash=sha256:0\nuv==0.13.9 \\\n    --hash=sha256:1\n") == "0.13.9"
