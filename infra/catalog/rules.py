"""What Cloud Run refuses of a job, in one place: components, policies and the emulated cloud all ask here."""

from dataclasses import dataclass

from infra.catalog.facts import CloudRun, Gpu, Universe, cloud_run, fact
from infra.catalog.facts import universe as universe_of


@dataclass(frozen=True)
class Problem:
    """One thing the platform refuses.

    `field`: the argument at fault (cpu, memory_gib, accelerator, gpu_count, timeout_s, max_retries, universe).
    `message`: what is wrong, why (with the source), and the way out; the caller says where.
    """

    field: str
    message: str


def gpu_job_problems(
    *,
    cpu: float | None,
    memory_gib: float | None,
    accelerator: str | None,
    gpu_count: int,
    timeout_s: float | None,
    max_retries: int | None,
    universe: Universe | None = None,
) -> list[Problem]:
    """Everything Cloud Run would refuse of a job's task, in the order of its fields; empty when all is well.

    `cpu` in CPUs, `memory_gib` in GiB, `timeout_s` in seconds an attempt; None leaves a check out (an unknown value,
    or the platform's default). `accelerator` is the node selector's; `gpu_count` the limit of nvidia.com/gpu.
    """
    limits = cloud_run()
    where = universe or universe_of()
    if not where.cloud_run:
        message = f"universe {where.domain} has no Cloud Run; use the GKE or the Slurm stack there"
        return [Problem("universe", message)]
    gpu = limits.gpus.get(accelerator) if accelerator else None
    with_gpu = accelerator is not None or gpu_count > 0
    return [
        *_accelerator(limits, accelerator, gpu, gpu_count),
        *_size(limits, cpu, memory_gib, accelerator, gpu),
        *_timeout(limits, timeout_s, with_gpu, where),
        *_retries(limits, max_retries),
    ]


def preemption_problem(*, max_retries: int | None, timeout_s: float | None = None) -> Problem | None:
    """A GPU job's lack of retries, or None. Not the platform's rule (it takes 0), but this project's.

    GPU tasks are not live-migrated: routine maintenance ends them, and a retry is how they go on. `timeout_s`, in
    seconds, leaves out jobs short enough to be simply run again; None leaves out none.
    """
    limits = cloud_run()
    if max_retries is None or max_retries > 0:
        return None
    if timeout_s is not None and timeout_s <= limits.gpu_retries_required_above_s:
        return None
    message = (
        f"{max_retries} retries; GPU tasks are not live-migrated, so the first maintenance event would end the job "
        f"({_source('gpu_retries_required_above_s')}). Set at least 1; {limits.max_retries_default} leaves room for "
        "the application's own failures"
    )
    return Problem("max_retries", message)


def needs_preview(accelerator: str | None, timeout_s: float | None) -> bool:
    """Whether a GPU job of this accelerator and task timeout (seconds) uses a preview feature: launch stage BETA."""
    if accelerator is None:
        return False
    gpu = cloud_run().gpus.get(accelerator)
    return (gpu is not None and gpu.preview) or (timeout_s or 0) > cloud_run().gpu_task_timeout_ga_s


def _source(key: str) -> str:
    return fact("cloud_run", key).source


def _accelerator(limits: CloudRun, accelerator: str | None, gpu: Gpu | None, count: int) -> list[Problem]:
    known = ", ".join(limits.gpus)
    if accelerator is None:
        if count == 0:
            return []
        message = f"{count} GPU without an accelerator type; name one of {known} ({_source('gpus')})"
        return [Problem("accelerator", message)]
    if gpu is None:
        message = f"Cloud Run has no accelerator {accelerator!r}; choose one of {known} ({_source('gpus')})"
        return [Problem("accelerator", message)]
    if count != gpu.max_per_instance:
        message = (
            f"{count} GPUs; Cloud Run gives an instance exactly {gpu.max_per_instance} ({_source('gpus')}). "
            f"Set the GPU count to {gpu.max_per_instance}, and use more tasks for more GPUs"
        )
        return [Problem("gpu_count", message)]
    return []


def _size(
    limits: CloudRun, cpu: float | None, memory_gib: float | None, accelerator: str | None, gpu: Gpu | None
) -> list[Problem]:
    problems = []
    if gpu is not None and cpu is not None and cpu < gpu.min_cpu:
        why = f"{cpu:g} CPU; {accelerator} needs at least {gpu.min_cpu:g} CPU ({_source('gpus')})"
        problems.append(Problem("cpu", f"{why}. {_advice(limits, gpu)}"))
    if gpu is not None and memory_gib is not None and memory_gib < gpu.min_memory_gib:
        why = f"{memory_gib:g} GiB; {accelerator} needs at least {gpu.min_memory_gib:g} GiB ({_source('gpus')})"
        problems.append(Problem("memory_gib", f"{why}. {_advice(limits, gpu)}"))
    if problems or cpu is None:
        return problems
    band = limits.cpu_memory.get(cpu)
    if band is None:
        if gpu is not None and gpu.min_cpu > max(limits.cpu_memory):
            return []  # the table of sizes does not reach up to this GPU's
        choices = ", ".join(f"{size:g}" for size in limits.cpu_memory)
        return [Problem("cpu", f"Cloud Run has no size of {cpu:g} CPU; choose {choices} ({_source('cpu_memory')})")]
    if memory_gib is not None and not band.min_gib <= memory_gib <= band.max_gib:
        sizes = limits.cpu_memory.items()
        fitting = " or ".join(f"{size:g}" for size, each in sizes if each.min_gib <= memory_gib <= each.max_gib)
        message = (
            f"{memory_gib:g} GiB; {cpu:g} CPU allows {band.min_gib:g} to {band.max_gib:g} GiB "
            f"({_source('cpu_memory')}). Choose memory in that range{f', or {fitting} CPU' if fitting else ''}"
        )
        return [Problem("memory_gib", message)]
    return []


def _advice(limits: CloudRun, gpu: Gpu) -> str:
    band = limits.cpu_memory.get(gpu.min_cpu)
    if band is None or band.max_gib > gpu.min_memory_gib:
        return f"Use {gpu.min_cpu:g} CPU and {gpu.min_memory_gib:g} GiB or more"
    # At the minimum the band leaves nothing above the GPU's own need, and the mount stages writes in memory.
    sizes = limits.cpu_memory.items()
    roomier, most = next((size, each) for size, each in sizes if each.max_gib >= 2 * gpu.min_memory_gib)
    return (
        f"Use {roomier:g} CPU and {most.max_gib:g} GiB ({gpu.min_cpu:g} CPU allows at most {band.max_gib:g} GiB, "
        "which leaves the checkpoint mount no headroom)"
    )


def _timeout(limits: CloudRun, timeout_s: float | None, with_gpu: bool, where: Universe) -> list[Problem]:
    if timeout_s is None:
        return []
    cap = where.gpu_task_timeout_max_s if with_gpu else limits.task_timeout_max_s
    if 0 < timeout_s <= cap:
        return []
    kind = "with a GPU" if with_gpu else "without a GPU"
    way_out = f"Set at most {cap}s"
    if timeout_s > cap:
        way_out += "; a longer run goes on in the next attempt, from its last checkpoint"
        if with_gpu and timeout_s <= limits.task_timeout_max_s:
            way_out += f" ({limits.task_timeout_max_s // 3600} h is the limit without a GPU)"
    allowed = f"{kind} the platform allows up to {cap}s, {cap / 3600:g} h ({_source('task_timeout_max_s')})"
    message = f"{timeout_s:g}s ({timeout_s / 3600:g} h) a task attempt; {allowed}. {way_out}"
    return [Problem("timeout_s", message)]


def _retries(limits: CloudRun, max_retries: int | None) -> list[Problem]:
    low, high = limits.max_retries_min, limits.max_retries_max
    if max_retries is None or low <= max_retries <= high:
        return []
    allowed = f"Cloud Run allows {low} to {high} ({_source('max_retries_max')})"
    return [Problem("max_retries", f"{max_retries} retries; {allowed}. Set {limits.max_retries_default}")]
