"""`holdfast:image` in a stack's file: one line changes, whatever stands around it."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.errors import OperatorError
from holdfast.image import stack_image

NEW = "r.pkg.dev/p/trainers/holdfast-trainer@sha256:" + "1" * 64
FILE = """# The job.
config:
  gcp:project: p  # ours
  # Put your image here.
  holdfast:image: OLD
  holdfast:env:
    HOLDFAST_STEPS: 1000
secretsprovider: passphrase
"""


def stack(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "Pulumi.dev-cloud-run.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def test_one_line_changes_and_comments_and_order_stay(tmp_path: Path) -> None:
    path = stack(tmp_path, FILE)
    assert stack_image.write(path, NEW) is True
    assert path.read_text(encoding="utf-8") == FILE.replace("image: OLD", f"image: {NEW}")
    assert stack_image.write(path, NEW) is False


@pytest.mark.parametrize(
    ("line", "written"),
    [
        ("  holdfast:image: OLD  # why\n", f"  holdfast:image: {NEW}  # why\n"),
        ('  "holdfast:image": "OLD"\n', f'  "holdfast:image": {NEW}\n'),
        ("    holdfast:image: 'OLD'\n", f"    holdfast:image: {NEW}\n"),
    ],
)
def test_however_the_line_is_written(tmp_path: Path, line: str, written: str) -> None:
    path = stack(tmp_path, f"config:\n{line}")
    assert stack_image.write(path, NEW)
    assert path.read_text(encoding="utf-8") == f"config:\n{written}"


def test_a_file_without_an_image_gets_one(tmp_path: Path) -> None:
    path = stack(tmp_path, "# Mine.\nconfig:  # of the job\n  gcp:project: p\n")
    assert stack_image.write(path, NEW)
    assert path.read_text(encoding="utf-8") == (
        f"# Mine.\nconfig:  # of the job\n  holdfast:image: {NEW}\n  gcp:project: p\n"
    )


@pytest.mark.parametrize(
    "text",
    [
        "config: {holdfast:image: OLD}\n",
        "config:\n  holdfast:image: >-\n    OLD\n",
        "other:\n  holdfast:image: OLD\nconfig:\n  holdfast:image: OLD\n",
        "config:\n  gcp:project: |\n    holdfast:image: OLD\n  holdfast:image: OLD\n",
        "",
    ],
)
def test_a_layout_that_a_line_cannot_change_is_left_alone_and_the_line_is_named(tmp_path: Path, text: str) -> None:
    path = stack(tmp_path, text)
    with pytest.raises(OperatorError, match=f"Write there: holdfast:image: {NEW}"):
        stack_image.write(path, NEW)
    assert path.read_text(encoding="utf-8") == text
