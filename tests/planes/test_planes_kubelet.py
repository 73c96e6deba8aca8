"""When the kubelets' stand-in calls a pod that really runs ready, and when no longer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mockgcp.planes.k8s import kubelet as module
from mockgcp.planes.k8s.kubelet import ImageProgram, Kubelet

IMAGE = "registry.example/manager:v1.2.3"


class Sandbox:
    """A program that a test lets answer or fall silent, live or die."""

    address = "198.18.0.1"

    def __init__(self, *_: Any) -> None:
        self.answers, self.alive, self.restarts = True, False, -1

    def start(self, api: Any) -> None:
        self.alive, self.restarts = True, self.restarts + 1

    def running(self) -> bool:
        return self.alive

    def ready(self) -> bool:
        return self.alive and self.answers

    def sync(self, api: Any) -> None: ...

    def stop(self) -> None: ...


class Api:
    """Keeps what is said of a pod, as the API server would."""

    def __init__(self, pod: dict[str, Any]) -> None:
        self.pod = pod

    def patch_status(self, path: str, status: dict[str, Any]) -> None:
        self.pod["status"] = {**self.pod.get("status", {}), **status}

    def ready(self) -> bool:
        conditions = {each["type"]: each["status"] for each in self.pod["status"]["conditions"]}
        return conditions["Ready"] == "True"


class Plane:
    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def log(self, name: str) -> Path:
        return self._folder / name


def test_a_pod_that_misses_a_probe_stays_ready_and_one_that_is_silent_or_dead_does_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[Sandbox] = []
    monkeypatch.setattr(module, "Sandbox", lambda *given: made.append(Sandbox()) or made[-1])
    seconds = [1000.0]
    monkeypatch.setattr(module.time, "monotonic", lambda: seconds[0])
    program = ImageProgram(Path("/bin/true"), "1.2.3", lambda name, content, address: content)
    kubelet = Kubelet(Plane(tmp_path), tmp_path, programs={"manager": program}, ending=lambda pod: None)  # type: ignore[arg-type]
    monkeypatch.setattr(kubelet, "_addresses", type("Addresses", (), {"take": lambda self: "198.18.0.1"})())
    probe = {"httpGet": {"path": "/readyz", "port": 8081}, "periodSeconds": 10, "failureThreshold": 3}
    container = {"name": "manager", "image": IMAGE, "readinessProbe": probe}
    api = Api(
        {
            "metadata": {"namespace": "default", "name": "manager", "uid": "1"},
            "spec": {"nodeName": "node", "containers": [container]},
            "status": {"phase": "Pending"},
        }
    )

    def look(after_s: float = 0.0) -> bool:
        seconds[0] += after_s
        kubelet.step(api, [api.pod])  # type: ignore[arg-type]
        return api.ready()

    assert look()
    made[0].answers = False
    assert look(29)
    assert not look(2)
    made[0].answers = True
    assert look(1)
    made[0].alive, made[0].answers = False, False  # it ends, starts anew, and does not answer yet
    assert not look(1)
    assert made[0].restarts == 1
