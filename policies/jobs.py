"""A Cloud Run job's inputs as the rules on jobs read them."""

from collections.abc import Mapping
from typing import Any

from infra import catalog
from policies.props import UNKNOWN, is_on, items, mapping, whole

JOB = "gcp:cloudrunv2/job:Job"
GPU = "nvidia.com/gpu"
TASK = "template.template"
"""Where a job's task is, for messages."""


def task(props: Mapping[str, Any]) -> Mapping[str, Any]:
    """What each task of a job is."""
    return mapping(mapping(props.get("template")).get("template"))


def containers(task: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The containers of a task."""
    return [mapping(each) for each in items(task.get("containers"))]


def limits(container: Mapping[str, Any]) -> Mapping[str, Any]:
    """A container's resource limits."""
    return mapping(mapping(container.get("resources")).get("limits"))


def accelerator(task: Mapping[str, Any]) -> str | None:
    """The GPU's type: None for none, UNKNOWN for one that is not known yet."""
    block = task.get("nodeSelector")
    return UNKNOWN if block == UNKNOWN else mapping(block).get("accelerator") or None


def has_gpu(task: Mapping[str, Any]) -> bool:
    """Whether a task is known to have a GPU."""
    return accelerator(task) not in (None, UNKNOWN) or any(GPU in limits(each) for each in containers(task))


def gpu_limits(task: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]]:
    """Where the limits of the container with the GPU are, and the limits. A sidecar's size is its own."""
    found = enumerate(map(limits, containers(task)))
    index, chosen = next(((index, each) for index, each in found if GPU in each), (0, {}))
    return f"{TASK}.containers[{index}].resources.limits", chosen


def retries(task: Mapping[str, Any]) -> int | None:
    """Retries a task; None for the platform's default, and for what is not known."""
    return whole(task.get("maxRetries"))


def timeout_s(task: Mapping[str, Any]) -> float | None:
    """Seconds a task attempt, also in a spelling that the provider would refuse (12h); None for what is none."""
    try:
        return catalog.parse_duration_s(str(task.get("timeout")))
    except catalog.DurationError as error:
        return error.seconds


def cpu(limits: Mapping[str, Any]) -> float | None:
    """CPUs of a limit; None for none, and for what is not known or not an amount."""
    try:
        return catalog.parse_cpu(_text(limits.get("cpu")))
    except ValueError:
        return None


def memory_gib(limits: Mapping[str, Any]) -> float | None:
    """GiB of a limit; None for none, and for what is not known or not an amount."""
    try:
        return catalog.parse_memory_gib(_text(limits.get("memory")))
    except ValueError:
        return None


def _text(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def written_volumes(task: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The buckets that a task mounts and may write, as its `gcs` blocks."""
    blocks = [mapping(mapping(volume).get("gcs")) for volume in items(task.get("volumes"))]
    return [
        block for block in blocks if block and not is_on(block.get("readOnly")) and block.get("readOnly") != UNKNOWN
    ]
