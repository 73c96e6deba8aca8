"""What Slurm and the service said during a story, raw, and what follows from it.

Everything but `Watcher` is pure, and takes a record that may lack anything: a story that did not come to its end.
"""

from __future__ import annotations

import re
import threading
import time
import traceback
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from holdfast.rehearsal.report import Story, judged
from mockgcp.planes.slurm_.cluster import Cluster

Object = dict[str, Any]

_LOOK_S = 0.4
_FIELD = re.compile(r"(?:^|\s)([A-Z][\w/:]*)=(\S*)")
_OF_JOB = ("JobName", "UserId", "Partition", "JobState", "Reason", "Restarts", "NodeList", "StartTime", "Priority")
# sacct's: of every run of a job its own row (--duplicates), times in seconds since the epoch.
COLUMNS = ("JobID", "User", "Account", "Partition", "State", "Start", "End", "NodeList", "AllocCPUS", "CPUTimeRAW")
COLUMNS_OF_STEPS = ("JobID", "ElapsedRaw", "TotalCPU", "MaxRSS")
_NO_NODES = ("", "(null)", "None assigned")


@dataclass(frozen=True)
class Record:
    """The histories of a story's jobs and nodes; `at` in seconds since the epoch, as all times.

    `stack`: what its configuration has to do with them. `jobs` and `rows` by what the story calls a job: its states as
    `scontrol show job` had them, and sacct's rows, one a run. `nodes`: what Slurm says of each (`slurm`, `reason`), and
    what the service does of its machine (`machine`, `created`; empty where there is none). `events`: the cluster's.
    `said`: what commands answered, by the command; `training`: the trainer's events, and what it made compared.
    """

    stack: Object = field(default_factory=dict)
    jobs: dict[str, list[Object]] = field(default_factory=dict)
    rows: dict[str, list[Object]] = field(default_factory=dict)
    nodes: dict[str, list[Object]] = field(default_factory=dict)
    events: list[Object] = field(default_factory=list)
    said: dict[str, str] = field(default_factory=dict)
    training: Object = field(default_factory=dict)


class Watcher:
    """Looks at a cluster again and again, in a thread, and writes down what has changed.

    A controller that does not answer, since it begins anew, is asked at the next look.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self.jobs: dict[str, list[Object]] = {}
        self.nodes: dict[str, list[Object]] = {}
        self.defects: list[str] = []
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="slurm-watcher", daemon=True)

    def __enter__(self) -> Watcher:
        self._look()
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._over.set()
        self._thread.join()

    def is_any(self, state: str) -> bool:
        """Whether any job is in that state."""
        return any(history[-1].get("JobState") == state for history in list(self.jobs.values()))

    def _run(self) -> None:
        while not self._over.wait(_LOOK_S):
            try:
                self._look()
            except Exception:
                self.defects.append(traceback.format_exc())

    def _look(self) -> None:
        told = self._cluster.controller.ask("scontrol", "--oneliner", "show", "jobs")
        for line in told.stdout.splitlines() if told.returncode == 0 else ():
            fields = dict(_FIELD.findall(line))
            if job := fields.get("JobId"):
                append(self.jobs.setdefault(job, []), {key: fields[key] for key in _OF_JOB if key in fields})
        machines = {node.name: node for node in self._cluster.nodes.there()}
        for name, seen in self._cluster.nodes.seen.items():
            machine = machines.get(name)
            now = {
                "slurm": "+".join(sorted(seen.state)),
                "reason": seen.reason,
                "machine": machine.state if machine else "",
                "created": machine.created if machine else "",
            }
            append(self.nodes.setdefault(name, []), now)


def append(history: list[Object], state: Object) -> None:
    """Adds a state that is another than the last one."""
    before = {key: value for key, value in history[-1].items() if key != "at"} if history else None
    if before != state:
        history.append({"at": round(time.time(), 2), **state})


def since(history: Sequence[Object], began: float) -> list[Object]:
    """The states from that moment on, and the one that held then."""
    earlier = [state for state in history if state["at"] < began]
    return [*earlier[-1:], *(state for state in history if state["at"] >= began)]


def table(text: str, columns: Sequence[str]) -> list[Object]:
    """The rows of what a Slurm command printed with --parsable2 and --noheader."""
    return [dict(zip(columns, line.split("|"), strict=True)) for line in text.splitlines() if line.strip()]


# -- what can be read off a record -------------------------------------------------------------------------------------


def turns(values: Iterable[str]) -> list[str]:
    """The values in their order, without repetitions in a row."""
    found: list[str] = []
    for value in values:
        if not found or found[-1] != value:
            found.append(value)
    return found


def last(record: Record, job: str) -> Mapping[str, Any]:
    """A job's last state; empty where there was none."""
    return (record.jobs.get(job) or [{}])[-1]


def state(record: Record, job: str) -> str:
    return str(last(record, job).get("JobState", ""))


def restarts(record: Record, job: str) -> int:
    return int(last(record, job).get("Restarts", 0))


def ends(record: Record, job: str) -> list[str]:
    """How each run of a job ended, as sacct has it: PREEMPTED, NODE_FAIL, COMPLETED; without who cancelled it."""
    return [str(row["State"]).split(" ")[0] for row in record.rows.get(job, ())]


def times(record: Record, job: str) -> list[tuple[int, int]]:
    """Start and end of each run of a job, in seconds since the epoch; those that never began are left out."""
    return [
        (int(row["Start"]), int(row["End"]))
        for row in record.rows.get(job, ())
        if row["Start"].isdigit() and row["End"].isdigit()
    ]


def places(record: Record, job: str) -> list[str]:
    """The nodes of each run of a job."""
    return [str(row["NodeList"]) for row in record.rows.get(job, ()) if row["NodeList"] not in _NO_NODES]


def machines(record: Record, node: str) -> list[str]:
    """When each machine that was a node was made, oldest first: one for each."""
    return turns(each["created"] for each in record.nodes.get(node, ()) if each["created"])


def was(record: Record, node: str, flag: str) -> bool:
    """Whether a node once had a flag of Slurm's, such as DRAIN."""
    return any(flag in each["slurm"].split("+") for each in record.nodes.get(node, ()))


def is_idle(record: Record, node: str) -> bool:
    """Whether a node was left idle, on a machine that runs, with nothing else to be said of it."""
    state = (record.nodes.get(node) or [{}])[-1]
    return set(state.get("slurm", "").split("+")) - {"CLOUD"} == {"IDLE"} and state["machine"] == "RUNNING"


def happened(record: Record, kind: str, node: str = "") -> bool:
    """Whether the service told of such an event, of that node."""
    return any(each["type"] == kind and node in each["message"] for each in record.events)


def story(name: str, record: Record, checks: Mapping[str, bool], expected: str, advice: str, saw: str = "") -> Story:
    """The story that holds when all of `checks` do."""
    seen = [*([saw] if saw else []), *(_reading(record, job) for job in record.jobs)]
    return judged(name, asdict(record), checks, seen, expected, advice)


def _reading(record: Record, job: str) -> str:
    runs = zip(ends(record, job), (str(row["NodeList"]) for row in record.rows.get(job, ())), strict=True)
    said = ", then ".join(end if nodes in _NO_NODES else f"{end} on {nodes}" for end, nodes in runs)
    return f"{job}: {said or state(record, job) or 'never submitted'}"
