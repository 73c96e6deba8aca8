"""The preflight of a cluster with TPU pools: each of its own checks when all is well, and when it finds something."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from holdfast import preflight, stackfile
from holdfast.gcp.emulated import EmulatedApi
from holdfast.preflight import PreflightReport, permissions
from infra import catalog
from mockgcp.cloud import Cloud
from mockgcp.errors import ApiError
from mockgcp.faults import Fault
from mockgcp.operations import Operation
from mockgcp.services.billing import seed_billing
from mockgcp.state import DEFAULT_OWNER

STACK, PROJECT, REGION, ZONE = "dev-gke-tpu", "holdfast-dev", "us-east5", "us-east5-b"
BUCKET = f"tpu-checkpoints-{PROJECT}"
STRANGER = "user:stranger@example.com"
ON_DEMAND, PREEMPTIBLE = (catalog.tpu_quota("v6e", preemptible=each).quota_id for each in (False, True))


class Site:
    """A project on which the shipped stack could come up, and the stack's file."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.principal = folder, None
        self.cloud = Cloud()
        self.cloud.seed_project(PROJECT).services.update(catalog.services().known)
        seed_billing(self.cloud, PROJECT)
        self.quota(16, 16)
        self.write()

    def write(self, region: str = REGION, **keys: Any) -> None:
        config = yaml.safe_load(stackfile.path(STACK).read_text())["config"] | {"gcp:region": region}
        config |= {f"holdfast:{key}": value for key, value in keys.items()}
        (self.folder / f"Pulumi.{STACK}.yaml").write_text(yaml.safe_dump({"config": config}))

    def quota(self, on_demand: int, preemptible: int) -> None:
        self.cloud.quotas.set(PROJECT, ON_DEMAND, REGION, on_demand)
        self.cloud.quotas.set(PROJECT, PREEMPTIBLE, REGION, preemptible)

    def off(self, *services: str) -> None:
        self.cloud.projects[0].services.difference_update(f"{service}.googleapis.com" for service in services)

    def fault(self, method: str, status: str) -> None:
        self.cloud.faults.inject(Fault(method, ApiError(status, "no")))

    def make(self, method: str, params: dict[str, Any], body: dict[str, Any]) -> None:
        answer = self.cloud.call(method, params, body, DEFAULT_OWNER)
        if isinstance(answer, Operation):
            self.cloud.wait(answer)

    def run(self, principal: str | None = None, **more: Any) -> PreflightReport:
        api = EmulatedApi(self.cloud, principal) if principal else EmulatedApi(self.cloud)
        return preflight.run(STACK, lambda target: api, folder=self.folder, **more)


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


def test_a_sound_project_passes_every_check_of_a_cluster(site: Site) -> None:
    report = site.run()
    assert {check.name: check.found for check in report.checks if check.status != "ok"} == {}
    of_all = ["config", "credentials", "project", "billing", "apis", "permissions"]
    own = ["buckets", "cluster", "zone", "version", "quota", "price"]
    assert [check.name for check in report.checks] == of_all + own
    assert (report.exit_code, report.region) == (0, REGION)


def network(site: Site) -> None:
    site.make("compute.networks.insert", {"project": PROJECT}, {"name": "tpu", "autoCreateSubnetworks": False})


def flex_start_alone(site: Site) -> None:
    site.quota(0, 16)
    site.write(onDemandSlices=0)


def theirs(site: Site) -> None:
    site.cloud.seed_project("another-project").services.update(catalog.services().known)
    site.make("storage.buckets.insert", {"project": "another-project"}, {"name": BUCKET, "location": REGION})


# What is done to the sound project, the check that notices, its status, and words of what it finds or says to do.
CASES: list[tuple[str, Callable[[Site], object], str, str, str]] = [
    ("topology", lambda s: s.write(topology="4x5"), "config", "failed", "holdfast:topology"),
    ("apis", lambda s: s.off("tpu", "container"), "apis", "ok", "`up` turns them on: container.googleapis.com, tpu."),
    ("bucket of others", theirs, "buckets", "failed", "choose another with holdfast:bucketName"),
    ("network", network, "cluster", "ok", "network tpu: this project has it already; cluster tpu-cluster in us"),
    ("compute off", lambda s: s.off("compute"), "cluster", "ok", "network tpu: free"),
    ("hidden", lambda s: s.fault("compute.networks.get", "PERMISSION_DENIED"), "cluster", "unknown", "could not look"),
    ("no machine", lambda s: s.fault("compute.machineTypes.get", "NOT_FOUND"), "zone", "failed", "asia-northeast1-b, "),
    ("no zone", lambda s: s.off("compute"), "zone", "warn", "compute.googleapis.com is off, and `up` turns it on"),
    ("no version", lambda s: s.off("container"), "version", "warn", "gcloud services enable container.googleapis.com"),
    ("version", lambda s: s.write(gkeVersion="1.36"), "version", "failed", "REGULAR has no 1.36 in us-east5-b; it has"),
    ("patch", lambda s: s.write(gkeVersion="1.35.8"), "version", "ok", "1.35.8 is 1.35.8-gke.1036000"),
    ("none", lambda s: s.quota(0, 0), "quota", "failed", "on-demand-pool (16): 16 v6e chips, limit 0; "),
    ("one slice", lambda s: s.quota(16, 8), "quota", "failed", f"request more of {PREEMPTIBLE} to 16 ("),
    ("no on demand", lambda s: s.quota(8, 16), "quota", "failed", f"request more of {ON_DEMAND} CT6E to 16 ("),
    ("shared", lambda s: s.quota(32, 0), "quota", "ok", "on-demand-pool (16) and dws-pool (16): 32 v6e chips, limit"),
    ("flex alone", flex_start_alone, "quota", "ok", "dws-pool (16): 16 v6e chips"),
    ("more", lambda s: s.write(topology="4x8"), "quota", "failed", "dws-pool (32): 32 v6e chips, limit 16"),
    ("elsewhere", lambda s: s.write("us-east1", zone="us-east1-d", flexStartSlices=0), "price", "unknown", "us-east1"),
]  # fmt: skip


@pytest.mark.parametrize(("change", "name", "status", "words"), [case[1:] for case in CASES], ids=[c[0] for c in CASES])
def test_each_check_notices(site: Site, change: Callable[[Site], object], name: str, status: str, words: str) -> None:
    change(site)
    check = next(check for check in site.run().checks if check.name == name)
    assert check.status == status, check
    assert re.search(re.escape(words), f"{check.found} → {check.do}"), check
    assert status == "ok" or check.do, "it says what to do"


def test_a_new_project_may_go_on_and_a_disabled_api_that_up_leaves_off_is_still_unknown(site: Site) -> None:
    site.off("compute", "container", "tpu", "storage", "iam")
    assert site.run().exit_code == 0
    site.off("cloudbilling")
    assert site.run().status("billing") == "unknown"


def test_quota_that_is_short_on_demand_alone_says_nothing_of_flex_start(site: Site) -> None:
    site.quota(8, 16)
    assert "flex-start" not in next(check.found for check in site.run().checks if check.name == "quota")
    site.quota(16, 8)
    assert "flex-start request waits" in next(check.found for check in site.run().checks if check.name == "quota")


def test_the_price_is_that_of_all_chips_by_their_pool(site: Site) -> None:
    check = next(check for check in site.run(hours=10).checks if check.name == "price")
    each = [catalog.tpu_chip_price("v6e", REGION, flex).per_hour or 0 for flex in (False, True)]
    assert check.figures["hour"] == pytest.approx(16 * sum(each))
    assert check.figures["run"] == pytest.approx(160 * sum(each))


def test_the_roles_that_are_proposed_are_enough(site: Site) -> None:
    roles, without = permissions.roles(permissions.needed("gke-tpu"))
    assert without == []
    for role in roles:
        site.cloud.policies.grant(f"projects/{PROJECT}", role, STRANGER)
    report = site.run(STRANGER)
    assert report.status("permissions") == "ok"
    # What is looked at needs no permission besides, but for quotas and billing, which `up` does not ask about.
    assert {check.name for check in report.checks if check.status == "unknown"} <= {"quota", "billing"}


def test_a_viewer_is_told_which_roles_are_missing(site: Site) -> None:
    site.cloud.policies.grant(f"projects/{PROJECT}", "roles/viewer", STRANGER)
    check = next(check for check in site.run(STRANGER).checks if check.name == "permissions")
    assert check.status == "failed"
    assert "roles/container." in check.do
    assert "iam.serviceAccounts.actAs" in check.found
