"""Jobs of a training cluster's Slurm as runs, by the service's own way to Slurm's REST API.

A run's name is its job's id. A requeued job keeps it, and its checkpoints. Slurm forgets a job some minutes after its
end (MinJobAge); accounting does not: `holdfast usage`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, TypeVar

from holdfast.errors import OperatorError
from holdfast.gcp.api import Api, CloudError
from holdfast.runs import slurm_job
from holdfast.runs.backend import Run, Selection, State, Task, command
from holdfast.runs.slurm_job import COMMENT, SlurmJob, SlurmOrder
from holdfast.runs.slurm_log import OutputLog
from holdfast.slurm_login import Login
from infra import catalog, console

if TYPE_CHECKING:
    from stacks.config import Target
    from stacks.slurm_config import SlurmConfig

Json = Mapping[str, Any]
T = TypeVar("T")

_CALL = "aiplatform.projects.locations.modelDevelopmentClusters.callSlurmRestApi"
_NO_JOB = "Invalid job id"
_PENDING = ("PENDING", "CONFIGURING", "REQUEUED", "REQUEUE_HOLD", "REQUEUE_FED", "SPECIAL_EXIT")
_RUNNING = ("RUNNING", "COMPLETING", "SUSPENDED", "STOPPED", "RESIZING", "SIGNALING", "STAGE_OUT")
_OVER: Mapping[str, State] = {"COMPLETED": "succeeded", "CANCELLED": "cancelled"}
# squeue's REASON CODES, those that an operator meets here. https://slurm.schedmd.com/job_reason_codes.html
_REASONS = {
    "None": "not looked at by the scheduler yet",
    "Resources": "its nodes are busy, or are being made",
    "Priority": "jobs of a higher priority are before it",
    "BeginTime": "requeued: Slurm waits 2 minutes before it starts again",
    "Dependency": "another job has to end first",
    "JobHeldUser": "held by its user: scontrol release",
    "JobHeldAdmin": "held by an administrator, or after too many failed starts: scontrol release",
    "ReqNodeNotAvail": "a node that it needs is down, drained or reserved",
    "NodeDown": "a node that it needs is down",
    "PartitionTimeLimit": "its --time is more than the partition's MaxTime",
    "PartitionNodeLimit": "it asks for more nodes than the partition gives a job, or has up",
    "PartitionDown": "the partition is down",
    "AssocGrpGRES": "its account's limit on GPUs is reached",
    "QOSMaxGRESPerUser": "its user's limit on GPUs in the QOS is reached",
    "Licenses": "no licence is free",
}


@dataclass(frozen=True)
class Slurm:
    """The jobs of one cluster that were submitted by `holdfast`. `stack`: as of `Backend`."""

    api: Api
    cluster: str
    """projects/PROJECT/locations/REGION/modelDevelopmentClusters/ID."""
    config: SlurmConfig
    target: Target
    login: Login
    stack: str = ""
    verb: str = "slurm"
    _no_login: list[OperatorError] = field(default_factory=list, repr=False, compare=False)
    """Why the login node cannot be asked, once that was found out: a look is not to wait for it again."""

    def job(self, order: SlurmOrder) -> SlurmJob:
        """The job that is ordered. OperatorError: this cluster cannot run it, a line for each reason."""
        return slurm_job.spec(self.config, order)

    def run_id(self, order: SlurmOrder) -> str:
        return self.job(order).run_id

    def submit(self, order: SlurmOrder) -> Run:
        made = self._ask("POST", "job/submit", slurm_job.request(self.job(order)))
        return self.run(str(made["job_id"]))

    def runs(self, most: int | None = None) -> list[Run]:
        found = [_run(each) for each in self._jobs() if _ours(each)]
        return sorted(found, key=lambda run: (run.created, int(run.name)), reverse=True)[:most]

    def run(self, name: str) -> Run:
        """A run as it is now; while it waits, with its place and its priority's factors."""
        job = self._job(name)
        run = _run(job)
        if run.state != "pending":
            return run
        facts = [*run.facts, ("queue", _queue(job, self._jobs())), ("priority", self._priority(job))]
        return _run(job, tuple((key, value) for key, value in facts if value))

    def log(self, run: Run, selection: Selection) -> OutputLog:
        return OutputLog(self.login, _output(self._job(run.name)), run, selection)

    def last_step(self, run: Run) -> int | None:
        """As of `Backend`; None also where the output cannot be looked at: runs are to be listed all the same."""
        return self._asked(self.log(run, Selection()).last_step)

    def cancel(self, run: Run) -> None:
        self._ask("DELETE", f"job/{run.name}")

    def cancel_says(self) -> str:
        return (
            "Its processes get SIGTERM, and SIGKILL after Slurm's KillWait: the trainer saves a checkpoint in between. "
            "It is not requeued; the next job of the same run id resumes from there"
        )

    def again(self, run: Run) -> str:
        # Slurm tells neither the command nor the environment.
        words = command(self, "submit", self.verb, run.run_id)
        return f"`{words}`, with the options of this job, resumes from the checkpoints"

    def link(self, run: Run) -> str:
        return console.training_clusters_url(self.target.universe, self.target.project)

    def _job(self, name: str) -> Json:
        if not name.isdigit():
            raise OperatorError(f"{name}: a Slurm job is named by its number; `{command(self, 'runs')}` lists them")
        try:
            jobs: Sequence[Json] = self._ask("GET", f"job/{name}")["jobs"]
        except CloudError as error:
            if error.status != "NOT_FOUND" or not error.message.startswith(_NO_JOB):
                raise
            jobs = ()
        if not jobs:
            raise OperatorError(
                f"Slurm knows no job {name}: it forgets one some minutes after its end; accounting does not: "
                f"`{command(self, 'usage', '--job', name)}`. `{command(self, 'runs')}` lists those it knows"
            )
        return jobs[-1]

    def _jobs(self) -> Sequence[Json]:
        jobs: Sequence[Json] = self._ask("GET", "jobs/")["jobs"]
        return jobs

    def _priority(self, job: Json) -> str:
        """The job's priority and its factors. Without a way to the login node, the priority alone."""
        total = _count(job.get("priority"))
        said = self._asked(lambda: self.login.run("sprio", "-h", "-j", str(job["job_id"]), "-o", _FACTORS)) or ""
        factors = ", ".join(each.replace("=", " ") for each in said.split() if not each.endswith("="))
        return f"{total or 'not given yet'}" + (f" ({factors})" if factors else "")

    def _asked(self, ask: Callable[[], T]) -> T | None:
        """What the login node answers to what is only nice to know; None once it could not be asked."""
        try:
            return None if self._no_login else ask()
        except OperatorError as error:
            self._no_login.append(error)
            return None

    def _ask(self, method: str, path: str, body: Json | None = None) -> Json:
        """A request to Slurm's REST API. CloudError: the service, or Slurm, refuses it."""
        asked = {
            "method": f"HTTP_METHOD_{method}",
            "path": f"/slurm/{catalog.fact('training_clusters', 'slurm_api').value['version']}/{path}",
            **({} if body is None else {"body": body}),
        }
        answer = self.api.call(_CALL, {"name": self.cluster}, asked)
        # The documentation has it as text on one page, as an object on another.
        said: Json = answer.get("structuredBody") or json.loads(answer.get("body") or "{}")
        status, errors = int(answer.get("status", 200)), said.get("errors", ())
        if status >= 400 or errors:
            why = "; ".join(str(each.get("description") or each.get("error") or each) for each in errors)
            gone = status == 404 or why.startswith(_NO_JOB)
            code = "NOT_FOUND" if gone else "INVALID_ARGUMENT" if why else "UNAVAILABLE"
            # slurmrestd answers 500 to what slurmctld refuses: with a reason, nothing was done.
            http = 400 if why and status >= 500 else status
            raise CloudError(code, why or f"Slurm answers {status}", http_status=http, method=f"{method} {path}")
        return said


_FACTORS = "age=%A fair-share=%F size=%J partition=%P QOS=%Q TRES=%T nice=%N"


def _run(job: Json, facts: tuple[tuple[str, str], ...] | None = None) -> Run:
    state, restarts = _state(job), int(job.get("restart_cnt", 0))
    active = state in ("pending", "running")
    name, ended = str(job["job_id"]), _moment(job, "end_time")
    return Run(
        name=name,
        resource=f"jobs/{name}",
        state=state,
        run_id=str(job.get("comment", "")).removeprefix(COMMENT) if _ours(job) else str(job.get("name", "")),
        created=_moment(job, "submit_time") or datetime.now(UTC),
        task_count=1,
        ended=None if active else ended,
        retries=restarts,
        tasks=(Task(0, state, restarts, slurm_job.RESTARTS),),
        message="" if active or state == "succeeded" else _end(job),
        doing=_doing(job, state) if active else "",
        facts=(_facts(job) if facts is None else facts) if active else (),
    )


def _ours(job: Json) -> bool:
    return str(job.get("comment", "")).startswith(COMMENT)


def _state(job: Json) -> State:
    """The first state is the job's, the others are flags on it."""
    said = job.get("job_state") or ["PENDING"]
    first = said if isinstance(said, str) else said[0]
    if first in _PENDING:
        return "pending"
    return "running" if first in _RUNNING else _OVER.get(first, "failed")


def _doing(job: Json, state: State) -> str:
    if state == "pending":
        reason = str(job.get("state_reason", "None"))
        return f"waits ({reason}): {_REASONS[reason]}" if reason in _REASONS else f"waits: {reason}"
    limit = _count(job.get("time_limit"))
    return f"on {job.get('nodes', '')}" + (f", {limit} min at most before it is requeued" if limit else "")


def _facts(job: Json) -> tuple[tuple[str, str], ...]:
    who = "/".join(str(job.get(key, "")) for key in ("account", "user_name") if job.get(key))
    found = [
        ("user", who),
        ("partition", str(job.get("partition", ""))),
        ("restarts", str(job.get("restart_cnt", 0) or "")),
        ("output", _output(job)),
    ]
    return tuple((key, value) for key, value in found if value)


def _queue(job: Json, jobs: Sequence[Json]) -> str:
    """Where a waiting job is in its partition."""
    mine, partition = _count(job.get("priority")) or 0, job.get("partition", "")
    waiting = [each for each in jobs if each.get("partition") == partition and _state(each) == "pending"]
    ahead = sum((_count(each.get("priority")) or 0) > mine for each in waiting)
    return f"{ahead} of {len(waiting)} jobs that wait in {partition} have a higher priority"


def _end(job: Json) -> str:
    """How it ended: its state, and its exit code or signal."""
    said = job.get("job_state") or []
    code = job.get("exit_code", {})
    signal = _count(code.get("signal", {}).get("id")) or 0
    returned = _count(code.get("return_code")) or 0
    how = f"signal {signal}" if signal else f"exit code {returned}" if returned else ""
    reason = str(job.get("state_reason", "None"))
    parts = ("+".join([said] if isinstance(said, str) else said), how, "" if reason == "None" else reason)
    return ", ".join(filter(None, parts))


def _output(job: Json) -> str:
    """The output file, with sbatch's patterns filled in where Slurm has not done it."""
    file = str(job.get("stdout_expanded") or job.get("standard_output") or "")
    for pattern, value in (("%u", "user_name"), ("%x", "name"), ("%j", "job_id"), ("%A", "job_id")):
        file = file.replace(pattern, str(job.get(value, "")))
    return file


def _count(value: Any) -> int | None:
    """A number, or Slurm's {set, infinite, number}; None where it is not set."""
    if isinstance(value, Mapping):
        return int(value["number"]) if value.get("set") and not value.get("infinite") else None
    return None if value is None else int(value)


def _moment(job: Json, key: str) -> datetime | None:
    seconds = _count(job.get(key))
    return datetime.fromtimestamp(seconds, UTC) if seconds else None
