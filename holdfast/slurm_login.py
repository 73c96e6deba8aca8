"""Commands on a training cluster's login node: what Slurm's REST API does not tell, and all that administers it."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from holdfast.errors import OperatorError
from holdfast.gcp import ENDPOINT

if TYPE_CHECKING:
    from stacks.config import Target
    from stacks.slurm_config import SlurmConfig

LOGIN = "HOLDFAST_LOGIN"
"""The variable that names another way to the login node: a command that runs its last argument there in a shell."""

_TIMEOUT_S = 120.0

Execute = Callable[[Sequence[str]], "subprocess.CompletedProcess[str]"]


@dataclass(frozen=True)
class Login:
    """Runs commands on the login node. `sudo`: whether who logs in has to become root to administer Slurm."""

    execute: Execute
    sudo: bool = True

    def run(self, *argv: str, admin: bool = False) -> str:
        """What a command prints. OperatorError: it fails, with what it said, or cannot be run."""
        done = self.execute(["sudo", "-n", *argv] if admin and self.sudo else argv)
        if done.returncode:
            said = done.stderr.strip() or done.stdout.strip() or f"exit code {done.returncode}"
            raise OperatorError(f"on the login node, {shlex.join(argv)[:200]}: {said}")
        return done.stdout


def login(config: SlurmConfig, target: Target) -> Login:
    """The login node of a stack's cluster: by gcloud through Identity-Aware Proxy, or as HOLDFAST_LOGIN says."""
    if way := os.environ.get(LOGIN):
        return Login(lambda argv: _execute([*shlex.split(way), shlex.join(argv)]))
    if os.environ.get(ENDPOINT):
        return Login(_emulated)
    from infra.slurm import ssh_command

    ssh = shlex.split(ssh_command(config.cluster_id, config.login_pool, target.project, config.login_zone()))
    return Login(lambda argv: _execute([*ssh, "--quiet", f"--command={shlex.join(argv)}"]))


def _emulated(argv: Sequence[str]) -> subprocess.CompletedProcess[str]:
    raise OperatorError(
        f"{argv[0]} runs on the login node, and that of the emulated cloud of {ENDPOINT} cannot be logged in to "
        f"from here. Set {LOGIN} to a command that runs its last argument there"
    )


def _execute(command: Sequence[str]) -> subprocess.CompletedProcess[str]:
    if shutil.which(command[0]) is None:
        raise OperatorError(
            f"{command[0]}, which logs in to the cluster, is not on PATH: install it, or set {LOGIN} to another "
            "command that runs its last argument on the login node, such as `ssh login`"
        )
    try:
        return subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=_TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise OperatorError(f"the login node did not answer {command[0]} within {_TIMEOUT_S:.0f} s") from error
