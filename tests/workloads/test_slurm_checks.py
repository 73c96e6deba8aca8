"""The health checks of a node, with stand-ins for what they ask on PATH: one of each failure, and none of a healthy."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "workloads" / "slurm"
SCRIPTS = sorted(FOLDER.glob("*.sh"))
SMI = "printf '0, 0\\n1, 0\\n'"
TRACKING = "A9FEA9FE,169.254.169.254,3,1796000000.1,{off},0.0,0.0,1.0,0.0,0.1,0.0001,0.00002,64.1,{leap}"
DF = "echo Avail; echo {free}"
HEALTHY = {
    "mountpoint": "exit 0",
    "stat": "exit 0",
    "df": DF.format(free=90_000_000),
    "chronyc": f"echo '{TRACKING.format(off='-0.000012', leap='Normal')}'",
    "nvidia-smi": SMI,
    "dmesg": "echo '[1.0] NVRM: Xid (PCI:0000:04:00): 31, pid=7, MMU fault of a program'",
}
XID = "echo '[1.0] NVRM: Xid (PCI:0000:04:00): 79, GPU has fallen off the bus.'"


def check(name: str, folder: Path, fakes: Mapping[str, str], **env: str) -> subprocess.CompletedProcess[str]:
    """Runs a check with these programs before the system's; an empty one is not there, and neither is the system's."""
    programs, dev, mounts = folder / "bin", folder / "dev", folder / "mounts"
    for each in (programs, dev):
        each.mkdir()
    for gpu in (0, 1):
        (dev / f"nvidia{gpu}").touch()
    (dev / "nvidiactl").touch()
    mounts.write_text(
        "proc /proc proc rw 0 0\n10.0.0.2:/home /home nfs4 rw 0 0\n10.0.0.3@tcp:/l /mnt/l lustre rw 0 0\n"
    )
    for program, body in {**HEALTHY, **fakes}.items():
        if body:
            (programs / program).write_text(f"#!/bin/sh\n{body}\n")
            (programs / program).chmod(0o755)
    path = f"{programs}:/usr/bin:/bin"
    return subprocess.run(
        [str(FOLDER / name)],
        env={"PATH": path, "HOLDFAST_DEV": str(dev), "HOLDFAST_MOUNTS": str(mounts), **env},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_a_healthy_node_passes_and_says_nothing(tmp_path: Path, script: Path) -> None:
    done = check(script.name, tmp_path, {}, SLURM_JOB_GPUS="0,1")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize(
    ("script", "fakes", "env", "why"),
    [
        ("check_mounts.sh", {"mountpoint": "exit 1"}, {}, "/home is not mounted"),
        ("check_mounts.sh", {"stat": '[ "$3" != /mnt/l ]'}, {}, r"/mnt/l (lustre) does not answer"),
        ("check_disk.sh", {"df": DF.format(free=900_000)}, {}, "/ has 878 MiB left"),
        ("check_disk.sh", {"df": "exit 1"}, {}, "/ cannot be looked at"),
        ("check_disk.sh", {"mktemp": "exit 1"}, {}, "/tmp cannot be written to"),
        ("check_clock.sh", {"chronyc": "exit 1"}, {}, "chronyd does not answer"),
        (
            "check_clock.sh",
            {"chronyc": f"echo '{TRACKING.format(off='0.0', leap='Not synchronised')}'"},
            {},
            "it is not synchronised",
        ),
        (
            "check_clock.sh",
            {"chronyc": f"echo '{TRACKING.format(off='-7.5', leap='Normal')}'"},
            {},
            "it is off by -7.5 s",
        ),
        ("check_clock.sh", {"chronyc": "", "timedatectl": "echo no"}, {}, "it is not synchronised"),
        ("check_gpus.sh", {"nvidia-smi": ""}, {}, "there are 2, but no nvidia-smi"),
        ("check_gpus.sh", {"nvidia-smi": "echo lost; exit 15"}, {}, "nvidia-smi fails: lost"),
        ("check_gpus.sh", {"nvidia-smi": "echo 0, 0"}, {}, "1 of 2 answer"),
        ("check_gpus.sh", {}, {"SLURM_JOB_GPUS": "0,7"}, "the job is given GPU 7, and 2 answer"),
        ("check_gpus.sh", {"nvidia-smi": "printf '0, [N/A]\\n1, 3\\n'"}, {}, "GPU 1 has 3 uncorrected memory errors"),
        ("check_gpus.sh", {"dmesg": XID}, {}, "the driver has logged Xid (PCI:0000:04:00): 79"),
    ],
)
def test_each_failure_is_found_and_named(
    tmp_path: Path, script: str, fakes: dict[str, str], env: dict[str, str], why: str
) -> None:
    done = check(script, tmp_path, fakes, **env)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(f"holdfast: {script[6:9]}".replace("gpu", "GPU"))
    assert why in done.stderr


def test_a_node_without_gpus_has_none_to_check(tmp_path: Path) -> None:
    done = check("check_gpus.sh", tmp_path, {"nvidia-smi": ""}, HOLDFAST_DEV=str(tmp_path))
    assert (done.returncode, done.stderr) == (0, "")


def test_a_mount_that_hangs_is_left_behind(tmp_path: Path) -> None:
    # The check's own patience is 10 s; `timeout` stands in for it, so that the test does not wait.
    fakes = {"timeout": '[ "$1 $2 $3" = "-s KILL 10" ] && exit 137'}
    assert "does not answer" in check("check_mounts.sh", tmp_path, fakes).stderr


def test_the_scripts_are_clean() -> None:
    assert len(SCRIPTS) == 4
    found = subprocess.run(
        [str(Path(sys.executable).with_name("shellcheck")), *map(str, SCRIPTS)], capture_output=True, text=True
    )
    assert found.returncode == 0, found.stdout
