"""`holdfast rehearse`: a scenario on the real engine and an emulated cloud."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from holdfast.commands.console import clocked, out, require
from holdfast.errors import OperatorError

app = typer.Typer(no_args_is_help=True, help="Rehearse a scenario on the real engine and an emulated cloud.")


@app.callback()
def _group() -> None:
    """Keeps the scenario's name a subcommand while there is one only."""


@app.command("cloud-run")
def rehearse_cloud_run(
    environment: Annotated[
        str, typer.Option(help="Prefix of the stacks to rehearse: `dev` for dev-foundation.")
    ] = "dev",
    seed: Annotated[int, typer.Option(min=0, help="Seed of the weights, the data and where maintenance strikes.")] = 0,
    preemptions: Annotated[int, typer.Option(min=0, help="How often maintenance takes the instance away.")] = 1,
    steps: Annotated[int, typer.Option(min=2, help="Length of the training run, in steps.")] = 24,
    json_file: Annotated[Path | None, typer.Option("--json", metavar="FILE", help="Write the report here.")] = None,
    keep: Annotated[bool, typer.Option(help="Leave the rehearsal's folder for a look.")] = False,
    container: Annotated[
        bool, typer.Option("--container", help="Build the image by buildah and run the tasks in it (root; minutes).")
    ] = False,
) -> None:
    """Scenario A: preflight, price, up, image, execute, preempt, resume, verify, second up, destroy."""
    require({"grpc": "mockgcp", "psutil": "mockgcp", "jax": "trainer", "orbax": "trainer"})
    from holdfast import engine
    from holdfast.rehearsal import cloud_run, cloud_run_stage

    if json_file is not None and (json_file.is_dir() or not json_file.resolve().parent.is_dir()):
        raise OperatorError(f"--json {json_file}: name a file in a folder that exists")
    began, say = time.monotonic(), clocked()
    found = engine.ensure(say)
    say(f"Pulumi {found.version} ({found.source}: {found.pulumi})")
    options = cloud_run_stage.Options(environment, seed, preemptions, steps, keep, container)
    report = cloud_run.rehearse(options, found, say)
    if json_file is not None:
        report.write(json_file)
    out.print(_summary(report, time.monotonic() - began))
    if report.error:
        raise OperatorError(report.error)
    if not report.passed:
        failed = ", ".join(story.name for story in report.stories if not story.held)
        raise OperatorError(f"the rehearsal did not hold: {failed or 'left over'}; look with --json FILE and --keep")


def _summary(report: Any, seconds: float) -> Table:
    table = Table(title="Rehearsal: Cloud Run GPU job", title_justify="left", show_header=False)
    table.add_column(style="bold")
    table.add_column()
    rows = {
        "engine": f"Pulumi {report.engine_version}, {report.engine}",
        "resources created": report.resources_created,
        "image": report.image.rpartition("/")[2],
        "price": f"{report.price_per_hour:.2f} {report.currency} an hour" if report.price_per_hour else "not known",
        "policy violations": report.policy_violations,
        "attempts / preemptions": f"{report.attempts} / {report.preemptions}",
        "steps / repeated": f"{report.steps_total} / {report.steps_repeated}",
        "weights as undisturbed": "bit for bit" if report.bit_exact else "DIFFERENT",
        "goodput": f"{report.goodput:.1%} of the execution's time (start-up dominates so short a run)",
        "second up": f"{report.second_up_changes} changes",
        "left over": f"{len(report.leftover_resources)} resources, {len(report.leftover_processes)} processes",
        "time": f"{seconds:.0f} s: " + ", ".join(f"{name} {taken:.1f}" for name, taken in report.phases.items()),
        "shortened": "; ".join(f"{o.name}: {o.platform} → {o.rehearsal}" for o in report.time_overrides),
    }
    for name, value in rows.items():
        table.add_row(name, str(value))
    for story in report.stories:
        table.add_row(f"story {story.name}", "[green]held[/green]" if story.held else "[red]did not hold[/red]")
    return table
