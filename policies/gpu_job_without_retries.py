"""A long GPU job that its first maintenance event would end."""

from infra import catalog
from policies import jobs
from policies.rule import Props, Rule


def check(props: Props) -> list[str]:
    """One message if a Cloud Run job has a GPU, may run for over an hour an attempt, and is never retried.

    A timeout or a number of retries that is absent is the platform's default, and one that is not known yet is not
    judged. The provider takes numbers as text too.
    """
    task = jobs.task(props)
    retries, timeout_s = jobs.retries(task), jobs.timeout_s(task)
    if not jobs.has_gpu(task) or retries is None or timeout_s is None:
        return []
    problem = catalog.preemption_problem(max_retries=retries, timeout_s=timeout_s)
    return [f"{jobs.TASK}.maxRetries: {problem.message}"] if problem else []


RULE = Rule(
    name="gpu-job-without-retries",
    severity="mandatory",
    summary="A GPU job that may run for over an hour has at least one retry: maintenance ends GPU tasks.",
    source=catalog.fact("cloud_run", "gpu_retries_required_above_s").source,
    way_out="Set maxRetries to 1 or more.",
    checks={jobs.JOB: check},
)
