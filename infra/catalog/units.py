"""The platform's spellings of durations, memory and CPU, as numbers; a ValueError gives the right spelling."""

import re

_DURATION = re.compile(r"\d+(\.\d+)?s")
_OTHER_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|m|min|h|d)?")
_SECONDS = {"ms": 0.001, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0, None: 1.0}

_MEMORY = re.compile(r"(\d+(?:\.\d+)?)(Ki|Mi|Gi|k|M|G)")
_BYTES = {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "k": 10**3, "M": 10**6, "G": 10**9}

_CPU = re.compile(r"(\d+(?:\.\d+)?)(m?)")


class DurationError(ValueError):
    """A duration in another spelling; `seconds` is what it seems to mean, None when nothing can be made of it."""

    def __init__(self, message: str, seconds: float | None) -> None:
        super().__init__(message)
        self.seconds = seconds


def parse_duration_s(text: str) -> float:
    """Seconds of a duration as the API and the provider take it: a number and `s`, such as `43200s`.

    DurationError for anything else: the provider's pattern is `^\\d+(\\.\\d+)?s$`, so hours and minutes are refused.
    """
    if _DURATION.fullmatch(text):
        return float(text[:-1])
    other = _OTHER_DURATION.fullmatch(text.strip())
    seconds = float(other[1]) * _SECONDS[other[2]] if other else None
    hint = "write, for example, 43200s for 12 hours" if seconds is None else f"write {seconds:.10g}s"
    raise DurationError(f"{text!r} is not a duration: the API takes seconds, a number followed by `s`; {hint}", seconds)


def parse_memory_gib(text: str) -> float:
    """GiB of a memory limit such as `32Gi`, `512Mi` or `16G`. ValueError for anything else."""
    found = _MEMORY.fullmatch(text)
    if not found:
        raise ValueError(
            f"{text!r} is not an amount of memory: the API takes a number and a unit (Ki, Mi, Gi, k, M, G); "
            "write, for example, 32Gi"
        )
    return float(found[1]) * float(_BYTES[found[2]]) / float(2**30)


def parse_cpu(text: str) -> float:
    """CPUs of a CPU limit such as `8` or `1000m` (thousandths). ValueError for anything else."""
    found = _CPU.fullmatch(text)
    if not found:
        raise ValueError(
            f"{text!r} is not a number of CPUs: the API takes CPUs (`8`) or thousandths of one (`1000m`); "
            "write, for example, 8"
        )
    return float(found[1]) / (1000 if found[2] else 1)
