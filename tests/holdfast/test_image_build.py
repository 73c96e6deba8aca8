"""`ensure_image` against the emulated registry, bucket and Cloud Build; the clock is held and moves when it waits."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from holdfast.errors import OperatorError
from holdfast.gcp.emulated import EmulatedApi
from holdfast.image.archive import Source, pack
from holdfast.image.build import NAME, BuildLeftRunning, Image, Place, ensure_image
from mockgcp.builder import BuildFailed
from mockgcp.cloud import DEFAULT_OWNER, Cloud
from mockgcp.errors import ApiError
from mockgcp.faults import Fault
from mockgcp.services import artifactregistry

PROJECT, REGION = "acme-train", "europe-west4"
PARENT = f"projects/{PROJECT}/locations/{REGION}"
PLACE = Place(
    project=PROJECT,
    region=REGION,
    repository=f"{REGION}-docker.pkg.dev/{PROJECT}/trainers",
    source_bucket=f"{PROJECT}-build-source",
    build_account=f"trainer-build@{PROJECT}.iam.gserviceaccount.com",
)
BUILDER = f"serviceAccount:{PLACE.build_account}"
APIS = ("artifactregistry", "cloudbuild", "iam", "logging", "storage", "cloudresourcemanager")
STRANGER = "user:stranger@example.com"


@dataclass
class Rig:
    """A project with what the foundation stack makes of it, and what was said."""

    cloud: Cloud
    source: Source
    said: list[str] = field(default_factory=list)
    shown: list[str] = field(default_factory=list)

    def ensure(self, *, principal: str = DEFAULT_OWNER, place: Place = PLACE, pause: Any = None) -> Image:
        return ensure_image(
            EmulatedApi(self.cloud, principal),
            place,
            self.source,
            self.said.append,
            show=self.shown.append,
            pause=pause or self.cloud.clock.advance,
        )

    def refused(self, **how: Any) -> str:
        with pytest.raises(OperatorError) as caught:
            self.ensure(**how)
        return str(caught.value)

    def answer(self, method: str, params: Mapping[str, Any], body: Any = None) -> dict[str, Any]:
        return self.cloud.answer(method, params, body, DEFAULT_OWNER)

    def calls(self, method: str) -> int:
        return len(self.cloud.audit.entries(method))


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Source:
    """The trainer's own, without asking git."""
    root = tmp_path_factory.mktemp("checkout")
    for name in ("workloads/Dockerfile", "workloads/trainer/__init__.py", "workloads/__init__.py"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("FROM scratch\nCOPY workloads/trainer /\n", encoding="utf-8")
    for name in ("bootstrap", "trainer"):
        (root / "requirements").mkdir(exist_ok=True)
        (root / f"requirements/{name}.lock").write_text("", encoding="utf-8")
    return pack("cpu", root=root)


@pytest.fixture
def rig(tmp_path: Path, source: Source) -> Rig:
    made = Rig(Cloud(seed=7, state_dir=tmp_path), source)
    made.cloud.seed_project(PROJECT).services.update(f"{name}.googleapis.com" for name in APIS)
    made.answer("iam.projects.serviceAccounts.create", {"name": f"projects/{PROJECT}"}, {"accountId": "trainer-build"})
    made.answer("storage.buckets.insert", {"project": PROJECT}, {"name": PLACE.source_bucket, "location": REGION})
    made.answer(
        "artifactregistry.projects.locations.repositories.create",
        {"parent": PARENT, "repositoryId": "trainers"},
        {"format": "DOCKER", "dockerConfig": {"immutableTags": True}},
    )
    grant = [
        ("storage.buckets", {"bucket": PLACE.source_bucket}, "roles/storage.objectViewer"),
        (
            "artifactregistry.projects.locations.repositories",
            {"resource": PLACE.repository_name},
            "roles/artifactregistry.writer",
        ),
        ("cloudresourcemanager.projects", {"resource": PROJECT}, "roles/logging.logWriter"),
    ]
    for api, params, role in grant:
        add(made, api, params, role, BUILDER)
    return made


def add(rig: Rig, api: str, params: Mapping[str, str], role: str, member: str) -> None:
    """Adds a member to a resource's policy."""
    body: Any = {} if api.startswith("cloudresourcemanager") else None
    policy = rig.answer(f"{api}.getIamPolicy", params, body)
    policy.setdefault("bindings", []).append({"role": role, "members": [member]})
    rig.answer(f"{api}.setIamPolicy", params, policy if api == "storage.buckets" else {"policy": policy})


def test_an_image_is_built_once_and_found_from_then_on(rig: Rig) -> None:
    first = rig.ensure()
    tag = rig.answer(
        "artifactregistry.projects.locations.repositories.packages.tags.get",
        {"name": f"{PLACE.repository_name}/packages/{NAME}/tags/{rig.source.tag}"},
    )
    assert first.built
    assert first.reference == f"{PLACE.repository}/{NAME}@{tag['version'].rpartition('/')[2]}"
    assert rig.ensure() == replace(first, built=False)
    assert (rig.calls("storage.objects.insert"), rig.calls("cloudbuild.*.create")) == (1, 1)


def test_what_is_built_is_the_uploaded_archive_as_the_build_account(rig: Rig) -> None:
    rig.ensure()
    [build] = rig.answer("cloudbuild.projects.locations.builds.list", {"parent": PARENT})["builds"]
    where = build["source"]["storageSource"]
    stored = next(rig.cloud.state_dir.rglob(f"{rig.source.tag}.tar.gz"))
    assert where["bucket"] == PLACE.source_bucket
    assert str(stored).endswith(where["object"])
    assert stored.read_bytes() == rig.source.archive
    assert build["serviceAccount"] == f"projects/{PROJECT}/serviceAccounts/{PLACE.build_account}"
    assert build["images"] == [f"{PLACE.repository}/{NAME}:{rig.source.tag}"]
    assert {f"--build-arg={k}={v}" for k, v in rig.source.args.items()} <= set(build["steps"][0]["args"])


def test_progress_is_said_once_each_and_shown_all_the_time(rig: Rig) -> None:
    rig.ensure()
    states = [line for line in rig.said if line.startswith("build: ")]
    assert states == ["build: queued", "build: working", "build: success"]
    assert "build step image: success" in rig.said
    assert len(rig.shown) > len(states)


def test_an_archive_that_is_there_is_not_uploaded_again(rig: Rig) -> None:
    rig.ensure()
    package = f"{PLACE.repository_name}/packages/{NAME}"
    rig.cloud.table("artifactregistry.tag").pop(f"{package}/tags/{rig.source.tag}")
    assert rig.ensure().built
    assert any("(was there)" in line for line in rig.said)


@pytest.mark.parametrize("how", [KeyboardInterrupt, SystemExit])
def test_interrupted_it_leaves_the_build_running_and_the_next_call_follows_it(
    rig: Rig, how: type[BaseException]
) -> None:
    def interrupt(seconds: float) -> None:
        raise how

    with pytest.raises(BuildLeftRunning, match="run the same command again"):
        rig.ensure(pause=interrupt)
    assert rig.ensure().built
    assert rig.calls("cloudbuild.*.create") == 1
    assert any("following it" in line for line in rig.said)


def test_a_failed_build_shows_the_end_of_its_log_and_where_the_rest_is(rig: Rig) -> None:
    class Failing:
        def build(self, archive: Path, build: Mapping[str, Any]) -> str:
            raise BuildFailed("no matching distribution: jax")

    rig.cloud.builder = Failing()
    message = rig.refused()
    assert "FAILURE" in message
    assert "no matching distribution: jax" in message
    assert "builds/" in message.splitlines()[-1]


def test_of_two_builds_of_one_source_the_slower_one_takes_the_image_of_the_other(rig: Rig) -> None:
    other = f"{PLACE.repository}/{NAME}@sha256:" + "7" * 64

    def pause(seconds: float) -> None:
        artifactregistry.seed_image(rig.cloud, other, rig.source.tag)
        rig.cloud.clock.advance(seconds)

    assert rig.ensure(pause=pause).reference == other


def disable(api: str) -> Callable[[Rig], None]:
    return lambda rig: rig.cloud.project(PROJECT).services.discard(f"{api}.googleapis.com")


def nothing(rig: Rig) -> None:
    pass


@pytest.mark.parametrize(
    ("how", "prepare", "says"),
    [
        ({"place": replace(PLACE, repository=PLACE.repository + "x")}, nothing, ["no repository", "pulumi up"]),
        ({"place": replace(PLACE, source_bucket="acme-none")}, nothing, ["no bucket acme-none", "pulumi up"]),
        ({}, disable("artifactregistry"), ["artifactregistry.googleapis.com", "nable the API"]),
        ({}, disable("cloudbuild"), ["cloudbuild.googleapis.com", "nable the API"]),
        ({"principal": STRANGER}, nothing, [STRANGER, "roles/artifactregistry.reader"]),
    ],
)
def test_what_is_missing_is_named_with_the_way_out(
    rig: Rig, how: dict[str, Any], prepare: Callable[[Rig], None], says: list[str]
) -> None:
    prepare(rig)
    message = rig.refused(**how)
    assert [text for text in says if text not in message] == [], message


def test_a_project_that_may_not_build_in_its_region_builds_in_another(rig: Rig) -> None:
    """The registry stays where it is."""
    here = f"Cloud Build: due to quota restrictions, cannot run builds in {REGION}"
    rig.cloud.faults.inject(Fault("cloudbuild.*.create", ApiError("FAILED_PRECONDITION", here)))
    message = rig.refused()
    assert here in message
    assert "--build-region" in message
    image = rig.ensure(place=replace(PLACE, build_region="us-central1"))
    assert image.reference.startswith(f"{REGION}-docker.pkg.dev/")
    there = {"parent": f"projects/{PROJECT}/locations/us-central1"}
    assert len(rig.answer("cloudbuild.projects.locations.builds.list", there)["builds"]) == 1


def test_who_may_not_act_as_the_build_account_learns_the_roles(rig: Rig) -> None:
    project = {"resource": PROJECT}
    roles = ("artifactregistry.reader", "cloudbuild.builds.editor")
    for role in roles:
        add(rig, "cloudresourcemanager.projects", project, f"roles/{role}", STRANGER)
    add(rig, "storage.buckets", {"bucket": PLACE.source_bucket}, "roles/storage.objectCreator", STRANGER)
    assert "roles/iam.serviceAccountUser" in rig.refused(principal=STRANGER)
