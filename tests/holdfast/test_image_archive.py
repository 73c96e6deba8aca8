"""The image's source: the same bytes for the same files, and only what belongs in it."""

from __future__ import annotations

import gzip
import io
import os
import subprocess
import tarfile
import time
from pathlib import Path

import pytest

from holdfast.errors import OperatorError
from holdfast.image import archive

FILES = {
    "workloads/Dockerfile": "FROM scratch\n",
    "workloads/__init__.py": "",
    "workloads/trainer/__init__.py": "",
    "workloads/trainer/train.py": "STEPS = 1\n",
    "requirements/bootstrap.lock": "uv==1\n",
    "requirements/trainer.lock": "jax==1\n",
    "requirements/trainer-gpu.lock": "jax==1\njax-cuda==1\n",
}


def tree(root: Path) -> Path:
    for name, text in FILES.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text, encoding="utf-8")
    return root


def members(source: archive.Source) -> list[tarfile.TarInfo]:
    with tarfile.open(fileobj=io.BytesIO(source.archive), mode="r:gz") as tar:
        return tar.getmembers()


def names(source: archive.Source) -> list[str]:
    return [member.name for member in members(source)]


def test_the_same_files_give_the_same_bytes_wherever_and_whenever_they_lie(tmp_path: Path) -> None:
    first, second = tree(tmp_path / "a"), tree(tmp_path / "b")
    os.utime(second / "workloads/trainer/train.py", (time.time() - 1e6,) * 2)
    (second / "workloads/trainer/train.py").chmod(0o700)
    assert archive.pack("cpu", root=first) == archive.pack("cpu", root=second)


def test_only_what_the_image_needs_is_in_it_sorted_and_without_traces_of_who_packed_it(tmp_path: Path) -> None:
    root = tree(tmp_path)
    for name in (
        "workloads/trainer/__pycache__/train.cpython-311.pyc",
        "workloads/trainer/notes.txt",
        "pyproject.toml",
    ):
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_text("x", encoding="utf-8")
    source = archive.pack("cpu", root=root)
    assert names(source) == sorted(set(FILES) - {"requirements/trainer-gpu.lock"})
    assert {(m.uid, m.gid, m.uname, m.mtime, m.mode) for m in members(source)} == {(0, 0, "", 0, 0o644)}
    assert source.archive[4:8] == bytes(4)  # gzip's own time


@pytest.mark.parametrize(
    ("what", "accelerator", "base"), [("accelerator", "gpu", archive.BASE), ("base", "cpu", "python@sha256:1")]
)
def test_the_tag_follows_the_arguments(tmp_path: Path, what: str, accelerator: archive.Accelerator, base: str) -> None:
    root = tree(tmp_path)
    assert archive.pack(accelerator, base, root).tag != archive.pack("cpu", root=root).tag, what


def test_the_tag_follows_the_content_of_what_is_packed_and_nothing_else(tmp_path: Path) -> None:
    root = tree(tmp_path)
    before = archive.pack("cpu", root=root).tag
    (root / "README.md").write_text("new", encoding="utf-8")
    assert archive.pack("cpu", root=root).tag == before
    (root / "workloads/trainer/train.py").write_text("STEPS = 2\n", encoding="utf-8")
    assert archive.pack("cpu", root=root).tag != before


def test_the_gpu_image_has_its_own_lock_and_may_not_fall_back_to_the_cpu(tmp_path: Path) -> None:
    source = archive.pack("gpu", root=tree(tmp_path))
    assert "requirements/trainer-gpu.lock" in names(source)
    assert "requirements/trainer.lock" not in names(source)
    assert source.args["LOCK"] == "requirements/trainer-gpu.lock"
    assert source.args["PLATFORMS"].split(",")[0] == "cuda"


def test_in_a_checkout_what_git_does_not_know_stays_out_and_is_named(tmp_path: Path) -> None:
    root = tree(tmp_path)
    for args in (["init", "-q"], ["add", "workloads/__init__.py", "workloads/trainer"]):
        subprocess.run(["git", "-C", str(root), *args], check=True, capture_output=True)
    before = archive.pack("cpu", root=root)
    (root / "workloads/trainer/scratch.py").write_text("", encoding="utf-8")
    after = archive.pack("cpu", root=root)
    assert after.left_out == ("workloads/trainer/scratch.py",)
    assert (after.archive, after.tag) == (before.archive, before.tag)


def test_a_missing_lock_is_named(tmp_path: Path) -> None:
    root = tree(tmp_path)
    (root / "requirements/trainer.lock").unlink()
    with pytest.raises(OperatorError, match=r"requirements/trainer\.lock is missing"):
        archive.pack("cpu", root=root)


def test_another_compression_does_not_change_the_tag(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = tree(tmp_path)
    before = archive.pack("cpu", root=root)
    compress = gzip.compress
    monkeypatch.setattr(gzip, "compress", lambda data, mtime: compress(data, 1, mtime=mtime))
    after = archive.pack("cpu", root=root)
    assert (after.archive != before.archive, after.tag) == (True, before.tag)
