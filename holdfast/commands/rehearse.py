"""`holdfast rehearse`: a scenario on the real engine and an emulated cloud."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from holdfast.commands.console import clocked, out, require
from holdfast.errors import OperatorError

if TYPE_CHECKING:
    from holdfast.engine import Engine
    from holdfast.toolcache import Progress

app = typer.Typer(no_args_is_help=True, help="Rehearse a scenario on the real engine and an emulated cloud.")


_Environment = Annotated[str, typer.Option(help="Prefix of the stacks to rehearse: `dev` for dev-foundation.")]
_Json = Annotated[Path | None, typer.Option("--json", metavar="FILE", help="Write the report here.")]
_Keep = Annotated[bool, typer.Option(help="Leave the rehearsal's folder for a look.")]


@app.command("cloud-run")
def rehearse_cloud_run(
    environment: _Environment = "dev",
    seed: Annotated[int, typer.Option(min=0, help="Seed of the weights, the data and where maintenance strikes.")] = 0,
    preemptions: Annotated[int, typer.Option(min=0, help="How often maintenance takes the instance away.")] = 1,
    steps: Annotated[int, typer.Option(min=2, help="Length of the training run, in steps.")] = 24,
    json_file: _Json = None,
    keep: _Keep = False,
    container: Annotated[
        bool, typer.Option("--container", help="Build the image by buildah and run the tasks in it (root; minutes).")
    ] = False,
) -> None:
    """Scenario A: preflight, price, up, image, execute, preempt, resume, verify, second up, destroy."""
    require({"grpc": "mockgcp", "psutil": "mockgcp", "jax": "trainer", "orbax": "trainer"})
    from holdfast.rehearsal import cloud_run, cloud_run_stage

    options = cloud_run_stage.Options(environment, seed, preemptions, steps, keep, container)
    _rehearse(lambda engine, say: cloud_run.rehearse(options, engine, say), json_file, "Cloud Run GPU job", _cloud_run)


@app.command("gke-tpu")
def rehearse_gke_tpu(
    environment: _Environment = "dev",
    seed: Annotated[int, typer.Option(min=0, help="Seed of what the emulated cloud draws.")] = 0,
    json_file: _Json = None,
    keep: _Keep = False,
) -> None:
    """Scenario B: preflight, up, two jobs through Kueue, its failures, second up, destroy (root; `make planes`)."""
    require({"grpc": "mockgcp", "psutil": "mockgcp"})
    from holdfast.rehearsal import gke_tpu, gke_tpu_stage

    options = gke_tpu_stage.Options(environment, seed, keep)
    _rehearse(lambda engine, say: gke_tpu.rehearse(options, engine, say), json_file, "TPU pools on GKE", _gke_tpu)


@app.command("slurm")
def rehearse_slurm(
    environment: _Environment = "dev",
    seed: Annotated[int, typer.Option(min=0, help="Seed of the weights, the data and the emulated cloud.")] = 0,
    json_file: _Json = None,
    keep: _Keep = False,
) -> None:
    """Scenario C: up, a job over a node's end, who gets the nodes, second up, destroy (root; `make planes`)."""
    require({"grpc": "mockgcp", "psutil": "mockgcp"})
    from holdfast.rehearsal import slurm, slurm_stage

    options = slurm_stage.Options(environment, seed, keep)
    _rehearse(lambda engine, say: slurm.rehearse(options, engine, say), json_file, "Slurm training cluster", _slurm)


def _rehearse(
    run: Callable[[Engine, Progress], Any], json_file: Path | None, title: str, figures: Callable[[Any], dict[str, Any]]
) -> None:
    """Runs a rehearsal, writes and prints its report, and fails where that did not hold."""
    from holdfast import engine

    if json_file is not None and (json_file.is_dir() or not json_file.resolve().parent.is_dir()):
        raise OperatorError(f"--json {json_file}: name a file in a folder that exists")
    began, say = time.monotonic(), clocked()
    found = engine.ensure(say)
    say(f"Pulumi {found.version} ({found.source}: {found.pulumi})")
    report = run(found, say)
    if json_file is not None:
        report.write(json_file)
    out.print(_summary(report, title, figures(report), time.monotonic() - began))
    if report.error:
        raise OperatorError(report.error)
    if not report.passed:
        failed = ", ".join(story.name for story in report.stories if not story.held)
        raise OperatorError(f"the rehearsal did not hold: {failed or 'left over'}; look with --json FILE and --keep")


def _cloud_run(report: Any) -> dict[str, Any]:
    return {
        "image": report.image.rpartition("/")[2],
        "attempts / preemptions": f"{report.attempts} / {report.preemptions}",
        "steps / repeated": f"{report.steps_total} / {report.steps_repeated}",
        "weights as undisturbed": "bit for bit" if report.bit_exact else "DIFFERENT",
        "goodput": f"{report.goodput:.1%} of the execution's time (start-up dominates so short a run)",
    }


def _gke_tpu(report: Any) -> dict[str, Any]:
    if report.not_shown:
        return {"admission flow": f"[yellow]NOT SHOWN[/yellow]: {report.not_shown}"}
    jobs = {f"job {job.name}": f"{job.flavor}, waited for {job.waited_for or 'nothing'}" for job in report.jobs}
    requests = "; ".join(f"{each.count} nodes of {each.class_}: {each.state}" for each in report.provisioning_requests)
    chips = (f"{each.flavor} {each.quota} of {each.pool}" for each in report.consistency)
    return {
        "control plane": ", ".join(f"{name} {version}" for name, version in report.plane_versions.items()),
        **jobs,
        "requests": requests or "none",
        "TPU quota of the pool": ", ".join(chips),
    }


def _slurm(report: Any) -> dict[str, Any]:
    if report.not_shown:
        return {"scheduling": f"[yellow]NOT SHOWN[/yellow]: {report.not_shown}"}
    return {
        "scheduler": f"Slurm {report.slurm_version}",
        "restarts of the training": report.restarts,
        "weights as undisturbed": "bit for bit" if report.bit_exact else "NOT SHOWN, or different",
    }


def _summary(report: Any, title: str, figures: dict[str, Any], seconds: float) -> Table:
    table = Table(title=f"Rehearsal: {title}", title_justify="left", show_header=False)
    table.add_column(style="bold")
    table.add_column()
    again = f"{report.second_up_changes} changes" if report.second_up_changes >= 0 else "not run"
    rows = {
        "engine": f"Pulumi {report.engine_version}, {report.engine}",
        "resources created": report.resources_created,
        "policy violations": report.policy_violations,
        "price": f"{report.price_per_hour:.2f} {report.currency} an hour" if report.price_per_hour else "not known",
        **figures,
        "second up": again,
        "left over": f"{len(report.leftover_resources)} resources, {len(report.leftover_processes)} processes",
        "time": f"{seconds:.0f} s: " + ", ".join(f"{name} {taken:.1f}" for name, taken in report.phases.items()),
        "shortened": "; ".join(f"{o.name}: {o.platform} → {o.rehearsal}" for o in report.time_overrides),
    }
    for name, value in rows.items():
        table.add_row(name, str(value))
    for story in report.stories:
        failed = f"[red]did not hold[/red] {escape(story.outcome)}".rstrip()
        table.add_row(f"story {story.name}", "[green]held[/green]" if story.held else failed)
    return table
