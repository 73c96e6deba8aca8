"""A training cluster of scenario C's shape on the Slurm plane, and what tests ask of it."""

from __future__ import annotations

import contextlib
import copy
import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mockgcp.clock import Clock
from mockgcp.planes.slurm import SlurmPlane
from mockgcp.planes.slurm_.cluster import Cluster
from mockgcp.planes.slurm_.programs import Programs
from mockgcp.planes.slurm_.times import QUICK

NAME = "projects/holdfast-dev/locations/us-central1/modelDevelopmentClusters/flexvm"
USERS = ("ada", "bob", "eve")
_FIELD = re.compile(r"(\S+?)=(\S*)")
# Three checks of every node, each driven by files that a test puts into /home.
PROLOG = [
    '#!/bin/bash\necho "$SLURM_JOB_ID one $(hostname)" >>/home/prologs\n',
    '#!/bin/bash\necho "$SLURM_JOB_ID two $(hostname)" >>/home/prologs\n[ ! -e "/home/bad/prolog-$(hostname)" ]\n',
]
EPILOG = ['#!/bin/bash\n[ ! -e "/home/bad/epilog-$(hostname)" ]\n']


def pool(name: str, least: int, most: int, *, machine: str = "a3-ultragpu-8g") -> dict[str, Any]:
    gpu = machine.startswith("a")
    flex = {"provisioningModel": "FLEX_START", "effectiveFlexStartMaxDuration": "604800s"} if gpu else {}
    scaling = {"minNodeCount": least, "maxNodeCount": most}
    return {"id": name, "machineSpec": {"machineType": machine}, "scalingSpec": scaling, **flex}


def scenario() -> dict[str, Any]:
    """Two static nodes in two partitions, of which `high` preempts; a dynamic pool; the scenario's config map."""
    return {
        "nodePools": [
            pool("login", 1, 1, machine="n2-standard-8"),
            pool("a3u", 2, 2),
            pool("dyn", 0, 2),
        ],
        "orchestratorSpec": {
            "slurmSpec": {
                "loginNodePoolId": "login",
                "defaultPartitionId": "a3u",
                "partitions": [
                    {"id": "a3u", "nodePoolIds": ["a3u"], "config": {"PriorityTier": "1"}},
                    {"id": "high", "nodePoolIds": ["a3u"], "config": {"PriorityTier": "10", "PreemptMode": "OFF"}},
                    {"id": "dyn", "nodePoolIds": ["dyn"], "config": {"SuspendTime": "4"}},
                    {"id": "alone", "nodePoolIds": ["a3u"], "config": {"OverSubscribe": "EXCLUSIVE"}},
                ],
                "config": {
                    "AccountingStorageEnforce": "associations,limits,qos",
                    "PriorityType": "priority/multifactor",
                    "PriorityWeightAge": "1000",
                    "PriorityWeightFairshare": "10000",
                    "PreemptType": "preempt/partition_prio",
                    "PreemptMode": "REQUEUE",
                    "PreemptExemptTime": "00:00:05",
                    "MaxBatchRequeue": "10",
                },
                "prologBashScripts": PROLOG,
                "epilogBashScripts": EPILOG,
            }
        },
    }


@dataclass
class Slurm:
    """A running cluster."""

    plane: SlurmPlane
    stored: dict[str, Any]
    up_s: float

    @property
    def cluster(self) -> Cluster:
        return self.plane.cluster(NAME)

    @property
    def home(self) -> Path:
        return self.cluster.home

    def ask(self, *argv: str, user: str = "root", stdin: str = "") -> str:
        """A command on the login node that must succeed."""
        done = self.plane.run(NAME, argv, user=user, stdin=stdin, timeout_s=60)
        assert done.returncode == 0, f"{argv}: {done.stdout}{done.stderr}"
        return done.stdout

    def submit(self, script: str, *options: str, user: str = "ada") -> str:
        return self.ask("sbatch", "--parsable", *options, user=user, stdin=f"#!/bin/bash\n{script}\n").strip()

    def job(self, job: str) -> dict[str, str]:
        return dict(_FIELD.findall(self.ask("scontrol", "-o", "show", "job", job)))

    def node(self, node: str) -> str:
        """Its state as Slurm says it, and the reason."""
        said = self.ask("scontrol", "-o", "show", "node", node)
        return dict(_FIELD.findall(said))["State"] + " " + said.partition("Reason=")[2].partition(" [")[0]

    def until_job(self, job: str, state: str, timeout_s: float = 60.0) -> dict[str, str]:
        return until(lambda: (now := self.job(job))["JobState"] == state and now, lambda: self.job(job), timeout_s)

    def until_node(self, node: str, pattern: str, timeout_s: float = 60.0) -> str:
        said = until(lambda: re.match(pattern, self.node(node)), lambda: self.node(node), timeout_s)
        return str(said.string)

    def until_text(self, file: str, text: str, timeout_s: float = 60.0) -> str:
        """Waits until a file in /home has the text."""
        path = self.home / file
        until(lambda: path.exists() and text in path.read_text(), lambda: path.exists() and path.read_text(), timeout_s)
        return path.read_text()

    def update(self, change: Callable[[dict[str, Any]], None]) -> None:
        stored = copy.deepcopy(self.stored)
        change(stored)
        self.plane.update(NAME, stored)
        self.stored = stored


def until(what: Callable[[], Any], now: Callable[[], Any] = lambda: "", timeout_s: float = 60.0) -> Any:
    """Waits for a true answer; `now` says in the failure how things are. A command that fails counts as not yet."""
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        with contextlib.suppress(AssertionError):
            if found := what():
                return found
        time.sleep(0.1)
    raise AssertionError(f"not within {timeout_s:g} s: {now()}")


@contextmanager
def started(programs: Programs, folder: Path, stored: Mapping[str, Any] | None = None) -> Iterator[Slurm]:
    """A plane with one cluster and two users' accounts, that leaves nothing."""
    plane = SlurmPlane(Clock.wall(), state_dir=folder, programs=programs, times=QUICK)
    plane.start()
    try:
        began, cluster = time.monotonic(), dict(stored or scenario())
        plane.create(NAME, cluster)
        slurm = Slurm(plane, cluster, time.monotonic() - began)
        for user in USERS:
            slurm.cluster.machines.users.get(user)
        slurm.ask("sacctmgr", "-i", "add", "account", "research")
        slurm.ask("sacctmgr", "-i", "add", "user", ",".join(USERS), "account=research")
        yield slurm
        assert slurm.cluster.defects == []
    finally:
        plane.stop()
