"""A stand-in for the kubelets of all nodes: says what a pod's phase is, without running it.

A pod on a node runs as soon as it is seen, and ends when `ending` says so. Pods of the images in `programs` are the
exception: those really run (sandbox.py), and are Ready when they answer. Logs: kubelet_logs.py.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from mockgcp.planes.k8s.addresses import PodAddresses
from mockgcp.planes.k8s.api import Api, KubernetesError, Object, condition, path
from mockgcp.planes.k8s.control_plane import ControlPlane
from mockgcp.planes.k8s.kubelet_logs import LogServer, PodLogs
from mockgcp.planes.k8s.sandbox import Adjust, Sandbox, SandboxError
from mockgcp.planes.k8s.stamp import now

Ending = Callable[[Object], int | None]
"""The exit code of a running pod that is over; None while it goes on."""

Writes = Callable[[Object], Path | None]
"""The file into which a stood-in pod's program writes now; None where nothing runs."""

_RETRY_S = 1.0


@dataclass(frozen=True)
class ImageProgram:
    """What runs in an image's place, and of which version it is: an image of another one is not pulled."""

    program: Path
    version: str
    adjust: Adjust


class Kubelet:
    """All pods of a cluster. `programs`: by the image's name, without registry and tag."""

    def __init__(
        self,
        plane: ControlPlane,
        folder: Path,
        *,
        programs: Mapping[str, ImageProgram],
        ending: Ending,
        writes: Writes = lambda pod: None,
    ) -> None:
        self._plane, self._folder = plane, folder
        self._programs, self._ending = programs, ending
        self._addresses = PodAddresses(folder)
        self._sandboxes: dict[str, Sandbox] = {}
        self._not_before: dict[str, float] = {}
        self._answered: dict[str, float] = {}
        self._last_ip = 0
        self._logs, self._writes = PodLogs(), writes
        self._server: LogServer | None = None

    def serve(self) -> int:
        """Begins to serve pods' logs, once the control plane has its certificates: the port, which is all nodes'."""
        certificate, key = self._plane.pki("kubelet.crt"), self._plane.pki("kubelet.key")
        self._server = LogServer(self._logs, certificate=certificate, key=key, authority=self._plane.ca)
        return self._server.port

    def step(self, api: Api, pods: list[Object]) -> None:
        for pod in pods:
            try:
                self._look(api, pod)
            except KubernetesError as error:
                if error.status not in (404, 409):  # it is gone, or has changed: the next look sees that
                    raise
        for uid in self._sandboxes.keys() - {pod["metadata"]["uid"] for pod in pods}:
            self._end(uid)
        self._logs.look(pods, {pod["metadata"]["uid"]: file for pod in pods if (file := self._file(pod))})

    def _file(self, pod: Object) -> Path | None:
        """Where the pod's program writes; None for a pod that nothing runs for."""
        if pod["metadata"]["uid"] in self._sandboxes:
            return self._plane.log(pod["metadata"]["name"])
        return self._writes(pod) if "deletionTimestamp" not in pod["metadata"] else None

    def stop(self) -> None:
        for uid in list(self._sandboxes):
            self._end(uid)
        self._addresses.clear()
        if self._server is not None:
            self._server.stop()
            self._server = None

    def _look(self, api: Api, pod: Object) -> None:
        where, phase = path(pod, "/api/v1", "pods"), pod.get("status", {}).get("phase")
        uid = pod["metadata"]["uid"]
        if "deletionTimestamp" in pod["metadata"]:
            if pod["spec"].get("nodeName"):
                self._end(uid)
                api.delete(where, grace_s=0)
        elif not pod["spec"].get("nodeName") or phase in ("Succeeded", "Failed"):
            return
        elif program := self._program(pod):
            self._run(api, pod, program)
        elif phase == "Pending":
            self._last_ip += 1
            ip = f"10.{64 + self._last_ip // 65000}.{self._last_ip // 250 % 256}.{self._last_ip % 250 + 1}"
            api.patch_status(where, _status(pod, ip, ready=True))
        elif (code := self._ending(pod)) is not None:
            api.patch_status(where, _ended(pod, code))

    def _program(self, pod: Object) -> ImageProgram | None:
        return self._programs.get(_image(pod)[0])

    def _run(self, api: Api, pod: Object, program: ImageProgram) -> None:
        """Starts a pod's program, or starts it again, and keeps its files and its readiness up to date."""
        where, uid = path(pod, "/api/v1", "pods"), pod["metadata"]["uid"]
        name, tag = _image(pod)
        if not _same_version(tag, program.version):
            message = f"mockgcp has {name} {program.version} and cannot run {tag or 'an image without a tag'}"
            self._waits(api, pod, "ErrImagePull", message)
            return
        sandbox = self._sandboxes.get(uid)
        if sandbox is None:
            folder = self._folder / pod["metadata"]["name"]
            sandbox = Sandbox(self._plane, pod, folder, self._addresses.take(), program.program, program.adjust)
            self._sandboxes[uid] = sandbox
        if not sandbox.running():
            if self._not_before.get(uid, 0.0) <= time.monotonic():
                self._not_before[uid] = time.monotonic() + _RETRY_S
                self._answered.pop(uid, None)
                try:
                    sandbox.start(api)
                except SandboxError as error:
                    self._waits(api, pod, "CreateContainerConfigError", str(error))
                    return
        else:
            sandbox.sync(api)
        ready = self._is_ready(pod, sandbox)
        if ready != (condition(pod, "Ready").get("status") == "True"):
            api.patch_status(where, _status(pod, sandbox.address, ready=ready, restarts=max(0, sandbox.restarts)))

    def _is_ready(self, pod: Object, sandbox: Sandbox) -> bool:
        """Whether it answers; one that did stays ready until it has missed as many probes as its probe allows."""
        uid, probe = pod["metadata"]["uid"], pod["spec"]["containers"][0].get("readinessProbe", {})
        if sandbox.ready():
            self._answered[uid] = time.monotonic()
            return True
        patience_s = probe.get("failureThreshold", 3) * probe.get("periodSeconds", 10)  # Kubernetes's defaults
        answered = self._answered.get(uid)
        return sandbox.running() and answered is not None and time.monotonic() - answered < patience_s

    def _waits(self, api: Api, pod: Object, reason: str, message: str) -> None:
        state = {"waiting": {"reason": reason, "message": message}}
        before = pod.get("status", {}).get("containerStatuses", [{}])[0].get("state")
        if before != state:
            api.patch_status(path(pod, "/api/v1", "pods"), {"containerStatuses": _containers(pod, state)})

    def _end(self, uid: str) -> None:
        self._answered.pop(uid, None)
        if sandbox := self._sandboxes.pop(uid, None):
            sandbox.stop()
            self._addresses.give_back(sandbox.address)


def _image(pod: Object) -> tuple[str, str]:
    """The name and the tag of a pod's first image."""
    name, _, tag = pod["spec"]["containers"][0]["image"].partition("@")[0].rpartition("/")[2].partition(":")
    return name, tag


def _same_version(tag: str, version: str) -> bool:
    """A release's tag, or that of a release's branch, which the chart in the sources has."""
    found = re.fullmatch(r"(?:v|release-)?(\d[\w.+-]*)", tag)
    return found is not None and f"{version}.".startswith(f"{found.group(1)}.")


def _status(pod: Object, ip: str, *, ready: bool, restarts: int = 0) -> Object:
    said = "True" if ready else "False"
    types = {"PodScheduled": "True", "Initialized": "True", "ContainersReady": said, "Ready": said}
    since = now()
    return {
        "phase": "Running",
        "startTime": since,
        "hostIP": "127.0.0.1",
        "podIP": ip,
        "podIPs": [{"ip": ip}],
        "conditions": [{"type": t, "status": s, "lastTransitionTime": since} for t, s in types.items()],
        "containerStatuses": _containers(pod, {"running": {"startedAt": since}}, ready=ready, restarts=restarts),
    }


def _ended(pod: Object, code: int) -> Object:
    since, reason = now(), "Error" if code else "Completed"
    over = {"terminated": {"exitCode": code, "reason": reason, "startedAt": since, "finishedAt": since}}
    return {
        "phase": "Failed" if code else "Succeeded",
        "conditions": [{"type": "Ready", "status": "False", "reason": "PodCompleted", "lastTransitionTime": since}],
        "containerStatuses": _containers(pod, over),
    }


def _containers(pod: Object, state: Object, *, ready: bool = False, restarts: int = 0) -> list[Object]:
    shared = {"imageID": "", "ready": ready, "started": ready, "restartCount": restarts, "state": state}
    return [{"name": each["name"], "image": each["image"], **shared} for each in pod["spec"]["containers"]]
