"""A user's shell on `holdfast emulate --kubernetes`, with a cluster of scenario B."""

from __future__ import annotations

import base64
import functools
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from subprocess import DEVNULL, PIPE, STDOUT
from typing import Any

import planes_scenario
import pytest
from planes_rig import CLUSTER, install_chart, until

from holdfast import stackfile, toolcache
from holdfast.gcp.google import GoogleApi
from holdfast.runs.gke import cluster_kubeconfig
from infra import catalog
from mockgcp.planes.k8s.api import Api
from mockgcp.planes.k8s.programs import Programs
from stacks.gke_config import GkeTpuConfig

LOCATION, _, _ = CLUSTER.partition("/clusters/")
PROJECT = "holdfast-dev"
HOLDFAST = str(Path(sys.executable).with_name("holdfast"))
# A job that says what a trainer does, and goes on until it is told to end by a file beside it.
PROGRAM = """\
import json, pathlib, sys, time
print("under way")
for step in (1, 2):
    print(json.dumps({"event": "step", "severity": "INFO", "message": f"step {step}", "step": step, "task_index": 0}))
while not pathlib.Path(%r).exists():
    time.sleep(0.1)
print("that was all")
"""


@dataclass(frozen=True)
class Shell:
    """A user's shell: an empty home, and what `holdfast emulate` printed."""

    home: Path
    exports: dict[str, str]

    def run(self, *words: str, code: int = 0, **env: str) -> str:
        """Types a command; returns all that it printed."""
        done = subprocess.run(
            [HOLDFAST, *words],
            env={**_environ(self.home), **self.exports, **env},
            cwd=self.home,
            stdin=DEVNULL,
            stdout=PIPE,
            stderr=STDOUT,
            text=True,
            timeout=180,
        )
        assert done.returncode == code, done.stdout
        return done.stdout

    def gke(self, *words: str, code: int = 0) -> str:
        return self.run(*words, "--stack", "dev-gke-tpu", code=code)

    def program(self, job: str) -> str:
        """The file of a job's program, which runs until `end`."""
        file = self.home / f"{job}.py"
        file.write_text(PROGRAM % str(self.home / f"{job}.end"))
        return str(file)

    def end(self, job: str) -> None:
        (self.home / f"{job}.end").touch()

    def submit(self, job: str, *words: str, code: int = 0) -> str:
        argv = ["submit", "gke", "--name", job, "--program", self.program(job), *words]
        return self.run(*argv, code=code)

    def submitted_and_watched(self, job: str, until: Sequence[str]) -> str:
        """What `submit --watch` tells until it has said all that; then Ctrl-C ends the watching."""
        argv = [HOLDFAST, "submit", "gke", "--name", job, "--program", self.program(job), "--watch", "--every", "0.2"]
        env = {**_environ(self.home), **self.exports, "PYTHONUNBUFFERED": "1"}
        with subprocess.Popen(argv, env=env, cwd=self.home, text=True, stdout=PIPE, stderr=STDOUT) as process:
            assert process.stdout
            told, asked = "", False
            for line in process.stdout:
                told += line
                if not asked and all(each in told for each in until):
                    asked = True
                    process.send_signal(signal.SIGINT)
            assert process.wait() == 130, told
        return told


def _environ(home: Path) -> dict[str, str]:
    path = os.environ.get("PATH", os.defpath)
    return {"HOME": str(home), "PATH": path, "HOLDFAST_CACHE": str(toolcache.root())}


@contextmanager
def emulated(home: Path, *words: str) -> Iterator[Shell]:
    """`holdfast emulate` while the context lasts; Ctrl-C ends it, and nothing of it is left."""
    argv = [HOLDFAST, "emulate", "--operations", "0", "--state-dir", str(home / "state"), *words]
    with subprocess.Popen(argv, env=_environ(home), stdout=PIPE, text=True) as process:
        try:
            assert process.stdout
            exports = {}
            for line in iter(process.stdout.readline, ""):
                name, _, value = line.removeprefix("export ").strip().partition("=")
                exports[name] = value.replace('"$PATH"', os.environ.get("PATH", os.defpath))
                if name == "HOLDFAST_API_ENDPOINT":
                    break
            yield Shell(home, exports)
        finally:
            process.send_signal(signal.SIGINT)
            code = process.wait(timeout=60)
    assert code == 0


def cloud_of(shell: Shell) -> GoogleApi:
    """Google's client, on the shell's cloud."""
    return GoogleApi(PROJECT, catalog.universe(), endpoint=shell.exports["HOLDFAST_API_ENDPOINT"])


def _finish(cloud: GoogleApi, method: str, parent: str, body: dict[str, Any]) -> None:
    """Makes something of a cluster, whose operations go one by one."""
    operation = cloud.call(f"container.projects.locations.{method}", {"parent": parent}, body)
    where = f"{LOCATION}/operations/{operation['name']}"
    while operation["status"] != "DONE":
        time.sleep(0.1)
        operation = cloud.call("container.projects.locations.operations.get", {"name": where})
    assert not operation.get("error"), operation


def make_cluster(cloud: GoogleApi) -> None:
    """The scenario's cluster with its pools."""
    for api in ("compute", "container", "storage"):
        name = f"projects/{PROJECT}/services/{api}.{catalog.universe().api_domain}"
        cloud.call("serviceusage.services.enable", {"name": name})
    bucket = {"name": f"tpu-checkpoints-{PROJECT}", "location": "us-east5"}
    cloud.call("storage.buckets.insert", {"project": PROJECT}, bucket)
    network = {"name": "net", "autoCreateSubnetworks": False}
    cloud.call("compute.networks.insert", {"project": PROJECT}, network)
    subnet = {"name": "net", "network": f"projects/{PROJECT}/global/networks/net", "ipCidrRange": "10.0.0.0/20"}
    cloud.call("compute.subnetworks.insert", {"project": PROJECT, "region": "us-east5"}, subnet)
    cluster = {"name": "tpu-cluster", "initialNodeCount": 1, "network": "net", "initialClusterVersion": "1.34"}
    cluster |= {"nodeConfig": {"machineType": "n2-standard-16"}}
    _finish(cloud, "clusters.create", LOCATION, {"cluster": cluster})
    for name, of_nodes, more in (
        ("on-demand-pool", {}, {}),
        (
            "dws-pool",
            {"flexStart": True, "maxRunDuration": "604800s"},
            {"queuedProvisioning": {"enabled": True}, "management": {"autoUpgrade": True, "autoRepair": False}},
        ),
    ):
        pool = {
            "name": name,
            "autoscaling": {"enabled": True, "minNodeCount": 0, "maxNodeCount": 4},
            "config": {
                "machineType": "ct6e-standard-4t",
                "reservationAffinity": {"consumeReservationType": "NO_RESERVATION"},
                **of_nodes,
            },
            "placementPolicy": {"tpuTopology": "4x4", "type": "COMPACT"},
            **more,
        }
        _finish(cloud, "clusters.nodePools.create", CLUSTER, {"nodePool": pool})


def fit_out(shell: Shell, cloud: GoogleApi, programs: Programs, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Kueue, its queues and the jobs' account, as the stack puts them on its cluster."""
    monkeypatch.setenv("HOLDFAST_API_ENDPOINT", shell.exports["HOLDFAST_API_ENDPOINT"])
    config = cluster_kubeconfig(cloud, *stackfile.read(GkeTpuConfig, "dev-gke-tpu"))
    bin_dir = folder / "state" / "kubernetes" / "bin"
    install_chart(config, bin_dir, programs, folder / "provider")
    server = config["clusters"][0]["cluster"]
    authority = folder / "ca.pem"
    authority.write_bytes(base64.b64decode(server["certificate-authority-data"]))
    token = json.loads(subprocess.check_output([bin_dir / "gke-gcloud-auth-plugin"]))["status"]["token"]
    api = Api(int(server["server"].rpartition(":")[2]), authority, token)
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "ray-job", "namespace": "default"}}
    for thing in (*planes_scenario.QUEUES, account):
        until(functools.partial(api.apply, thing))
    api.close()
