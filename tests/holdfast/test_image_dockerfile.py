"""The Dockerfile, which only a machine with buildah builds here: hadolint's rules, and ours."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.image import archive

DOCKERFILE = archive.ROOT / archive.DOCKERFILE


def stages() -> list[list[str]]:
    """The instructions of each stage, each on one line; before the first FROM stands the first list."""
    text = re.sub(r"\\\n\s*", " ", re.sub(r"^\s*#.*\n", "", DOCKERFILE.read_text(encoding="utf-8"), flags=re.M))
    found: list[list[str]] = [[]]
    for line in filter(None, map(str.strip, text.splitlines())):
        if line.startswith("FROM "):
            found.append([])
        found[-1].append(line)
    return found


def values(stage: list[str], verb: str) -> list[str]:
    return [line.partition(" ")[2] for line in stage if line.startswith(f"{verb} ")]


def test_hadolint_has_nothing_to_say() -> None:
    hadolint = shutil.which("hadolint", path=f"{Path(sys.executable).parent}")
    if hadolint is None:
        pytest.skip("hadolint is not in this environment (group dev)")
    said = subprocess.run(
        [hadolint, "--failure-threshold=style", str(DOCKERFILE)], capture_output=True, text=True, check=False
    )
    assert (said.returncode, said.stdout) == (0, "")


def test_the_last_stage_only_takes_what_was_built_and_runs_it_as_nobody_under_an_init() -> None:
    last = stages()[-1]
    assert values(last, "RUN") == []  # so no package manager, compiler or installer comes in
    assert all(copy.startswith("--from=build ") for copy in values(last, "COPY"))
    assert not any("/build" in copy for copy in values(last, "COPY"))
    [user] = values(last, "USER")
    assert re.fullmatch(r"[1-9]\d*:[1-9]\d*", user)
    assert json.loads(values(last, "ENTRYPOINT")[0]) == ["tini", "--", "python", "-m", "workloads.trainer"]
    assert any("PYTHONUNBUFFERED=1" in env for env in values(last, "ENV"))


def test_what_is_installed_is_pinned_by_hash_and_comes_from_where_the_builder_says() -> None:
    text = DOCKERFILE.read_text(encoding="utf-8")
    installs = [line for stage in stages() for line in values(stage, "RUN") if re.search(r"pip (install|sync)", line)]
    assert installs
    assert all("--require-hashes" in line for line in installs)
    assert "://" not in text  # no index, no download


@pytest.mark.parametrize("accelerator", ["gpu", "cpu"])
def test_every_argument_it_is_given_is_one_it_has_and_every_source_exists(accelerator: archive.Accelerator) -> None:
    source = archive.pack(accelerator)
    declared = {arg.partition("=")[0] for stage in stages() for arg in values(stage, "ARG")}
    assert declared == {*source.args, "SOURCE_HASH"}
    copied = [words for stage in stages() for words in values(stage, "COPY") if not words.startswith("--from")]
    for words in copied:
        name = words.split()[0]
        assert (archive.ROOT / source.args.get(name.strip("${}"), name)).exists(), name


def test_its_own_defaults_are_those_of_a_gpu_image() -> None:
    args = archive.pack("gpu").args
    said = dict(arg.partition("=")[::2] for stage in stages() for arg in values(stage, "ARG"))
    assert {name: said[name] for name in args} == dict(args)
