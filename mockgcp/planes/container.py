"""Real containers: an image built by buildah, and a task that runs in it, as process 1 of a process namespace.

`ContainerImage` is what the Cloud Run plane is given in place of a LocalImage. buildah builds and unpacks; the task is
started by util-linux, since `buildah run --isolation=chroot` (1.28) answers SIGTERM by SIGKILL and has no process
namespace, so that neither the grace nor process 1's own rules could be rehearsed.
Deliberately not done: networks, memory and CPU limits, and a file system anew for each attempt: /tmp is the attempt's
own, the rest is shared by all and for root alone to write.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mockgcp.planes.cloud_run import Launch
from mockgcp.planes.processes import ProcessLedger
from mockgcp.planes.protocol import Availability

# The environment of the programs that handle images: nothing of the caller's, and not the container's either.
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_NEEDED = {"buildah": "buildah", "unshare": "util-linux", "mount": "mount"}

# Arguments: ROOT UID GID WORKDIR, then SOURCE TARGET MODE a mount, then `--` and the command. The first shell has
# mounts of its own; it becomes the second, whose first child is process 1 of a process namespace; its exit code is
# that child's. PATH is the container's, so the host's own programs are found by a path of ours.
_LAUNCH = r"""
set -eu
container_path=${PATH-} PATH=@PATH@
root=$1 uid=$2 gid=$3 dir=$4; shift 4
while [ "$1" != -- ]; do
  mkdir -p "$root$2"
  mount --bind "$1" "$root$2"
  [ "$3" = rw ] || mount -o "remount,bind,$3" "$root$2"
  shift 3
done
shift
mkdir -p "$root/dev" "$root/proc"
mount --rbind /dev "$root/dev"
export container_path root uid gid dir
exec unshare --pid /bin/sh -c '
  trap "kill -TERM \$first" TERM
  (
    mount -t proc proc "$root/proc"
    enter=$(command -v unshare) PATH=$container_path
    at=$root to=$dir as=$uid in=$gid
    unset container_path root dir uid gid PWD OLDPWD
    exec "$enter" --root="$at" --wd="$to" --setgid "$in" --setuid "$as" -- "$@"
  ) & first=$!
  while :; do
    wait $first; code=$?
    kill -0 $first 2>/dev/null || exit $code
  done' task "$@"
""".replace("@PATH@", _PATH)


class ContainerError(Exception):
    """buildah could not do what it was asked; the message has its last lines."""


def availability() -> Availability:
    """Whether images can be built and run here."""
    missing = sorted(package for program, package in _NEEDED.items() if shutil.which(program, path=_PATH) is None)
    if missing:
        return Availability(False, f"{', '.join(missing)} missing", f"apt-get install {' '.join(missing)}")
    if os.geteuid() != 0:
        return Availability(False, "containers are built and run by root here", "run as root")
    return Availability(True)


@dataclass(frozen=True)
class ContainerImage:
    """An image that was unpacked to `root`. `entrypoint`, `env`, `user` (ids) and `workdir` are its configuration."""

    root: Path
    entrypoint: tuple[str, ...]
    env: Mapping[str, str]
    user: tuple[int, int]
    workdir: str

    def process(self, launch: Launch) -> tuple[list[str], dict[str, str]]:
        tmp = launch.folder / "tmp"
        tmp.mkdir(exist_ok=True)
        tmp.chmod(0o1777)
        mounts = [str(tmp), "/tmp", "rw"]
        for path, mount in launch.mounts.items():
            if mount.owner is None:
                mount.folder.chmod(0o1777)
            else:  # as on the platform, where no file of a mounted bucket has an owner of its own
                _give(mount.folder, *mount.owner)
            mounts += [str(mount.folder), path, "ro" if mount.read_only else "rw"]
        shell = ["/usr/bin/unshare", "--mount", "/bin/sh", "-c", _LAUNCH, "task"]
        where = [str(self.root), *map(str, self.user), self.workdir]
        command = [*(launch.command or self.entrypoint), *launch.args]
        return [*shell, *where, *mounts, "--", *command], {**self.env, **launch.env}


def _give(folder: Path, uid: int, gid: int) -> None:
    for where, folders, files in os.walk(folder):
        for name in (*folders, *files):
            os.lchown(os.path.join(where, name), uid, gid)
    os.chown(folder, uid, gid)


class Buildah:
    """buildah with a store of its own: nothing of the user's is seen or changed.

    Args:
        store: the folder of the store; deleting it deletes all images.
        processes: what it starts is recorded there.
    """

    def __init__(self, store: Path, processes: ProcessLedger) -> None:
        self.store, self._processes = store, processes

    def run(self, *args: str, cwd: Path | None = None, on_line: Callable[[str], None] = lambda line: None) -> list[str]:
        """Runs a command of buildah and returns its output's lines; `on_line` is told of each as it comes.

        Raises:
            ContainerError: it failed.
        """
        self.store.mkdir(parents=True, exist_ok=True)
        env = {"PATH": _PATH, "HOME": str(self.store), "TMPDIR": str(self.store), "LANG": "C.UTF-8"}
        process = self._processes.spawn(
            ["buildah", "--storage-driver=vfs", f"--root={self.store}/root", f"--runroot={self.store}/run", *args],
            env=env,
            cwd=cwd or self.store,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        assert process.stdout is not None
        lines = []
        try:
            with process.stdout:
                for raw in process.stdout:
                    lines.append(raw.decode("utf-8", "replace").rstrip("\n"))
                    on_line(lines[-1])
            process.wait()
        finally:  # on Ctrl-C it must not go on building
            self._processes.end_tree(process)
            process.wait()
        if process.returncode:
            raise ContainerError("\n".join([f"buildah {args[0]} ended with {process.returncode}:", *lines[-20:]]))
        return lines

    def unpack(self, image: str) -> ContainerImage:
        """Makes a container of an image in the store, and says what it is to run.

        Raises:
            ContainerError: the image is not there, or its user is not a number.
        """
        config = self._inspect(image)["OCIv1"]["config"]
        name = self.run("from", "--pull-never", image)[-1]
        root = Path(self.run("mount", name)[-1])
        user = re.fullmatch(r"(\d+)(?::(\d+))?", config.get("User") or "0")
        if user is None:
            raise ContainerError(f"{image} runs as {config['User']!r}: give a number there, such as USER 65532:65532")
        return ContainerImage(
            root=root,
            entrypoint=(*config.get("Entrypoint", ()), *config.get("Cmd", ())),
            env=dict(item.partition("=")[::2] for item in config.get("Env", ())),
            user=(int(user[1]), int(user[2] or user[1])),
            workdir=config.get("WorkingDir") or "/",
        )

    def digest(self, image: str) -> str:
        """The digest of an image in the store.

        Raises:
            ContainerError: it is not there.
        """
        return str(self._inspect(image)["FromImageDigest"])

    def _inspect(self, image: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads("\n".join(self.run("inspect", "--type=image", image)))
        return found
