"""Each check of the preflight when all is well, when it finds something, and when it could not look."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from runs_rig import BUCKET, EMAIL, IMAGE, PROJECT, REGION, Rig

from holdfast import preflight
from holdfast.errors import OperatorError
from holdfast.gcp.api import CloudError
from holdfast.gcp.emulated import EmulatedApi
from holdfast.preflight import PreflightReport, permissions
from infra import catalog
from mockgcp.errors import ApiError
from mockgcp.faults import Fault
from mockgcp.services.billing import LINK, seed_billing

FOUNDATION, JOB = "dev-foundation", "dev-cloud-run"
QUOTA = catalog.gpu_quota("nvidia-l4", False).quota_id
STRANGER = "user:stranger@example.com"
Change = Callable[["Site"], object]


class Site(Rig):
    """A project on which both stacks could come up, and the stacks' files."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.make_job()
        self.cloud.quotas.set(PROJECT, QUOTA, REGION, 2)
        seed_billing(self.cloud, PROJECT)
        self.principal = self.api.principal
        self.write(FOUNDATION)
        self.write(JOB, image=IMAGE)

    def write(self, stack: str, region: str = REGION, **keys: Any) -> None:
        config = {"gcp:project": PROJECT, "gcp:region": region}
        config |= {f"holdfast:{key}": value for key, value in keys.items()}
        path = self.folder / f"Pulumi.{stack}.yaml"
        path.write_text(yaml.safe_dump({"config": config}))

    def fault(self, method: str, status: str = "PERMISSION_DENIED", times: int | None = None) -> None:
        self.cloud.faults.inject(Fault(method, ApiError(status, "no"), times=times))

    def off(self, *services: str) -> None:
        self.cloud.projects[0].services.difference_update(f"{service}.googleapis.com" for service in services)

    def run(self, stack: str, **more: Any) -> PreflightReport:
        api = EmulatedApi(self.cloud, self.principal)
        return preflight.run(stack, lambda target: api, folder=self.folder, **more)

    def stranger(self, *roles: str) -> None:
        """Looks as somebody who has these roles on the project only."""
        self.principal = STRANGER
        for role in roles:
            self.cloud.policies.grant(f"projects/{PROJECT}", role, STRANGER)


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


def found(report: PreflightReport, name: str) -> tuple[str, str, str]:
    check = next(check for check in report.checks if check.name == name)
    return check.status, check.found, check.do


@pytest.mark.parametrize(("stack", "warned"), [(FOUNDATION, set()), (JOB, {"region"})], ids=["foundation", "cloud-run"])
def test_a_sound_project_passes(site: Site, stack: str, warned: set[str]) -> None:
    report = site.run(stack)
    assert {check.name: check.found for check in report.checks if check.status not in ("ok", "warn")} == {}
    # us-central1 has L4 by invitation.
    assert {check.name for check in report.checks if check.status == "warn"} == warned
    assert (report.exit_code, report.principal, report.project) == (0, site.principal, PROJECT)
    assert all(check.found for check in report.checks)


# What is done to the sound project, the check that notices, its status, and words of what it finds or says to do.
def cases() -> list[tuple[str, str, Change, str, str, str]]:
    return [
        (FOUNDATION, "bad key", lambda s: s.write(FOUNDATION, bucketNam="x"), "config", "failed", "bucketName"),
        (JOB, "no file", lambda s: (s.folder / f"Pulumi.{FOUNDATION}.yaml").unlink(), "config", "failed", "missing"),
        (JOB, "no gpu", job("us-west9"), "config", "failed", "us-west9"),
        (JOB, "none", lambda s: s.fault("*", "UNAUTHENTICATED"), "credentials", "failed", "application-default login"),
        (JOB, "stranger", lambda s: s.stranger(), "project", "failed", "does not exist, or user:stranger"),
        (JOB, "deleted", lambda s: s.fault("*projects.get", "NOT_FOUND"), "project", "failed", "correct gcp:project"),
        (JOB, "broken", lambda s: s.fault("cloudresourcemanager.projects.get", "INTERNAL"), "project", "unknown", "no"),
        (JOB, "no payer", lambda s: s.cloud.table(LINK).clear(), "billing", "failed", "no billing account"),
        (JOB, "closed", closed_account, "billing", "failed", "is closed"),
        (JOB, "billing off", lambda s: s.off("cloudbilling"), "billing", "unknown", "gcloud services enable"),
        (JOB, "api off", lambda s: s.off("run"), "apis", "failed", f"pulumi up --stack {FOUNDATION}"),
        (FOUNDATION, "api off", lambda s: s.off("run"), "apis", "ok", "`up` turns them on: run.googleapis.com"),
        (FOUNDATION, "may not", may_not_enable, "apis", "failed", "serviceUsageAdmin"),
        (JOB, "apis", lambda s: s.fault("serviceusage.services.list"), "apis", "unknown", "serviceusage.services.list"),
        (JOB, "viewer", lambda s: s.stranger("roles/viewer"), "permissions", "failed", "roles/run."),
        (FOUNDATION, "viewer", lambda s: s.stranger("roles/viewer"), "permissions", "failed", "roles/storage.admin"),
        (JOB, "test", lambda s: s.fault("*.projects.testIamPermissions"), "permissions", "unknown", "testIam"),
        (FOUNDATION, "theirs", bucket_of_others, "buckets", "failed", "somebody else has it"),
        (FOUNDATION, "hidden", lambda s: s.fault("storage.buckets.get"), "buckets", "failed", "somebody else has it"),
        (FOUNDATION, "blind", lambda s: s.stranger("roles/run.viewer"), "buckets", "unknown", "storage.buckets.get"),
        (FOUNDATION, "free", no_bucket, "buckets", "ok", f"{BUCKET} (checkpoints): free"),
        (FOUNDATION, "ours", lambda s: None, "buckets", "ok", "pulumi import"),
        (FOUNDATION, "storage", lambda s: s.fault("storage.*", "UNAVAILABLE"), "buckets", "unknown", "UNAVAILABLE"),
        (JOB, "no bucket", no_bucket, "foundation", "failed", f"there is no bucket {BUCKET}"),
        (JOB, "no account", no_account, "foundation", "failed", f"no service account {EMAIL}"),
        (JOB, "apart", job("us-east4"), "foundation", "warn", "crosses regions"),
        (JOB, "iam off", lambda s: s.off("iam"), "foundation", "unknown", "iam.googleapis.com"),
        (JOB, "placeholder", job(image=IMAGE.replace("1" * 64, "0" * 64)), "image", "failed", "holdfast image"),
        (JOB, "other digest", job(image=IMAGE.replace("1" * 64, "2" * 64)), "image", "failed", "is not there"),
        (JOB, "elsewhere", job(image="ghcr.io/a/b@sha256:" + "1" * 64), "image", "unknown", "ghcr.io"),
        (JOB, "registry off", lambda s: s.off("artifactregistry"), "image", "unknown", "artifactregistry.googleapis"),
        (JOB, "open region", job("us-east4"), "region", "ok", "nvidia-l4 in us-east4"),
        (JOB, "quota 0", lambda s: s.cloud.quotas.clear(), "quota", "failed", "requested 1, limit 0, usage 0"),
        (JOB, "other kind", job(gpuZonalRedundancy=True), "quota", "failed", "limit 0"),
        (JOB, "more tasks", job(taskCount=3), "quota", "failed", "requested 3, limit 2"),
        (JOB, "in turns", job(taskCount=3, parallelism=2), "quota", "ok", "requested 2"),
        (JOB, "no metric", lambda s: s.fault("serviceusage.services.consumer*"), "quota", "unknown", "could not look"),
        (JOB, "no usage", lambda s: s.fault("monitoring.*"), "quota", "warn", "limit 2, usage could not look"),
    ]  # fmt: skip


def job(region: str = REGION, **keys: Any) -> Change:
    return lambda site: site.write(JOB, region, **{"image": IMAGE, **keys})


def closed_account(site: Site) -> None:
    seed_billing(site.cloud, PROJECT, open_=False)


def may_not_enable(site: Site) -> None:
    site.off("run")
    site.stranger("roles/viewer")


def bucket_of_others(site: Site) -> None:
    site.cloud.seed_project("another-project").services.update(catalog.services().known)
    no_bucket(site)
    body = {"name": BUCKET, "location": REGION}
    site.api.call("storage.buckets.insert", {"project": "another-project"}, body)


def no_bucket(site: Site) -> None:
    site.api.call("storage.buckets.delete", {"bucket": BUCKET})


def no_account(site: Site) -> None:
    site.api.call("iam.projects.serviceAccounts.delete", {"name": f"projects/{PROJECT}/serviceAccounts/{EMAIL}"})


@pytest.mark.parametrize(
    ("stack", "change", "name", "status", "words"),
    [(stack, *case) for stack, _, *case in cases()],
    ids=[f"{case[3]}-{case[1]}" for case in cases()],
)
def test_each_check_notices(site: Site, stack: str, change: Change, name: str, status: str, words: str) -> None:
    change(site)
    report = site.run(stack)
    check = found(report, name)
    assert check[0] == status, check
    assert re.search(re.escape(words), f"{check[1]} → {check[2]}"), check
    assert status == "ok" or check[2], "it says what to do"


def test_what_rests_on_a_failed_check_says_so_and_the_rest_goes_on(site: Site) -> None:
    site.stranger()
    report = site.run(JOB)
    assert found(report, "quota")[:2] == ("unknown", "not looked at: it rests on project, which is failed")
    assert report.status("price") == "ok"
    assert report.exit_code == 1


def test_a_file_that_is_wrong_leaves_nothing_to_judge(site: Site) -> None:
    site.write(JOB, image="latest", taskCount=0)
    report = site.run(JOB)
    assert found(report, "config")[1].count(f"Pulumi.{JOB}.yaml") == 2
    assert {check.status for check in report.checks[1:]} == {"unknown"}
    assert (report.exit_code, report.project) == (1, "")


def test_what_could_not_be_looked_at_alone_ends_with_3(site: Site) -> None:
    site.off("cloudbilling")
    assert site.run(JOB).exit_code == 3
    report = site.run(JOB, skip=["billing"])
    assert (report.exit_code, report.skipped, report.status("billing")) == (0, ["billing"], None)
    with pytest.raises(OperatorError, match="--skip bills: choose among credentials"):
        site.run(JOB, skip=["bills"])


def test_nothing_answers(site: Site) -> None:
    class Dead:
        def call(self, method: str, *_: object, **__: object) -> dict[str, Any]:
            raise CloudError("UNAVAILABLE", "no route to host", method=method)

    report = preflight.run(JOB, lambda target: Dead(), folder=site.folder)
    assert report.status("credentials") == "unknown"
    assert report.exit_code == 3


def test_hours_that_no_execution_reaches_are_said(site: Site) -> None:
    site.write(JOB, image=IMAGE, maxRetries=1, taskTimeout="36000s")  # twice ten hours
    at = {hours: found(site.run(JOB, hours=hours), "price") for hours in (20, 21)}
    assert at[20][0] == "ok"
    assert at[21][0] == "warn"
    assert "21 h do not fit into one execution, which ends after 20 h" in at[21][1]
    assert "holdfast:maxRetries" in at[21][2]


def test_a_cloud_that_cannot_be_called_is_no_fault_of_the_file(site: Site) -> None:
    def connect(target: object) -> EmulatedApi:
        raise OperatorError("HOLDFAST_API_ENDPOINT is no address")

    with pytest.raises(OperatorError, match="HOLDFAST_API_ENDPOINT is no address"):
        preflight.run(JOB, connect, folder=site.folder)


def test_the_price_has_an_hour_a_run_and_a_cap(site: Site) -> None:
    site.write(JOB, image=IMAGE, taskCount=2, maxRetries=3, taskTimeout="7200s")
    check = next(check for check in site.run(JOB, hours=5).checks if check.name == "price")
    hour = catalog.job_price(REGION, 8, 32, "nvidia-l4", False).per_hour
    assert hour is not None
    figures = check.figures
    assert [figures[key] for key in ("hour", "run", "cap")] == pytest.approx([2 * hour, 10 * hour, 16 * hour])
    assert "4 attempts of 2 h" in check.found


def test_usage_counts_against_the_limit(site: Site) -> None:
    site.cloud.quotas.set(PROJECT, QUOTA, REGION, 1)
    execution = {
        "name": f"projects/{PROJECT}/locations/{REGION}/jobs/other/executions/other-1",
        "runningCount": 1,
        "template": {
            "nodeSelector": {"accelerator": "nvidia-l4"},
            "gpuZonalRedundancyDisabled": True,
            "containers": [{"resources": {"limits": {"nvidia.com/gpu": "1"}}}],
        },
    }
    site.cloud.table("run.execution")[execution["name"]] = execution  # type: ignore[index]
    status, said, do = found(site.run(JOB), "quota")
    assert (status, "limit 1, usage 1" in said, "wait until" in do) == ("warn", True, True)


# -- permissions ---------------------------------------------------------------------------------------------------


def test_permissions_are_asked_for_in_batches(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdfast.preflight.site._BATCH", 7)
    assert site.run(FOUNDATION).status("permissions") == "ok"
    asked = site.cloud.audit.entries("cloudresourcemanager.projects.testIamPermissions")
    assert len(asked) == -(-len(permissions.needed("foundation")) // 7)


def test_roles_are_few_known_and_not_basic() -> None:
    roles, without = permissions.roles(permissions.needed("cloud-run"))
    assert without == []
    assert not {"roles/owner", "roles/editor", "roles/viewer"} & set(roles)
    granted = {each for role in roles for each in catalog.roles()[role]}
    assert set(permissions.needed("cloud-run")) <= granted
    assert permissions.roles(["nobody.has.this"]) == ([], ["nobody.has.this"])


def test_the_roles_that_are_proposed_are_enough(site: Site) -> None:
    roles, without = permissions.roles(permissions.needed("foundation"))
    assert without == []
    site.stranger(*roles)
    assert site.run(FOUNDATION).status("permissions") == "ok"
