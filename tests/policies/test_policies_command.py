"""`holdfast policies`: the list is the pack's, in three formats, and the documentation is one of them."""

import json
import subprocess
import sys
from pathlib import Path

from typer.testing import CliRunner

from holdfast.cli import app
from policies.rules import RULES

DOCUMENT = Path(__file__).parents[2] / "docs" / "policies.md"


def printed(*args: str) -> str:
    done = CliRunner().invoke(app, ["policies", *args], env={"COLUMNS": "160"})
    assert done.exit_code == 0, done.output
    return done.stdout


def test_json_has_every_rule_with_all_that_is_known_of_it() -> None:
    listed = json.loads(printed("--json"))
    assert [each["name"] for each in listed] == [rule.name for rule in RULES]
    assert all(each.keys() == {"name", "severity", "summary", "source", "way_out"} for each in listed)
    assert all(all(each.values()) for each in listed)


def test_the_document_has_the_list_as_it_is_now() -> None:
    assert printed("--markdown") in DOCUMENT.read_text(encoding="utf-8"), "put `holdfast policies --markdown` in it"


def test_the_table_has_every_rule() -> None:
    said = printed()
    assert [rule.name for rule in RULES if rule.name not in said or rule.source[:40] not in said] == []


def test_help_says_how_to_run_the_pack() -> None:
    assert "pulumi up --policy-pack policies" in printed("--help")


def test_two_formats_are_refused() -> None:
    done = CliRunner().invoke(app, ["policies", "--json", "--markdown"])
    assert done.exit_code == 1
    assert "choose one" in str(done.exception)


def test_the_list_needs_no_sdk() -> None:
    program = "import sys, policies.rules; print([name for name in sys.modules if name.startswith('pulumi')])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
