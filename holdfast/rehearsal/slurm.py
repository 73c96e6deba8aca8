"""`holdfast rehearse slurm`: scenario C from preflight to destroy, on a real Slurm."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from holdfast.engine import Engine
from holdfast.errors import OperatorError
from holdfast.gcp.emulated import EmulatedApi
from holdfast.preflight import PreflightReport
from holdfast.rehearsal import frame, readiness, slurm_stories
from holdfast.rehearsal import slurm_stories_sharing as sharing
from holdfast.rehearsal.report import SlurmReport, phase
from holdfast.rehearsal.sealed import StackFile
from holdfast.rehearsal.slurm_record import Watcher
from holdfast.rehearsal.slurm_scene import Scene
from holdfast.rehearsal.slurm_stage import Options, Stage, can_train, configuration, overrides, staged, unavailable
from holdfast.rehearsal.slurm_stories_training import OPERATOR
from holdfast.runs.choose import open_slurm
from holdfast.runs.slurm import Slurm
from holdfast.slurm_login import Login
from holdfast.toolcache import Progress
from infra import catalog
from mockgcp.cloud import Cloud
from mockgcp.services.run_needs import agent_domain

_PRINCIPAL = f"user:{OPERATOR}@example.com"
_USERS = ("ada", "bob", "mia", "eve")


def rehearse(options: Options, engine: Engine, say: Progress) -> SlurmReport:
    """Runs the whole rehearsal and returns its report; `say` takes a line for each thing that happens.

    Where Slurm cannot run, what can be shown without is, and the report says what was not, and the way out.
    What goes wrong after the start ends up in the report's `error`, with the stories so far.

    Raises:
        RehearsalError: the stack's file does not allow a start.
    """
    files = configuration(options)
    report = SlurmReport(scenario="slurm", seed=options.seed, engine=engine.source, engine_version=engine.version)
    report.time_overrides, report.not_shown = overrides(options), unavailable()
    with staged(options, files, engine, report, say) as stage, frame.ends_in(report):
        _deploy(stage, options, report)
        if report.not_shown:
            say(f"no Slurm runs behind the cluster, so no story is shown: {report.not_shown}")
        else:
            _show(stage, options, report)
        frame.second_up(stage.frame)
        frame.destroy(stage.frame)
    return report


def _deploy(stage: Stage, options: Options, report: SlurmReport) -> None:
    """Brings up the stack, after its preflight."""
    found: list[PreflightReport] = []
    _grant_gpus(stage.frame.cloud, stage.frame.files[options.stack])

    def before(stack: str) -> None:
        # The catalog has no price of the nodes: there is nothing to look at.
        found.append(readiness.preflight(stage.frame, stack, skip=("price",)))

    try:
        frame.deploy(stage.frame, before)
    finally:
        report.stories.insert(0, readiness.preflight_story(found, len(stage.frame.files)))


def _grant_gpus(cloud: Cloud, file: StackFile) -> None:
    """The quotas that the stack's pools draw on, as if they had been requested: a project has none by default."""
    asked: Counter[str] = Counter()
    for pool in file.config["holdfast:pools"]:
        if machine := catalog.gpu_machines().get(pool["machine"]):
            asked[machine.gpu] += pool.get("maxNodes", 1) * machine.gpus
    for gpu, most in asked.items():
        quota = catalog.node_gpu_quota(gpu, preemptible=True)
        cloud.quotas.set(str(file.config["gcp:project"]), quota.quota_id, "*", most)


def _show(stage: Stage, options: Options, report: SlurmReport) -> None:
    """What the cluster shows once it is up."""
    backend = _operator(stage, options.stack)
    cluster = stage.plane.cluster(backend.cluster)
    report.slurm_version = cluster.release
    for notice in cluster.notices:
        stage.frame.say(notice)
    with Watcher(cluster) as watcher:
        scene = Scene(backend, stage.plane, stage.frame, options.stack, watcher, options.seed, real=can_train())
        _account(scene, report)
        slurm_stories.run(scene, report)
    if defects := [*cluster.defects, *watcher.defects]:
        raise OperatorError(f"defect in mockgcp or the rehearsal:\n{defects[0]}")


def _account(scene: Scene, report: SlurmReport) -> None:
    """Users, as OS Login makes them at their first login, and their associations, by the operator's own command."""
    for user in _USERS:
        scene.ask("true", user=user)
    (scene.home / OPERATOR).mkdir(exist_ok=True)
    with phase(report.phases, "accounting"):
        report.stories.append(sharing.accounting(scene))


def _operator(stage: Stage, stack: str) -> Slurm:
    """The operator's own backend, who is the user `OPERATOR` on the nodes, and logs in through the plane."""
    cloud = stage.frame.cloud
    api = EmulatedApi(cloud, _PRINCIPAL)
    backend = open_slurm(stack, lambda target: api, stage.frame.sealed.project / "stacks")
    project = cloud.project(backend.target.project)
    cloud.policies.grant(project.name, "roles/owner", _PRINCIPAL)
    # What the page on resiliency asks for, to report a host.
    agent = f"serviceAccount:service-{project.number}@gcp-sa-aiplatform.{agent_domain(cloud)}"
    cloud.policies.grant(project.name, "roles/compute.instanceAdmin.v1", agent)
    login = Login(lambda argv: stage.plane.run(backend.cluster, argv, user=OPERATOR), sudo=False)
    return replace(backend, login=login)
