"""Google's own client against the emulated cloud, over real HTTP on the loopback address."""

from __future__ import annotations

import itertools
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import google.auth
import pytest
from google.auth import credentials as auth
from google.auth import exceptions

from holdfast.errors import OperatorError
from holdfast.gcp import ENDPOINT
from holdfast.gcp import google as module
from holdfast.gcp.api import CloudError, find, pages, wait
from holdfast.gcp.google import GoogleApi, connect
from infra import catalog
from mockgcp.clock import Clock
from mockgcp.cloud import DEFAULT_OWNER, Cloud
from mockgcp.durations import NOMINAL
from mockgcp.errors import ApiError
from mockgcp.faults import Fault
from mockgcp.frontends import rest
from mockgcp.planes.cloud_run import CloudRunPlane, LocalImage
from mockgcp.services import artifactregistry

PROJECT = "acme-train"
LOCATION = f"projects/{PROJECT}/locations/europe-west4"
JOB = f"{LOCATION}/jobs/train"
IMAGE = f"europe-west4-docker.pkg.dev/{PROJECT}/trainers/trainer@sha256:{'0' * 64}"
EMAIL = f"gpu-job-sa@{PROJECT}.iam.gserviceaccount.com"
BUCKET = "acme-train-checkpoints"
IN_PROJECT = {"project": PROJECT}
NEW_BUCKET = {"name": BUCKET, "location": "europe-west4"}
STRANGER = "user:stranger@example.com"


@pytest.fixture
def cloud(tmp_path: Path) -> Cloud:
    quick = dict.fromkeys(NOMINAL, 0.01)
    cloud = Cloud(clock=Clock.wall(), state_dir=tmp_path / "cloud", durations=quick)
    apis = ("artifactregistry", "cloudresourcemanager", "compute", "iam", "logging", "run")
    cloud.seed_project(PROJECT).services.update(f"{api}.googleapis.com" for api in apis)
    return cloud


@pytest.fixture
def endpoint(cloud: Cloud) -> Iterator[str]:
    with rest.serve(cloud) as port:
        yield f"http://127.0.0.1:{port}"


@pytest.fixture
def pauses() -> list[float]:
    """How long the client would have waited before each further try."""
    return []


def client(endpoint: str, pauses: list[float], token: str = DEFAULT_OWNER) -> GoogleApi:
    return GoogleApi(PROJECT, catalog.universe(), endpoint=endpoint, token=token, pause=pauses.append)


@pytest.fixture
def owner(endpoint: str, pauses: list[float]) -> GoogleApi:
    return client(endpoint, pauses)


def refused(api: GoogleApi, *call: Any) -> CloudError:
    with pytest.raises(CloudError) as caught:
        api.call(*call)
    return caught.value


def test_a_job_from_its_bucket_to_its_log(owner: GoogleApi, cloud: Cloud, tmp_path: Path) -> None:
    artifactregistry.seed_image(cloud, IMAGE)
    script = "for i in 1 2 3; do echo line $i; done"
    plane = CloudRunPlane(cloud, state_dir=tmp_path / "plane", images={IMAGE: LocalImage(("/bin/sh", "-c", script))})
    plane.start()
    try:
        assert owner.call("storage.buckets.insert", IN_PROJECT, NEW_BUCKET)["location"] == "EUROPE-WEST4"
        source = bytes(range(256)) * 40 + b"\r\n"
        name = "source/a b+ä.tgz"
        stored = owner.call("storage.objects.insert", {"bucket": BUCKET}, {"name": name}, source)
        assert (stored["name"], stored["size"]) == (name, str(len(source)))
        assert owner.call("storage.objects.get", {"bucket": BUCKET, "object": name})["md5Hash"] == stored["md5Hash"]

        owner.call("iam.projects.serviceAccounts.create", {"name": f"projects/{PROJECT}"}, {"accountId": "gpu-job-sa"})
        job = {"template": {"template": {"serviceAccount": EMAIL, "containers": [{"image": IMAGE}]}}}
        creation = owner.call("run.projects.locations.jobs.create", {"parent": LOCATION, "jobId": "train"}, job)
        assert wait(owner, "run.projects.locations.operations.get", creation, timeout_s=20, poll_s=0.02)["name"] == JOB
        seen: list[object] = []
        running = owner.call("run.projects.locations.jobs.run", {"name": JOB}, {})
        get = "run.projects.locations.operations.get"
        execution = wait(owner, get, running, timeout_s=20, poll_s=0.02, on_poll=lambda each: seen.append(each["done"]))
        assert execution["succeededCount"] == 1
        assert seen[-1] is True

        body = {
            "resourceNames": [f"projects/{PROJECT}"],
            "filter": f'logName="projects/{PROJECT}/logs/run.googleapis.com%2Fstdout"',
            "pageSize": 2,
        }
        entries = list(pages(owner, "logging.entries.list", {}, "entries", body))
        assert [entry["textPayload"] for entry in entries] == ["line 1", "line 2", "line 3"]
    finally:
        plane.stop()


def test_what_is_uploaded_comes_back_byte_for_byte(owner: GoogleApi, endpoint: str) -> None:
    owner.call("storage.buckets.insert", IN_PROJECT, NEW_BUCKET)
    # Ends that a reader of multiparts could take for its own.
    for content in (b"", b"\n", b"\r\n", b"x\r", b"--", b"\x00\xff" * 1000):
        owner.call("storage.objects.insert", {"bucket": BUCKET}, {"name": "o"}, content)
        with socket.create_connection(("127.0.0.1", int(endpoint.rpartition(":")[2]))) as raw:
            head = f"GET /storage/v1/b/{BUCKET}/o/o?alt=media HTTP/1.0\r\nAuthorization: Bearer {DEFAULT_OWNER}\r\n\r\n"
            raw.sendall(head.encode())
            answer = b"".join(iter(lambda: raw.recv(65536), b""))
        assert answer.partition(b"\r\n\r\n")[2] == content


def test_what_answers_nothing_is_an_empty_answer(owner: GoogleApi) -> None:
    owner.call("storage.buckets.insert", IN_PROJECT, NEW_BUCKET)
    assert owner.call("storage.buckets.delete", {"bucket": BUCKET}) == {}
    assert find(owner, "storage.buckets.get", {"bucket": BUCKET}) is None


def test_parameters_with_dots_and_repeated_ones_arrive(owner: GoogleApi) -> None:
    owner.call("storage.buckets.insert", IN_PROJECT, NEW_BUCKET)
    account = {"accountId": "gpu-job-sa"}
    name = owner.call("iam.projects.serviceAccounts.create", {"name": f"projects/{PROJECT}"}, account)["name"]
    get = {"resource": name, "options.requestedPolicyVersion": 3}
    assert owner.call("iam.projects.serviceAccounts.getIamPolicy", get)["bindings"] == []
    asked = ["storage.objects.get", "storage.objects.list", "storage.buckets.get"]
    answer = owner.call("storage.buckets.testIamPermissions", {"bucket": BUCKET, "permissions": asked})
    assert answer["permissions"] == asked


# -- refusals ------------------------------------------------------------------------------------------------------

GET_BUCKET = ("storage.buckets.get", {"bucket": BUCKET})
LIST_JOBS = ("run.projects.locations.jobs.list", {"parent": LOCATION})


def test_refusals_keep_the_apis_status_words_and_reason(owner: GoogleApi, cloud: Cloud) -> None:
    error = refused(owner, *GET_BUCKET)
    assert (error.status, error.http_status, error.reason) == ("NOT_FOUND", 404, "notFound")
    assert "The specified bucket does not exist" in str(error)
    cloud.project(PROJECT).services.remove("run.googleapis.com")
    error = refused(owner, *LIST_JOBS)
    assert (error.status, error.http_status, error.reason) == ("PERMISSION_DENIED", 403, "SERVICE_DISABLED")


def test_another_principal_is_another(endpoint: str, pauses: list[float]) -> None:
    stranger = client(endpoint, pauses, STRANGER)
    assert refused(stranger, *LIST_JOBS).reason == "IAM_PERMISSION_DENIED"
    assert stranger.principal() == STRANGER
    assert refused(client(endpoint, pauses, token=""), *LIST_JOBS).status == "UNAUTHENTICATED"


@pytest.mark.parametrize(
    ("call", "status"),
    [
        (("storage.buckets.get", {"buket": BUCKET}), "INVALID_ARGUMENT"),
        (("storage.buckets.get", {}), "INVALID_ARGUMENT"),
        (("storage.buckets.rename", {}), "UNIMPLEMENTED"),
        (("nosuch.things.get", {}), "UNIMPLEMENTED"),
        (("mockgcp.run.executions.list", {}), "UNIMPLEMENTED"),
        (("storage.bucketAccessControls.list", {"bucket": BUCKET}), "UNIMPLEMENTED"),
    ],
)
def test_calls_that_cannot_work_say_so(owner: GoogleApi, call: tuple[Any, ...], status: str) -> None:
    assert refused(owner, *call).status == status


# -- tries ---------------------------------------------------------------------------------------------------------


def fail(cloud: Cloud, status: str, times: int) -> None:
    cloud.faults.inject(Fault("storage.buckets.*", ApiError(status, "try later"), times=times))


@pytest.mark.parametrize("status", ["UNAVAILABLE", "INTERNAL", "RESOURCE_EXHAUSTED"])
def test_a_read_is_tried_again(owner: GoogleApi, cloud: Cloud, pauses: list[float], status: str) -> None:
    fail(cloud, status, times=3)
    assert owner.call("storage.buckets.list", IN_PROJECT)["items"] == []
    assert len(pauses) == 3
    assert all(0 < before < after for before, after in itertools.pairwise(pauses))


def test_a_read_gives_up_in_the_end(owner: GoogleApi, cloud: Cloud, pauses: list[float]) -> None:
    fail(cloud, "UNAVAILABLE", times=9)
    assert refused(owner, "storage.buckets.list", IN_PROJECT).status == "UNAVAILABLE"
    assert len(pauses) == 3


@pytest.mark.parametrize(("status", "tries"), [("UNAVAILABLE", 1), ("INTERNAL", 1), ("RESOURCE_EXHAUSTED", 2)])
def test_a_write_is_tried_again_only_when_it_was_not_done(
    owner: GoogleApi, cloud: Cloud, pauses: list[float], status: str, tries: int
) -> None:
    fail(cloud, status, times=1)
    if tries == 1:
        assert refused(owner, "storage.buckets.insert", IN_PROJECT, NEW_BUCKET).status == status
    else:
        owner.call("storage.buckets.insert", IN_PROJECT, NEW_BUCKET)
    assert len(cloud.audit.entries("storage.buckets.insert")) == tries


def test_a_refusal_for_good_is_not_tried_again(owner: GoogleApi, pauses: list[float]) -> None:
    refused(owner, *GET_BUCKET)
    assert pauses == []


def test_an_address_where_nobody_answers(pauses: list[float]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    error = refused(client(f"http://127.0.0.1:{port}", pauses), *GET_BUCKET)
    assert (error.status, error.http_status) == ("UNAVAILABLE", 0)
    assert "nothing answered" in error.message


def test_many_threads_may_share_one(owner: GoogleApi, cloud: Cloud) -> None:
    with ThreadPoolExecutor(8) as pool:
        names = [f"acme-train-{index}" for index in range(24)]
        made = pool.map(lambda name: owner.call("storage.buckets.insert", IN_PROJECT, {"name": name})["name"], names)
        assert list(made) == names


# -- credentials ---------------------------------------------------------------------------------------------------


def test_without_credentials_it_says_how_to_get_some(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("GOOGLE_APPLICATION_CREDENTIALS", "APPDATA"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("CLOUDSDK_CONFIG", str(tmp_path))
    monkeypatch.setenv("NO_GCE_CHECK", "true")
    api = GoogleApi(PROJECT, catalog.universe())
    error = refused(api, *GET_BUCKET)
    assert (error.status, error.http_status) == ("UNAUTHENTICATED", 0)
    assert "gcloud auth application-default login" in error.message
    with pytest.raises(CloudError, match="gcloud auth application-default login"):
        api.principal()


def test_a_credential_file_that_is_broken_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    file = tmp_path / "adc.json"
    file.write_text("{", encoding="utf-8")
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(file))
    message = refused(GoogleApi(PROJECT, catalog.universe()), *GET_BUCKET).message
    assert message.startswith(f"File {file} is not a valid json file. To get credentials, run `gcloud auth ")
    assert "Error" not in message


class Expired(auth.Credentials):
    """Credentials that cannot be refreshed."""

    def refresh(self, request: object) -> None:
        raise exceptions.RefreshError("invalid_grant: Token has been expired or revoked.")


def test_expired_credentials_say_how_to_renew_them() -> None:
    error = refused(GoogleApi(PROJECT, catalog.universe(), Expired()), *GET_BUCKET)
    assert error.status == "UNAUTHENTICATED"
    assert "expired or revoked" in error.message
    assert "gcloud auth application-default login" in error.message


def test_credentials_of_another_universe_are_refused_before_they_are_sent() -> None:
    sovereign = catalog.universe("s3nsapis.fr")
    error = refused(GoogleApi(PROJECT, sovereign, auth.AnonymousCredentials()), *GET_BUCKET)
    assert error.status == "UNAUTHENTICATED"
    assert "gcp:universeDomain" in error.message


class Account(auth.Credentials):
    """A service account's credentials with a token that never expires."""

    service_account_email = EMAIL

    def __init__(self) -> None:
        super().__init__()
        self.token = "t"

    def refresh(self, request: object) -> None:
        raise AssertionError("a valid token was refreshed")


class User(auth.CredentialsWithQuotaProject):
    """A user's credentials that say whose they are."""

    account = "ann@example.com"

    def __init__(self, quota_project_id: str | None = None) -> None:
        super().__init__()
        self.token = "t"
        self._quota_project_id = quota_project_id

    def refresh(self, request: object) -> None: ...

    def with_quota_project(self, quota_project_id: str) -> User:
        return User(quota_project_id)


def test_who_calls_is_read_from_the_credentials() -> None:
    public = catalog.universe()
    assert GoogleApi(None, public, Account()).principal() == f"serviceAccount:{EMAIL}"
    assert GoogleApi(None, public, User()).principal() == "user:ann@example.com"


def test_a_users_calls_count_against_the_project(monkeypatch: pytest.MonkeyPatch) -> None:
    for own, expected in ((User(), PROJECT), (User("another"), "another"), (Account(), None)):
        monkeypatch.setattr(google.auth, "default", lambda scopes, own=own: (own, None))
        assert GoogleApi(PROJECT, catalog.universe())._found().quota_project_id == expected


# -- which cloud ---------------------------------------------------------------------------------------------------


def test_the_environment_names_an_emulated_cloud(endpoint: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ENDPOINT, endpoint)
    api = connect(PROJECT, catalog.universe())
    assert api.call("cloudresourcemanager.projects.get", {"projectId": PROJECT})["projectId"] == PROJECT


@pytest.mark.parametrize("address", ["http://example.com:80", "https://127.0.0.1:1", "127.0.0.1:1", "http://10.0.0.1"])
def test_an_address_elsewhere_is_refused(monkeypatch: pytest.MonkeyPatch, address: str) -> None:
    monkeypatch.setenv(ENDPOINT, address)
    with pytest.raises(OperatorError, match=f"{ENDPOINT} is .*{address}"):
        connect(PROJECT, catalog.universe())


def test_a_universe_has_its_own_addresses(monkeypatch: pytest.MonkeyPatch) -> None:
    api = GoogleApi(PROJECT, catalog.universe("s3nsapis.fr"), auth.AnonymousCredentials())
    service = api._service("storage", "v1")
    assert service._baseUrl == "https://storage.s3nsapis.fr/storage/v1/"
    assert module.discovery._media_path_url_from_info(service._rootDesc, "b/x/o").startswith(
        "https://storage.s3nsapis.fr/upload/"
    )
