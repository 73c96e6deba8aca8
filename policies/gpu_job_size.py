"""CPU, memory and GPU of a job that do not go together."""

from infra import catalog
from policies import jobs
from policies.props import UNKNOWN, whole
from policies.rule import Props, Rule

_LIMITS = {"cpu": "cpu", "memory_gib": "memory", "gpu_count": jobs.GPU}


def check(props: Props) -> list[str]:
    """One message for each of CPU, memory and GPU that Cloud Run refuses of a GPU job.

    A limit that is absent is the platform's default; a task of which the GPU's type is not known yet is not judged.
    """
    task = jobs.task(props)
    accelerator = jobs.accelerator(task)
    if not jobs.has_gpu(task) or accelerator == UNKNOWN:
        return []
    where, limits = jobs.gpu_limits(task)
    count = whole(limits.get(jobs.GPU))
    problems = catalog.gpu_job_problems(
        cpu=jobs.cpu(limits),
        memory_gib=jobs.memory_gib(limits),
        accelerator=accelerator,
        gpu_count=count or 0,
        timeout_s=None,
        max_retries=None,
    )
    places = {field: f"{where}[{name}]" for field, name in _LIMITS.items()}
    places["accelerator"] = f"{jobs.TASK}.nodeSelector.accelerator"
    return [
        f"{places[each.field]}: {each.message}"
        for each in problems
        if each.field != "gpu_count" or count is not None  # of what is not known yet
    ]


RULE = Rule(
    name="gpu-job-size",
    severity="mandatory",
    summary="A GPU job's CPU and memory fit its GPU and each other.",
    source=catalog.fact("cloud_run", "gpus").source,
    way_out="Choose a size that the message names.",
    checks={jobs.JOB: check},
)
