"""The table of permissions is what the stacks make and what their `up` is asked for."""

from __future__ import annotations

import pytest
import yaml

from holdfast import stackfile
from holdfast.preflight import permissions
from infra import catalog, kueue
from mockgcp.cloud import Cloud
from mockgcp.frontends.pulumi.mocks import EmulatedGcp, Result
from mockgcp.service import by_api
from mockgcp.services import SERVICES, artifactregistry
from mockgcp.services.billing import seed_billing
from stacks.choose import choose, name

PROJECT = "holdfast-dev"
STACKS = ["dev-foundation", "dev-cloud-run", "dev-gke-tpu", "dev-slurm"]
# On the billing account, which is no part of the project.
_ELSEWHERE = ("billing.",)


@pytest.fixture(scope="module")
def ups() -> dict[str, tuple[Result, set[str]]]:
    """The shipped stacks with everything that configuration can add: what each registered, and was asked for."""
    cloud = Cloud()
    cloud.seed_project(PROJECT)
    account = seed_billing(cloud, PROJECT).removeprefix("billingAccounts/")
    for quota in catalog.gpu_quotas():
        cloud.quotas.set(PROJECT, quota, "*", 1)
    foundation = _up(cloud, "dev-foundation", {}, billingAccount=account, budgetAmount=100)
    image = yaml.safe_load(stackfile.path("dev-cloud-run").read_text())["config"]["holdfast:image"]
    artifactregistry.seed_image(cloud, image)
    outputs = foundation[0].outputs
    job = _up(cloud, "dev-cloud-run", outputs, networkEnabled=True, alertEmail="who@example.com")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kueue, "_dry_run", lambda _: None)
        return {
            "foundation": foundation,
            "cloud-run": job,
            "gke-tpu": _up(cloud, "dev-gke-tpu", {}),
            "slurm": _up(cloud, "dev-slurm", {}),
        }


def _up(cloud: Cloud, stack: str, foundation: dict[str, object], **more: object) -> tuple[Result, set[str]]:
    config = yaml.safe_load(stackfile.path(stack).read_text())["config"]
    config |= {f"holdfast:{key}": value for key, value in more.items()}
    before = len(cloud.audit.entries())
    result = EmulatedGcp(
        cloud,
        project=PROJECT,
        region=config["gcp:region"],
        config=config,
        stack=stack,
        stack_outputs={"organization/holdfast/dev-foundation": foundation},
        recorded=["kubernetes"],
    ).run(choose(stack))
    handlers = {method: handler for api in by_api(SERVICES).values() for method, handler in api.handlers.items()}
    asked = {handlers[entry.method].permission for entry in cloud.audit.entries()[before:]}
    return result, {each for each in asked if each is not None}


@pytest.mark.parametrize("stack", STACKS)
def test_the_table_has_every_type_that_a_stack_makes_and_no_other(
    ups: dict[str, tuple[Result, set[str]]], stack: str
) -> None:
    result, _ = ups[name(stack)]
    made = {each.type for each in result.resources if each.type.startswith("gcp:")}
    assert made == set(permissions.STACKS[name(stack)])


@pytest.mark.parametrize("stack", STACKS)
def test_the_table_has_every_permission_that_up_is_asked_for(
    ups: dict[str, tuple[Result, set[str]]], stack: str
) -> None:
    _, asked = ups[name(stack)]
    assert asked
    missing = asked - set(permissions.needed(name(stack)))
    assert {each for each in missing if not each.startswith(_ELSEWHERE)} == set()
