"""Cloud Build: what a build is refused for, how it goes, and what its account must be allowed."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from mockgcp_client import LOCATION, PROJECT, STRANGER, Client

from mockgcp.builder import ArchiveBuilder, BuildFailed, docker_build
from mockgcp.cloud import Cloud
from mockgcp.durations import NOMINAL
from mockgcp.operations import Operation
from mockgcp.services import artifactregistry

BUILDS = "cloudbuild.projects.locations.builds"
CREATE = f"{BUILDS}.create"
PARENT = {"parent": LOCATION}
SOURCES = "acme-train-build-source"
EMAIL = f"trainer-build@{PROJECT}.iam.gserviceaccount.com"
ACCOUNT = f"projects/{PROJECT}/serviceAccounts/{EMAIL}"
REPOSITORY = f"{LOCATION}/repositories/trainers"
TARGET = f"europe-west4-docker.pkg.dev/{PROJECT}/trainers/trainer:v1"
STEP = {
    "name": "gcr.io/cloud-builders/docker",
    "args": ["build", "-t", TARGET, "-f", "Dockerfile", "--build-arg=LOCK=cpu", "."],
}
FILES = {"Dockerfile": "FROM scratch\nCOPY app /app\nCOPY *.lock \\\n  /locks/\n", "app/main.py": "1", "cpu.lock": ""}
DURATION = NOMINAL[CREATE]


def archive(files: Mapping[str, str] = FILES) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        for name, text in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(text)
            tar.addfile(member, io.BytesIO(text.encode()))
    return buffer.getvalue()


def build(**changes: Any) -> dict[str, Any]:
    return {
        "steps": [STEP],
        "images": [TARGET],
        "source": {"storageSource": {"bucket": SOURCES, "object": "source/1.tgz"}},
        "serviceAccount": ACCOUNT,
        "options": {"logging": "CLOUD_LOGGING_ONLY"},
        **changes,
    }


def upload(gcp: Client, content: bytes) -> None:
    params = {"bucket": SOURCES, "name": "source/1.tgz"}
    gcp.cloud.call("storage.objects.insert", params, {}, gcp.principal, media=content)


@pytest.fixture(autouse=True)
def ready(cloud: Cloud, gcp: Client) -> None:
    """A repository, the source, and an account with the three roles that a build needs."""
    methods = "artifactregistry.projects.locations.repositories"
    immutable = {"format": "DOCKER", "dockerConfig": {"immutableTags": True}}
    gcp.finish(f"{methods}.create", {**PARENT, "repositoryId": "trainers"}, immutable)
    gcp.make_account("trainer-build")
    gcp.make_bucket(SOURCES)
    upload(gcp, archive())
    member = f"serviceAccount:{EMAIL}"
    cloud.policies.grant(f"projects/_/buckets/{SOURCES}", "roles/storage.objectViewer", member)
    cloud.policies.grant(REPOSITORY, "roles/artifactregistry.writer", member)
    cloud.policies.grant(f"projects/{PROJECT}", "roles/logging.logWriter", member)


def done(gcp: Client, **changes: Any) -> dict[str, Any]:
    """The build at its end, whatever that is."""
    operation = gcp.start(CREATE, PARENT, build(**changes))
    gcp.cloud.clock.advance(DURATION)
    assert operation.done
    return gcp.call(f"{BUILDS}.get", {"name": operation.metadata["build"]["name"]})


def lines(gcp: Client) -> list[str]:
    found = gcp.logs(f'logName="projects/{PROJECT}/logs/cloudbuild" AND resource.type="build"')
    return [entry["textPayload"] for entry in found]


# -- a build that succeeds -----------------------------------------------------------------------------------------


def test_a_build_goes_through_its_states_and_leaves_an_image(cloud: Cloud, gcp: Client) -> None:
    operation: Operation = gcp.start(CREATE, {**PARENT, "projectId": PROJECT}, build())
    name = {"name": operation.metadata["build"]["name"]}
    seen = [gcp.call(f"{BUILDS}.get", name)["status"]]
    cloud.clock.advance(DURATION * 0.2)
    seen.append(gcp.call(f"{BUILDS}.get", name)["status"])
    read = {"name": operation.name}
    assert gcp.call("cloudbuild.projects.locations.operations.get", read)["metadata"]["build"]["status"] == "WORKING"
    made = cloud.wait(operation)
    assert [*seen, made["status"]] == ["QUEUED", "WORKING", "SUCCESS"]
    assert made == gcp.call(f"{BUILDS}.get", name)
    assert made["createTime"] < made["startTime"] < made["finishTime"]
    assert set(made["timing"]) == {"FETCHSOURCE", "BUILD", "PUSH"}
    assert made["steps"][0]["status"] == "SUCCESS"
    [image] = made["results"]["images"]
    found = artifactregistry.parse(cloud, TARGET)
    assert found is not None
    assert artifactregistry.find(cloud, found) == image["digest"]
    assert image["name"] == TARGET
    log = lines(gcp)
    assert [line for line in log if line.isupper()] == ["FETCHSOURCE", "BUILD", "PUSH", "DONE"]
    assert [b["id"] for b in gcp.call(f"{BUILDS}.list", PARENT)["builds"]] == [made["id"]]
    assert [kind for kind, _ in cloud.resources() if kind.startswith("cloudbuild")] == []


def test_the_same_source_gives_the_same_image_and_another_one_cannot_take_its_tag(gcp: Client) -> None:
    first, again = done(gcp), done(gcp)
    assert first["results"]["images"][0]["digest"] == again["results"]["images"][0]["digest"]
    upload(gcp, archive({**FILES, "app/main.py": "2"}))
    other = done(gcp)
    assert (other["status"], other["failureInfo"]["type"]) == ("FAILURE", "PUSH_FAILED")
    assert "immutab" in other["failureInfo"]["detail"]


def test_another_builder_can_stand_in(cloud: Cloud, gcp: Client) -> None:
    class Fixed:
        def build(self, archive: Path, build: Mapping[str, Any]) -> str:
            assert archive.is_file()
            assert docker_build(build["steps"][0]["args"]).args == {"LOCK": "cpu"}
            return f"sha256:{'7' * 64}"

    cloud.builder = Fixed()
    assert done(gcp)["results"]["images"][0]["digest"] == f"sha256:{'7' * 64}"


# -- what is refused at once ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "status", "words"),
    [
        ({"steps": []}, "INVALID_ARGUMENT", "at least one step"),
        ({"steps": [{"args": ["build"]}]}, "INVALID_ARGUMENT", "name must be specified"),
        ({"options": {}}, "INVALID_ARGUMENT", "if 'build.service_account' is specified"),
        ({"options": {"logging": "GCS_ONLY"}}, "INVALID_ARGUMENT", "CLOUD_LOGGING_ONLY / NONE"),
        ({"timeout": "86401s"}, "INVALID_ARGUMENT", "at most 86400s"),
        ({"serviceAccount": EMAIL}, "INVALID_ARGUMENT", "projects/PROJECT_ID/serviceAccounts/ACCOUNT"),
        ({"serviceAccount": ACCOUNT.replace("trainer", "no")}, "PERMISSION_DENIED", "act as service account no-build@"),
        ({"serviceAccount": ""}, "FAILED_PRECONDITION", "no default service account"),
        ({"steps": [{**STEP, "args": ["push", TARGET]}]}, "UNIMPLEMENTED", "push"),
        ({"steps": [{"name": "ubuntu", "args": ["build"]}]}, "UNIMPLEMENTED", "ubuntu"),
        ({"steps": [{**STEP, "args": ["build", "--squash", "."]}]}, "UNIMPLEMENTED", "--squash"),
        ({"steps": [{**STEP, "args": ["build", "-t", "$_IMAGE", "."]}]}, "UNIMPLEMENTED", "substitutions"),
        ({"substitutions": {"_A": "b"}}, "UNIMPLEMENTED", "substitutions"),
    ],
)
def test_what_is_refused_at_once(gcp: Client, changes: dict[str, Any], status: str, words: str) -> None:
    error = gcp.refused(CREATE, PARENT, build(**changes))
    assert (error.status, words in error.message) == (status, True), error.message


def test_the_caller_must_be_allowed_to_build_and_to_act_as_the_account(cloud: Cloud, gcp: Client) -> None:
    stranger = gcp.as_(STRANGER)
    assert "cloudbuild.builds.create" in stranger.refused(CREATE, PARENT, build()).message
    cloud.policies.grant(f"projects/{PROJECT}", "roles/cloudbuild.builds.editor", STRANGER)
    error = stranger.refused(CREATE, PARENT, build())
    assert (error.http_status, "act as service account" in error.message) == (403, True)
    cloud.policies.grant(ACCOUNT, "roles/iam.serviceAccountUser", STRANGER)
    stranger.finish(CREATE, PARENT, build())


def test_a_source_that_the_account_cannot_resolve(cloud: Cloud, gcp: Client) -> None:
    for source, words in (
        ({"bucket": "none", "object": "x"}, "The specified bucket does not exist."),
        ({"bucket": SOURCES, "object": "none.tgz"}, f"No such object: {SOURCES}/none.tgz"),
        ({"bucket": SOURCES, "object": "source/1.tgz", "generation": "1"}, "source/1.tgz#1"),
    ):
        error = gcp.refused(CREATE, PARENT, build(source={"storageSource": source}))
        assert (error.status, words in error.message) == ("INVALID_ARGUMENT", True)
    cloud.policies.drop(f"projects/_/buckets/{SOURCES}")
    error = gcp.refused(CREATE, PARENT, build())
    assert f"could not resolve source: googleapi: Error 403: {EMAIL} does not have storage.objects.get" in error.message


def test_compute_engines_default_account_once_it_is_there(cloud: Cloud, gcp: Client) -> None:
    project = cloud.project(PROJECT)
    project.services.add("compute.googleapis.com")
    email = f"{project.number}-compute@developer.gserviceaccount.com"
    assert email in gcp.refused(CREATE, PARENT, build(serviceAccount="")).message  # it holds no role by itself
    cloud.policies.grant(f"projects/{PROJECT}", "roles/editor", f"serviceAccount:{email}")
    cloud.policies.grant(f"projects/_/buckets/{SOURCES}", "roles/storage.objectViewer", f"serviceAccount:{email}")
    assert done(gcp, serviceAccount="")["status"] == "SUCCESS"


# -- what fails on the way -----------------------------------------------------------------------------------------


def test_what_the_account_may_not_push_fails_the_build(cloud: Cloud, gcp: Client) -> None:
    cloud.policies.drop(REPOSITORY)
    failed = done(gcp)
    assert (failed["status"], failed["failureInfo"]["type"]) == ("FAILURE", "PUSH_NOT_AUTHORIZED")
    words = 'Permission "artifactregistry.repositories.uploadArtifacts" denied'
    assert [line for line in lines(gcp) if words in line]
    assert failed["steps"][0]["status"] == "SUCCESS"


def test_without_the_repository_or_its_api_nothing_is_pushed(cloud: Cloud, gcp: Client) -> None:
    cloud.policies.grant(f"projects/{PROJECT}", "roles/artifactregistry.writer", f"serviceAccount:{EMAIL}")
    elsewhere = TARGET.replace("trainers", "none")
    step = {**STEP, "args": ["build", "--tag", elsewhere, "."]}
    missing = done(gcp, steps=[step], images=[elsewhere])
    assert missing["failureInfo"] == {"type": "PUSH_FAILED", "detail": 'name unknown: Repository "none" not found'}
    cloud.project(PROJECT).services.discard("artifactregistry.googleapis.com")
    assert "has not been used in project" in done(gcp)["failureInfo"]["detail"]


def test_without_permission_to_write_logs_the_build_has_a_warning_instead(cloud: Cloud, gcp: Client) -> None:
    policy = cloud.policies.get(f"projects/{PROJECT}")
    policy["bindings"] = [b for b in policy["bindings"] if b["role"] != "roles/logging.logWriter"]
    cloud.policies.set(f"projects/{PROJECT}", policy)
    made = done(gcp)
    assert made["status"] == "SUCCESS"
    assert "does not have permission to write logs" in made["warnings"][0]["text"]
    assert lines(gcp) == []


def test_an_image_that_no_step_built(gcp: Client) -> None:
    failed = done(gcp, images=[TARGET + "x"])
    assert failed["failureInfo"]["type"] == "PUSH_IMAGE_NOT_FOUND"


def test_a_failed_step_says_why_in_the_log(gcp: Client) -> None:
    upload(gcp, archive({"Dockerfile": "FROM scratch\nCOPY none /none\n"}))
    operation = gcp.start(CREATE, PARENT, build())
    gcp.cloud.clock.advance(DURATION)
    assert operation.error is not None
    assert operation.error.to_status() == {"code": 2, "message": "Build failed; check build logs for details"}
    failed = gcp.call(f"{BUILDS}.get", {"name": operation.metadata["build"]["name"]})
    assert (failed["status"], failed["failureInfo"]["type"]) == ("FAILURE", "USER_BUILD_STEP")
    assert failed["steps"][0]["status"] == "FAILURE"
    assert [line for line in lines(gcp) if line.startswith("COPY failed") and "stat none" in line]


def test_a_build_that_takes_too_long(gcp: Client) -> None:
    failed = done(gcp, timeout="60s")
    assert (failed["status"], "60s" in failed["statusDetail"]) == ("TIMEOUT", True)


def test_a_cancelled_build_pushes_nothing(cloud: Cloud, gcp: Client) -> None:
    operation = gcp.start(CREATE, PARENT, build())
    cloud.clock.advance(DURATION / 2)
    name = operation.metadata["build"]["name"]
    assert gcp.call(f"{BUILDS}.cancel", {"name": name}, {})["status"] == "CANCELLED"
    cloud.clock.advance(DURATION)
    assert operation.error is not None
    assert operation.error.status == "CANCELLED"
    assert gcp.call(f"{BUILDS}.get", {"name": name})["status"] == "CANCELLED"
    assert gcp.refused(f"{BUILDS}.cancel", {"name": name}, {}).status == "FAILED_PRECONDITION"
    found = artifactregistry.parse(cloud, TARGET)
    assert found is not None
    assert artifactregistry.find(cloud, found) is None


# -- the default builder -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("files", "words"),
    [
        ({"other": ""}, "Dockerfile path: Dockerfile"),
        ({"Dockerfile": "RUN true\n"}, "no build stage"),
        ({"Dockerfile": "FROM a\nCOPY app/ more.py /x/\n", "app/a": ""}, "stat more.py"),
        ({"Dockerfile": "FROM a\nADD *.lock /x/\n", "sub/a.lock": ""}, "stat *.lock"),
        ({"Dockerfile": 'FROM a\nCOPY "broken /x\n'}, "parse error"),
    ],
)
def test_what_fails_an_archive(tmp_path: Path, files: dict[str, str], words: str) -> None:
    (tmp_path / "a.tgz").write_bytes(archive(files))
    with pytest.raises(BuildFailed) as caught:
        ArchiveBuilder().build(tmp_path / "a.tgz", build())
    assert words in "\n".join(caught.value.lines)


def test_what_an_archive_may_have(tmp_path: Path) -> None:
    dockerfile = (
        "# syntax=docker/dockerfile:1\nARG BASE=scratch\nFROM ${BASE} AS builder\nCOPY . /src\n"
        "COPY <<EOF /etc/a\nCOPY none /none\nEOF\nADD https://example.com/x /x\n"
        'FROM scratch\nCOPY --from=builder --chown=1:1 /src /src\nCOPY ["app", "/with space"]\nCOPY ${LOCK}.lock /l\n'
    )
    path = tmp_path / "a.tgz"
    path.write_bytes(archive({"Dockerfile": dockerfile, "./app/x": ""}))
    first = ArchiveBuilder().build(path, build())
    other = {**STEP, "args": [*STEP["args"][:-2], "--build-arg", "LOCK=gpu", "."]}
    assert ArchiveBuilder().build(path, build(steps=[other])) != first
    assert ArchiveBuilder().build(path, build()) == first


def test_no_archive(tmp_path: Path) -> None:
    (tmp_path / "a.tgz").write_bytes(b"nothing of the kind")
    with pytest.raises(BuildFailed, match="not a gzipped tar archive"):
        ArchiveBuilder().build(tmp_path / "a.tgz", build())
