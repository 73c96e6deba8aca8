"""Components of the foundation on the emulated cloud: network, image repository, who builds, budget."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pulumi
import pytest

from infra import catalog
from infra.build_identity import BuildIdentity, BuildIdentityArgs
from infra.checkpoint_bucket import CheckpointBucket, CheckpointBucketArgs
from infra.errors import InputError
from infra.image_repository import ImageRepository, ImageRepositoryArgs
from infra.network import Network, NetworkArgs
from infra.project_budget import ProjectBudget, ProjectBudgetArgs
from infra.project_services import ProjectServices, ProjectServicesArgs
from mockgcp.cloud import Cloud
from mockgcp.frontends.pulumi.mocks import EmulatedGcp, Resource, Result
from mockgcp.services.billing import seed_billing

PROJECT, REGION, NUMBER = "demo-project", "us-central1", 123456789012
ACCOUNT = "012345-6789AB-CDEF01"
NETWORK = NetworkArgs(PROJECT, REGION)
IMAGES = ImageRepositoryArgs(PROJECT, REGION)
BUILD = BuildIdentityArgs(PROJECT, REGION, "trainers", f"{PROJECT}-build-source")
BUDGET = ProjectBudgetArgs(PROJECT, ACCOUNT, 500)


@pytest.fixture
def cloud() -> Cloud:
    cloud = Cloud()
    cloud.seed_project(PROJECT, number=NUMBER)
    return cloud


def run(cloud: Cloud, component: Callable[[pulumi.ResourceOptions], object]) -> Result:
    def program() -> None:
        enabled = [*catalog.services().cloud_run_job, "billingbudgets.googleapis.com"]
        apis = ProjectServices("apis", ProjectServicesArgs(PROJECT, enabled))
        component(pulumi.ResourceOptions(depends_on=[apis]))

    return EmulatedGcp(cloud, project=PROJECT, region=REGION, stack="dev-foundation").run(program)


def one(result: Result, token: str) -> Resource:
    [found] = result.of_type(token)
    return found


def test_the_network_is_private_and_has_a_way_out(cloud: Cloud) -> None:
    result = run(cloud, lambda after: Network("network", NETWORK, after))
    network = one(result, "gcp:compute/network:Network")
    assert (network.inputs["name"], network.inputs["autoCreateSubnetworks"]) == ("holdfast", False)
    subnet = one(result, "gcp:compute/subnetwork:Subnetwork")
    assert subnet.inputs["privateIpGoogleAccess"] is True
    assert (subnet.inputs["ipCidrRange"], subnet.inputs["region"]) == ("10.0.0.0/20", REGION)
    nat = one(result, "gcp:compute/routerNat:RouterNat")
    assert nat.inputs["natIpAllocateOption"] == "AUTO_ONLY"
    assert nat.inputs["sourceSubnetworkIpRangesToNat"] == "ALL_SUBNETWORKS_ALL_IP_RANGES"
    assert nat.inputs["logConfig"] == {"enable": True, "filter": "ERRORS_ONLY"}
    assert nat.inputs["router"] == one(result, "gcp:compute/router:Router").inputs["name"] == "holdfast-us-central1"
    assert {each.name for each in result.resources if each.type.startswith("gcp:compute")} == {
        "network",
        "network-subnet",
        "network-router",
        "network-nat",
    }


@pytest.mark.parametrize(
    ("change", "where"),
    [
        ({"network_name": "Holdfast"}, "name"),
        ({"network_name": "n" * 60}, "name"),
        ({"subnet_cidr": "10.0.0.0/28"}, "cidr"),
        ({"region": "us-central9"}, "region"),
    ],
)
def test_a_network_that_cannot_work_is_refused(change: dict[str, Any], where: str) -> None:
    with pytest.raises(InputError, match=f"^Network network, {where}: "):
        Network("network", replace(NETWORK, **change))


def test_images_keep_their_tags_and_the_newest_are_kept(cloud: Cloud) -> None:
    result = run(cloud, lambda after: ImageRepository("images", replace(IMAGES, keep_count=5), after))
    repository = one(result, "gcp:artifactregistry/repository:Repository")
    assert (repository.inputs["repositoryId"], repository.inputs["format"]) == ("trainers", "DOCKER")
    assert repository.inputs["dockerConfig"] == {"immutableTags": True}
    assert repository.inputs["labels"] == {"app": "holdfast"}
    assert {each["id"]: each for each in repository.inputs["cleanupPolicies"]} == {
        "keep-newest": {"id": "keep-newest", "action": "KEEP", "mostRecentVersions": {"keepCount": 5}},
        "delete-untagged": {
            "id": "delete-untagged",
            "action": "DELETE",
            "condition": {"tagState": "UNTAGGED", "olderThan": "604800s"},
        },
    }


def test_a_repository_knows_its_host_in_its_universe(cloud: Cloud) -> None:
    urls: list[str] = []
    run(cloud, lambda after: ImageRepository("images", IMAGES, after).url.apply(urls.append))
    assert urls == ["us-central1-docker.pkg.dev/demo-project/trainers"]


@pytest.mark.parametrize(
    ("change", "where"),
    [
        ({"repository_id": "Trainers"}, "repository_id"),
        ({"keep_count": 0}, "keep_count"),
        ({"untagged_days": 0}, "untagged_days"),
    ],
)
def test_a_repository_that_cannot_work_is_refused(change: dict[str, Any], where: str) -> None:
    with pytest.raises(InputError, match=f"^ImageRepository images, {where}: "):
        ImageRepository("images", replace(IMAGES, **change))


def test_builds_may_write_one_repository_read_one_bucket_and_log(cloud: Cloud) -> None:
    def program(after: pulumi.ResourceOptions) -> None:
        images = ImageRepository("images", IMAGES, after)
        BuildIdentity("build", replace(BUILD, repository_id=images.repository_id), after)

    result = run(cloud, program)
    grants = {
        (each.type.partition("/")[0], each.inputs["role"]) for each in result.resources if "IAM" in each.type.upper()
    }
    assert grants == {
        ("gcp:artifactregistry", "roles/artifactregistry.writer"),
        ("gcp:projects", "roles/logging.logWriter"),
        ("gcp:storage", "roles/storage.objectViewer"),
    }
    account = f"trainer-build@{PROJECT}.iam.gserviceaccount.com"
    assert cloud.allowed(
        f"serviceAccount:{account}",
        "artifactregistry.repositories.uploadArtifacts",
        f"projects/{PROJECT}/locations/{REGION}/repositories/trainers",
    )
    assert not cloud.allowed(
        f"serviceAccount:{account}", "artifactregistry.repositories.uploadArtifacts", f"projects/{PROJECT}"
    )


def test_sources_are_private_and_go_after_a_while(cloud: Cloud) -> None:
    def program(after: pulumi.ResourceOptions) -> None:
        BuildIdentity(
            "build", replace(BUILD, repository_id=ImageRepository("images", IMAGES, after).repository_id), after
        )

    bucket = one(run(cloud, program), "gcp:storage/bucket:Bucket")
    assert bucket.inputs["uniformBucketLevelAccess"] is True
    assert bucket.inputs["publicAccessPrevention"] == "enforced"
    assert bucket.inputs["softDeletePolicy"] == {"retentionDurationSeconds": 0}
    assert bucket.inputs["forceDestroy"] is True
    assert bucket.inputs["lifecycleRules"] == [{"action": {"type": "Delete"}, "condition": {"age": 30}}]


@pytest.mark.parametrize(
    ("change", "where"), [({"account_id": "b"}, "account_id"), ({"source_bucket_name": "Source"}, "bucket_name")]
)
def test_a_build_identity_that_cannot_work_is_refused(change: dict[str, Any], where: str) -> None:
    with pytest.raises(InputError, match=f"^BuildIdentity build, {where}: "):
        BuildIdentity("build", replace(BUILD, **change))


def test_a_budget_is_on_the_project_by_its_number(cloud: Cloud) -> None:
    seed_billing(cloud, PROJECT, ACCOUNT, currency="EUR")
    result = run(cloud, lambda after: ProjectBudget("budget", replace(BUDGET, currency="EUR"), after))
    budget = one(result, "gcp:billing/budget:Budget")
    assert budget.inputs["billingAccount"] == ACCOUNT
    assert budget.inputs["budgetFilter"] == {"projects": [f"projects/{NUMBER}"], "calendarPeriod": "MONTH"}
    assert budget.inputs["amount"] == {"specifiedAmount": {"units": "500", "currencyCode": "EUR"}}
    assert [(each["spendBasis"], each["thresholdPercent"]) for each in budget.inputs["thresholdRules"]] == [
        ("CURRENT_SPEND", 0.5),
        ("CURRENT_SPEND", 0.9),
        ("CURRENT_SPEND", 1.0),
        ("FORECASTED_SPEND", 1.0),
    ]


@pytest.mark.parametrize(
    ("change", "where"),
    [({"amount": 0}, "amount"), ({"thresholds": ()}, "thresholds"), ({"thresholds": (0.0,)}, "thresholds")],
)
def test_a_budget_that_cannot_work_is_refused(change: dict[str, Any], where: str) -> None:
    with pytest.raises(InputError, match=f"^ProjectBudget budget, {where}: "):
        ProjectBudget("budget", replace(BUDGET, **change))


@pytest.mark.parametrize("protected", [True, False])
def test_checkpoints_and_images_are_protected_if_asked(cloud: Cloud, protected: bool) -> None:
    made: list[pulumi.Resource] = []

    def program(after: pulumi.ResourceOptions) -> None:
        bucket = CheckpointBucketArgs(PROJECT, REGION, "gpu-checkpoints-demo", deletion_protection=protected)
        made.extend(CheckpointBucket("checkpoints", bucket, after)._childResources)
        made.extend(ImageRepository("images", replace(IMAGES, deletion_protection=protected), after)._childResources)

    run(cloud, program)
    assert [each._protect for each in made] == [protected, protected]
