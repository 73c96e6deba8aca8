"""From a story's record to its verdict: what was seen, and what of the expected was not."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict

from holdfast.rehearsal import gke_record
from holdfast.rehearsal.gke_record import Record
from holdfast.rehearsal.report import Story, judged

ON_DEMAND, DWS = "on-demand", "dws"
DEACTIVATED = "DeactivatedDueTo"
"""How Kueue's reason of an eviction begins when it is for good."""


def story(
    name: str, record: Record, jobs: Iterable[str], checks: Mapping[str, bool], expected: str, advice: str
) -> Story:
    """The story that holds when all of `checks` do."""
    said = [text for command, text in record.said.items() if not command.startswith("logs ")]  # those are long
    return judged(name, asdict(record), checks, [*(_reading(record, job) for job in jobs), *said], expected, advice)


def _reading(record: Record, job: str) -> str:
    requests = [" -> ".join(each) or "no condition" for each in gke_record.requests(record, job)]
    evicted = gke_record.reasons(record, job, "Evicted")
    said = [
        f"quota of {', then '.join(gke_record.flavors(record, job)) or 'nothing'}",
        *(f"request {number}: {each}" for number, each in enumerate(requests, 1)),
        *([f"evicted: {', '.join(evicted)}"] if evicted else []),
        *([f"ended {result}"] if (result := gke_record.result(record, job)) else []),
    ]
    return f"{job}: {', '.join(said)}"
