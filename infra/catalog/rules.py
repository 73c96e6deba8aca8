"""What the platform refuses, in one place: components, policies and the emulated cloud all ask here."""

import re
from dataclasses import dataclass

from infra.catalog.facts import CloudRun, Gpu, Universe, cloud_run, fact, service_account, storage
from infra.catalog.facts import universe as universe_of


@dataclass(frozen=True)
class Problem:
    """One thing the platform refuses.

    `field`: the rule's argument that is at fault (cpu, memory_gib, accelerator, bucket_name, soft_delete_s, ...).
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


def job_name_problem(job_name: str) -> Problem | None:
    """What Cloud Run refuses of a job's name, which has to leave room for the suffix of its executions."""
    limits, source = cloud_run(), _source("job_and_token_max")
    if len(job_name) > limits.job_name_max:
        message = (
            f"{job_name!r} has {len(job_name)} characters; at most {limits.job_name_max} leave room for an execution's "
            f"suffix of {limits.execution_suffix_length} under {limits.job_and_token_max + 1} ({source}). Shorten it"
        )
        return Problem("job_name", message)
    if not re.fullmatch(limits.job_name_pattern, job_name):
        message = (
            f"{job_name!r} does not match {limits.job_name_pattern} ({_source('job_name_pattern')}). Use lower-case "
            "letters, digits and hyphens, a letter first and no hyphen last, such as gpu-resilient-job"
        )
        return Problem("job_name", message)
    return None


def task_count_problem(task_count: int) -> Problem | None:
    """What Cloud Run refuses of the number of tasks that an execution has."""
    most = cloud_run().max_task_count
    if 1 <= task_count <= most:
        return None
    message = f"{task_count} tasks; a job has 1 to {most} ({_source('max_task_count')}). Set a number in that range"
    return Problem("task_count", message)


def env_name_problem(env_name: str) -> Problem | None:
    """What Cloud Run refuses of an environment variable's name in a job."""
    limits = cloud_run()
    if env_name in limits.reserved_env_names:
        key = "reserved_env_names"
    elif env_name.startswith(limits.reserved_env_prefixes):
        key = "reserved_env_prefixes"
    else:
        return None
    return Problem("env_name", f"{env_name} is reserved by Cloud Run ({_source(key)}). Choose another name")


def service_account_id_problem(account_id: str) -> Problem | None:
    """What IAM refuses of a service account's id, the part of its e-mail before the @."""
    limits, source = service_account(), _source("service_account", "iam")
    if not limits.id_min <= len(account_id) <= limits.id_max:
        message = (
            f"{account_id!r} has {len(account_id)} characters; a service account's id has {limits.id_min} to "
            f"{limits.id_max} ({source}). {'Shorten' if len(account_id) > limits.id_max else 'Lengthen'} it"
        )
        return Problem("account_id", message)
    if not re.fullmatch(limits.id_pattern, account_id):
        message = (
            f"{account_id!r} does not match {limits.id_pattern} ({source}). Use lower-case letters, digits and "
            "hyphens, a letter first and no hyphen last, such as gpu-job-sa"
        )
        return Problem("account_id", message)
    return None


def project_id_problem(project: str) -> Problem | None:
    """What Resource Manager refuses of a project's id; a universe's, or an older domain's, prefix is part of it."""
    pattern, source = fact("projects", "id_pattern").value, _source("id_pattern", "projects")
    if re.fullmatch(pattern, project):
        return None
    message = (
        f"{project!r} is no project id: it does not match {pattern} ({source}). Use the id, not the number or the "
        "display name; `gcloud projects list` shows all three"
    )
    return Problem("project", message)


def bucket_name_problem(bucket_name: str) -> Problem | None:
    """What Cloud Storage refuses of a bucket's name. One with dots needs a verified domain, so it is refused too."""
    limits, source = storage(), _source("bucket_name_pattern", "storage")
    if not limits.bucket_name_min <= len(bucket_name) <= limits.bucket_name_max:
        message = (
            f"{bucket_name!r} has {len(bucket_name)} characters; a bucket's name has {limits.bucket_name_min} to "
            f"{limits.bucket_name_max} ({source}). Choose one that fits"
        )
        return Problem("bucket_name", message)
    reserved = [prefix for prefix in limits.bucket_name_reserved_prefixes if bucket_name.startswith(prefix)]
    reserved += [word for word in limits.bucket_name_reserved_words if word in bucket_name]
    if reserved:
        message = f"{bucket_name!r} has {reserved[0]!r}, which Google keeps for itself ({source}). Choose another"
        return Problem("bucket_name", message)
    if "." in bucket_name or not re.fullmatch(limits.bucket_name_pattern, bucket_name):
        message = (
            f"{bucket_name!r} is no bucket name ({source}). Use lower-case letters, digits, hyphens and underscores, a "
            "letter or a digit first and last (a dot would need a domain that you own)"
        )
        return Problem("bucket_name", message)
    return None


def soft_delete_problem(soft_delete_s: int) -> Problem | None:
    """What Cloud Storage refuses of a bucket's soft-delete retention, in seconds; 0 is off."""
    limits = storage()
    if soft_delete_s == 0 or limits.soft_delete_min_s <= soft_delete_s <= limits.soft_delete_max_s:
        return None
    message = (
        f"{soft_delete_s}s; soft delete keeps objects for {limits.soft_delete_min_s}s to {limits.soft_delete_max_s}s, "
        f"or is off ({_source('soft_delete_min_s', 'storage')}). Set 0 or a value in that range"
    )
    return Problem("soft_delete_s", message)


def hierarchical_namespace_problems(*, uniform_access: bool, versioning: bool) -> list[Problem]:
    """What Cloud Storage refuses of a bucket with a hierarchical namespace."""
    limits, problems = storage(), []
    if limits.hierarchical_namespace_needs_uniform_access and not uniform_access:
        source = _source("hierarchical_namespace_needs_uniform_access", "storage")
        message = f"a hierarchical namespace needs uniform bucket-level access ({source}). Enable it"
        problems.append(Problem("uniform_access", message))
    if versioning and not limits.hierarchical_namespace_allows_versioning:
        source = _source("hierarchical_namespace_allows_versioning", "storage")
        message = f"a hierarchical namespace has no object versioning ({source}). Disable it"
        problems.append(Problem("versioning", message))
    return problems


def _source(key: str, file: str = "cloud_run") -> str:
    return fact(file, key).source


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
