"""A stand-in for the dashboards of Ray clusters, and so for the jobs that run there: KubeRay asks them how a job goes.

KubeRay reaches it as its HTTP proxy, by each head service's name in the cluster: no DNS, no address of its own. What
the jobs do is `RayJobs`'s to say; `ScriptedJobs` does what a test tells it, `ProcessJobs` (ray_processes.py) runs them.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Literal, Protocol
from urllib.parse import urlsplit

from mockgcp.planes.k8s.api import Api, Object

JobState = Literal["PENDING", "RUNNING", "SUCCEEDED", "FAILED", "STOPPED"]
ENDED: tuple[JobState, ...] = ("SUCCEEDED", "FAILED", "STOPPED")
SUBMITTED = "batch.kubernetes.io/job-name"
"""The label of a RayJob's submitter pod that names the RayJob."""


class RayJobs(Protocol):
    """How the jobs that were submitted to Ray clusters go. Called from several threads."""

    def state(self, namespace: str, name: str) -> JobState:
        """The state of the job that the RayJob of that name has submitted. To be answered at once."""

    def log(self, namespace: str, name: str) -> Path | None:
        """What that job has said when it was last run, growing while it runs; None when nothing has run."""

    def look(self, api: Api, pods: list[Object]) -> None:
        """What the cluster's pods are now, called several times a second from one thread; none when it is gone."""


class ScriptedJobs:
    """Jobs that run until they are told how they end."""

    def __init__(self) -> None:
        self._ended: dict[tuple[str, str], JobState] = {}

    def finish(self, name: str, state: JobState = "SUCCEEDED", namespace: str = "default") -> None:
        self._ended[namespace, name] = state

    def state(self, namespace: str, name: str) -> JobState:
        return self._ended.get((namespace, name), "RUNNING")

    def log(self, namespace: str, name: str) -> Path | None:
        return None

    def look(self, api: Api, pods: list[Object]) -> None:
        pass


class _Server(ThreadingHTTPServer):
    def handle_error(self, request: Any, client_address: Any) -> None:
        """As it is, but for KubeRay's giving up a request: it asks again."""
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)


class Dashboards:
    """An HTTP proxy on loopback that answers for every `<cluster>-head-svc.<namespace>.svc...`."""

    def __init__(self, jobs: RayJobs) -> None:
        self._server = _Server(("127.0.0.1", 0), _handler(jobs))
        self._thread = threading.Thread(target=self._server.serve_forever, name="ray-dashboards", daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        if self._thread.is_alive():
            self._server.shutdown()
        self._server.server_close()


def _handler(jobs: RayJobs) -> type[BaseHTTPRequestHandler]:
    began = int(time.time() * 1000)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            url = urlsplit(self.path)
            head, namespace = (url.hostname or "").split(".")[:2] if (url.hostname or "").count(".") else ("", "")
            before, _, submission = url.path.rstrip("/").rpartition("/")
            if before != "/api/jobs" or not head.endswith("-head-svc"):
                self._answer(404, {"error": f"mockgcp's Ray dashboard does not answer GET {self.path}"})
                return
            # KubeRay's submission id: the RayJob's name and a random suffix.
            name = submission.rpartition("-")[0]
            state = jobs.state(namespace, name)
            job: dict[str, Any] = {"job_id": "01000000", "submission_id": submission, "status": state, "entrypoint": ""}
            job |= {"message": f"{name} is {state}", "start_time": began}
            self._answer(200, {**job, "end_time": int(time.time() * 1000)} if state in ENDED else job)

        def do_POST(self) -> None:
            self._answer(501, {"error": f"mockgcp's Ray dashboard does not answer POST {self.path}"})

        def _answer(self, status: int, body: dict[str, Any]) -> None:
            data = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    return Handler
