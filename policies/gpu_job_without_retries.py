"""A long GPU job that its first maintenance event would end."""

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from infra import catalog
from policies.props import UNKNOWN, items, mapping

RESOURCE_TYPES = ("gcp:cloudrunv2/job:Job",)


def check(props: Mapping[str, Any]) -> list[str]:
    """One message if a Cloud Run job has a GPU, may run for over an hour an attempt, and is never retried.

    `props` are the job's inputs, in camelCase. A timeout or a number of retries that is absent is the platform's
    default, and one that is not known yet is not judged. The provider takes numbers as text too.
    """
    task = mapping(mapping(props.get("template")).get("template"))
    retries, timeout_s = _whole(task.get("maxRetries")), _seconds(task.get("timeout"))
    if not _has_gpu(task) or retries is None or timeout_s is None:
        return []
    problem = catalog.preemption_problem(max_retries=retries, timeout_s=timeout_s)
    return [f"template.template.maxRetries: {problem.message}"] if problem else []


def _whole(value: Any) -> int | None:
    """A whole number as the provider reads it (0, 0.0, "0", "0x0"); None for what is not one."""
    with suppress(ValueError):
        return int(str(value), 0)
    with suppress(ValueError, OverflowError):
        return int(float(str(value)))
    return None


def _seconds(value: Any) -> float | None:
    """Seconds of a timeout, also in a spelling that the provider would refuse (12h); None for what is not one."""
    try:
        return catalog.parse_duration_s(str(value))
    except catalog.DurationError as error:
        return error.seconds


def _has_gpu(task: Mapping[str, Any]) -> bool:
    if mapping(task.get("nodeSelector")).get("accelerator") not in (None, "", UNKNOWN):
        return True
    containers = [mapping(each) for each in items(task.get("containers"))]
    return any("nvidia.com/gpu" in mapping(mapping(each.get("resources")).get("limits")) for each in containers)
