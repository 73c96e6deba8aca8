"""What `holdfast submit gke` orders, as the manifests of a RayJob, and what is wrong with it before it is applied."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdfast.errors import OperatorError
from holdfast.runs.backend import RUN_ID
from infra import catalog
from infra.catalog import Problem
from infra.ray_job import ElasticRange, RayJobSpec, app_config_map, ray_job, train_command
from workloads.ray import programs

if TYPE_CHECKING:
    from stacks.config import Target
    from stacks.gke_config import GkeTpuConfig

APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
"""The annotation with a job as it was applied: Kueue writes nodes into the job itself. kubectl writes the same."""

_RANGE = re.compile(r"(\d+):(\d+)")
# Where a job's fields come from: the command line, or else the stack's file.
_FIELDS = {
    "job_name": "--name",
    "slices": "--slices",
    "elastic": "--elastic",
    "files": "--program",
    "queue": "holdfast:jobQueue",
    "topology": "holdfast:topology",
    "worker": "holdfast:workerCpu, holdfast:workerMemory",
    "head": "holdfast:headCpu, holdfast:headMemory",
    "submitter": "holdfast:defaultMachine",
}


@dataclass(frozen=True)
class JobOrder:
    """A RayJob to submit. None and absent: as the stack's configuration has it."""

    name: str | None = None
    """The job's name, which is also its run id unless `env` names another."""
    program: str = "linear_regression"
    """One of workloads/ray, or the path of a Python file."""
    env: Mapping[str, str] = field(default_factory=dict)
    """Environment variables of head and workers."""
    slices: int | None = None
    elastic: ElasticRange | None = None


def elastic(text: str | None) -> ElasticRange | None:
    """--elastic MIN:MAX. OperatorError: it is none."""
    if text is None:
        return None
    if not (found := _RANGE.fullmatch(text)):
        raise OperatorError(f"--elastic {text}: write the fewest and the most slices as MIN:MAX, such as 1:2")
    return ElasticRange(int(found[1]), int(found[2]))


def spec(config: GkeTpuConfig, target: Target, order: JobOrder) -> RayJobSpec:
    """The job that is ordered. OperatorError: there is no such program."""
    job = config.job(target, order.name)
    slices = order.slices or (order.elastic.least if order.elastic else job.slices)
    if order.program in programs.PACKAGES:
        entrypoint = train_command(f"{order.program}.py", job.tpu, slices)
        job = replace(job, files=programs.files(order.program), packages=programs.PACKAGES[order.program])
    else:
        path = _file(order.program)
        entrypoint = f"python /app/{path.name}"
        job = replace(job, files={path.name: path.read_text()})
    env = {RUN_ID: job.name, **order.env}
    return replace(job, entrypoint=entrypoint, slices=slices, elastic=order.elastic or job.elastic, env=env)


def check(config: GkeTpuConfig, job: RayJobSpec) -> None:
    """Refuses a job that the cluster cannot run. OperatorError: a line for each problem."""
    problems = [*config.job_problems(job), *_size_problem(job)]
    if problems:
        lines = [f"{_FIELDS.get(each.field, each.field)}: {each.message}" for each in problems]
        raise OperatorError("\n".join([f"job {job.name} was not submitted:", *(f"  {line}" for line in lines)]))


def manifests(job: RayJobSpec) -> tuple[dict[str, Any], dict[str, Any]]:
    """The ConfigMap, and the RayJob, which keeps itself as it was applied."""
    return app_config_map(job), with_applied(ray_job(job))


def with_applied(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """A RayJob with itself in its annotation."""
    metadata = manifest["metadata"]
    annotations = {**metadata.get("annotations", {}), APPLIED: json.dumps(manifest, separators=(",", ":"))}
    return {**manifest, "metadata": {**metadata, "annotations": annotations}}


def run_id(manifest: Mapping[str, Any]) -> str:
    """The run id of a RayJob: what its head's environment says, else its name."""
    head = manifest["spec"].get("rayClusterSpec", {}).get("headGroupSpec", {}).get("template", {}).get("spec", {})
    env = {each["name"]: each.get("value", "") for each in head.get("containers", [{}])[0].get("env", ())}
    return env.get(RUN_ID) or str(manifest["metadata"]["name"])


def _file(name: str) -> Path:
    path = Path(name)
    if not path.is_file() or path.suffix != ".py":
        own = ", ".join(programs.PACKAGES)
        raise OperatorError(f"--program {name}: choose one of {own}, or name a Python file that is there (FILE.py)")
    return path


def _size_problem(job: RayJobSpec) -> list[Problem]:
    limit = catalog.fact("gke", "config_map_bytes_max").value
    size = sum(len(text.encode()) for text in job.files.values())
    if size <= limit:
        return []
    return [Problem("files", f"{size} bytes; a ConfigMap holds {limit} at most. Put the program into the image")]
