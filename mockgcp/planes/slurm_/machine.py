"""A cluster's machines: processes with namespaces of their own, in which Slurm is installed and /home is shared.

A machine has its own process ids, host name and mounts. Debian's packages lie over /usr and /etc, the cluster's own
files over /etc/slurm, passwd, group and hosts; /run is new, with the stand-ins of eight GPUs. Its first process ended,
the kernel ends every other one at once: so a machine dies like a virtual machine that is deleted.

Deliberately not done: a file system of its own. Prolog and epilog run as root on this machine's files.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

from mockgcp.planes.processes import ProcessLedger
from mockgcp.planes.protocol import Availability
from mockgcp.planes.slurm_.programs import Programs
from mockgcp.planes.slurm_.users import Users

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
CONTROLLER_DIR = "/run/controller"
"""A folder of the cluster's, the same on all machines; root's."""
GPU_FILES = "/run/gpu/nvidia"

_NAMESPACES = ("unshare", "--mount", "--uts", "--pid", "--fork", "--kill-child=KILL", "--mount-proc")
# Slurm counts GPUs by their device files: these are /dev/null. `mount -n`: the table in /run is not to be written. The
# program is a child, so that the shell reaps orphans.
_ENTER = """
set -e
cluster=$1 programs=$2 host=$3; shift 3
hostname "$host"
mount -n -t tmpfs -o mode=755 run "$cluster/run"
mkdir "$cluster/run/controller" "$cluster/run/munge" "$cluster/run/gpu"
for each in 0 1 2 3 4 5 6 7; do mknod -m 666 "$cluster/run/gpu/nvidia$each" c 1 3; done
ln -s controller/mysqld "$cluster/run/mysqld"
mount -n --bind "$cluster/controller" "$cluster/run/controller"
mount -n --bind "$cluster/munge" "$cluster/run/munge"
mount -n -t overlay -o "lowerdir=$programs/usr:/usr" programs /usr
mount -n -t overlay -o "lowerdir=$programs/etc:/etc" programs /etc
mount -n --bind "$cluster/slurm" /etc/slurm
for each in passwd group hosts; do mount -n --bind "$cluster/etc/$each" "/etc/$each"; done
while [ "$1" != -- ]; do
  mkdir -p "$cluster${1:?}"
  mount -n --rbind "$1" "$cluster$1"
  shift
done
shift
mount -n --rbind "$cluster/home" /home
mount -n --move "$cluster/run" /run
"$@"
"""


def availability() -> Availability:
    """Whether machines can be made here: tries it, in a few milliseconds."""
    why = "machines are namespaces with file systems laid over one another (unshare, overlayfs), for which the plane "
    root = "run as root, in a container with CAP_SYS_ADMIN for instance (docker run --privileged)"
    if os.name != "posix" or os.geteuid() != 0:
        return Availability(False, f"{why}must be root", root)
    for tool, package in (("unshare", "util-linux"), ("setpriv", "util-linux"), ("hostname", "hostname")):
        if shutil.which(tool) is None:
            return Availability(False, f"there is no `{tool}` on PATH", f"apt-get install {package}")
    tried = [*_NAMESPACES, "mount", "-n", "-t", "overlay", "-o", "lowerdir=/usr/bin:/usr/sbin", "try", "/mnt"]
    done = subprocess.run(tried, capture_output=True, text=True, check=False)
    if done.returncode:
        return Availability(False, f"{why}lacks a permission here: {done.stderr.strip()}", root)
    return Availability(True)


class Machines:
    """Makes machines. `folder` is the cluster's; `log/HOST.log` has what a machine's program writes.

    `keep`: folders below this machine's /home that stay where they are; the rest of it cannot be seen.
    """

    def __init__(self, folder: Path, programs: Programs, processes: ProcessLedger, keep: Sequence[Path] = ()) -> None:
        self.folder, self._programs, self._processes = folder, programs, processes
        for name in ("run", "controller/mysqld", "munge", "slurm", "log"):
            (folder / name).mkdir(parents=True, exist_ok=True)
        folder.chmod(0o755)
        (folder / "controller").chmod(0o700)
        self.home = folder / "home"
        self.users = Users(folder / "etc", self.home)
        (folder / "etc" / "hosts").touch()
        self._keep = [str(each) for each in keep if each.is_relative_to("/home")]
        self._running: list[subprocess.Popen[bytes]] = []
        self._closed = False
        self._lock = threading.Lock()

    def set_hosts(self, text: str) -> None:
        """Writes /etc/hosts in place: it is mounted in machines that run."""
        (self.folder / "etc" / "hosts").write_text(text, encoding="utf-8")

    def log(self, name: str) -> Path:
        return self.folder / "log" / f"{name}.log"

    def start(self, host: str, argv: Sequence[str], *, log: str = "") -> subprocess.Popen[bytes]:
        """Starts a machine that runs a program until that ends. Raises RuntimeError when the cluster is closed."""
        with self.log(log or host).open("ab") as file:
            return self._spawn(host, argv, {"LANG": "C.UTF-8"}, stdin=subprocess.DEVNULL, stdout=file, stderr=file)

    def run(
        self,
        host: str,
        argv: Sequence[str],
        *,
        user: str = "root",
        stdin: str = "",
        cwd: str = "",
        env: Mapping[str, str] | None = None,
        timeout_s: float | None = None,
    ) -> subprocess.CompletedProcess[str]:
        """Runs a command to its end as a user, in the home directory unless another is named.

        Raises:
            ValueError: no such user can be. subprocess.TimeoutExpired. RuntimeError: the cluster is closed.
        """
        who = self.users.get(user)
        become = ["setpriv", f"--reuid={who.uid}", f"--regid={who.uid}", "--clear-groups", "--"] if who.uid else []
        full = [*become, "env", "-C", cwd or who.home, *argv]
        session = {"LANG": "C.UTF-8", "USER": user, "LOGNAME": user, "HOME": who.home, "SHELL": "/bin/bash"}
        process = self._spawn(
            host,
            full,
            {**session, **(env or {})},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        try:
            out, err = process.communicate(stdin.encode(), timeout=timeout_s)
        finally:
            self.end(process)
        return subprocess.CompletedProcess(
            list(argv), process.returncode, out.decode(errors="replace"), err.decode(errors="replace")
        )

    def end(self, process: subprocess.Popen[bytes]) -> None:
        """Deletes a machine: nothing on it is told."""
        with self._lock:
            self._running = [each for each in self._running if each is not process]
        if process.poll() is None:
            process.kill()  # its child, the machine's first process, is killed with it
            process.wait()

    def close(self) -> None:
        """Deletes all machines, and lets no more be made."""
        with self._lock:
            self._closed, running = True, list(self._running)
        for process in running:
            self.end(process)

    def _spawn(
        self, host: str, argv: Sequence[str], env: Mapping[str, str], **streams: object
    ) -> subprocess.Popen[bytes]:
        arguments = [str(self.folder), str(self._programs.folder), host, *self._keep, "--", *argv]
        with self._lock:
            if self._closed:
                raise RuntimeError("the cluster is being deleted")
            process = self._processes.spawn(
                [*_NAMESPACES, "sh", "-c", _ENTER, "machine", *arguments],
                env={"PATH": PATH, **env},
                cwd=Path("/"),
                **streams,
            )
            self._running.append(process)
        return process
