"""The preflight of a training cluster: each of its own checks when all is well, when it finds something, and when it
could not look."""

from __future__ import annotations

import dataclasses
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

STACK, PROJECT, NUMBER, REGION, ZONE = "dev-slurm", "holdfast-dev", 123456789012, "us-central1", "us-central1-b"
STRANGER = "user:stranger@example.com"
AGENT = f"{NUMBER}@cloudservices.gserviceaccount.com"
NODES = f"{NUMBER}-compute@developer.gserviceaccount.com"
MACHINES, USE = "roles/compute.instanceAdmin.v1", "roles/iam.serviceAccountUser"
QUOTA = catalog.node_gpu_quota("NVIDIA_H200_141GB", preemptible=True).quota_id
HOME = f"projects/{PROJECT}/locations/{ZONE}/instances/shared"
LIST = "aiplatform.projects.locations.modelDevelopmentClusters.list"
CONFIG = yaml.safe_load(stackfile.path(STACK).read_text())["config"]
POOLS: list[dict[str, Any]] = CONFIG["holdfast:pools"]


class Site:
    """A project on which the shipped stack could come up, and the stack's file."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.on_demand = 0
        self.cloud = Cloud()
        self.cloud.seed_project(PROJECT, number=NUMBER).services.update(catalog.services().known)
        seed_billing(self.cloud, PROJECT)
        self.quota(16)
        self.grant("roles/editor", f"serviceAccount:{AGENT}")
        self.write()

    def write(self, **keys: Any) -> None:
        config = CONFIG | {f"holdfast:{key}": value for key, value in keys.items()}
        (self.folder / f"Pulumi.{STACK}.yaml").write_text(yaml.safe_dump({"config": config}))

    def gpus(self, **fields: Any) -> None:
        """Changes fields of the pool of GPUs; None leaves one out."""
        pool = {key: value for key, value in (POOLS[1] | fields).items() if value is not None}
        self.write(pools=[POOLS[0], pool])

    def quota(self, preemptible: int) -> None:
        self.cloud.quotas.set(PROJECT, QUOTA, REGION, preemptible)

    def grant(self, role: str, member: str, on: str = f"projects/{PROJECT}") -> None:
        self.cloud.policies.grant(on, role, member)

    def agent(self, *roles: str, on: str = f"projects/{PROJECT}") -> None:
        """The agent has these roles, and no other."""
        self.cloud.policies.set(f"projects/{PROJECT}", {"bindings": []})
        self.grant("roles/owner", DEFAULT_OWNER)
        for role in roles:
            self.grant(role, f"serviceAccount:{AGENT}", on)

    def off(self, *services: str) -> None:
        self.cloud.projects[0].services.difference_update(f"{service}.googleapis.com" for service in services)

    def fault(self, method: str, status: str, message: str = "no", reason: str = "") -> None:
        self.cloud.faults.inject(Fault(method, ApiError(status, message, reason=reason)))

    def make(self, method: str, params: dict[str, Any], body: dict[str, Any]) -> None:
        answer = self.cloud.call(method, params, body, DEFAULT_OWNER)
        if isinstance(answer, Operation):
            self.cloud.wait(answer)

    def network(self, name: str) -> None:
        self.make("compute.networks.insert", {"project": PROJECT}, {"name": name, "autoCreateSubnetworks": False})

    def filestore(self, network: str, name: str = "shared") -> None:
        self.network(network)
        body = {
            "tier": "ZONAL",
            "fileShares": [{"name": "home", "capacityGb": 1024}],
            "networks": [{"network": network, "modes": ["MODE_IPV4"]}],
        }
        place = {"parent": f"projects/{PROJECT}/locations/{ZONE}", "instanceId": name}
        self.make("file.projects.locations.instances.create", place, body)

    def run(self, principal: str | None = None, **more: Any) -> PreflightReport:
        api = WithQuotaOnDemand(self, principal)
        return preflight.run(STACK, lambda target: api, folder=self.folder, **more)

    def check(self, name: str, principal: str | None = None) -> preflight.Check:
        return next(check for check in self.run(principal).checks if check.name == name)


class WithQuotaOnDemand(EmulatedApi):
    """The emulated cloud lists no quota of GPUs on demand."""

    def __init__(self, site: Site, principal: str | None) -> None:
        super().__init__(site.cloud, *([principal] if principal else []))
        self._site = site

    def call(self, method_id: str, *args: Any, **more: Any) -> dict[str, Any]:
        answer = super().call(method_id, *args, **more)
        quota = catalog.node_gpu_quota("NVIDIA_H200_141GB", preemptible=False)
        if method_id == "serviceusage.services.consumerQuotaMetrics.list":
            dimensions = {"region": REGION, **quota.dimensions}
            bucket = {"effectiveLimit": str(self._site.on_demand), "dimensions": dimensions}
            answer["metrics"].append({"metric": quota.metric, "consumerQuotaLimits": [{"quotaBuckets": [bucket]}]})
        return answer


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


def test_a_sound_project_passes_every_check_but_the_price(site: Site) -> None:
    report = site.run()
    # The catalog has no price of A3 Ultra by flex-start.
    assert {check.name: check.found for check in report.checks if check.status != "ok"}.keys() == {"price"}
    of_all = ["config", "credentials", "project", "billing", "apis", "permissions"]
    own = ["allow-list", "agent", "cluster", "home", "zone", "quota", "price"]
    assert [check.name for check in report.checks] == of_all + own
    assert (site.run(skip=["price"]).exit_code, report.region) == (0, REGION)


def home(network: str) -> Callable[[Site], None]:
    def made(site: Site) -> None:
        site.filestore(network)
        site.write(homeStorage=HOME)

    return made


def unready(site: Site) -> None:
    home("slurm")(site)
    site.cloud.table("file.instance")[HOME]["state"] = "REPAIRING"


def on_demand(limit: int) -> Callable[[Site], None]:
    def changed(site: Site) -> None:
        site.on_demand = limit
        site.gpus(provisioning="ON_DEMAND", maxDuration=None)

    return changed


def falls_back(site: Site) -> None:
    site.quota(8)
    site.on_demand = 16


def reserved(site: Site) -> None:
    site.quota(0)
    name = f"projects/{PROJECT}/zones/{ZONE}/reservations/r"
    site.gpus(provisioning="RESERVATION", maxDuration=None, reservations=[name])


def both_roles(site: Site) -> None:
    site.agent(MACHINES)
    site.grant(USE, f"serviceAccount:{AGENT}", f"projects/{PROJECT}/serviceAccounts/{NODES}")


def denied(site: Site) -> None:
    site.fault(LIST, "PERMISSION_DENIED", f"Permission 'aiplatform.{LIST}' denied", "IAM_PERMISSION_DENIED")


def filestore_of_the_name(site: Site) -> None:
    site.filestore("slurm", "slurm-home")


# What is done to the sound project, the check that notices, its status, and words of what it finds or says to do.
CASES: list[tuple[str, Callable[[Site], object], str, str, str]] = [
    ("machine", lambda s: s.gpus(machine="a3-ultra-8g"), "config", "failed", "holdfast:pools"),
    ("apis", lambda s: s.off("lustre", "file"), "apis", "ok", "`up` turns them on: file.googleapis.com, lustre."),
    ("denied to an owner", denied, "allow-list", "failed", "allow-list the project"),
    ("hidden", lambda s: s.fault(LIST, "NOT_FOUND", "Method not found."), "allow-list", "failed", "Method not found."),
    ("words", lambda s: s.fault(LIST, "INTERNAL", "P is not in the allow list"), "allow-list", "failed", "turns"),
    ("broken", lambda s: s.fault(LIST, "INTERNAL"), "allow-list", "unknown", "could not look: "),
    ("no network", lambda s: s.fault(LIST, "UNAVAILABLE"), "allow-list", "unknown", "look at the network"),
    ("aiplatform off", lambda s: s.off("aiplatform"), "allow-list", "warn", "aiplatform.googleapis.com is off, and"),
    ("account", lambda s: s.write(serviceAccount=NODES), "allow-list", "warn", "leave holdfast:serviceAccount out"),
    ("editor", lambda s: None, "agent", "ok", f"{AGENT} has roles/editor: nothing is to be granted"),
    ("none", lambda s: s.agent(), "agent", "ok", f"lacks {MACHINES} on the project and {USE} on {NODES}; `up` grants"),
    ("machines", lambda s: s.agent(MACHINES), "agent", "ok", f"lacks {USE} on {NODES}; `up` grants that"),
    ("both", both_roles, "agent", "ok", f"has {MACHINES} and {USE}"),
    ("both on project", lambda s: s.agent(MACHINES, USE), "agent", "ok", f"has {MACHINES} and {USE}"),
    ("no flex-start", on_demand(0), "agent", "ok", "no pool comes by flex-start"),
    ("policy", lambda s: s.fault("*.projects.getIamPolicy", "PERMISSION_DENIED"), "agent", "unknown", "getIamPolicy"),
    ("free", lambda s: None, "cluster", "ok", "network slurm: free; cluster flexvm in us-central1: free; Filestore sl"),
    ("network", lambda s: s.network("slurm"), "cluster", "ok", "network slurm: this project has it already"),
    ("filestore", filestore_of_the_name, "cluster", "ok", "slurm-home in us-central1-b: this project has it already"),
    ("unseen", lambda s: s.fault("file.*.instances.get", "PERMISSION_DENIED"), "cluster", "unknown", "could not look"),
    ("made", lambda s: None, "home", "ok", "`up` makes one"),
    ("given", home("slurm"), "home", "ok", f"{HOME} is READY on network slurm"),
    ("missing", lambda s: s.write(homeStorage=HOME), "home", "failed", f"Filestore has no {HOME}"),
    ("not ready", unready, "home", "failed", "is REPAIRING"),
    ("apart", home("default"), "home", "failed", "is on network default; nodes on slurm do not reach it"),
    ("no machine", lambda s: s.fault("compute.machineTypes.get", "NOT_FOUND"), "zone", "failed", "n2-standard-8 in"),
    ("no zone", lambda s: s.off("compute"), "zone", "warn", "compute.googleapis.com is off, and `up` turns it on"),
    ("enough", lambda s: None, "quota", "ok", "Preemptible NVIDIA H200 GPUs: a3u (16): 16 GPUs, limit 16"),
    ("short", lambda s: s.quota(8), "quota", "failed", f"request more of {QUOTA} to 16 ("),
    ("falls back", falls_back, "quota", "ok", "GPUs per GPU family NVIDIA_H200: a3u (16): 16 GPUs, limit 16"),
    ("on demand", on_demand(16), "quota", "ok", "GPUs per GPU family NVIDIA_H200: a3u (16)"),
    ("none on demand", on_demand(8), "quota", "failed", "GPUS-PER-GPU-FAMILY-per-project-region NVIDIA_H200 to 16"),
    ("reserved", reserved, "quota", "ok", "no pool draws on a quota"),
    ("spot", lambda s: s.gpus(provisioning="SPOT", maxDuration=None), "quota", "ok", "a3u (16)"),
    ("blind", lambda s: s.fault("*.consumerQuotaMetrics.list", "PERMISSION_DENIED"), "quota", "unknown", "not look"),
    ("price", lambda s: None, "price", "unknown", "a3-ultragpu-8g by FLEX_START in us-central1; see https://"),
]  # fmt: skip


@pytest.mark.parametrize(("change", "name", "status", "words"), [case[1:] for case in CASES], ids=[c[0] for c in CASES])
def test_each_check_notices(site: Site, change: Callable[[Site], object], name: str, status: str, words: str) -> None:
    change(site)
    check = site.check(name)
    assert check.status == status, check
    assert re.search(re.escape(words), f"{check.found} → {check.do}"), check
    assert status == "ok" or check.do, "it says what to do"


def test_who_may_not_list_clusters_is_not_told_that_the_project_is_turned_away(site: Site) -> None:
    site.grant("roles/compute.viewer", STRANGER)
    check = site.check("allow-list", STRANGER)
    assert (check.status, "could not look" in check.found) == ("unknown", True)
    assert LIST.rpartition(".")[0].rpartition(".")[2] in check.found


def test_who_may_not_grant_the_agent_its_roles_is_told_which(site: Site) -> None:
    site.agent()
    site.grant("roles/viewer", STRANGER)
    check = site.check("agent", STRANGER)
    assert check.status == "failed"
    assert "`up` may not grant it" in check.found
    assert "resourcemanager.projects.setIamPolicy" in check.do


def test_nodes_cannot_run_as_an_account_that_is_not_there(site: Site) -> None:
    site.agent()
    site.write(serviceAccount=f"nobody@{PROJECT}.iam.gserviceaccount.com")
    check = site.check("agent")
    assert (check.status, "holdfast:serviceAccount" in check.do) == ("failed", True)


def test_a_new_project_may_go_on(site: Site) -> None:
    site.off("aiplatform", "compute", "file", "iam", "servicenetworking")
    assert site.run(skip=["price"]).exit_code == 0


def test_a_price_that_the_catalog_knows_is_that_of_all_nodes(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    unknown = catalog.node_price("a3-ultragpu-8g", "FLEX_START", REGION)
    known = dataclasses.replace(unknown, per_hour=40.0, reason="")
    monkeypatch.setattr(catalog, "node_price", lambda *asked: known if asked[1] == "FLEX_START" else unknown)
    check = next(check for check in site.run(hours=10).checks if check.name == "price")
    assert (check.status, check.figures["hour"], check.figures["run"]) == ("ok", 80, 800)
    assert "80.00 USD an hour with all nodes (a3u 80.00 USD for 2 nodes)" in check.found


def test_the_roles_that_are_proposed_are_enough(site: Site) -> None:
    roles, without = permissions.roles(permissions.needed("slurm"))
    assert without == []
    for role in roles:
        site.grant(role, STRANGER)
    report = site.run(STRANGER)
    assert report.status("permissions") == "ok"
    # What is looked at needs no permission besides, but for quotas and billing, which `up` does not ask about.
    assert {check.name for check in report.checks if check.status == "unknown"} <= {"quota", "billing", "price"}
