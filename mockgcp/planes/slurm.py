"""The Slurm plane: behind each emulated training cluster a real Slurm with accounting, on machines of namespaces.

The service's part is stood in for (slurm_/nodes.py): it makes, ends, repairs and replaces machines. Deliberately not
done: start-up scripts, images, disks and mounts other than /home, public addresses, OS Login's keys.
"""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

from mockgcp.clock import Clock
from mockgcp.planes.processes import ProcessLedger
from mockgcp.planes.protocol import Availability
from mockgcp.planes.slurm_ import machine, rest
from mockgcp.planes.slurm_.cluster import Cluster
from mockgcp.planes.slurm_.programs import Programs
from mockgcp.planes.slurm_.times import Times
from mockgcp.planes.slurm_.users import os_login_name
from mockgcp.training_clusters import Json, RestAnswer, Status


class SlurmPlane:
    """Runs the schedulers of training clusters while it is started: a `TrainingClusters`.

    Args:
        clock: the cloud's own.
        programs: Slurm; None: it was not brought, and the plane is not available.
        times: how long what is stood in for takes, and Slurm's own time-outs.
        keep: folders below /home that jobs need, such as the checkout; the rest of /home is the cluster's.
    """

    name = "slurm"

    def __init__(
        self,
        clock: Clock,
        *,
        state_dir: Path,
        programs: Programs | None,
        times: Times | None = None,
        keep: Sequence[Path] = (),
    ) -> None:
        self._clock, self._programs, self._times, self._keep = clock, programs, times or Times(), keep
        self.state_dir = state_dir
        self.processes = ProcessLedger(state_dir / "processes.jsonl")
        self._clusters: dict[str, Cluster] = {}
        self._lock = threading.Lock()

    @property
    def clock(self) -> Clock:
        return self._clock

    def availability(self) -> Availability:
        if self._programs is None:
            return Availability(False, "Slurm is not in the tool cache", "make planes")
        can = machine.availability()
        return Availability(True, versions=self._programs.versions) if can.usable else can

    def start(self) -> None:
        found = self.availability()
        if not found.usable:
            raise RuntimeError(f"the Slurm plane cannot run here: {found.why}; {found.how}")
        self.state_dir.mkdir(parents=True, exist_ok=True)

    def stop(self) -> None:
        for name in list(self._clusters):
            self.delete(name)
        self.processes.kill()

    def create(self, name: str, cluster: Json) -> None:
        assert self._programs is not None, "start() refuses that"
        self.delete(name)
        made = Cluster(
            name.rpartition("/")[2],
            cluster,
            programs=self._programs,
            folder=self.state_dir / name.replace("/", "_"),
            processes=self.processes,
            clock=self._clock,
            times=self._times,
            keep=self._keep,
        )
        with self._lock:
            self._clusters[name] = made
        try:
            made.start()
        except BaseException:
            self.delete(name)
            raise

    def update(self, name: str, cluster: Json) -> None:
        self.cluster(name).update(cluster)

    def delete(self, name: str) -> None:
        with self._lock:
            gone = self._clusters.pop(name, None)
        if gone is not None:
            gone.stop()

    def cluster(self, name: str) -> Cluster:
        """The cluster of that full name. Raises RuntimeError: there is none."""
        found = self._clusters.get(name)
        if found is None:
            raise RuntimeError(f"the Slurm plane runs no cluster {name}")
        return found

    def status(self, name: str) -> Status:
        found = self._clusters.get(name)
        return found.status() if found else Status()

    def rest(self, name: str, method: str, path: str, body: Json | None, principal: str) -> RestAnswer:
        return rest.answer(self.cluster(name), method, path, body, os_login_name(principal))

    def report_faulty(self, name: str, node: str, reasons: Sequence[Json], *, host: bool) -> None:
        """It returns when Slurm was told; the node's state says how far its repair is."""
        told = ", ".join(str(each.get("behavior", "")) for each in reasons)
        what = "its host is repaired" if host else "it is deleted"
        self.cluster(name).nodes.fault(node, f"reported faulty{told and f' ({told})'}: {what}")

    def run(
        self,
        name: str,
        argv: Sequence[str],
        *,
        user: str = "root",
        stdin: str = "",
        cwd: str = "",
        env: Mapping[str, str] | None = None,
        timeout_s: float | None = None,
    ) -> subprocess.CompletedProcess[str]:
        """Runs a command on the cluster's login node: sbatch, squeue, sacctmgr, ...

        A user is made when first named, as OS Login does, with a home directory; root administers Slurm. `env` is added
        to a login's plain environment, `cwd` is the home directory unless said.

        Raises:
            RuntimeError: no such cluster, or it is being deleted. ValueError: no such user can be.
            subprocess.TimeoutExpired.
        """
        return self.cluster(name).run(argv, user=user, stdin=stdin, cwd=cwd, env=env, timeout_s=timeout_s)
