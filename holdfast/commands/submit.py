"""`holdfast submit`: a run of a stack's job."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer
import yaml
from rich.markup import escape

from holdfast.commands import watch as watching
from holdfast.commands.cloud import connect
from holdfast.commands.console import err, out

if TYPE_CHECKING:
    from holdfast.runs.backend import Backend, Run

Settings = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="NAME=VALUE", help="A setting, such as HOLDFAST_STEPS=2000; repeatable."),
]

app = typer.Typer(no_args_is_help=True, help="Start a run of the job.")


@app.command("cloud-run")
def submit_cloud_run(
    stack: watching.Stack = watching.STACK,
    set_: Settings = None,
    tasks: Annotated[int | None, typer.Option(min=1, help="Tasks of this run; else the job's.")] = None,
    timeout: Annotated[
        str | None, typer.Option(metavar="DURATION", help="Time an attempt may take, such as 3600s; else the job's.")
    ] = None,
    watch: Annotated[bool, typer.Option("--watch", help="Follow it, as `holdfast watch` does.")] = False,
    every: watching.Every = watching.EVERY_S,
) -> None:
    """Execute the Cloud Run job. It goes on from the newest checkpoint of its run id (--set HOLDFAST_RUN_ID=...).

    Refused while another execution of the same run id is active.
    """
    from holdfast.runs import choose, options, verbs
    from holdfast.runs.backend import Order

    order = Order(options.settings(set_ or ()), tasks, options.timeout_s(timeout))
    backend = choose.open_cloud_run(stack, connect)
    run = verbs.submit(backend, order, lambda line: out.print(escape(line)))
    out.print(f"started {run.name}: {run.task_count} task(s), run id {escape(run.run_id)}")
    _then(backend, run, watch, every)


@app.command("gke")
def submit_gke(
    stack: watching.Stack = watching.GKE_STACK,
    name: Annotated[str | None, typer.Option(help="The job's name, and its run id; else the stack's jobName.")] = None,
    program: Annotated[
        str, typer.Option(metavar="NAME|FILE", help="linear_regression, trainer, or a Python file of your own.")
    ] = "linear_regression",
    set_: Settings = None,
    slices: Annotated[int | None, typer.Option(min=1, help="Slices of the job; else the stack's jobSlices.")] = None,
    elastic: Annotated[
        str | None,
        typer.Option(metavar="MIN:MAX", help="Let it grow and shrink between so many slices; see the risks."),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the manifests; apply nothing.")] = False,
    watch: Annotated[bool, typer.Option("--watch", help="Follow it, as `holdfast watch` does.")] = False,
    every: watching.Every = watching.EVERY_S,
) -> None:
    """Submit a RayJob to the stack's queue on GKE, where it waits for its TPU slices. Returns at once.

    Refused before anything is applied: a job that no pool or queue of the stack can take, or a name that is taken.
    """
    from holdfast.runs import choose, gke_job, options, verbs
    from infra.ray_job import elastic_risks

    order = gke_job.JobOrder(name, program, options.settings(set_ or ()), slices, gke_job.elastic(elastic))
    backend = choose.open_gke(stack, connect)
    job = backend.job(order)
    for risk in elastic_risks(job):
        err.print(f"[yellow]risk:[/] {escape(risk)}")
    if dry_run:
        print(yaml.safe_dump_all(gke_job.manifests(job), sort_keys=False), end="")
        return
    run = verbs.submit(backend, order, lambda line: out.print(escape(line)))
    out.print(f"submitted {run.name} to {job.queue}: {job.slices} x {job.tpu.topology}, run id {escape(run.run_id)}")
    _then(backend, run, watch, every)


@app.command("slurm")
def submit_slurm(
    name: Annotated[str, typer.Argument(help="The job's name, and its run id.", show_default=False)],
    stack: watching.Stack = watching.SLURM_STACK,
    program: Annotated[
        str, typer.Option(metavar="COMMAND", help="What each node runs once; it starts in --workdir.")
    ] = "python3 -m workloads.trainer",
    set_: Settings = None,
    nodes: Annotated[int, typer.Option(min=1, help="Nodes, with one process each.")] = 1,
    gpus: Annotated[int | None, typer.Option(min=0, help="GPUs a node; else all of it.")] = None,
    partition: Annotated[str | None, typer.Option(help="Else the cluster's default.")] = None,
    time: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="The limit of one run, as sbatch takes it; requeued, it has it anew."),
    ] = None,
    exclusive: Annotated[bool, typer.Option("--exclusive", help="Share the nodes with no other job.")] = False,
    account: Annotated[str | None, typer.Option(help="Who is charged; else your default account.")] = None,
    qos: Annotated[str | None, typer.Option(help="Else your default QOS.")] = None,
    workdir: Annotated[str, typer.Option(metavar="PATH", help="Where the program starts, on all nodes.")] = "~",
    checkpoint_dir: Annotated[
        str, typer.Option(metavar="PATH", help="Checkpoints are in PATH/NAME/RUN_ID/0, however often it is requeued.")
    ] = "~/checkpoints",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the batch script; submit nothing.")] = False,
    watch: Annotated[bool, typer.Option("--watch", help="Follow it, as `holdfast watch` does.")] = False,
    every: watching.Every = watching.EVERY_S,
) -> None:
    """Submit a job to the training cluster's Slurm. Preempted, or its node gone, it is requeued and resumes.

    The printed script does the same by `sbatch` on the login node.
    """
    from holdfast.runs import choose, options, slurm_job, verbs

    order = slurm_job.SlurmOrder(
        name,
        program,
        options.settings(set_ or ()),
        nodes,
        gpus,
        partition,
        time,
        exclusive,
        account,
        qos,
        workdir,
        checkpoint_dir,
    )
    backend = choose.open_slurm(stack, connect)
    job = backend.job(order)
    for warning in slurm_job.warnings(backend.config, job):
        err.print(f"[yellow]warning:[/] {escape(warning)}")
    if dry_run:
        print(slurm_job.script(job), end="")
        return
    run = verbs.submit(backend, order, lambda line: out.print(escape(line)))
    out.print(f"submitted job {run.name} to {job.partition}: {nodes} node(s), run id {escape(run.run_id)}")
    _then(backend, run, watch, every)


def _then(backend: Backend, run: Run, watch: bool, every_s: float) -> None:
    """What to do next, and the first of it if it was asked for."""
    from holdfast.runs.backend import command

    for verb in ("watch", "logs", "cancel"):
        out.print(f"  {command(backend, verb, run.name)}")
    out.print(f"  {backend.link(run)}")
    if watch:
        watching.follow(backend, run, every_s)
