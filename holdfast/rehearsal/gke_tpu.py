"""`holdfast rehearse gke-tpu`: scenario B from preflight to destroy, on a real control plane with real Kueue."""

from __future__ import annotations

import importlib.util
from dataclasses import replace
from typing import Any

from holdfast import planes
from holdfast.engine import Engine
from holdfast.errors import OperatorError
from holdfast.gcp.emulated import EmulatedApi
from holdfast.kube import Kube
from holdfast.preflight import PreflightReport
from holdfast.rehearsal import frame, gke_consistency, gke_stories, readiness
from holdfast.rehearsal.gke_scene import Scene
from holdfast.rehearsal.gke_tpu_stage import Options, Stage, configuration, overrides, staged, unavailable
from holdfast.rehearsal.report import GkeTpuReport, Story
from holdfast.runs import gke_job
from holdfast.runs.choose import open_gke
from holdfast.runs.gke import Gke, cluster_kubeconfig
from holdfast.runs.gke_job import JobOrder
from holdfast.toolcache import Progress
from infra import catalog
from infra.kubeconfig import PLUGIN
from infra.kueue_queues import manifests
from mockgcp.services import storage

_KUEUE = f"/apis/{catalog.kueue()['api_version']}"


def rehearse(options: Options, engine: Engine, say: Progress) -> GkeTpuReport:
    """Runs the whole rehearsal and returns its report; `say` takes a line for each thing that happens.

    Where no control plane can run, what can be shown without is, and the report says what was not, and the way out.
    What goes wrong after the start ends up in the report's `error`, with the stories so far.

    Raises:
        RehearsalError: the stack's file does not allow a start.
    """
    files = configuration(options)
    report = GkeTpuReport(scenario="gke-tpu", seed=options.seed, engine=engine.source, engine_version=engine.version)
    report.time_overrides, report.not_shown = overrides(options), unavailable()
    with staged(options, files, engine, report, say) as stage, frame.ends_in(report):
        _deploy(stage, report)
        if report.not_shown:
            say(f"no control plane, so the admission flow is not shown: {report.not_shown}")
            _check_manifests(stage, options, report)
        else:
            _show(stage, options, report)
            frame.second_up(stage.frame)
            frame.destroy(stage.frame)
    return report


def _deploy(stage: Stage, report: GkeTpuReport) -> None:
    """Brings up the stack after its preflight; only previews it where there is no control plane."""
    found: list[PreflightReport] = []
    try:
        frame.deploy(
            stage.frame,
            lambda stack: found.append(readiness.preflight(stage.frame, stack)),
            ("preview",) if report.not_shown else ("preview", "up"),
        )
    finally:
        report.stories.insert(0, readiness.preflight_story(found, len(stage.frame.files)))
        report.price_per_hour, report.currency = readiness.price(found)


def _check_manifests(stage: Stage, options: Options, report: GkeTpuReport) -> None:
    """Judges what would be applied by the CRDs alone, where those are built."""
    programs = planes.find()
    if programs is None or importlib.util.find_spec("jsonschema") is None:
        return
    from holdfast import crd_check

    backend = _operator(stage, options.stack)
    made = [*manifests(backend.config.queues()).values(), gke_job.manifests(backend.job(JobOrder()))[1]]
    known = crd_check.schemas(programs, *(each["kind"] for each in made))
    wrong = [problem for each in made for problem in crd_check.problems(each, known)]
    evidence = {"manifests": made, "problems": wrong}
    report.stories.append(Story(name="manifests", held=not wrong, evidence=evidence))


def _show(stage: Stage, options: Options, report: GkeTpuReport) -> None:
    """What the cluster shows once it is up."""
    backend = _operator(stage, options.stack)
    name = f"projects/{backend.target.project}/locations/{backend.config.zone}/clusters/{backend.config.cluster_name}"
    cluster = stage.plane.cluster(name)
    if cluster is None:
        raise OperatorError(f"no control plane runs behind {name}")
    report.plane_versions = dict(stage.plane.availability().versions)
    _judge(stage, backend, name, report)
    bucket = storage.folder(stage.frame.cloud.state_dir, backend.config.bucket(backend.target))
    state = stage.frame.sealed.state
    scene = Scene(backend, cluster, stage.jobs, stage.frame.say, bucket=bucket, state=state, real=stage.real)
    gke_stories.run(scene, report)
    if cluster.defects:
        raise OperatorError(f"defect in mockgcp:\n{cluster.defects[0]}")


def _operator(stage: Stage, stack: str) -> Gke:
    """The operator's own backend, logged in by the plane's stand-in for GKE's plugin."""
    api = EmulatedApi(stage.frame.cloud)
    backend = open_gke(stack, lambda target: api, stage.frame.sealed.project / "stacks")

    def logged_in() -> dict[str, Any]:
        found = cluster_kubeconfig(api, backend.config, backend.target)
        for user in found["users"]:
            user["user"]["exec"]["command"] = str(stage.plane.bin_dir / PLUGIN)
        return found

    return replace(backend, kube=Kube(logged_in))


def _judge(stage: Stage, backend: Gke, cluster: str, report: GkeTpuReport) -> None:
    """Whether the queues that the cluster has fit the pools that the cloud has."""
    queue = backend.kube.get(f"{_KUEUE}/clusterqueues/{backend.config.cluster_queue}") or {}
    flavors = backend.kube.list(f"{_KUEUE}/resourceflavors")
    method = "container.projects.locations.clusters.nodePools.list"
    pools = EmulatedApi(stage.frame.cloud).call(method, {"parent": cluster})["nodePools"]
    report.consistency = gke_consistency.figures(queue, flavors, pools)
    report.stories.append(gke_consistency.story(queue, flavors, pools))
