"""A GPU task's timeout that its universe does not allow."""

from infra import catalog
from policies import jobs
from policies.rule import Props, Rule


def check(props: Props, universe: str) -> list[str]:
    """One message if a GPU job's task timeout is beyond what the universe (its domain) allows, or has no Cloud Run."""
    task = jobs.task(props)
    if not jobs.has_gpu(task):
        return []
    try:
        where = catalog.universe(universe)
    except ValueError as error:
        return [f"gcp:universeDomain: {error}"]
    problems = catalog.gpu_job_problems(
        cpu=None,
        memory_gib=None,
        accelerator=None,
        gpu_count=1,
        timeout_s=jobs.timeout_s(task),
        max_retries=None,
        universe=where,
    )
    places = {"timeout_s": f"{jobs.TASK}.timeout", "universe": "gcp:universeDomain"}
    return [f"{places[each.field]}: {each.message}" for each in problems if each.field in places]


RULE = Rule(
    name="gpu-task-timeout",
    severity="mandatory",
    summary="A GPU task's timeout is one that the universe allows.",
    source=catalog.fact("cloud_run", "task_timeout_max_s").source,
    way_out="Set timeout to the universe's limit or less; a longer run goes on in the next attempt.",
    universe_checks={jobs.JOB: check},
)
