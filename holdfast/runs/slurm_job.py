"""What `holdfast submit slurm` orders, as a batch script and as a request to Slurm's REST API.

The script has its options as #SBATCH lines, so that it can be given to sbatch by hand. slurmrestd does not read these:
the request has them once more, from the same list.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from holdfast.errors import OperatorError
from holdfast.runs.backend import RUN_ID
from infra import catalog

if TYPE_CHECKING:
    from stacks.slurm_config import Partition, Pool, SlurmConfig

COMMENT = "holdfast run id "
"""What a job's comment begins with; its run id follows."""
LEAD_S = 120
"""Before its time limit a job is told by SIGTERM to save. Slurm may be up to 60 s early (sbatch, --signal)."""
RESTARTS = 20
"""How often a job starts again that was not asked to stop: a peer or the node may be at fault, or it itself."""
PROGRAM = "python3 -m workloads.trainer"

# Between SIGTERM and SIGKILL where a partition has no GraceTime: slurm.conf's KillWait, by default 30 s.
_KILL_WAIT_S = 30
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
_TIME = re.compile(r"(?:(\d+)-)?(\d+)(?::(\d\d))?(?::(\d\d))?")
_FIRST_PORT, _PORTS = 20000, 10000
# Minutes that a node may be there before its job starts, to boot and to be checked; a guess.
_BOOT_MIN = 10
# What the script sets itself.
_OWN = {
    "CHECKPOINT_DIR": "--checkpoint-dir says it",
    "HOLDFAST_COORDINATOR": "it comes from Slurm",
    "HOLDFAST_PROCESS_ID": "it comes from Slurm",
    "HOLDFAST_PROCESS_COUNT": "--nodes says it",
}


@dataclass(frozen=True)
class SlurmOrder:
    """A job to submit. None and absent: as the partition has it."""

    name: str
    """The job's name, which is also its run id unless `env` names another."""
    program: str = PROGRAM
    """The command that each node runs once, as a shell's words; it starts in `workdir`."""
    env: Mapping[str, str] = field(default_factory=dict)
    nodes: int = 1
    gpus: int | None = None
    """GPUs a node; all of the machine's by default."""
    partition: str | None = None
    time: str | None = None
    """The limit of one run, as sbatch takes it; a requeued job has it anew."""
    exclusive: bool = False
    account: str | None = None
    qos: str | None = None
    workdir: str = "~"
    checkpoint_dir: str = "~/checkpoints"


@dataclass(frozen=True)
class SlurmJob:
    """A job that the cluster can run. `time_min`: minutes; `grace_s`: seconds from SIGTERM to SIGKILL."""

    order: SlurmOrder
    partition: str
    gpus: int
    time_min: int | None
    grace_s: int

    @property
    def run_id(self) -> str:
        return self.order.env.get(RUN_ID) or self.order.name


@dataclass(frozen=True)
class _Option:
    """An option of sbatch's, empty where only the request has it, and the field of the request."""

    flag: str
    field: str
    value: Any


def spec(config: SlurmConfig, order: SlurmOrder) -> SlurmJob:
    """The job that is ordered. OperatorError: this cluster cannot run it, a line for each reason."""
    problems: list[str] = []
    for what, name in (("NAME", order.name), (f"--set {RUN_ID}", order.env.get(RUN_ID))):
        if name is not None and not _NAME.fullmatch(name):
            problems.append(
                f"{what} {name!r}: it names a folder of checkpoints: 1 to 63 letters, digits, '.', '_' and '-'"
            )
    for name, why in _OWN.items():
        if name in order.env:
            problems.append(f"--set {name}: the job's script sets it itself; {why}")
    for what, path in (("--workdir", order.workdir), ("--checkpoint-dir", order.checkpoint_dir)):
        if not path.startswith(("/", "~/")) and path != "~":
            problems.append(f"{what} {path!r}: write a path from / or from ~/, the home directory on all nodes")
    try:
        if not shlex.split(order.program):
            problems.append("--program is empty: write the command that every node runs once")
    except ValueError as error:
        problems.append(f"--program {order.program!r} is no command: {error}")
    minutes = None
    try:
        minutes = None if order.time is None else time_min(order.time)
    except ValueError as error:
        problems.append(f"--time {error}")
    chosen = _partition(config, order.partition)
    if chosen is None:
        there = ", ".join(each.id for each in config.partitions)
        problems.append(f"--partition {order.partition}: the cluster has {there} (holdfast:partitions)")
        raise OperatorError("\n".join(problems))
    pools = _pools(config, chosen)
    most, most_gpus = sum(pool.max_nodes for pool in pools), max(_gpus(pool) for pool in pools)
    gpus = order.gpus if order.gpus is not None else most_gpus
    if order.nodes > most:
        problems.append(
            f"--nodes {order.nodes}: partition {chosen.id} has {most} at most, so the job would wait for ever; order "
            "fewer, or raise maxNodes in holdfast:pools"
        )
    if gpus > most_gpus:
        problems.append(f"--gpus {gpus}: a node of partition {chosen.id} has {most_gpus}")
    if problems:
        raise OperatorError("\n".join(problems))
    return SlurmJob(order, chosen.id, gpus, minutes, _grace_s(config, chosen))


def warnings(config: SlurmConfig, job: SlurmJob) -> list[str]:
    """What the job may run into though Slurm takes it."""
    chosen = _partition(config, job.partition)
    lives = [
        catalog.parse_duration_s(pool.max_duration or f"{catalog.fact('slurm', 'flex_start_s').value['default']}s")
        for pool in _pools(config, chosen)
        if chosen is not None and pool.provisioning == "FLEX_START"
    ]
    if not lives:
        return []
    life = min(lives)
    ends = f"a node of partition {job.partition} ends {life:.10g} s after it was made, without SIGTERM"
    if job.time_min is None:
        return [f"without --time the job hears of no end: {ends}, and what was done since the last checkpoint is lost"]
    if job.time_min * 60 >= life:
        less = max(1, int((life - LEAD_S) // 60) - _BOOT_MIN)
        return [
            f"--time {job.order.time} is all that a node has, or more: {ends}, before the job is told to save. Order "
            f"--time {less} or less: the job is requeued at its limit, and goes on from its checkpoint"
        ]
    return []


def time_min(text: str) -> int:
    """Minutes of a time as sbatch takes it: M, M:S, H:M:S, D-H, D-H:M or D-H:M:S; seconds are rounded up.

    Raises:
        ValueError: it is none, or nothing.
    """
    found = _TIME.fullmatch(text)
    if found:
        days, first, second, third = (int(each or 0) for each in found.groups())
        if found[1] is not None:
            seconds = ((days * 24 + first) * 60 + second) * 60 + third
        elif found[4] is not None:
            seconds = (first * 60 + second) * 60 + third
        else:
            seconds = first * 60 + second
        if seconds:
            return -(-seconds // 60)
    raise ValueError(f"{text!r}: write minutes, H:MM:SS or D-HH:MM:SS, such as 12:00:00")


def request(job: SlurmJob) -> dict[str, Any]:
    """The body of POST /slurm/v0.0.42/job/submit."""
    fields = {option.field: option.value for option in _options(job) if option.field}
    # The script exports what the program is to have; the request must name one variable at least.
    return {"script": script(job), "job": {**fields, "environment": ["PATH=/usr/local/bin:/usr/bin:/bin"]}}


def script(job: SlurmJob) -> str:
    """The batch script."""
    order = job.order
    env = {"HOLDFAST_GRACE_SECONDS": str(job.grace_s), **order.env, RUN_ID: job.run_id}
    return _SCRIPT.format(
        options="\n".join(f"#SBATCH --{option.flag}" for option in _options(job) if option.flag),
        settings="\n".join(f"export {name}={shlex.quote(value)}" for name, value in sorted(env.items())),
        job=order.name,
        workdir=_path(order.workdir),
        checkpoints=_path(order.checkpoint_dir),
        first_port=_FIRST_PORT,
        ports=_PORTS,
        restarts=RESTARTS,
        program=shlex.join(shlex.split(order.program)),
    )


def _options(job: SlurmJob) -> Iterator[_Option]:
    order, comment = job.order, f"{COMMENT}{job.run_id}"
    yield _Option(f"job-name={order.name}", "name", order.name)
    yield _Option(f'comment="{comment}"', "comment", comment)
    yield _Option(f"partition={job.partition}", "partition", job.partition)
    if order.account:
        yield _Option(f"account={order.account}", "account", order.account)
    if order.qos:
        yield _Option(f"qos={order.qos}", "qos", order.qos)
    yield _Option(f"nodes={order.nodes}", "nodes", str(order.nodes))
    yield _Option(f"ntasks={order.nodes}", "tasks", order.nodes)
    yield _Option("ntasks-per-node=1", "tasks_per_node", 1)
    if job.gpus:
        yield _Option(f"gres=gpu:{job.gpus}", "tres_per_node", f"gres/gpu:{job.gpus}")
    if order.exclusive:
        yield _Option("exclusive", "shared", ["none"])
        yield _Option("mem=0", "memory_per_node", _number(0))  # all of the node's
    if job.time_min is not None:
        yield _Option(f"time={job.time_min}", "time_limit", _number(job.time_min))
        # Without `B:` to the steps, as in a preemption with GraceTime.
        yield _Option(f"signal=TERM@{LEAD_S}", "kill_warning_signal", "TERM")
        yield _Option("", "kill_warning_delay", _number(LEAD_S))
    yield _Option("requeue", "requeue", True)
    yield _Option("open-mode=append", "open_mode", ["APPEND"])
    yield _Option("output=/home/%u/%x-%j.out", "standard_output", "/home/%u/%x-%j.out")
    yield _Option("chdir=/home", "current_working_directory", "/home")


def _number(value: int) -> dict[str, Any]:
    return {"set": True, "infinite": False, "number": value}


def _partition(config: SlurmConfig, name: str | None) -> Partition | None:
    wanted = name or config.default_partition or config.partitions[0].id
    return next((each for each in config.partitions if each.id == wanted), None)


def _grace_s(config: SlurmConfig, partition: Partition) -> int:
    """The longest time that a process may have between SIGTERM and SIGKILL: a preemption's, else any end's."""
    for keys, name in ((partition.config, "GraceTime"), (config.config, "KillWait")):
        found = [value for key, value in keys.items() if catalog.slurm_name(key) == catalog.slurm_name(name)]
        if found and found[-1].isdigit() and int(found[-1]):
            return int(found[-1])
    return _KILL_WAIT_S


def _pools(config: SlurmConfig, partition: Partition | None) -> list[Pool]:
    return [] if partition is None else [pool for pool in config.pools if pool.id in partition.pools]


def _gpus(pool: Pool) -> int:
    machine = catalog.gpu_machines().get(pool.machine)
    return machine.gpus if machine else 0


def _path(path: str) -> str:
    """A path as a word of the script's, where ~ is the home directory."""
    return f'"$HOME"{shlex.quote(path[1:]) if path[1:] else ""}' if path.startswith("~") else shlex.quote(path)


_SCRIPT = """\
#!/bin/bash
{options}

# A job that came by the REST API has no HOME.
export HOME=~
{settings}
export CHECKPOINT_DIR={checkpoints}
export CLOUD_RUN_JOB={job} CLOUD_RUN_EXECUTION="slurm-$SLURM_JOB_ID"
export CLOUD_RUN_TASK_ATTEMPT="${{SLURM_RESTART_COUNT:-0}}"
first=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
export HOLDFAST_COORDINATOR="$first:$(({first_port} + SLURM_JOB_ID % {ports}))"
mkdir -p "$CHECKPOINT_DIR" && cd {workdir} || exit 2

# SIGTERM comes to the steps at once. To this shell, too, where the partition has no GraceTime: it waits for them.
trap : TERM
# shellcheck disable=SC2016 # for the shell of each process
srun --wait=60 bash -c 'export HOLDFAST_PROCESS_ID=$SLURM_PROCID HOLDFAST_PROCESS_COUNT=$SLURM_NTASKS; exec "$@"' \\
  process {program}
code=$?

case $code in
  143) ;; # asked to stop, and saved
  3 | 134 | 137) [ "${{SLURM_RESTART_COUNT:-0}}" -lt {restarts} ] || exit "$code" ;; # another writer; a peer or it died
  *) exit "$code" ;;
esac
# Cancelled, or requeued by Slurm itself, it is RUNNING no more, and that stands. Else, as in a GraceTime or before the
# time limit, the script's end would be the job's.
[ "$(squeue --noheader --jobs="$SLURM_JOB_ID" --format=%T)" = RUNNING ] || exit "$code"
echo "holdfast: exit code $code: the job is requeued"
scontrol requeue "$SLURM_JOB_ID"
exit "$code"
"""
