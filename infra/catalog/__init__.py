"""Dated, sourced facts about the platform: limits, roles, names, universes, and the rules that follow from them.

The facts lie in the YAML files beside this module, each with its value, the page it was read on and the day. Everything
that needs a limit (components, policies, the emulated cloud, the docs) reads it here, so a limit changes in one place.
"""

from infra.catalog.facts import (
    Band,
    CloudRun,
    Fact,
    Gpu,
    ServiceAccountLimits,
    Services,
    Storage,
    Universe,
    cloud_run,
    fact,
    roles,
    service_account,
    services,
    storage,
    universe,
)
from infra.catalog.rules import (
    Problem,
    bucket_name_problem,
    env_name_problem,
    gpu_job_problems,
    hierarchical_namespace_problems,
    job_name_problem,
    needs_preview,
    preemption_problem,
    service_account_id_problem,
    soft_delete_problem,
    task_count_problem,
)
from infra.catalog.units import DurationError, parse_cpu, parse_duration_s, parse_memory_gib

__all__ = [
    "Band",
    "CloudRun",
    "DurationError",
    "Fact",
    "Gpu",
    "Problem",
    "ServiceAccountLimits",
    "Services",
    "Storage",
    "Universe",
    "bucket_name_problem",
    "cloud_run",
    "env_name_problem",
    "fact",
    "gpu_job_problems",
    "hierarchical_namespace_problems",
    "job_name_problem",
    "needs_preview",
    "parse_cpu",
    "parse_duration_s",
    "parse_memory_gib",
    "preemption_problem",
    "roles",
    "service_account",
    "service_account_id_problem",
    "services",
    "soft_delete_problem",
    "storage",
    "task_count_problem",
    "universe",
]
