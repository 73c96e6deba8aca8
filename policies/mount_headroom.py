"""A GPU job that saving a checkpoint could end for want of memory."""

from infra import catalog
from policies import jobs
from policies.rule import Props, Rule


def check(props: Props) -> list[str]:
    """One message if a job mounts a bucket to write to, and its container with the GPU has no memory to spare."""
    task = jobs.task(props)
    if not jobs.written_volumes(task):
        return []
    where, limits = jobs.gpu_limits(task)
    problem = catalog.mount_headroom_problem(accelerator=jobs.accelerator(task), memory_gib=jobs.memory_gib(limits))
    return [f"{where}[memory]: {problem.message}"] if problem else []


RULE = Rule(
    name="mount-headroom",
    severity="mandatory",
    summary="A GPU job that writes to a mounted bucket has more memory than its GPU alone asks for.",
    source=catalog.fact("practices", "mount_stages_writes").source,
    way_out="Add at least the largest checkpoint file's size to the memory, and the CPU that allows it.",
    checks={jobs.JOB: check},
)
