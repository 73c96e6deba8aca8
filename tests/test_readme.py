"""What the README promises: its Python runs, its files and make targets exist."""

import re
from pathlib import Path

import pulumi
import pulumi_gcp as gcp

from holdfast.cli import app

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def my_program() -> None:
    bucket = gcp.storage.Bucket("checkpoints", name="checkpoints", location="us-central1")
    pulumi.export("bucket", bucket.name)


def test_the_python_example_runs() -> None:
    examples = re.findall(r"```python\n(.*?)```", README, re.S)
    assert len(examples) == 1
    exec(examples[0], {"my_program": my_program})


def test_the_make_targets_exist() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.M))
    named = set(re.findall(r"`?make ([a-z][a-z-]+)", README))
    assert named
    assert named <= targets


def test_the_linked_files_exist() -> None:
    links = re.findall(r"\]\(([^)#:]+)\)", README)
    assert links
    assert [link for link in links if not (ROOT / link).exists()] == []


def test_the_proofs_exist() -> None:
    named = set(re.findall(r"`(tests/[\w./]+)`", README))
    assert len(named) > 10
    assert [path for path in sorted(named) if not (ROOT / path).exists()] == []


def test_the_subcommands_exist() -> None:
    named = set(re.findall(r"holdfast ([a-z]+)", README)) - {"for"}
    known = {command.name or command.callback.__name__ for command in app.registered_commands if command.callback}
    known |= {group.name for group in app.registered_groups}
    assert {"preflight", "submit", "image"} <= named <= known
