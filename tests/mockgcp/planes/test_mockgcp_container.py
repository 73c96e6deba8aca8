"""What a container's process is made of. That it works is proved by tests/containers, which need root and buildah."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from mockgcp.planes import container
from mockgcp.planes.cloud_run import Launch, Mount
from mockgcp.planes.container import ContainerImage

ME = (os.getuid(), os.getgid())
IMAGE = ContainerImage(
    Path("/images/1"), ("tini", "--", "train"), {"HOME": "/tmp", "A": "image"}, (65532, 65532), "/opt"
)


def launch(tmp_path: Path, *command: str, read_only: bool = False) -> tuple[list[str], dict[str, str]]:
    bucket = tmp_path / "bucket"
    (bucket / "saved").mkdir(parents=True)
    mounts = {"/checkpoints": Mount(bucket, read_only, owner=ME)}
    return IMAGE.process(Launch(command, ("--fast",), {"A": "job", "TOKEN": "secret"}, mounts, tmp_path))


def test_the_command_is_the_jobs_else_the_images_and_the_arguments_follow(tmp_path: Path) -> None:
    argv, _ = launch(tmp_path / "1")
    assert argv[argv.index("--") + 1 :] == ["tini", "--", "train", "--fast"]
    argv, _ = launch(tmp_path / "2", "other")
    assert argv[argv.index("--") + 1 :] == ["other", "--fast"]


def test_the_environment_is_the_images_and_the_jobs_alone_and_in_no_argument(tmp_path: Path) -> None:
    argv, env = launch(tmp_path)
    assert env == {"HOME": "/tmp", "A": "job", "TOKEN": "secret"}
    assert not any("secret" in word for word in argv)


@pytest.mark.parametrize(("read_only", "mode"), [(False, "rw"), (True, "ro")])
def test_tmp_is_the_attempts_own_and_the_bucket_is_where_the_job_mounts_it(
    tmp_path: Path, read_only: bool, mode: str
) -> None:
    argv, _ = launch(tmp_path, read_only=read_only)
    first = argv.index("/opt") + 1
    assert argv[first : argv.index("--")] == [
        *(str(tmp_path / "tmp"), "/tmp", "rw"),
        *(str(tmp_path / "bucket"), "/checkpoints", mode),
    ]
    assert (tmp_path / "tmp").stat().st_mode & 0o7777 == 0o1777


def test_a_missing_program_is_named_with_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name, path: None if name == "buildah" else f"/usr/bin/{name}")
    found = container.availability()
    assert (found.usable, found.why, found.how) == (False, "buildah missing", "apt-get install buildah")


def test_who_is_not_root_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name, path: f"/usr/bin/{name}")
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert (container.availability().usable, container.availability().how) == (False, "run as root")
