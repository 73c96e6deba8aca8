"""`holdfast image` from the stack's file to the stack's file, on an emulated cloud."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from holdfast import cli, stackfile
from holdfast.gcp import google
from holdfast.gcp.emulated import EmulatedApi
from holdfast.image import archive, build
from mockgcp.cloud import Cloud
from mockgcp.services import artifactregistry

PROJECT = "acme-train"
FOUNDATION = f"config:\n  gcp:project: {PROJECT}\n  gcp:region: us-east4\n"
JOB = FOUNDATION + "  # Ours.\n  holdfast:image: host/p/r/i@sha256:" + "0" * 64 + "\n"
IMAGE = f"us-east4-docker.pkg.dev/{PROJECT}/trainers/{build.NAME}@sha256:" + "3" * 64


@pytest.fixture
def cloud(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cloud:
    """A cloud without a foundation, and two stacks' files that name it."""
    (tmp_path / "Pulumi.dev-foundation.yaml").write_text(FOUNDATION, encoding="utf-8")
    (tmp_path / "Pulumi.dev-cloud-run.yaml").write_text(JOB, encoding="utf-8")
    path = stackfile.path
    monkeypatch.setattr(stackfile, "path", lambda stack, folder=tmp_path: path(stack, tmp_path))
    made = Cloud(state_dir=tmp_path / "cloud")
    made.seed_project(PROJECT).services.update(
        f"{name}.googleapis.com" for name in ("artifactregistry", "cloudbuild", "iam", "logging", "storage")
    )
    monkeypatch.setattr(google, "connect", lambda project, universe: EmulatedApi(made))
    return made


def run(*args: str) -> tuple[int, str]:
    result = CliRunner().invoke(cli.app, ["image", *args])
    return result.exit_code, result.output + str(result.exception or "")


def pack(monkeypatch: pytest.MonkeyPatch, **changes: object) -> list[object]:
    """Puts a small source in the place of the checkout's; the bases it is asked for."""
    bases: list[object] = []

    def packed(accelerator: str, base: str) -> archive.Source:
        bases.append((accelerator, base))
        return archive.Source(b"", {}, "a" * archive.TAG_LENGTH, **changes)  # type: ignore[arg-type]

    monkeypatch.setattr(archive, "pack", packed)
    return bases


def test_the_digest_goes_into_the_stacks_file_and_nothing_else_changes(
    cloud: Cloud, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pack(monkeypatch, left_out=("workloads/trainer/new.py",))
    artifactregistry.seed_image(cloud, IMAGE, "a" * archive.TAG_LENGTH)
    code, output = run()
    assert (code, IMAGE in output, "written into" in output) == (0, True, True), output
    assert (tmp_path / "Pulumi.dev-cloud-run.yaml").read_text(encoding="utf-8") == (
        JOB[: JOB.index("host/")] + IMAGE + "\n"
    )
    assert "has it already" in run()[1]


def test_without_a_foundation_it_says_what_to_do_first_and_leaves_the_file(
    cloud: Cloud, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pack(monkeypatch)
    code, output = run()
    assert (code, "pulumi up" in output) == (1, True), output
    assert (tmp_path / "Pulumi.dev-cloud-run.yaml").read_text(encoding="utf-8") == JOB


@pytest.mark.parametrize(
    ("args", "configured", "asked"),
    [
        ((), "", ("gpu", archive.BASE)),
        ((), "  holdfast:imageBase: python@sha256:1\n", ("gpu", "python@sha256:1")),
        (("--accelerator", "cpu", "--base", "mine"), "  holdfast:imageBase: python@sha256:1\n", ("cpu", "mine")),
    ],
)
def test_the_base_image_is_the_options_else_the_files_else_the_dockerfiles(
    cloud: Cloud,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    args: tuple[str, ...],
    configured: str,
    asked: tuple[str, str],
) -> None:
    (tmp_path / "Pulumi.dev-cloud-run.yaml").write_text(JOB + configured, encoding="utf-8")
    bases = pack(monkeypatch)
    run(*args)
    assert bases == [asked]


def test_an_unknown_stack_is_named(cloud: Cloud) -> None:
    code, output = run("--stack", "prod-cloud-run")
    assert (code, "prod-cloud-run" in output) == (1, True)
    code, output = run("--stack", "dev-foundation")
    assert (code, "dev-foundation (foundation) runs no image" in output) == (1, True), output
