"""What sacct prints, added up."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence

import pytest

from holdfast import slurm_usage
from holdfast.errors import OperatorError
from holdfast.slurm_login import Login

# A job that was preempted once, with its steps; a bar in a name; one that never ran.
SAID = """\
7|ada|research|a3u|llm|PREEMPTED|100|1600|billing=16,cpu=16,gres/gpu=8,node=1|
7.batch||research||batch|CANCELLED|100|1600|cpu=16,gres/gpu=8,node=1|4K
7.0||research||python3|CANCELLED|100|1600|cpu=16,gres/gpu=8,node=1|2G
7|ada|research|a3u|llm|COMPLETED|50|800|billing=16,cpu=16,gres/gpu=16,node=2|
7.0||research||python3|COMPLETED|50|800|cpu=16,gres/gpu=16,node=2|1.50G
8|bob|research|a3u|a|b|CANCELLED by 20001|0|0||
9|ada|research|a3u|cpu|COMPLETED|10|20|cpu=2,node=1|
"""


def test_runs_and_steps_of_a_job_are_added_up() -> None:
    llm, odd, cpu = slurm_usage.parse(SAID)
    assert (llm.job, llm.user, llm.state, llm.runs) == ("7", "ada", "COMPLETED", 2)
    assert (llm.elapsed_s, llm.cpu_s, llm.gpu_s, llm.memory) == (150, 2400, 100 * 8 + 50 * 16, 2 * 2**30)
    assert (odd.name, odd.state, odd.gpu_s) == ("a|b", "CANCELLED by 20001", 0)
    assert (cpu.cpu_s, cpu.gpu_s, cpu.memory) == (20, 0, 0)


def test_users_are_summed_most_gpus_first() -> None:
    sums = slurm_usage.by_user(slurm_usage.parse(SAID))
    assert [(each.user, each.account, each.jobs, each.cpu_s, each.gpu_s) for each in sums] == [
        ("ada", "research", 2, 2420, 1600),
        ("bob", "research", 1, 0, 0),
    ]


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({}, ["--allusers", "--starttime=now-7days"]),
        ({"user": "ada", "since": "90m"}, ["--user=ada", "--starttime=now-90minutes"]),
        ({"job": "7", "since": "2026-11-29"}, ["--jobs=7"]),
    ],
)
def test_what_sacct_is_asked(asked: dict[str, str], words: list[str]) -> None:
    seen: list[Sequence[str]] = []

    def execute(argv: Sequence[str]) -> subprocess.CompletedProcess[str]:
        seen.append(argv)
        return subprocess.CompletedProcess(argv, 0, SAID, "")

    assert len(slurm_usage.look(Login(execute), **asked)) == 3
    assert list(seen[0][:3]) == ["sudo", "-n", "sacct"]
    assert [word for word in seen[0] if word.startswith(("--all", "--user", "--jobs", "--start"))] == words


def test_a_jobs_name_is_no_number() -> None:
    with pytest.raises(OperatorError, match="named by its number"):
        slurm_usage.look(Login(lambda argv: pytest.fail("it was asked")), job="llm")
