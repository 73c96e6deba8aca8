"""`holdfast policies`: the rules of the policy pack."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Column, Table
from rich.text import Text

from holdfast.commands.console import show
from holdfast.errors import OperatorError

if TYPE_CHECKING:
    from policies.rule import Rule

COLUMNS = ("name", "severity", "summary", "source", "way_out")


def policies(
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    markdown: Annotated[
        bool, typer.Option("--markdown", help="Print a Markdown table, as docs/policies.md has.")
    ] = False,
) -> None:
    """The rules that every deployment obeys: how strict each is, what it asks, why, and the way out.

    `pulumi up --policy-pack policies` (or `preview`) applies them: a mandatory rule that is violated stops the command,
    an advisory one is only said. This list needs neither the engine nor a stack.
    """
    from policies.rules import RULES

    if as_json and markdown:
        raise OperatorError("--json and --markdown are two formats: choose one")
    if as_json:
        print(json.dumps([{column: getattr(rule, column) for column in COLUMNS} for rule in RULES], indent=2))
    elif markdown:
        print("\n".join(_markdown(RULES)))
    else:
        show(_table(RULES))


def _table(rules: tuple[Rule, ...]) -> Table:
    table = Table(Column("rule", no_wrap=True), Column("what, and why", overflow="fold"), "way out", show_lines=True)
    for rule in rules:
        mandatory = rule.severity == "mandatory"
        name = Text.assemble((rule.name, "bold"), "\n", (rule.severity, "red" if mandatory else "yellow"))
        table.add_row(name, Text.assemble(rule.summary, "\n", (rule.source, "dim")), rule.way_out)
    return table


def _markdown(rules: tuple[Rule, ...]) -> list[str]:
    lines = ["| rule | severity | what | why | way out |", "|---|---|---|---|---|"]
    return lines + [
        f"| `{rule.name}` | {rule.severity} | {rule.summary} | [source]({rule.source}) | {rule.way_out} |"
        for rule in rules
    ]
