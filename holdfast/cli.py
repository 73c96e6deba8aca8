"""The operator's command. Each subcommand only parses, calls the module that does the work, and prints."""

from __future__ import annotations

import importlib.util
import signal
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from holdfast.errors import OperatorError
from holdfast.toolcache import ToolError

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Long training jobs on scarce Google Cloud accelerators that survive losing them.",
)
rehearse_app = typer.Typer(no_args_is_help=True, help="Rehearse a scenario on the real engine and an emulated cloud.")
engine_app = typer.Typer(no_args_is_help=True, help="The Pulumi engine that Holdfast uses.")
app.add_typer(rehearse_app, name="rehearse")
app.add_typer(engine_app, name="engine")

_out = Console(highlight=False, soft_wrap=True)
_err = Console(stderr=True, highlight=False, soft_wrap=True)


@rehearse_app.command("cloud-run")
def rehearse_cloud_run(
    environment: Annotated[
        str, typer.Option(help="Prefix of the stacks to rehearse: `dev` for dev-foundation.")
    ] = "dev",
    seed: Annotated[int, typer.Option(min=0, help="Seed of the weights, the data and where maintenance strikes.")] = 0,
    preemptions: Annotated[int, typer.Option(min=0, help="How often maintenance takes the instance away.")] = 1,
    steps: Annotated[int, typer.Option(min=2, help="Length of the training run, in steps.")] = 24,
    json_file: Annotated[Path | None, typer.Option("--json", metavar="FILE", help="Write the report here.")] = None,
    keep: Annotated[bool, typer.Option(help="Leave the rehearsal's folder for a look.")] = False,
) -> None:
    """Scenario A: preview, policies, up, execute, preempt, resume, verify against an undisturbed run, destroy."""
    _require({"googleapiclient": "mockgcp", "psutil": "mockgcp", "jax": "trainer", "orbax": "trainer"})
    from holdfast import engine
    from holdfast.rehearsal import cloud_run

    if json_file is not None and (json_file.is_dir() or not json_file.resolve().parent.is_dir()):
        raise OperatorError(f"--json {json_file}: name a file in a folder that exists")
    began = time.monotonic()

    def say(line: str) -> None:
        _out.print(f"[dim]{_clock(time.monotonic() - began)}[/dim]  {escape(line)}")

    found = engine.ensure(say)
    say(f"Pulumi {found.version} ({found.source}: {found.pulumi})")
    options = cloud_run.Options(environment, seed, preemptions, steps, keep)
    report = cloud_run.rehearse(options, found, say)
    if json_file is not None:
        report.write(json_file)
    _out.print(_summary(report, time.monotonic() - began))
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


def _require(modules: Mapping[str, str]) -> None:
    """Refuses to go on without the dependency groups a command needs; `modules` names the group of each."""
    missing = sorted({group for module, group in modules.items() if importlib.util.find_spec(module) is None})
    if missing:
        raise OperatorError(
            f"this environment lacks the dependency groups {', '.join(missing)} (it may have been made for deploying "
            "only): run `make env`"
        )


def _clock(seconds: float) -> str:
    return f"{int(seconds) // 60:02d}:{int(seconds) % 60:02d}"


@app.command()
def doctor(as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False) -> None:
    """Every tool found, its version and origin, and which cloud and project this environment points at."""
    from holdfast import doctor as module

    raise typer.Exit(module.run(_out, as_json=as_json))


@engine_app.command("build")
def engine_build() -> None:
    """Get the engine: from PATH, else from the cache, else build it (once, about 4 to 8 minutes)."""
    from holdfast import engine

    found = engine.ensure(_out.print)
    _out.print(f"Pulumi {found.version} ({found.source}: {found.pulumi})")


@engine_app.command("env")
def engine_env() -> None:
    """Print shell lines that put the engine on PATH: eval "$(holdfast engine env)"."""
    from holdfast import engine

    found = engine.find()
    if found is None:
        raise OperatorError("no Pulumi engine yet; `make engine` gets one")
    env = found.environ({"PATH": "$PATH"})
    for name in ("PATH", "HOLDFAST_PYTHON"):
        print(f'export {name}="{env[name]}"')


def main() -> None:
    """Runs the command; an expected failure is one message and exit code 1."""
    # A polite end, so that every `finally` runs and nothing is left over.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    try:
        app()
    except (OperatorError, ToolError) as error:
        _err.print(f"[red]error:[/red] {escape(str(error))}")
        sys.exit(1)
    except SystemExit as end:
        # Typer makes this of Ctrl-C.
        if end.code in (128 + signal.SIGINT, 128 + signal.SIGTERM):
            _err.print("interrupted; everything it started was ended")
        raise


if __name__ == "__main__":
    main()
