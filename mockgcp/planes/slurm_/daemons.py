"""The controller's programs: munged, MariaDB, slurmdbd and slurmctld, each in a machine of its own by the same name."""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from mockgcp.planes.slurm_.conf import CONFIG, Conf, controller
from mockgcp.planes.slurm_.machine import CONTROLLER_DIR, Machines

_READY_S = 60.0
_LOOK_S = 0.05
_ASK_S = 10.0
_EXECUTABLE = ("resume", "suspend", "prolog", "epilog")
_CANDIDATE = "candidate"
_DATABASE = f"{CONTROLLER_DIR}/mysql"
# The system's tables, without their rows: who may connect is said by the socket's folder, root's.
_BOOTSTRAP = f"""
{{ printf 'create database mysql;\\nuse mysql;\\n'; cat /usr/share/mysql/mysql_system_tables.sql
printf 'create database slurm_acct_db;\\n'; }} |
mariadbd --no-defaults --bootstrap --user=root --datadir={_DATABASE} --innodb-log-file-size=8M --performance-schema=OFF
"""
_MARIADB = (
    "mariadbd",
    "--no-defaults",
    "--user=root",
    f"--datadir={_DATABASE}",
    "--socket=/run/mysqld/mysqld.sock",
    "--pid-file=/run/mysqld/mysqld.pid",
    "--skip-networking",
    "--skip-grant-tables",
    "--innodb-buffer-pool-size=32M",
    "--innodb-log-file-size=8M",
    # What is lost with the machine would be lost anyway: not waiting for the disk makes everything faster.
    "--innodb-flush-log-at-trx-commit=0",
    "--innodb-lock-wait-timeout=900",
    "--performance-schema=OFF",
)


class Controller:
    """Runs one cluster's controller."""

    def __init__(self, name: str, machines: Machines) -> None:
        self._name, self._machines = name, machines
        self._host = controller(name)
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self._folder = machines.folder / "controller"

    def start(self, conf: Conf) -> None:
        """Starts all of it and waits until slurmctld answers.

        Raises:
            RuntimeError: a program ended, or does not answer; with the end of what it wrote.
        """
        for name in ("mysql", "mysqld", "state", "resume", "suspend"):
            (self._folder / name).mkdir(parents=True, exist_ok=True)
        key = self._machines.folder / "munge.key"
        key.touch(0o600)
        key.write_bytes(secrets.token_bytes(128))
        flags = [f"--key-file={key}", f"--log-file={self._machines.log('munged')}", f"--seed-file={key}.seed"]
        self._spawn(
            "munged", "munged", "-F", "--socket=/run/munge/munge.socket.2", "--pid-file=/run/munged.pid", *flags
        )
        made = self._machines.run(self._host, ["sh", "-c", _BOOTSTRAP], timeout_s=_READY_S)
        if made.returncode:
            raise RuntimeError(f"MariaDB's tables could not be made: {made.stderr[-2000:]}")
        self._spawn("mariadbd", *_MARIADB)
        self._write(conf)
        socket = self._folder / "mysqld" / "mysqld.sock"
        self._wait("mariadbd", socket.exists)
        self._wait("munged", (self._machines.folder / "munge" / "munge.socket.2").exists)
        self.check(conf)
        self._spawn("slurmdbd", "slurmdbd", "-D")
        # Before slurmctld, which does not start with priority/multifactor and no associations.
        self._wait("slurmdbd", lambda: self.ask("sacctmgr", "-i", "add", "cluster", self._name).returncode == 0)
        self._start_slurmctld()

    def check(self, conf: Conf) -> None:
        """Has Slurm itself read a configuration that is not yet applied. Raises RuntimeError: it cannot."""
        folder = self._machines.folder / "slurm" / _CANDIDATE
        shutil.rmtree(folder, ignore_errors=True)
        _write(folder, conf)
        try:
            read = self.ask(
                "scontrol", "show", "hostnames", "one", env={"SLURM_CONF": f"{CONFIG}/{_CANDIDATE}/slurm.conf"}
            )
        finally:
            shutil.rmtree(folder)
        if read.returncode or "error:" in read.stderr:
            raise RuntimeError(f"Slurm refuses the configuration: {_said(read.stderr)}")

    def change(self, conf: Conf, before: Conf) -> None:
        """Has slurmctld and the nodes take another configuration.

        slurmctld saves its state and starts anew: `scontrol reconfigure` takes no new nodes (22.05), and where it finds
        a mistake slurmctld dies without saving. Jobs run on meanwhile.

        Raises:
            RuntimeError: slurmctld does not start with it, and goes on with the one before.
        """
        self._write(conf)
        try:
            self._restart()
        except RuntimeError:
            self._write(before)
            self._restart()
            raise
        self.ask("scontrol", "reconfigure")  # for the nodes: scripts and time-outs

    def _restart(self) -> None:
        running = self._running["slurmctld"]
        if running.poll() is None:
            self.ask("scontrol", "shutdown", "slurmctld")
            try:
                running.wait(_READY_S)
            except subprocess.TimeoutExpired:
                self._machines.end(running)
        self._start_slurmctld()

    def _write(self, conf: Conf) -> None:
        """Puts the files into /etc/slurm of all machines."""
        _write(self._machines.folder / "slurm", conf)

    def ask(self, *argv: str, env: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
        """Runs a command as root on the controller; what takes more than 10 s has failed."""
        try:
            return self._machines.run(
                self._host, argv, env={"SLURM_TIME_FORMAT": "%s", **(env or {})}, timeout_s=_ASK_S
            )
        except subprocess.TimeoutExpired:
            return subprocess.CompletedProcess(argv, 124, "", f"no answer within {_ASK_S:g} s")

    def notice_user(self, user: str) -> None:
        """Has slurmctld look up a user that is newer than its association: by itself it looks once an hour.

        It looks when it reconfigures, and believes it when something of the user changes: the account, to what it is.
        """
        account = self.ask("sacctmgr", "-nP", "show", "user", user, "format=defaultaccount").stdout.strip()
        if account:
            self.ask("scontrol", "reconfigure")
            self.ask("sacctmgr", "-i", "modify", "user", user, "set", f"defaultaccount={account}")

    def answers(self) -> bool:
        return "is UP" in self.ask("scontrol", "ping").stdout

    def _start_slurmctld(self) -> None:
        self._spawn("slurmctld", "slurmctld", "-D")
        self._wait("slurmctld", self.answers)

    def _spawn(self, name: str, *argv: str) -> None:
        self._running[name] = self._machines.start(self._host, argv, log=name)

    def _wait(self, name: str, answers: Callable[[], bool]) -> None:
        deadline = time.monotonic() + _READY_S
        while time.monotonic() < deadline and self._running[name].poll() is None:
            if answers():
                return
            time.sleep(_LOOK_S)
        ended = self._running[name].poll()
        what = f"did not answer within {_READY_S:g} s" if ended is None else f"ended with {ended}"
        said = _said(self._machines.log(name).read_text(errors="replace"))
        raise RuntimeError(f"{name} {what}; it says: {said}")


def _write(folder: Path, conf: Conf) -> None:
    """Each file whole or not at all; scripts that are no more are removed."""
    for scripts in ("prolog.d", "epilog.d"):
        (folder / scripts).mkdir(parents=True, exist_ok=True)
    for name, text in conf.files.items():
        path = folder / f"{name}.new"
        path.write_text(text, encoding="utf-8")
        executable = name in _EXECUTABLE or name.endswith(".sh")
        path.chmod(0o755 if executable else 0o600 if name == "slurmdbd.conf" else 0o644)
        os.replace(path, folder / name)
    for path in folder.glob("*.d/*.sh"):
        if str(path.relative_to(folder)) not in conf.files:
            path.unlink()


def _said(text: str) -> str:
    """The errors in what a program wrote, else its end."""
    lines = text.splitlines()
    return "; ".join([line for line in lines if "error:" in line or "fatal:" in line][-4:] or lines[-4:])
