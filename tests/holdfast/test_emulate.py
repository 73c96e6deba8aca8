"""`holdfast emulate` as it is typed, without control planes; tests/planes has it with them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.errors import OperatorError
from holdfast.gcp.google import GoogleApi
from holdfast.runs.gke import cluster_kubeconfig
from holdfast.stackfile import read
from infra import catalog
from stacks.gke_config import GkeTpuConfig

HOLDFAST = str(Path(sys.executable).with_name("holdfast"))
PROJECT, ZONE = "holdfast-dev", "us-east5-b"
CLUSTER = f"projects/{PROJECT}/locations/{ZONE}/clusters/tpu-cluster"


@pytest.fixture
def api(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[GoogleApi]:
    """Google's client, on what the command serves; it ends on Ctrl-C with exit code 0."""
    argv = [HOLDFAST, "emulate", "--operations", "0", "--tpu-quota", "16"]
    env = {"HOME": str(tmp_path), "PATH": os.environ.get("PATH", os.defpath)}
    with subprocess.Popen(argv, env=env, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout
            name, _, endpoint = process.stdout.readline().removeprefix("export ").strip().partition("=")
            monkeypatch.setenv(name, endpoint)
            yield GoogleApi(PROJECT, catalog.universe(), endpoint=os.environ["HOLDFAST_API_ENDPOINT"])
            process.send_signal(signal.SIGINT)
            assert process.wait(timeout=30) == 0
        finally:
            process.kill()


def test_what_there_is_of_a_cluster_is_said(api: GoogleApi) -> None:
    config, target = read(GkeTpuConfig, "dev-gke-tpu")
    for name in ("compute", "container"):
        service = f"projects/{PROJECT}/services/{name}.{target.universe.api_domain}"
        api.call("serviceusage.services.enable", {"name": service})
    with pytest.raises(OperatorError, match=r"there is no cluster .*tpu-cluster yet: `pulumi up` makes it"):
        cluster_kubeconfig(api, config, target)
    api.call("compute.networks.insert", {"project": PROJECT}, {"name": "net", "autoCreateSubnetworks": False})
    subnet = {"name": "net", "network": f"projects/{PROJECT}/global/networks/net", "ipCidrRange": "10.0.0.0/20"}
    api.call("compute.subnetworks.insert", {"project": PROJECT, "region": "us-east5"}, subnet)
    body = {"name": "tpu-cluster", "initialNodeCount": 1, "network": "net"}
    create = "container.projects.locations.clusters.create"
    api.call(create, {"parent": CLUSTER.partition("/clusters/")[0]}, {"cluster": body})
    with pytest.raises(OperatorError, match=r"no control plane runs behind .* `holdfast emulate --kubernetes`"):
        cluster_kubeconfig(api, config, target)


def test_without_what_it_needs_nothing_is_served(tmp_path: Path) -> None:
    env = {"HOME": str(tmp_path), "PATH": os.environ.get("PATH", os.defpath)}  # and so an empty cache
    done = subprocess.run([HOLDFAST, "emulate", "--kubernetes"], env=env, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (1, "")
    assert "error: --kubernetes cannot run here: " in done.stderr
    assert "the way out: make planes" in done.stderr
