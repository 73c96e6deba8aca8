"""What this project asks of a deployment beyond what the platform refuses; the facts are in practices.yaml."""

import re
from typing import Any

from infra.catalog.facts import cloud_run, fact
from infra.catalog.rules import Problem, preemption_problem

_PINNED = re.compile(r"[^\s@]+@sha256:[0-9a-f]{64}")


def image_problem(image: str) -> Problem | None:
    """A container image's reference without its digest. A tag can move between two attempts of one training run."""
    if _PINNED.fullmatch(image):
        return None
    message = (
        f"{image!r} is not pinned by a digest, so a retry could resume with another program than the one that "
        "checkpointed. Write HOST/PROJECT/REPOSITORY/IMAGE@sha256:DIGEST; `gcloud artifacts docker images describe "
        "IMAGE:TAG --format='value(image_summary.digest)'` prints the digest"
    )
    return Problem("image", message)


def few_retries_problem(*, max_retries: int | None, timeout_s: float | None = None) -> Problem | None:
    """Fewer retries than a long GPU job does well to have; none at all is `preemption_problem`'s, not an advice.

    `timeout_s`, in seconds, leaves out short jobs; None leaves out none.
    """
    advised = int(_value("gpu_retries_advised"))
    if max_retries is None or not 0 < max_retries < advised:
        return None
    if preemption_problem(max_retries=0, timeout_s=timeout_s) is None:
        return None  # too short for maintenance to matter
    message = (
        f"{max_retries} retries; maintenance takes one each time it ends a GPU task, and the application's own "
        f"failures take the others ({_source('gpu_retries_advised')}). Set {advised}"
    )
    return Problem("max_retries", message)


def mount_headroom_problem(*, accelerator: str | None, memory_gib: float | None) -> Problem | None:
    """A GPU instance with a bucket mounted for writing, whose memory (GiB) is no more than its GPU itself asks for.

    None for an unknown accelerator or size. How much more a job needs, its largest file, only its owner knows.
    """
    limits = cloud_run()
    gpu = limits.gpus.get(accelerator) if accelerator else None
    if not _value("mount_stages_writes") or gpu is None or memory_gib is None or memory_gib > gpu.min_memory_gib:
        return None
    sizes = ((cpu, band.max_gib) for cpu, band in limits.cpu_memory.items() if cpu >= gpu.min_cpu)
    roomier = [f"{cpu:g} CPU allows up to {most:g} GiB" for cpu, most in sizes if most > gpu.min_memory_gib]
    message = (
        f"{memory_gib:g} GiB; {accelerator} itself needs {gpu.min_memory_gib:g} GiB, and the mount stages each file in "
        f"the instance's memory while it is written ({_source('mount_stages_writes')}), so a checkpoint could end the "
        f"task for want of memory. Add at least the largest file's size{''.join(f'; {each}' for each in roomier)}"
    )
    return Problem("memory_gib", message)


def default_account_problem(account: str) -> Problem | None:
    """A service account (its e-mail) that the platform made for a whole project."""
    for owner, pattern in _value("default_accounts").items():
        if re.match(pattern, account):
            message = (
                f"{account} is {owner}'s default account: whatever runs in the project may share it, and it often "
                f"holds editor ({_source('default_accounts')}). Name an account of the workload's own"
            )
            return Problem("service_account", message)
    return None


def project_role_problem(role: str, *, workload: bool) -> Problem | None:
    """A role that is too broad on a whole project, folder or organization; some are so for a `workload` only."""
    if role in _value("basic_roles"):
        message = (
            f"{role} is a basic role, with thousands of permissions ({_source('basic_roles')}). Grant predefined roles "
            "that say what is needed"
        )
        return Problem("role", message)
    if workload and role in _value("account_roles"):
        message = (
            f"{role} above a single resource lets a workload act as every service account there, or give itself any "
            f"role ({_source('account_roles')}). Grant it on the one service account that is meant"
        )
        return Problem("role", message)
    return None


def _value(key: str) -> Any:
    return fact("practices", key).value


def _source(key: str) -> str:
    return fact("practices", key).source
