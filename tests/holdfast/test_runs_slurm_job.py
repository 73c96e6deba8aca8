"""What `holdfast submit slurm` orders: the batch script, the request, what is refused, and how the script ends."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from holdfast.errors import OperatorError
from holdfast.runs import slurm_job
from holdfast.runs.slurm_job import SlurmOrder
from stacks.slurm_config import Partition, Pool, SlurmConfig

CONFIG = SlurmConfig(
    pools=(
        Pool(id="login", machine="n2-standard-8", min_nodes=1),
        Pool(id="a3u", machine="a3-ultragpu-8g", provisioning="FLEX_START", max_duration="86400s", max_nodes=2),
        Pool(id="cpu", machine="n2-standard-8", max_nodes=4),
    ),
    partitions=(
        Partition(id="a3u", pools=["a3u"], config={"GraceTime": "300"}),
        Partition(id="cpu", pools=["cpu"]),
        Partition(id="all", pools=["a3u", "cpu"]),
    ),
    config={"killwait": "45"},
)
ORDER = SlurmOrder(
    "llm",
    program=".venv/bin/python -m workloads.trainer 'a b'",
    env={"HOLDFAST_STEPS": "500", "NOTE": "it's"},
    nodes=2,
    time="12:00:00",
    exclusive=True,
    account="research",
    qos="high",
    workdir="~/holdfast",
    checkpoint_dir="/mnt/filestore/ck",
)
GOLDEN = r"""#!/bin/bash
#SBATCH --job-name=llm
#SBATCH --comment="holdfast run id llm"
#SBATCH --partition=a3u
#SBATCH --account=research
#SBATCH --qos=high
#SBATCH --nodes=2
#SBATCH --ntasks=2
#SBATCH --ntasks-per-node=1
#SBATCH --gres=gpu:8
#SBATCH --exclusive
#SBATCH --mem=0
#SBATCH --time=720
#SBATCH --signal=TERM@120
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --output=/home/%u/%x-%j.out
#SBATCH --chdir=/home

# A job that came by the REST API has no HOME.
export HOME=~
export HOLDFAST_GRACE_SECONDS=300
export HOLDFAST_RUN_ID=llm
export HOLDFAST_STEPS=500
export NOTE='it'"'"'s'
export CHECKPOINT_DIR=/mnt/filestore/ck
export CLOUD_RUN_JOB=llm CLOUD_RUN_EXECUTION="slurm-$SLURM_JOB_ID"
export CLOUD_RUN_TASK_ATTEMPT="${SLURM_RESTART_COUNT:-0}"
first=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
export HOLDFAST_COORDINATOR="$first:$((20000 + SLURM_JOB_ID % 10000))"
mkdir -p "$CHECKPOINT_DIR" && cd "$HOME"/holdfast || exit 2

# SIGTERM comes to the steps at once. To this shell, too, where the partition has no GraceTime: it waits for them.
trap : TERM
# shellcheck disable=SC2016 # for the shell of each process
srun --wait=60 bash -c 'export HOLDFAST_PROCESS_ID=$SLURM_PROCID HOLDFAST_PROCESS_COUNT=$SLURM_NTASKS; exec "$@"' \
  process .venv/bin/python -m workloads.trainer 'a b'
code=$?

case $code in
  143) ;; # asked to stop, and saved
  3 | 134 | 137) [ "${SLURM_RESTART_COUNT:-0}" -lt 20 ] || exit "$code" ;; # another writer; a peer or it died
  *) exit "$code" ;;
esac
# Cancelled, or requeued by Slurm itself, it is RUNNING no more, and that stands. Else, as in a GraceTime or before the
# time limit, the script's end would be the job's.
[ "$(squeue --noheader --jobs="$SLURM_JOB_ID" --format=%T)" = RUNNING ] || exit "$code"
echo "holdfast: exit code $code: the job is requeued"
scontrol requeue "$SLURM_JOB_ID"
exit "$code"
"""
# Each program writes how it was called; srun runs its command as process 1 of 2.
FAKES = {
    "squeue": 'echo "$STATE"',
    "scontrol": 'echo "scontrol $*" >>"$HOME/calls"; [ "$1" != show ] || printf "node-0\\nnode-1\\n"',
    "srun": 'shift; SLURM_PROCID=1 SLURM_NTASKS=2 "$@"; exit $?',
}


def test_the_script() -> None:
    assert slurm_job.script(slurm_job.spec(CONFIG, ORDER)) == GOLDEN


def test_the_script_is_clean(tmp_path: Path) -> None:
    (tmp_path / "job.sh").write_text(GOLDEN)
    shellcheck = str(Path(sys.executable).with_name("shellcheck"))
    found = subprocess.run([shellcheck, str(tmp_path / "job.sh")], capture_output=True, text=True)
    assert found.returncode == 0, found.stdout


def test_the_request_says_what_the_script_says() -> None:
    def number(value: int) -> dict[str, Any]:
        return {"set": True, "infinite": False, "number": value}

    asked = slurm_job.request(slurm_job.spec(CONFIG, ORDER))
    assert asked == {
        "script": GOLDEN,
        "job": {
            "name": "llm",
            "comment": "holdfast run id llm",
            "partition": "a3u",
            "account": "research",
            "qos": "high",
            "nodes": "2",
            "tasks": 2,
            "tasks_per_node": 1,
            "tres_per_node": "gres/gpu:8",
            "shared": ["none"],
            "memory_per_node": number(0),
            "time_limit": number(720),
            "kill_warning_signal": "TERM",
            "kill_warning_delay": number(120),
            "requeue": True,
            "open_mode": ["APPEND"],
            "standard_output": "/home/%u/%x-%j.out",
            "current_working_directory": "/home",
            "environment": ["PATH=/usr/local/bin:/usr/bin:/bin"],
        },
    }


def test_the_least_order_is_the_default_partitions_whole_node_without_end() -> None:
    job = slurm_job.spec(CONFIG, SlurmOrder("small", env={"HOLDFAST_RUN_ID": "second"}))
    assert (job.partition, job.gpus, job.time_min, job.run_id) == ("a3u", 8, None, "second")
    said = slurm_job.script(job)
    assert not [each for each in ("--time", "--signal", "--exclusive") if each in said]
    assert "export HOLDFAST_RUN_ID=second\n" in said
    assert 'export CHECKPOINT_DIR="$HOME"/checkpoints\n' in said
    assert 'cd "$HOME" ||' in said


def test_a_partition_without_gpus_and_grace_has_neither() -> None:
    job = slurm_job.spec(CONFIG, SlurmOrder("small", partition="cpu", nodes=4))
    assert (job.gpus, job.grace_s) == (0, 45)
    assert "--gres" not in slurm_job.script(job)
    assert slurm_job.warnings(CONFIG, job) == []


@pytest.mark.parametrize(
    ("order", "why"),
    [
        (SlurmOrder("a/b"), "NAME 'a/b': it names a folder"),
        (SlurmOrder("a", env={"HOLDFAST_RUN_ID": ".."}), "--set HOLDFAST_RUN_ID '..': it names a folder"),
        (SlurmOrder("a", env={"HOLDFAST_PROCESS_COUNT": "2"}), "HOLDFAST_PROCESS_COUNT: the job's script .* --nodes"),
        (SlurmOrder("a", env={"CHECKPOINT_DIR": "/x"}), "CHECKPOINT_DIR: .* --checkpoint-dir"),
        (SlurmOrder("a", workdir="src"), "--workdir 'src': write a path from / or from ~/"),
        (SlurmOrder("a", checkpoint_dir="~bob/x"), "--checkpoint-dir '~bob/x'"),
        (SlurmOrder("a", program="  "), "--program is empty"),
        (SlurmOrder("a", program="echo 'a"), "--program .* No closing quotation"),
        (SlurmOrder("a", time="soon"), "--time 'soon': write minutes"),
        (SlurmOrder("a", partition="none"), "--partition none: the cluster has a3u, cpu, all"),
        (SlurmOrder("a", nodes=3), "--nodes 3: partition a3u has 2 at most"),
        (SlurmOrder("a", gpus=9), "--gpus 9: a node of partition a3u has 8"),
        (SlurmOrder("a", partition="cpu", gpus=1), "--gpus 1: a node of partition cpu has 0"),
    ],
)
def test_what_the_cluster_cannot_run_is_refused(order: SlurmOrder, why: str) -> None:
    with pytest.raises(OperatorError, match=why):
        slurm_job.spec(CONFIG, order)


def test_all_that_is_wrong_is_said_at_once() -> None:
    with pytest.raises(OperatorError) as said:
        slurm_job.spec(CONFIG, SlurmOrder("a b", nodes=3, gpus=9, time="0"))
    assert [line.split()[0] for line in str(said.value).splitlines()] == ["NAME", "--time", "--nodes", "--gpus"]


@pytest.mark.parametrize(
    ("time", "said"),
    [
        (None, "without --time the job hears of no end"),
        ("24:00:00", "--time 24:00:00 is all that a node has"),
        ("2-0", "Order --time 1428 or less"),
        ("23:48:00", None),
    ],
)
def test_a_time_that_the_nodes_do_not_have_is_warned_of(time: str | None, said: str | None) -> None:
    for partition in ("a3u", "all"):
        found = slurm_job.warnings(CONFIG, slurm_job.spec(CONFIG, SlurmOrder("a", partition=partition, time=time)))
        assert len(found) == (said is not None)
        assert said is None or said in found[0]


@pytest.mark.parametrize(
    ("text", "minutes"),
    [("90", 90), ("90:30", 91), ("12:00:00", 720), ("1-0", 1440), ("1-06", 1800), ("1-06:30", 1830), ("0-00:00:01", 1)],
)
def test_times_are_sbatchs(text: str, minutes: int) -> None:
    assert slurm_job.time_min(text) == minutes


@pytest.mark.parametrize("text", ["", "0", "1h", "-5", "1:2:3:4"])
def test_other_times_are_none(text: str) -> None:
    with pytest.raises(ValueError, match="write minutes"):
        slurm_job.time_min(text)


@pytest.mark.parametrize(
    ("code", "state", "restarts", "requeued"),
    [
        (0, "RUNNING", "", False),
        (1, "RUNNING", "", False),
        (2, "RUNNING", "", False),
        (143, "RUNNING", "", True),
        (143, "RUNNING", "500", True),
        (143, "COMPLETING", "", False),  # cancelled
        (143, "PENDING", "", False),  # requeued by Slurm itself
        (143, "", "", False),  # forgotten
        (3, "RUNNING", "19", True),
        (134, "RUNNING", "", True),
        (137, "RUNNING", "", True),
        (137, "RUNNING", "20", False),
    ],
)
def test_the_script_requeues_a_job_that_was_asked_to_stop_and_no_other(
    tmp_path: Path, code: int, state: str, restarts: str, requeued: bool
) -> None:
    done, calls = run(tmp_path, f"exit {code}", state, restarts)
    assert done.returncode == code
    assert ("scontrol requeue 12345" in calls) is requeued


def test_the_program_has_its_environment_from_slurm(tmp_path: Path) -> None:
    wanted = ("CHECKPOINT_DIR", "CLOUD_RUN_", "HOLDFAST_")
    done, _ = run(tmp_path, "pwd; env", "RUNNING", "4")
    where, *env = done.stdout.splitlines()
    assert where == str(tmp_path)
    assert sorted(line for line in env if line.startswith(wanted)) == [
        f"CHECKPOINT_DIR={tmp_path}/checkpoints",
        "CLOUD_RUN_EXECUTION=slurm-12345",
        "CLOUD_RUN_JOB=llm",
        "CLOUD_RUN_TASK_ATTEMPT=4",
        "HOLDFAST_COORDINATOR=node-0:22345",
        "HOLDFAST_GRACE_SECONDS=300",
        "HOLDFAST_PROCESS_COUNT=2",
        "HOLDFAST_PROCESS_ID=1",
        "HOLDFAST_RUN_ID=llm",
    ]


def test_the_shell_outlives_sigterm_and_says_how_the_step_ended(tmp_path: Path) -> None:
    # Without a GraceTime Slurm sends it to the shell as well; the step needs its time.
    done, calls = run(tmp_path, "kill -TERM $(cat shell); sleep 0.3; exit 143", "RUNNING", "")
    assert done.returncode == 143
    assert "scontrol requeue 12345" in calls


def run(folder: Path, program: str, state: str, restarts: str) -> tuple[subprocess.CompletedProcess[str], str]:
    """Runs the script with stand-ins for Slurm's commands: it, and how scontrol was called."""
    for name, body in FAKES.items():
        (folder / name).write_text(f"#!/bin/bash\n{body}\n")
        (folder / name).chmod(0o755)
    (folder / "program").write_text(f"#!/bin/bash\n{program}\n")
    (folder / "program").chmod(0o755)
    script = slurm_job.script(slurm_job.spec(CONFIG, SlurmOrder("llm", program="./program", nodes=2)))
    env = {
        "PATH": f"{folder}:{os.defpath}",
        "HOME": str(folder),
        "SLURM_JOB_ID": "12345",
        "SLURM_JOB_NODELIST": "node-[0-1]",
        "STATE": state,
    }
    env |= {"SLURM_RESTART_COUNT": restarts} if restarts else {}
    shell = f'echo $$ >"$HOME/shell"\n{script}'
    done = subprocess.run(["bash", "-c", shell], env=env, capture_output=True, text=True, timeout=60, check=False)
    return done, (folder / "calls").read_text()
