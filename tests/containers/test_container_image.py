"""The CPU image, built by buildah from the archive that a real build gets, and the rehearsed job running in it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tarfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from holdfast.gcp.emulated import EmulatedApi
from holdfast.image import archive, build, local
from holdfast.rehearsal import training
from infra import catalog
from mockgcp.clock import Clock
from mockgcp.cloud import DEFAULT_OWNER, Cloud
from mockgcp.durations import NOMINAL
from mockgcp.planes.cloud_build import BuildahBuilder
from mockgcp.planes.cloud_run import CloudRunPlane, Image, Launch
from mockgcp.planes.container import Buildah, ContainerImage
from mockgcp.planes.maintenance import AtSteps, Maintenance
from mockgcp.planes.processes import ProcessLedger
from mockgcp.services import storage

_FOUND = local.availability()
pytestmark = [
    pytest.mark.container,
    pytest.mark.skipif(not _FOUND.usable, reason=f"{_FOUND.why}; {_FOUND.how}"),
]

PROJECT, REGION, BUCKET = "acme-train", "us-east4", "acme-train-checkpoints"
PARENT = f"projects/{PROJECT}/locations/{REGION}"
PLACE = build.Place(
    PROJECT,
    REGION,
    f"{REGION}-docker.pkg.dev/{PROJECT}/trainers",
    f"{PROJECT}-build-source",
    f"trainer-build@{PROJECT}.iam.gserviceaccount.com",
)
APIS = ("artifactregistry", "cloudbuild", "cloudresourcemanager", "iam", "logging", "run", "storage")
STEPS, STRIKE = 8, 4
SETTINGS = training.settings(7, STEPS, 0.05)
COMPILER = {key: value for key, value in training.image(Path("/tmp")).env.items() if key == "XLA_FLAGS"}


@dataclass
class Built:
    """The image in the emulated registry, and what stands for it here."""

    cloud: Cloud
    folder: Path
    processes: ProcessLedger
    reference: str
    image: ContainerImage

    def run(self, name: str, *argv: str, **env: str) -> subprocess.CompletedProcess[str]:
        """Runs a program in the image, as a task would be."""
        folder = self.folder / name
        folder.mkdir()
        words, whole = self.image.process(Launch(argv, (), env, {}, folder))
        return self.processes.run(words, env=whole, cwd=folder)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Built]:
    folder = tmp_path_factory.mktemp("image")
    source = archive.pack("cpu", root=_checkout(folder / "checkout"))
    cloud = Cloud(clock=Clock.wall(), state_dir=folder / "cloud", durations=dict.fromkeys(NOMINAL, 0.05))
    cloud.seed_project(PROJECT).services.update(f"{name}.googleapis.com" for name in APIS)
    cloud.quotas.set(PROJECT, catalog.gpu_quota("nvidia-l4", zonal_redundancy=False).quota_id, "*", 1)
    _foundation(cloud)
    processes = ProcessLedger(folder / "processes.jsonl")
    builder = local.builder(folder / "images", processes, print)
    cloud.builder = builder
    try:
        found = build.ensure_image(EmulatedApi(cloud), PLACE, source, print, pause=time.sleep)
        yield Built(cloud, folder, processes, found.reference, builder.images[found.reference])
    finally:
        processes.kill()
        shutil.rmtree(folder, ignore_errors=True)  # gigabytes


def _checkout(folder: Path) -> Path:
    """The image's source as it lies here, whether git knows it yet or not."""
    for name in ("workloads", "requirements"):
        shutil.copytree(archive.ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    return folder


def _foundation(cloud: Cloud) -> None:
    """What the foundation stack makes."""

    def call(method: str, params: dict[str, str], body: Any = None) -> dict[str, Any]:
        return cloud.answer(method, params, body, DEFAULT_OWNER)

    def grant(api: str, params: dict[str, str], role: str, member: str, wrapped: bool = True) -> None:
        policy = {"bindings": [{"role": role, "members": [f"serviceAccount:{member}"]}]}
        before = call(f"{api}.getIamPolicy", params, {} if api.startswith("cloudresource") else None)
        policy["bindings"] += before.get("bindings", [])
        call(f"{api}.setIamPolicy", params, {"policy": policy} if wrapped else policy)

    for account in ("gpu-job-sa", "trainer-build"):
        call("iam.projects.serviceAccounts.create", {"name": f"projects/{PROJECT}"}, {"accountId": account})
    for bucket, role, account in (
        (PLACE.source_bucket, "roles/storage.objectViewer", "trainer-build"),
        (BUCKET, "roles/storage.objectUser", "gpu-job-sa"),
    ):
        call("storage.buckets.insert", {"project": PROJECT}, {"name": bucket, "location": REGION})
        member = f"{account}@{PROJECT}.iam.gserviceaccount.com"
        grant("storage.buckets", {"bucket": bucket}, role, member, wrapped=False)
    repositories = "artifactregistry.projects.locations.repositories"
    call(f"{repositories}.create", {"parent": PARENT, "repositoryId": "trainers"}, {"format": "DOCKER"})
    grant(repositories, {"resource": PLACE.repository_name}, "roles/artifactregistry.writer", PLACE.build_account)
    grant("cloudresourcemanager.projects", {"resource": PROJECT}, "roles/logging.logWriter", PLACE.build_account)


def execute(
    built: Built, folder: Path, image: Image, maintenance: Maintenance | None, options: Sequence[str]
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Runs the job to its end; its only task, and the log."""
    cloud, name = built.cloud, folder.name
    plane = CloudRunPlane(cloud, state_dir=folder, images={built.reference: image}, maintenance=maintenance)
    plane.start()
    jobs = "run.projects.locations.jobs"
    container = {
        "image": built.reference,
        "env": [{"name": k, "value": v} for k, v in {**SETTINGS, **COMPILER, "CHECKPOINT_DIR": "/checkpoints"}.items()],
        "resources": {"limits": {"cpu": "8", "memory": "32Gi", "nvidia.com/gpu": "1"}},
        "volumeMounts": [{"name": "checkpoints", "mountPath": "/checkpoints"}],
    }
    task = {
        "containers": [container],
        "volumes": [{"name": "checkpoints", "gcs": {"bucket": BUCKET, "mountOptions": list(options)}}],
        "serviceAccount": f"gpu-job-sa@{PROJECT}.iam.gserviceaccount.com",
        "nodeSelector": {"accelerator": "nvidia-l4"},
        "gpuZonalRedundancyDisabled": True,
        "maxRetries": 1,
        "timeout": "600s",
    }
    try:
        cloud.answer(
            f"{jobs}.create", {"parent": PARENT, "jobId": name}, {"template": {"template": task}}, DEFAULT_OWNER
        )
        operation = cloud.call(f"{jobs}.run", {"name": f"{PARENT}/jobs/{name}"}, {}, DEFAULT_OWNER)
        assert not isinstance(operation, dict)
        deadline = time.monotonic() + 240
        with cloud.changed:
            while not operation.done:
                assert time.monotonic() < deadline, "the execution ends"
                cloud.changed.wait(timeout=0.1)
        execution = operation.metadata["name"]
        [found] = cloud.answer(f"{jobs}.executions.tasks.list", {"parent": execution}, None, DEFAULT_OWNER)["tasks"]
        query = {
            "resourceNames": [f"projects/{PROJECT}"],
            "filter": f'resource.labels.job_name="{name}"',
            "pageSize": 1000,
        }
        return found, cloud.answer("logging.entries.list", {}, query, DEFAULT_OWNER)["entries"]
    finally:
        plane.stop()
        assert plane.processes.alive() == []


def said(log: list[dict[str, Any]], event: str) -> list[dict[str, Any]]:
    return [e["jsonPayload"] for e in log if e.get("jsonPayload", {}).get("event") == event]


def test_the_base_image_may_lie_in_a_folder_of_any_name(tmp_path: Path) -> None:
    """As in ~/.cache: buildah makes an image's name of a layout's path, and refuses a part that begins with a dot."""
    processes = ProcessLedger(tmp_path / "processes.jsonl")
    buildah = Buildah(tmp_path / "store", processes)
    source, base = tmp_path / "source", tmp_path / ".Cache" / "oci"
    source.mkdir()
    base.parent.mkdir()
    (source / "Dockerfile").write_text("FROM scratch\nCOPY Dockerfile /\n", encoding="utf-8")
    buildah.run("bud", "--isolation=chroot", "--tag=base", ".", cwd=source)
    buildah.run("push", "base", f"oci:{base}")
    (source / "Dockerfile").write_text("ARG BASE\nFROM ${BASE}\nCOPY Dockerfile /again\n", encoding="utf-8")
    with tarfile.open(tmp_path / "source.tar.gz", "w:gz") as tar:
        tar.add(source / "Dockerfile", "Dockerfile")
    step = {"args": ["build", "--file=Dockerfile", "--tag=here/x:1", "--build-arg=BASE=python", "."]}
    digest = BuildahBuilder(buildah, base).build(tmp_path / "source.tar.gz", {"steps": [step]})
    assert digest.startswith("sha256:")
    shutil.rmtree(tmp_path / "store", ignore_errors=True)


def test_it_runs_as_nobody_and_its_entry_point_is_an_init_and_the_trainer(built: Built) -> None:
    assert built.image.user == (65532, 65532)
    assert built.image.entrypoint == ("tini", "--", "python", "-m", "workloads.trainer")
    code = "import os; print(os.getppid(), os.getuid(), open('/proc/1/comm').read())"
    ran = built.run("who", "tini", "--", "python", "-c", code)
    assert ran.stdout.split() == ["1", "65532", "tini"], ran.stderr


def test_nothing_that_builds_or_installs_is_in_it(built: Built) -> None:
    found = built.run("tools", "sh", "-c", "command -v cc gcc c++ ld make uv pip pip3 curl git; true")
    assert found.stdout.split() == []


def test_it_writes_nowhere_but_in_tmp(built: Built) -> None:
    ran = built.run("write", "sh", "-c", "echo > /tmp/mine && ! (echo > /opt/holdfast/x) && ! (echo > /etc/x)")
    assert ran.returncode == 0, ran.stderr


def test_a_bad_configuration_ends_with_the_trainers_own_exit_code(built: Built) -> None:
    ran = built.run("config", *built.image.entrypoint, CHECKPOINT_DIR="relative")
    assert (ran.returncode, "CHECKPOINT_DIR" in ran.stdout) == (2, True), ran.stderr


def test_a_job_preempted_in_it_resumes_and_ends_with_the_weights_of_a_plain_process(
    built: Built, tmp_path: Path
) -> None:
    bucket = storage.folder(built.cloud.state_dir, BUCKET)
    task, log = execute(built, tmp_path / "contained", built.image, AtSteps((STRIKE,)), ("uid=65532", "gid=65532"))
    assert "completionTime" in task
    assert task["lastAttemptResult"].get("exitCode", 0) == 0, log
    assert [event["code"] for event in said(log, "exit")] == [143, 0]
    assert len(said(log, "sigterm")) == len(said(log, "resumed")) == 1
    assert said(log, "done")[-1]["step"] == STEPS
    [mine] = [path.parent for path in bucket.rglob("result.json")]
    assert os.stat(mine).st_uid == 65532

    plain = tmp_path / "plain"
    plain.mkdir()
    env = {"PATH": os.environ["PATH"], "HOME": str(plain), "JAX_PLATFORMS": "cpu", **COMPILER, **SETTINGS}
    ran = built.processes.run(
        [sys.executable, "-m", "workloads.trainer"],
        env={**env, "CHECKPOINT_DIR": str(plain / "here")},
        cwd=archive.ROOT,
    )
    assert ran.returncode == 0, ran.stderr
    [theirs] = [path.parent for path in plain.rglob("result.json")]
    compared = built.processes.run(
        [sys.executable, "-m", "workloads.trainer.compare", str(mine), str(theirs)], env=env, cwd=archive.ROOT
    )
    assert json.loads(compared.stdout.splitlines()[-1])["bit_exact"] is True


def test_a_bucket_that_belongs_to_root_cannot_be_written(built: Built, tmp_path: Path) -> None:
    task, log = execute(built, tmp_path / "rooted", built.image, None, ())
    assert task["lastAttemptResult"]["exitCode"] not in (0, 143)
    assert "Permission denied" in json.dumps(log)
