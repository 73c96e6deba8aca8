"""A stack's file, as the operator's commands read it."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast import stackfile
from holdfast.errors import OperatorError


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (": [", "cannot be read"),
        ("[1]", "is no stack's configuration"),
        ("config: [1]", "is no stack's configuration"),
        ("config:\n  holdfast:stack: nothing", "'nothing' is not a stack of this project"),
    ],
    ids=["no yaml", "a list", "a list below config", "no such module"],
)
def test_a_file_that_is_wrong_is_named_with_the_reason(tmp_path: Path, text: str, why: str) -> None:
    (tmp_path / "Pulumi.dev-cloud-run.yaml").write_text(text, encoding="utf-8")
    with pytest.raises(OperatorError, match=rf"stacks/Pulumi\.dev-cloud-run\.yaml.*{why}"):
        stackfile.module("dev-cloud-run", tmp_path)


@pytest.mark.parametrize("text", ["", "config:", "config:\n  gcp:project: x"])
def test_a_name_says_enough_even_of_an_empty_file(tmp_path: Path, text: str) -> None:
    (tmp_path / "Pulumi.dev-cloud-run.yaml").write_text(text, encoding="utf-8")
    assert stackfile.module("dev-cloud-run", tmp_path) == "cloud-run"
