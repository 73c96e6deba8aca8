"""Scenario A's resources as the engine hands them over, and a provider on a cloud that has what they need."""

from typing import Any

from infra import catalog
from mockgcp.cloud import Cloud
from mockgcp.frontends.pulumi.core import Provider, State
from mockgcp.frontends.pulumi.values import Value, reveal
from mockgcp.services import artifactregistry

PROJECT = "demo-project"
NUMBER = 123456789012
REGION = "us-central1"
EMAIL = f"gpu-job-sa@{PROJECT}.iam.gserviceaccount.com"
IMAGE = f"{REGION}-docker.pkg.dev/{PROJECT}/jobs/trainer@sha256:{'0' * 64}"
BUCKET_NAME = f"gpu-checkpoints-{PROJECT}"

ACCOUNT = "gcp:serviceaccount/account:Account"
BUCKET = "gcp:storage/bucket:Bucket"
BUCKET_MEMBER = "gcp:storage/bucketIAMMember:BucketIAMMember"
JOB = "gcp:cloudrunv2/job:Job"
PROJECT_MEMBER = "gcp:projects/iAMMember:IAMMember"
NETWORK = "gcp:compute/network:Network"
SUBNETWORK = "gcp:compute/subnetwork:Subnetwork"
ROUTER = "gcp:compute/router:Router"
ROUTER_NAT = "gcp:compute/routerNat:RouterNat"
REPOSITORY = "gcp:artifactregistry/repository:Repository"
REPOSITORY_MEMBER = "gcp:artifactregistry/repositoryIamMember:RepositoryIamMember"
ACCOUNT_MEMBER = "gcp:serviceaccount/iAMMember:IAMMember"
SERVICE = "gcp:projects/service:Service"
CLUSTER = "gcp:container/cluster:Cluster"
NODE_POOL = "gcp:container/nodePool:NodePool"
FILESTORE = "gcp:filestore/instance:Instance"


def bucket(**changes: Value) -> dict[str, Value]:
    return {
        "name": BUCKET_NAME,
        "location": REGION,
        "storageClass": "STANDARD",
        "hierarchicalNamespace": {"enabled": True},
        "uniformBucketLevelAccess": True,
        "publicAccessPrevention": "enforced",
        "softDeletePolicy": {"retentionDurationSeconds": 0},
        "lifecycleRules": [{"action": {"type": "Delete"}, "condition": {"age": 30, "matchesPrefixes": ["tmp/"]}}],
        "labels": {"app": "holdfast"},
        **changes,
    }


def account(**changes: Value) -> dict[str, Value]:
    return {"accountId": "gpu-job-sa", "displayName": "GPU job", **changes}


def task(**changes: Value) -> dict[str, Value]:
    return {
        "containers": [
            {
                "image": IMAGE,
                "envs": [{"name": "CHECKPOINT_DIR", "value": "/checkpoints"}],
                "resources": {"limits": {"cpu": "8", "memory": "32Gi", "nvidia.com/gpu": "1"}},
                "volumeMounts": [{"name": "checkpoints", "mountPath": "/checkpoints"}],
            }
        ],
        "executionEnvironment": "EXECUTION_ENVIRONMENT_GEN2",
        "gpuZonalRedundancyDisabled": True,
        "maxRetries": 3,
        "nodeSelector": {"accelerator": "nvidia-l4"},
        "serviceAccount": EMAIL,
        "timeout": "43200s",
        "volumes": [{"name": "checkpoints", "gcs": {"bucket": BUCKET_NAME, "readOnly": False}}],
        **changes,
    }


def job(task_changes: dict[str, Value] | None = None, **changes: Value) -> dict[str, Value]:
    return {
        "name": "gpu-resilient-job",
        "location": REGION,
        "launchStage": "BETA",
        "deletionProtection": False,
        "template": {"taskCount": 1, "template": task(**(task_changes or {}))},
        **changes,
    }


def bucket_member(**changes: Value) -> dict[str, Value]:
    return {
        "bucket": BUCKET_NAME,
        "role": "roles/storage.objectUser",
        "member": f"serviceAccount:{EMAIL}",
        **changes,
    }


def seeded_cloud() -> Cloud:
    """A cloud with the project, its APIs, and one L4 and the image that the jobs here use."""
    cloud = Cloud()
    apis = ("aiplatform", "artifactregistry", "cloudresourcemanager", "compute", "container", "file", "iam", "run")
    cloud.seed_project(PROJECT, number=NUMBER).services.update(f"{api}.googleapis.com" for api in apis)
    artifactregistry.seed_image(cloud, IMAGE)
    cloud.quotas.set(PROJECT, catalog.gpu_quota("nvidia-l4", zonal_redundancy=False).quota_id, "*", 1)
    return cloud


class Desk:
    """A configured provider, used as the engine uses it: check, then create, update or delete."""

    def __init__(self, cloud: Cloud, project: str = PROJECT) -> None:
        self.cloud = cloud
        self.provider = Provider(cloud)
        self.provider.configure({"project": project, "region": REGION})

    def checked(
        self, token: str, inputs: dict[str, Value], olds: dict[str, Value] | None = None, name: str = "it"
    ) -> dict[str, Value]:
        checked = self.provider.check(token, name, inputs, olds or {})
        assert checked.failures == []
        return checked.inputs

    def refused(self, token: str, inputs: dict[str, Value]) -> list[str]:
        return [str(failure) for failure in self.provider.check(token, "it", inputs, {}).failures]

    def create(self, token: str, inputs: dict[str, Value]) -> State:
        checked = self.checked(token, inputs)
        state = self.provider.create(token, checked)
        return State(state.id, state.outputs, checked)

    def update(self, token: str, old: State, inputs: dict[str, Value]) -> State:
        checked = self.checked(token, inputs, old.inputs)
        state = self.provider.update(token, old, checked)
        return State(state.id, state.outputs, checked)

    def diff(self, token: str, old: State, inputs: dict[str, Value]) -> dict[str, tuple[str, bool]]:
        """Each changed path: how it changes, and whether that replaces."""
        found = self.provider.diff(token, old, self.checked(token, inputs, old.inputs))
        return {change.path: (change.action, change.replace) for change in found.changes}

    def settles(self, token: str, old: State, inputs: dict[str, Value]) -> State:
        """The state after a change in place on which another `up` has nothing to do, nor one after a refresh."""
        assert not any(replaces for _, replaces in self.diff(token, old, inputs).values())
        new = self.update(token, old, inputs)
        found = self.refresh(token, new)
        assert found is not None
        assert (self.diff(token, new, inputs), self.diff(token, found, inputs)) == ({}, {})
        assert (new.id, reveal(new.outputs)) == (old.id, reveal(found.outputs))
        return new

    def refresh(self, token: str, old: State) -> State | None:
        return self.provider.read(token, old.id, old.inputs, old.outputs)

    def sent(self, method: str) -> list[Any]:
        return [entry.request for entry in self.cloud.audit.entries(method, ok=True)]
