"""A long GPU job that its first maintenance event would end."""

from collections.abc import Mapping
from typing import Any

from infra import catalog
from policies.props import UNKNOWN, items, mapping

RESOURCE_TYPES = ("gcp:cloudrunv2/job:Job",)


def check(props: Mapping[str, Any]) -> list[str]:
    """One message if a Cloud Run job has a GPU, may run for over an hour an attempt, and is never retried.

    `props` are the job's inputs, in camelCase. A timeout or a number of retries that is absent is the platform's
    default, and one that is not known yet is not judged.
    """
    task = mapping(mapping(props.get("template")).get("template"))
    retries, timeout = task.get("maxRetries"), task.get("timeout")
    if not _has_gpu(task) or not isinstance(retries, int | float) or not isinstance(timeout, str):
        return []
    try:
        timeout_s = catalog.parse_duration_s(timeout)
    except ValueError:
        return []  # not a duration, which the provider itself refuses
    problem = catalog.preemption_problem(max_retries=int(retries), timeout_s=timeout_s)
    return [f"template.template.maxRetries: {problem.message}"] if problem else []


def _has_gpu(task: Mapping[str, Any]) -> bool:
    if mapping(task.get("nodeSelector")).get("accelerator") not in (None, "", UNKNOWN):
        return True
    containers = [mapping(each) for each in items(task.get("containers"))]
    return any("nvidia.com/gpu" in mapping(mapping(each.get("resources")).get("limits")) for each in containers)
