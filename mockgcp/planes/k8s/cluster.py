"""One emulated GKE cluster: a real control plane with real KubeRay, and stand-ins for its nodes and their kubelets.

Kueue is not part of it: whoever installs the chart brings it, and the Deployment's pod then really runs.
"""

from __future__ import annotations

import base64
import functools
import http
import shutil
import threading
import traceback
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from mockgcp.clock import Clock
from mockgcp.planes.k8s import kuberay, kueue
from mockgcp.planes.k8s.api import Api, KubernetesError, Object, documents
from mockgcp.planes.k8s.control_plane import ControlPlane
from mockgcp.planes.k8s.kubelet import Kubelet
from mockgcp.planes.k8s.nodes import NodePools, Pool
from mockgcp.planes.k8s.programs import Programs
from mockgcp.planes.k8s.provisioning import QueuedProvisioning
from mockgcp.planes.k8s.ray import ENDED, SUBMITTED, Dashboards, RayJobs
from mockgcp.planes.processes import ProcessLedger

_LOOK_S = 0.2
_JOIN_S = 10.0


@dataclass(frozen=True)
class Times:
    """How long things take, in seconds of the clock: a machine to become a node, a node without pods to be taken away
    (10 minutes on GKE), a ProvisioningRequest to be fulfilled, to be given up, and to hold its nodes without pods. The
    first three are minutes to days on GKE. How long a node runs is its pool's."""

    node_boot_s: float = 1.0
    node_idle_s: float = 600.0
    provisioning_s: float = 3.0
    request_wait_s: float = 604800.0
    booking_s: float = 600.0


class Cluster:
    """Runs from `start` to `stop`. `token` is the administrator's.

    `pools`, `provisioning` and what `jobs` says may be changed in between. `defects` are tracebacks of what went wrong
    in the stand-ins: none, unless this module is wrong.
    """

    def __init__(
        self,
        name: str,
        *,
        programs: Programs,
        state_dir: Path,
        processes: ProcessLedger,
        clock: Clock,
        jobs: RayJobs,
        token: str,
        times: Times = Times(),
        pools: Iterable[Pool] = (),
    ) -> None:
        self._programs, self._state_dir, self._jobs = programs, state_dir, jobs
        self.plane = ControlPlane(programs, state_dir, processes, token)
        self.pools = NodePools(name, clock, boot_s=times.node_boot_s, idle_s=times.node_idle_s)
        self.provisioning = QueuedProvisioning(
            self.pools,
            clock,
            delay_s=times.provisioning_s,
            wait_limit_s=times.request_wait_s,
            booking_s=times.booking_s,
        )
        self._kubelet = Kubelet(
            self.plane,
            state_dir / "pods",
            programs={kueue.IMAGE: kueue.image_program(programs)},
            ending=self._ending,
            writes=self._writes,
        )
        self._dashboards = Dashboards(jobs)
        self._stopping = threading.Event()
        self._loop: threading.Thread | None = None
        self.defects: list[str] = []
        for pool in pools:
            self.pools.put(pool)

    @property
    def endpoint(self) -> str:
        """Host and port of the API server."""
        return f"127.0.0.1:{self.plane.port}"

    @property
    def ca_certificate(self) -> str:
        """As Cluster.masterAuth has it: base64."""
        return base64.b64encode(self.plane.ca.read_bytes()).decode()

    def kubeconfig(self) -> Path:
        """A kubeconfig file with the administrator's token."""
        return self.plane.kubeconfig("admin", token=self.plane.token)

    def api(self) -> Api:
        """A client of the API server, for the caller's thread alone."""
        return self.plane.api()

    def start(self) -> None:
        """Raises RuntimeError, with what the program that failed has said; nothing runs on then."""
        shutil.rmtree(self._state_dir, ignore_errors=True)  # of an earlier cluster of that name
        self._state_dir.mkdir(parents=True)
        try:
            self._dashboards.start()
            self.plane.start()
            self.pools.kubelet_port = self._kubelet.serve()
            self._define()
            kuberay.start(self.plane, self._programs, self._dashboards)
            self.plane.wait_for_controllers()
            self._loop = threading.Thread(target=self._run, name=f"cluster {self._state_dir.name}", daemon=True)
            self._loop.start()
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Ends every process of it; calling it again is fine."""
        self._stopping.set()
        if self._loop is not None:
            self._loop.join(timeout=_JOIN_S)
        self._kubelet.stop()
        self.plane.stop()
        self._dashboards.stop()

    def _define(self) -> None:
        """Creates what a cluster is born with, and waits until it is served: controllers retry after 10 s only."""
        api = self.plane.api()
        crds = [api.create(crd)["spec"] for crd in documents(self._programs.crds)]
        served = [(f"/apis/{crd['group']}/{each['name']}", crd) for crd in crds for each in crd["versions"]]
        for path, crd in served:
            self.plane.wait("kube-apiserver", functools.partial(_serves, api, path, crd["names"]["plural"]))
        api.close()

    def _run(self) -> None:
        api = self.plane.api()
        while not self._stopping.wait(_LOOK_S):
            try:
                pods = api.list("/api/v1/pods")
                # Before the kubelet: a new cluster's pods are seen before they run, and KubeRay asks how its job goes.
                self._jobs.look(api, pods)
                self.pools.step(api, pods)
                self._kubelet.step(api, pods)
                self.provisioning.step(api)
            except OSError as error:
                if error.filename is not None:  # of a file; else the API server is gone, or about to be
                    self.defects.append(traceback.format_exc())
            except KubernetesError as error:
                if error.status < http.HTTPStatus.TOO_MANY_REQUESTS:  # else it is busy: the next look will tell
                    self.defects.append(traceback.format_exc())
            except Exception:
                self.defects.append(traceback.format_exc())
        self._jobs.look(api, [])
        api.close()

    def _writes(self, pod: Object) -> Path | None:
        """A RayJob's submitter prints what the job's driver does."""
        name = pod["metadata"].get("labels", {}).get(SUBMITTED)
        return None if name is None else self._jobs.log(pod["metadata"]["namespace"], name)

    def _ending(self, pod: Object) -> int | None:
        """A RayJob's submitter ends with the job, as `ray job submit` does."""
        name = pod["metadata"].get("labels", {}).get(SUBMITTED)
        if name is None:
            return None
        state = self._jobs.state(pod["metadata"]["namespace"], name)
        return None if state not in ENDED else 0 if state == "SUCCEEDED" else 1


def _serves(api: Api, path: str, plural: str) -> bool:
    return any(each["name"] == plural for each in api.call("GET", path)["resources"])
