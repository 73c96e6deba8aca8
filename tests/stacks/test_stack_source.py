"""A stack's file read without the engine says the same as the stack itself would."""

from pathlib import Path

import pytest

from infra.errors import InputError
from stacks.config import CloudRunConfig, FoundationConfig, StackConfig, read
from stacks.source import SECRET

ROOT = Path(__file__).parents[2]
IMAGE = f"us-central1-docker.pkg.dev/demo-project/trainers/trainer@sha256:{'0' * 64}"
BASE = f"""\
config:
  gcp:project: demo-project
  gcp:region: us-central1
  holdfast:image: {IMAGE}
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "Pulumi.dev-cloud-run.yaml"


def refused(file: Path, text: str | None, model: type[StackConfig] = CloudRunConfig) -> list[str]:
    if text is not None:
        file.write_text(text, encoding="utf-8")
    with pytest.raises(InputError) as raised:
        read(model, "dev-cloud-run", file)
    return str(raised.value).splitlines()


@pytest.mark.parametrize(("stack", "model"), [("dev-foundation", FoundationConfig), ("dev-cloud-run", CloudRunConfig)])
def test_the_shipped_files_can_be_read(stack: str, model: type[StackConfig]) -> None:
    config, target = read(model, stack, ROOT / "stacks" / f"Pulumi.{stack}.yaml")
    assert (target.project, target.region) == ("holdfast-dev", "us-central1")
    assert config.protected(stack) is False


def test_values_have_their_types_and_secrets_stay_encrypted(file: Path) -> None:
    more = """\
  holdfast:cpu: 8
  holdfast:maxRetries: "5"
  holdfast:mountOptions: [implicit-dirs]
  holdfast:env: {HOLDFAST_STEPS: 1000}
  holdfast:secretEnv: {TOKEN: {secure: "v1:abcdef"}}
"""
    file.write_text(BASE + more, encoding="utf-8")
    config, target = read(CloudRunConfig, "dev-cloud-run", file)
    assert (config.cpu, config.max_retries, config.mount_options) == ("8", 5, ["implicit-dirs"])
    assert config.env == {"HOLDFAST_STEPS": "1000"}
    assert config.secret_env == {"TOKEN": SECRET}
    assert target.project == "demo-project"


@pytest.mark.parametrize(
    ("more", "key", "says"),
    [
        ("  holdfast:maxRetrys: 3\n", "holdfast:maxRetrys", "did you mean holdfast:maxRetries?"),
        ("  holdfast:taskTimeout: 168h\n", "holdfast:taskTimeout", "Set at most 43200s"),
        ("  holdfast:secretEnv: {TOKEN: hunter2}\n", "holdfast:secretEnv", "is in plain text"),
        ('  holdfast:env: {TOKEN: {secure: "v1:x"}}\n', "holdfast:env", "is encrypted"),
        ('  holdfast:jobName: {secure: "v1:x"}\n', "holdfast:jobName", "is encrypted"),
        ("  holdfst:cpu: 8\n", "holdfst:cpu", "did you mean holdfast:cpu?"),
    ],
)
def test_what_the_stack_would_refuse_is_refused_in_the_same_words(file: Path, more: str, key: str, says: str) -> None:
    [line] = refused(file, BASE + more)
    assert line.startswith(f"stacks/Pulumi.dev-cloud-run.yaml, {key}: ")
    assert says in line
    assert "hunter2" not in line


def test_what_is_missing_is_named(file: Path) -> None:
    lines = refused(file, "config:\n")
    assert [line.partition(", ")[2].partition(": is missing")[0] for line in lines] == [
        "holdfast:image",
        "gcp:project",
        "gcp:region",
    ]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (None, "there is no such file"),
        ("config: [", "cannot be read"),
        ("config: 3\n", "is no stack's configuration"),
        ("- config\n", "is no stack's configuration"),
    ],
)
def test_a_file_that_is_none_is_refused_by_name(file: Path, text: str | None, says: str) -> None:
    lines = refused(file, text)
    assert lines[0].startswith("stacks/Pulumi.dev-cloud-run.yaml: ")
    assert says in lines[0]
