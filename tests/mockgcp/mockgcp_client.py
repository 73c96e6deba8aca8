"""A caller of the emulated cloud, and the bodies that the tests send."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from infra import catalog
from mockgcp.cloud import DEFAULT_OWNER, Cloud
from mockgcp.errors import ApiError
from mockgcp.operations import Operation
from mockgcp.services import artifactregistry

PROJECT = "acme-train"
OTHER = "acme-other"
LOCATION = f"projects/{PROJECT}/locations/europe-west4"
JOB = f"{LOCATION}/jobs/train"
BUCKET = "acme-train-checkpoints"
EMAIL = f"gpu-job-sa@{PROJECT}.iam.gserviceaccount.com"
IMAGE = "europe-west4-docker.pkg.dev/acme-train/jobs/trainer@sha256:" + "0" * 64
STRANGER = "user:stranger@example.com"
APIS = tuple(
    f"{name}.googleapis.com"
    for name in ("artifactregistry", "cloudbuild", "cloudresourcemanager", "iam", "logging", "run", "storage")
)


@dataclass(frozen=True)
class Client:
    """Calls as one principal."""

    cloud: Cloud
    principal: str | None = DEFAULT_OWNER

    def as_(self, principal: str | None) -> Client:
        return Client(self.cloud, principal)

    def call(self, method: str, params: Mapping[str, Any] | None = None, body: Any = None) -> dict[str, Any]:
        """A call that answers at once."""
        answer = self.cloud.call(method, params, body, self.principal)
        assert isinstance(answer, dict), f"{method} started an operation"
        return answer

    def start(self, method: str, params: Mapping[str, Any] | None = None, body: Any = None) -> Operation:
        """A call that starts an operation."""
        answer = self.cloud.call(method, params, body, self.principal)
        assert isinstance(answer, Operation), f"{method} answered at once"
        return answer

    def finish(self, method: str, params: Mapping[str, Any] | None = None, body: Any = None) -> dict[str, Any]:
        """A call that starts an operation, and the operation's response."""
        return self.cloud.wait(self.start(method, params, body))

    def refused(self, method: str, params: Mapping[str, Any] | None = None, body: Any = None) -> ApiError:
        """The error of a call that is refused."""
        with pytest.raises(ApiError) as caught:
            self.cloud.call(method, params, body, self.principal)
        return caught.value

    # -- what most tests need first --------------------------------------------------------------------------------

    def make_account(self, account_id: str = "gpu-job-sa") -> dict[str, Any]:
        return self.call(
            "iam.projects.serviceAccounts.create", {"name": f"projects/{PROJECT}"}, {"accountId": account_id}
        )

    def make_bucket(self, name: str = BUCKET, project: str = PROJECT, **fields: Any) -> dict[str, Any]:
        body = {"name": name, "location": "europe-west4", **fields}
        return self.call("storage.buckets.insert", {"project": project}, body)

    def make_job(self, job_id: str = "train", **task: Any) -> dict[str, Any]:
        return self.finish("run.projects.locations.jobs.create", {"parent": LOCATION, "jobId": job_id}, job(**task))

    def run_job(self, name: str = JOB, overrides: Mapping[str, Any] | None = None) -> tuple[Operation, str]:
        """Starts an execution; its operation and its name."""
        body = {"overrides": overrides} if overrides else {}
        operation = self.start("run.projects.locations.jobs.run", {"name": name}, body)
        return operation, operation.metadata["name"]

    def execution(self, name: str) -> dict[str, Any]:
        return self.call("run.projects.locations.jobs.executions.get", {"name": name})

    def tasks(self, execution: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.call(
            "run.projects.locations.jobs.executions.tasks.list", {"parent": execution}
        )["tasks"]
        return found

    def grant(self, bucket: str, role: str, *members: str) -> None:
        """Adds members to a bucket's policy."""
        policy = self.call("storage.buckets.getIamPolicy", {"bucket": bucket})
        policy["bindings"].append({"role": role, "members": list(members)})
        self.call("storage.buckets.setIamPolicy", {"bucket": bucket}, policy)

    def logs(self, filter_: str = "") -> list[dict[str, Any]]:
        body = {"resourceNames": [f"projects/{PROJECT}"], "filter": filter_, "pageSize": 1000}
        found: list[dict[str, Any]] = self.call("logging.entries.list", {}, body)["entries"]
        return found


def seeded(state_dir: Path, seed: int = 7) -> Cloud:
    """A cloud with its clock held and two projects with the APIs on; the first has `IMAGE` and four L4 a region."""
    cloud = Cloud(seed=seed, state_dir=state_dir)
    for project in (PROJECT, OTHER):
        cloud.seed_project(project).services.update(APIS)
    artifactregistry.seed_image(cloud, IMAGE)
    cloud.quotas.set(PROJECT, catalog.gpu_quota("nvidia-l4", zonal_redundancy=False).quota_id, "*", 4)
    return cloud


def job(
    *, execution: Mapping[str, Any] | None = None, container: Mapping[str, Any] | None = None, **task: Any
) -> dict[str, Any]:
    """A small job's body, with changes to its execution template, its container and its task template."""
    return {
        "template": {
            **(execution or {}),
            "template": {
                "serviceAccount": EMAIL,
                "containers": [{"image": IMAGE, **(container or {})}],
                **task,
            },
        }
    }
