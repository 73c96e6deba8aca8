"""A long GPU job whose retries maintenance alone could use up."""

from infra import catalog
from policies import jobs
from policies.rule import Props, Rule

_ADVISED = catalog.fact("practices", "gpu_retries_advised")


def check(props: Props) -> list[str]:
    """One message if a GPU job may run for over an hour an attempt, and has some retries but fewer than advised."""
    task = jobs.task(props)
    retries, timeout_s = jobs.retries(task), jobs.timeout_s(task)
    if not jobs.has_gpu(task) or timeout_s is None:
        return []
    problem = catalog.few_retries_problem(max_retries=retries, timeout_s=timeout_s)
    return [f"{jobs.TASK}.maxRetries: {problem.message}"] if problem else []


RULE = Rule(
    name="gpu-job-few-retries",
    severity="advisory",
    summary="A GPU job that may run for over an hour has retries for failures of its own besides maintenance's.",
    source=_ADVISED.source,
    way_out=f"Set maxRetries to {_ADVISED.value} or more.",
    checks={jobs.JOB: check},
)
