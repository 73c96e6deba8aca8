"""An emulated cloud in real time with a small job whose tasks speak as the trainer does."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from holdfast.gcp.emulated import EmulatedApi
from holdfast.runs.backend import LogLine, Run, Selection
from holdfast.runs.cloud_run import CloudRun
from holdfast.runs.progress import Tracker
from holdfast.runs.verbs import follow
from infra import catalog
from mockgcp.clock import Clock
from mockgcp.cloud import Cloud
from mockgcp.durations import NOMINAL
from mockgcp.planes.cloud_run import CloudRunPlane, LocalImage
from mockgcp.planes.maintenance import Maintenance
from mockgcp.services import artifactregistry

PROJECT, REGION, JOB = "holdfast-dev", "us-central1", "gpu-resilient-job"
"""Those of the stacks' shipped files."""
STACK = "dev-cloud-run"
PARENT = f"projects/{PROJECT}/locations/{REGION}"
BUCKET = f"gpu-checkpoints-{PROJECT}"
EMAIL = f"gpu-job-sa@{PROJECT}.iam.gserviceaccount.com"
IMAGE = f"{REGION}-docker.pkg.dev/{PROJECT}/trainers/holdfast-trainer@sha256:" + "1" * 64
POLL_S = 0.05
_PATIENCE_S = 20.0

# Saves every second step and at SIGTERM. HOLD: where the first attempt stays; FAIL: where every attempt fails.
TRAINER = """
import json, os, pathlib, signal, sys, time
env = os.environ.get
folder = pathlib.Path(env("CHECKPOINT_DIR")) / env("HOLDFAST_RUN_ID", "default") / env("CLOUD_RUN_TASK_INDEX")
folder.mkdir(parents=True, exist_ok=True)
saved, total = folder / "step", int(env("HOLDFAST_STEPS", "6"))
step = int(saved.read_text()) if saved.exists() else 0
def say(event, severity="INFO", **more):
    print(json.dumps({"event": event, "message": event, "severity": severity, **more}), flush=True)
def save():
    saved.write_text(str(step))
    say("saved", step=step)
def stop(*_):
    say("sigterm", "WARNING")
    save()
    sys.exit(143)
signal.signal(signal.SIGTERM, stop)
say("start", steps_total=total)
if step:
    say("resumed", from_step=step)
while step < total:
    time.sleep(0.01)
    step += 1
    say("step", step=step, loss=1.0)
    if step % 2 == 0:
        save()
    if str(step) == env("FAIL"):
        sys.exit("failed as asked")
    if str(step) == env("HOLD") and env("CLOUD_RUN_TASK_ATTEMPT") == "0":
        time.sleep(60)
say("done", step=step, steps_total=total)
"""


class Rig:
    """The cloud, its owner, the job's backend, and the plane once `start`ed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.cloud = Cloud(clock=Clock.wall(), state_dir=folder / "cloud", durations=dict.fromkeys(NOMINAL, 0.0))
        self.cloud.seed_project(PROJECT).services.update(catalog.services().known)
        self.api = EmulatedApi(self.cloud)
        self.backend = CloudRun(self.api, f"{PARENT}/jobs/{JOB}", catalog.universe(), STACK)
        self.plane: CloudRunPlane | None = None

    def make_job(self, env: Mapping[str, str] | None = None, *, max_retries: int = 3, tasks: int = 1) -> None:
        """The bucket, the account, the image and the job."""
        call = self.api.call
        artifactregistry.seed_image(self.cloud, IMAGE)
        call("iam.projects.serviceAccounts.create", {"name": f"projects/{PROJECT}"}, {"accountId": "gpu-job-sa"})
        call("storage.buckets.insert", {"project": PROJECT}, {"name": BUCKET, "location": REGION})
        policy = call("storage.buckets.getIamPolicy", {"bucket": BUCKET})
        policy["bindings"].append({"role": "roles/storage.objectUser", "members": [f"serviceAccount:{EMAIL}"]})
        call("storage.buckets.setIamPolicy", {"bucket": BUCKET}, policy)
        settings = {"CHECKPOINT_DIR": "/checkpoints", **(env or {})}
        container = {
            "image": IMAGE,
            "env": [{"name": name, "value": value} for name, value in settings.items()],
            "volumeMounts": [{"name": "checkpoints", "mountPath": "/checkpoints"}],
        }
        task = {
            "serviceAccount": EMAIL,
            "maxRetries": max_retries,
            "containers": [container],
            "volumes": [{"name": "checkpoints", "gcs": {"bucket": BUCKET}}],
        }
        body = {"template": {"taskCount": tasks, "template": task}}
        self.cloud.answer(
            "run.projects.locations.jobs.create", {"parent": PARENT, "jobId": JOB}, body, self.api.principal
        )

    def start(self, maintenance: Maintenance | None = None) -> None:
        image = LocalImage((sys.executable, "-I", "-S", "-c", TRAINER))
        self.plane = CloudRunPlane(
            self.cloud, state_dir=self.folder / "plane", images={IMAGE: image}, maintenance=maintenance
        )
        self.plane.start()

    def stop(self) -> None:
        if self.plane is not None:
            self.plane.stop()
            assert self.plane.processes.alive() == []

    def follow(self, run: Run, **more: Any) -> tuple[Run, list[LogLine], Tracker]:
        """Follows a run to its end: it, its log, and what the tracker learnt."""
        seen: list[LogLine] = []
        tracker = Tracker()

        def tell(run: Run, lines: Any) -> None:
            seen.extend(lines)
            for line in lines:
                tracker.take(line)

        log = self.backend.log(run, Selection())
        ended = follow(self.backend, run, log, tell, poll_s=POLL_S, limit_s=_PATIENCE_S, **more)
        return ended, seen, tracker

    def until(self, holds: Callable[[], Any], what: str) -> None:
        deadline = time.monotonic() + _PATIENCE_S
        while not holds():
            assert time.monotonic() < deadline, f"{what}: not within {_PATIENCE_S:g} s"
            time.sleep(0.02)

    def logged(self, event: str) -> None:
        """Waits for an event of the trainer's in the log."""
        entries = self.cloud.table("logging.entry")
        self.until(lambda: any(e.get("jsonPayload", {}).get("event") == event for e in list(entries.values())), event)
