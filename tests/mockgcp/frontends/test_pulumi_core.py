"""The provider's behaviour, call by call, on the emulated cloud."""

import pytest
from scenario_a import (
    ACCOUNT,
    ACCOUNT_MEMBER,
    BUCKET,
    BUCKET_MEMBER,
    BUCKET_NAME,
    EMAIL,
    IMAGE,
    JOB,
    NETWORK,
    NUMBER,
    PROJECT,
    PROJECT_MEMBER,
    SERVICE,
    Desk,
    account,
    bucket,
    bucket_member,
    job,
    task,
)

from mockgcp.cloud import DEFAULT_OWNER, Cloud
from mockgcp.errors import ApiError
from mockgcp.faults import Fault
from mockgcp.frontends.pulumi.core import MADE_UP, NotReadyError, Provider, ProviderError, State
from mockgcp.frontends.pulumi.values import UNKNOWN, Secret, Value, reveal
from mockgcp.services import artifactregistry
from mockgcp.services.storage import folder

ACCOUNT_NAME = f"projects/{PROJECT}/serviceAccounts/{EMAIL}"


def written(cloud: Cloud) -> list[str]:
    """The methods that changed something, in order."""
    quiet = (".get", ".list", ".getIamPolicy")
    return [entry.method for entry in cloud.audit.entries(ok=True) if not entry.method.endswith(quiet)]


@pytest.fixture
def made(desk: Desk) -> State:
    return desk.create(BUCKET, bucket())


@pytest.fixture
def made_job(desk: Desk, made: State) -> State:
    desk.create(ACCOUNT, account())
    return desk.create(JOB, job())


# -- configuration -------------------------------------------------------------------------------------------------


def test_the_provider_must_be_configured(cloud: Cloud) -> None:
    with pytest.raises(ProviderError, match="before it was configured"):
        Provider(cloud).create(BUCKET, bucket())


def test_a_project_is_required(cloud: Cloud) -> None:
    with pytest.raises(ProviderError, match="pulumi config set gcp:project"):
        Provider(cloud).configure({"region": "us-central1"})


def test_an_unseeded_project_is_refused_with_the_way_out(cloud: Cloud) -> None:
    with pytest.raises(ProviderError) as raised:
        Provider(cloud).configure({"project": "acme-production"})
    for part in ("gcp:project is 'acme-production'", PROJECT, "PULUMI_DEBUG_PROVIDERS", "unset it", "seed"):
        assert part in str(raised.value)


def test_another_universe_is_refused(cloud: Cloud) -> None:
    provider = Provider(cloud)
    with pytest.raises(ProviderError, match=r"gcp:universeDomain is 's3nsapis.fr', but .* is googleapis.com"):
        provider.configure({"project": PROJECT, "universeDomain": "s3nsapis.fr"})
    provider.configure({"project": PROJECT, "universeDomain": "googleapis.com"})


def test_the_same_configuration_again_is_fine(desk: Desk, made: State) -> None:
    # Resources that ask for two versions of the provider have the engine configure one debug port twice.
    desk.provider.configure({"project": PROJECT, "region": "us-central1"})
    assert desk.refresh(BUCKET, made) is not None


def test_an_unseeded_project_of_a_resource_is_refused_at_check(desk: Desk) -> None:
    [failure] = desk.refused(BUCKET, bucket(project="acme-production"))
    assert failure.startswith("project is 'acme-production'")
    assert desk.refused(BUCKET, bucket(project=str(NUMBER))) == []
    assert desk.refused(BUCKET, bucket(project=Secret(UNKNOWN))) == []


@pytest.mark.parametrize("call", ["check", "create", "delete", "diff", "read"])
def test_an_unknown_resource_type_names_itself(desk: Desk, call: str) -> None:
    token, state = "gcp:pubsub/topic:Topic", State("n", {})
    calls = {
        "check": lambda: desk.provider.check(token, "n", {}, {}),
        "create": lambda: desk.provider.create(token, {}),
        "delete": lambda: desk.provider.delete(token, state),
        "diff": lambda: desk.provider.diff(token, state, {}),
        "read": lambda: desk.provider.read(token, "n", {}, {}),
    }
    with pytest.raises(ProviderError, match=f"does not emulate the resource type {token} yet; it has .*{BUCKET}"):
        calls[call]()


def test_functions(desk: Desk) -> None:
    assert desk.provider.invoke("gcp:organizations/getProject:getProject", {})["number"] == str(NUMBER)
    with pytest.raises(ProviderError, match="function gcp:compute/getZones:getZones yet; it has gcp:organizations"):
        desk.provider.invoke("gcp:compute/getZones:getZones", {})
    with pytest.raises(ApiError, match="403 PERMISSION_DENIED"):
        desk.provider.invoke("gcp:organizations/getProject:getProject", {"projectId": "acme-production"})
    with pytest.raises(ProviderError, match="takes no argument projectid; it has projectId"):
        desk.provider.invoke("gcp:organizations/getProject:getProject", {"projectid": PROJECT})


# -- check ---------------------------------------------------------------------------------------------------------


def test_good_inputs_pass_as_they_are(desk: Desk, cloud: Cloud) -> None:
    assert desk.checked(BUCKET, bucket()) == bucket()
    assert cloud.audit.entries() == []


def test_a_typo_in_a_nested_field_is_refused_with_its_path(desk: Desk) -> None:
    inputs = job({"nodeSelector": {"accelarator": "nvidia-l4"}})
    unknown, missing = desk.refused(JOB, inputs)
    assert "template.template.nodeSelector.accelarator is not a property" in unknown
    assert "did you mean 'accelerator'?" in unknown
    assert missing == "template.template.nodeSelector.accelerator is required and missing"


@pytest.mark.parametrize(
    ("token", "inputs", "says"),
    [
        (JOB, job({"timeout": "604800s"}), "43200s"),
        (JOB, job({"nodeSelector": {"accelerator": "nvidia-h100"}}), "nvidia-l4"),
        (ACCOUNT, account(accountId="a" * 40), "has 40 characters"),
        (BUCKET, bucket(softDeletePolicy={"retentionDurationSeconds": 60}), "604800s to 7776000s"),
        (BUCKET, bucket(uniformBucketLevelAccess=False), "uniform bucket-level access"),
        (BUCKET, bucket(storageClass="COLD"), "expected one of STANDARD"),
    ],
)
def test_the_apis_own_rules_are_asked_before_anything_is_made(
    desk: Desk, cloud: Cloud, token: str, inputs: dict[str, Value], says: str
) -> None:
    [failure] = desk.refused(token, inputs)
    assert says in failure
    assert cloud.audit.entries() == []


def test_the_dry_run_waits_until_every_input_is_known(desk: Desk) -> None:
    assert desk.refused(BUCKET, bucket(name=UNKNOWN, storageClass="COLD")) == []


def test_a_name_is_generated_and_kept(desk: Desk) -> None:
    nameless = {key: value for key, value in bucket().items() if key != "name"}
    check = desk.provider.check
    first = check(BUCKET, "Checkpoints", nameless, {}, b"seed").inputs
    assert first["name"].startswith("checkpoints-")
    assert len(first["name"]) == len("checkpoints-") + 7
    assert first[MADE_UP] == ["name"]
    assert check(BUCKET, "Checkpoints", nameless, first, b"another").inputs["name"] == first["name"]
    assert check(BUCKET, "Checkpoints", nameless, {}, b"another").inputs["name"] != first["name"]
    assert check(BUCKET, "Checkpoints", nameless, first, b"seed", proposed="other").inputs["name"] == first["name"]
    assert check(BUCKET, "Checkpoints", nameless, {}, b"seed", proposed="engines-own").inputs["name"] == "engines-own"
    # A name the program once gave is not one to keep.
    assert check(BUCKET, "Checkpoints", nameless, {"name": "explicit"}, b"s").inputs["name"] != "explicit"
    assert len(check(BUCKET, "x" * 90, nameless, {}, b"seed").inputs["name"]) == 63
    assert MADE_UP not in check(BUCKET, "Checkpoints", bucket(), first).inputs


# -- create and preview --------------------------------------------------------------------------------------------


def test_create_shows_what_the_server_made_of_it(desk: Desk, made: State) -> None:
    assert made.id == BUCKET_NAME
    outputs = reveal(made.outputs)
    assert outputs["url"] == f"gs://{BUCKET_NAME}"
    assert outputs["project"] == PROJECT
    assert outputs["projectNumber"] == NUMBER
    assert outputs["location"] == "us-central1"
    assert outputs["forceDestroy"] is False
    assert outputs["deletionPolicy"] == "DELETE"
    assert outputs["labels"] == {"app": "holdfast"}
    assert outputs["effectiveLabels"] == {"app": "holdfast", "goog-pulumi-provisioned": "true"}
    assert outputs["timeCreated"]


def test_the_labels_with_the_providers_own_are_secret_as_the_provider_has_them(made: State, made_job: State) -> None:
    for state in (made, made_job):
        assert isinstance(state.outputs["effectiveLabels"], Secret)
        assert isinstance(state.outputs["pulumiLabels"], Secret)


def test_the_other_types(desk: Desk, cloud: Cloud, made_job: State) -> None:
    assert made_job.id == f"projects/{PROJECT}/locations/us-central1/jobs/gpu-resilient-job"
    assert made_job.outputs["template"]["parallelism"] == 1
    assert made_job.outputs["terminalConditions"][0]["state"] == "CONDITION_SUCCEEDED"
    service = desk.create(SERVICE, {"service": "cloudbuild.googleapis.com", "disableOnDestroy": True})
    assert service.id == f"{PROJECT}/cloudbuild.googleapis.com"
    assert "cloudbuild.googleapis.com" in cloud.projects[0].services
    on_bucket = desk.create(BUCKET_MEMBER, bucket_member())
    assert on_bucket.id == f"b/{BUCKET_NAME}/roles/storage.objectUser/serviceAccount:{EMAIL}"
    assert on_bucket.outputs["bucket"] == f"b/{BUCKET_NAME}"
    role = {"role": "roles/iam.serviceAccountUser", "member": DEFAULT_OWNER}
    on_account = desk.create(ACCOUNT_MEMBER, {"serviceAccountId": ACCOUNT_NAME, **role})
    assert on_account.id == f"{ACCOUNT_NAME}/roles/iam.serviceAccountUser/{DEFAULT_OWNER}"
    on_project = desk.create(PROJECT_MEMBER, {"project": PROJECT, "role": "roles/run.viewer", "member": DEFAULT_OWNER})
    assert on_project.id == f"{PROJECT}/roles/run.viewer/{DEFAULT_OWNER}"
    for token, state in (
        (SERVICE, service),
        (BUCKET_MEMBER, on_bucket),
        (ACCOUNT_MEMBER, on_account),
        (PROJECT_MEMBER, on_project),
    ):
        desk.provider.delete(token, state)
        assert desk.refresh(token, state) is None
        desk.provider.delete(token, state)  # gone already is fine
    assert "cloudbuild.googleapis.com" not in cloud.projects[0].services


def test_members_of_one_policy_leave_each_other_alone(desk: Desk, cloud: Cloud, made_job: State) -> None:
    one = desk.create(BUCKET_MEMBER, bucket_member())
    two = desk.create(BUCKET_MEMBER, bucket_member(member=DEFAULT_OWNER))
    desk.provider.delete(BUCKET_MEMBER, one)
    assert desk.refresh(BUCKET_MEMBER, two) is not None
    policy = cloud.call("storage.buckets.getIamPolicy", {"bucket": BUCKET_NAME}, None, DEFAULT_OWNER)
    assert isinstance(policy, dict)
    assert {"role": "roles/storage.objectUser", "members": [DEFAULT_OWNER]} in policy["bindings"]
    assert all(binding["members"] for binding in policy["bindings"])


def test_a_concurrent_policy_change_is_retried(desk: Desk, cloud: Cloud, made_job: State) -> None:
    cloud.faults.inject(Fault("storage.buckets.setIamPolicy", ApiError("ABORTED", "etag"), times=2))
    assert desk.refresh(BUCKET_MEMBER, desk.create(BUCKET_MEMBER, bucket_member())) is not None
    cloud.faults.inject(Fault("storage.buckets.setIamPolicy", ApiError("ABORTED", "etag"), times=None))
    with pytest.raises(ApiError, match="409 ABORTED"):
        desk.create(BUCKET_MEMBER, bucket_member(member=DEFAULT_OWNER))


def test_conditions_are_refused_rather_than_ignored(desk: Desk, made_job: State) -> None:
    condition = {"title": "t", "expression": "true"}
    with pytest.raises(ApiError, match="does not evaluate IAM conditions"):
        desk.create(BUCKET_MEMBER, bucket_member(condition=condition))


def test_a_preview_creates_nothing_and_says_what_is_not_known(desk: Desk, cloud: Cloud) -> None:
    state = desk.provider.create(BUCKET, bucket(name=UNKNOWN), preview=True)
    assert (state.id, cloud.audit.entries()) == ("", [])
    assert state.outputs["url"] is UNKNOWN
    assert state.outputs["name"] is UNKNOWN
    assert state.outputs["location"] == "us-central1"
    assert state.outputs["project"] == PROJECT


def test_secret_inputs_are_secret_outputs(desk: Desk, cloud: Cloud, made_job: State) -> None:
    state = desk.update(
        BUCKET,
        desk.create(BUCKET, bucket(name="other", labels=Secret({"a": "b"}))),
        bucket(name="other", labels=Secret({"a": "c"})),
    )
    assert state.outputs["labels"] == Secret({"a": "c"})
    refreshed = desk.refresh(BUCKET, state)
    assert refreshed is not None
    assert refreshed.inputs["labels"] == Secret({"a": "c"})
    assert refreshed.outputs["labels"] == Secret({"a": "c"})
    assert desk.sent("storage.buckets.patch")[-1]["labels"]["a"] == "c"


def test_the_apis_refusal_is_raised_as_it_is(desk: Desk, cloud: Cloud) -> None:
    cloud.seed_project("other-project", number=2)
    Desk(cloud, "other-project").create(BUCKET, bucket())
    with pytest.raises(ApiError, match="409 ALREADY_EXISTS: The requested bucket name is not available"):
        desk.create(BUCKET, bucket())


LATER = IMAGE.replace("0" * 64, "1" * 64)


def later_job() -> dict[str, Value]:
    """A job of an image that is not there yet."""
    [container] = task()["containers"]
    return job({"containers": [{**container, "image": LATER}]})


def test_a_job_that_is_made_but_not_ready_is_kept_and_then_updated(desk: Desk, cloud: Cloud, made: State) -> None:
    desk.create(ACCOUNT, account())
    with pytest.raises(NotReadyError, match=f"404 NOT_FOUND: Image '{LATER}' not found.") as created:
        desk.create(JOB, later_job())
    kept = State(created.value.state.id, created.value.state.outputs, desk.checked(JOB, later_job()))
    [stored] = cloud.table("run.job").values()
    assert (kept.id, kept.outputs["uid"]) == (stored["name"], stored["uid"])
    assert reveal(kept.outputs)["terminalConditions"][0]["reason"] == "CONTAINER_MISSING"
    with pytest.raises(NotReadyError, match="not found") as updated:
        desk.update(JOB, kept, later_job())
    assert (updated.value.state.id, updated.value.state.outputs["generation"]) == (kept.id, "2")
    artifactregistry.seed_image(cloud, LATER)
    well = desk.update(JOB, kept, later_job())
    assert (well.outputs["uid"], well.outputs["generation"]) == (stored["uid"], "3")


def test_what_came_to_nothing_is_not_kept(desk: Desk, cloud: Cloud, made: State, made_job: State) -> None:
    desk.provider.delete(JOB, made_job)
    # Deleted by somebody else while it was being made.
    cloud.clock.schedule(1, lambda: cloud.table("run.job").clear())
    with pytest.raises(ApiError, match="deleted before it was ready") as raised:
        desk.create(JOB, job())
    assert not isinstance(raised.value, NotReadyError)


def test_what_is_somebody_elses_is_not_kept(desk: Desk, cloud: Cloud, made_job: State) -> None:
    # A network's name is found to be taken only by the operation, when somebody else is making one at the same time.
    network = {"name": "holdfast", "autoCreateSubnetworks": False}
    cloud.call("compute.networks.insert", {"project": PROJECT}, network, DEFAULT_OWNER)
    for token, inputs in ((JOB, job()), (NETWORK, network)):
        with pytest.raises(ApiError, match="ALREADY_EXISTS") as raised:
            desk.create(token, inputs)
        assert not isinstance(raised.value, NotReadyError)


def test_an_account_that_is_off_from_the_start(desk: Desk) -> None:
    state = desk.create(ACCOUNT, account(disabled=True))
    assert state.outputs["disabled"] is True
    on = desk.update(ACCOUNT, state, account(displayName="New"))
    assert (on.outputs["disabled"], on.outputs["displayName"]) == (False, "New")
    assert (on.outputs["email"], on.outputs["member"]) == (EMAIL, f"serviceAccount:{EMAIL}")


# -- diff and update -----------------------------------------------------------------------------------------------


def test_no_change_is_no_change(desk: Desk, made: State, made_job: State) -> None:
    assert desk.diff(BUCKET, made, bucket()) == {}
    assert desk.diff(JOB, made_job, job()) == {}


def test_what_is_written_out_but_was_so_already_is_no_change(desk: Desk, made: State) -> None:
    plain = {"location": "us-central1", "name": "plain"}
    state = desk.create(BUCKET, plain)
    explicit = {
        "project": PROJECT,
        "storageClass": "STANDARD",
        "forceDestroy": False,
        "publicAccessPrevention": "inherited",
    }
    assert desk.diff(BUCKET, state, {**plain, **explicit}) == {}
    assert desk.diff(BUCKET, State(state.id, state.outputs, {**plain, **explicit}), plain) == {}
    # softDeletePolicy has fields that the program does not give: only what it gives is compared.
    kept = {"softDeletePolicy": {"retentionDurationSeconds": 604800}}
    assert desk.diff(BUCKET, state, {**plain, **kept}) == {}
    off = {"softDeletePolicy": {"retentionDurationSeconds": 0}}
    assert desk.diff(BUCKET, state, {**plain, **off}) == {
        "softDeletePolicy.retentionDurationSeconds": ("update", False)
    }


def test_changes_and_replacements(desk: Desk, made: State, made_job: State) -> None:
    assert desk.diff(BUCKET, made, bucket(location="europe-west4")) == {"location": ("update", True)}
    assert desk.diff(BUCKET, made, bucket(labels={})) == {"labels.app": ("delete", False)}
    longer = job({"timeout": "3600s"})
    assert desk.diff(JOB, made_job, longer) == {"template.template.timeout": ("update", False)}
    assert desk.diff(JOB, made_job, job(deletionProtection=True)) == {"deletionProtection": ("update", False)}


def test_a_value_that_is_not_known_yet_may_change(desk: Desk, made_job: State) -> None:
    found = desk.diff(JOB, made_job, job({"serviceAccount": UNKNOWN}))
    assert found == {"template.template.serviceAccount": ("update", False)}


def test_ignored_properties_do_not_change(desk: Desk, made: State) -> None:
    diff = desk.provider.diff(BUCKET, made, bucket(labels={"app": "other"}), ignore=("labels",))
    assert diff.changes == []


def test_a_replacement_comes_after_the_deletion_only_where_names_collide(
    desk: Desk, made: State, made_job: State
) -> None:
    diff = desk.provider.diff
    assert diff(BUCKET, made, bucket(location="europe-west4")).delete_before_replace
    assert not diff(BUCKET, made, bucket(name="another")).delete_before_replace
    assert not diff(BUCKET, made, bucket(labels={})).delete_before_replace
    generated = desk.create(BUCKET, {"location": "us-central1"})
    moved = desk.checked(BUCKET, {"location": "europe-west4"}, generated.inputs)
    assert moved["name"] == generated.inputs["name"]
    change = diff(BUCKET, generated, moved)
    assert (change.replaces, change.delete_before_replace) == (["location"], False)
    # The new role is granted before the old one is taken away.
    member = desk.create(BUCKET_MEMBER, bucket_member())
    change = diff(BUCKET_MEMBER, member, bucket_member(role="roles/storage.objectAdmin"))
    assert (change.replaces, change.delete_before_replace) == (["role"], False)


def test_another_project_in_the_configuration_replaces(desk: Desk, cloud: Cloud, made: State, made_job: State) -> None:
    cloud.seed_project("other-project", number=2)
    moved = Desk(cloud, "other-project")
    assert moved.diff(JOB, made_job, job()) == {"project": ("update", True)}
    assert moved.diff(JOB, made_job, job(project=PROJECT)) == {}


def test_the_old_one_is_deleted_where_it_is(desk: Desk, cloud: Cloud, made_job: State) -> None:
    cloud.seed_project("other-project", number=2).services.update(["run.googleapis.com", "iam.googleapis.com"])
    cloud.quotas.set("other-project", "NvidiaL4GpuAllocNoZonalRedundancyPerProjectRegion", "*", 1)
    moved = Desk(cloud, "other-project")
    moved.create(ACCOUNT, account())
    containers = [{**task()["containers"][0], "image": "docker.io/acme/trainer"}]
    theirs = moved.create(
        JOB, job({"serviceAccount": EMAIL.replace(PROJECT, "other-project"), "containers": containers})
    )
    moved.provider.delete(JOB, made_job)
    assert desk.refresh(JOB, made_job) is None
    assert moved.refresh(JOB, theirs) is not None


def test_update_in_place(desk: Desk, cloud: Cloud, made: State, made_job: State) -> None:
    live = cloud.table("storage.bucket")[BUCKET_NAME]
    live["labels"]["theirs"], live["website"] = "x", {"mainPageSuffix": "index.html"}
    changed = desk.update(BUCKET, made, bucket(labels={"team": "ml"}, lifecycleRules=[]))
    assert changed.id == made.id
    assert desk.sent("storage.buckets.patch") == [
        {"lifecycle": None, "labels": {"app": None, "team": "ml", "goog-pulumi-provisioned": "true"}}
    ]
    assert (live["labels"]["theirs"], live["website"]) == ("x", {"mainPageSuffix": "index.html"})
    assert reveal(changed.outputs["labels"])["team"] == "ml"
    assert "lifecycle" not in cloud.table("storage.bucket")[BUCKET_NAME]
    assert changed.outputs["timeCreated"] == made.outputs["timeCreated"]
    retried = desk.update(JOB, made_job, job({"maxRetries": 5}))
    assert retried.outputs["template"]["template"]["maxRetries"] == 5
    assert retried.outputs["generation"] == "2"


@pytest.mark.parametrize(
    "change",
    [
        {"storageClass": "NEARLINE"},
        {"publicAccessPrevention": "inherited"},
        {"softDeletePolicy": {"retentionDurationSeconds": 604800}},
        {"lifecycleRules": [{"action": {"type": "Delete"}, "condition": {"age": 3}}]},
        {"labels": {"app": "other"}},
        {"forceDestroy": True},
        {"versioning": {"enabled": False}},
        {"cors": [{"maxAgeSeconds": 3, "methods": ["GET"], "origins": ["*"]}]},
        {"requesterPays": True},
        {"defaultEventBasedHold": True},
    ],
)
def test_each_property_of_a_bucket_is_set_and_taken_back_in_place(
    desk: Desk, made: State, change: dict[str, Value]
) -> None:
    desk.settles(BUCKET, desk.settles(BUCKET, made, bucket(**change)), bucket())


@pytest.mark.parametrize(
    "change",
    [
        {"labels": {"app": "holdfast"}},
        {"annotations": {"a": "b"}},
        {"client": "holdfast", "clientVersion": "1"},
        {"deletionProtection": True},
        {"template": {"taskCount": 1, "template": task(maxRetries=0)}},
        {"template": {"taskCount": 4, "parallelism": 1, "template": task(timeout="60s")}},
        {"template": {"taskCount": 1, "labels": {"team": "a"}, "template": task()}},
    ],
)
def test_each_property_of_a_job_is_set_and_taken_back_in_place(
    desk: Desk, made_job: State, change: dict[str, Value]
) -> None:
    desk.settles(JOB, desk.settles(JOB, made_job, job(**change)), job())


def test_uniform_access_can_be_taken_back(desk: Desk, cloud: Cloud) -> None:
    flat = {"name": "flat", "location": "us-central1"}
    state = desk.create(BUCKET, {**flat, "uniformBucketLevelAccess": True})
    desk.update(BUCKET, state, {**flat, "uniformBucketLevelAccess": False})
    stored = cloud.table("storage.bucket")["flat"]
    assert stored["iamConfiguration"]["uniformBucketLevelAccess"]["enabled"] is False


def test_a_previewed_update_changes_nothing(desk: Desk, cloud: Cloud, made: State) -> None:
    before = written(cloud)
    state = desk.provider.update(BUCKET, made, bucket(labels={"team": "ml"}), preview=True)
    assert state.outputs["labels"] == {"team": "ml"}
    assert state.outputs["url"] == made.outputs["url"]
    assert written(cloud) == before


def test_what_cannot_change_in_place_says_so(desk: Desk, made: State) -> None:
    with pytest.raises(ProviderError, match="cannot change in place"):
        desk.provider.update(BUCKET_MEMBER, State("x", {}, bucket_member()), bucket_member())


# -- refresh and import --------------------------------------------------------------------------------------------


def refreshed(desk: Desk, token: str, state: State) -> State:
    found = desk.refresh(token, state)
    assert found is not None
    return found


def test_a_refresh_shows_no_server_defaults(desk: Desk, made: State, made_job: State) -> None:
    assert refreshed(desk, BUCKET, made).inputs == made.inputs
    assert refreshed(desk, JOB, made_job).inputs == made_job.inputs
    member = desk.create(BUCKET_MEMBER, bucket_member())
    assert refreshed(desk, BUCKET_MEMBER, member).inputs == member.inputs


def test_a_generated_name_stays_generated(desk: Desk) -> None:
    state = desk.create(BUCKET, {"location": "us-central1"})
    assert refreshed(desk, BUCKET, state).inputs == state.inputs
    assert MADE_UP in state.inputs


def test_a_refresh_shows_drift(desk: Desk, cloud: Cloud, made: State, made_job: State) -> None:
    stored = cloud.table("storage.bucket")[BUCKET_NAME]
    stored["storageClass"] = "NEARLINE"
    stored["labels"]["app"] = "else"
    stored["labels"]["foreign"] = "x"
    found = refreshed(desk, BUCKET, made)
    assert found.inputs == bucket(storageClass="NEARLINE", labels={"app": "else"})
    assert found.outputs["storageClass"] == "NEARLINE"
    [job_] = cloud.table("run.job").values()
    job_["template"]["template"]["maxRetries"] = 1
    assert refreshed(desk, JOB, made_job).inputs["template"]["template"]["maxRetries"] == 1


def test_a_refresh_shows_what_was_taken_away(desk: Desk, cloud: Cloud, made: State) -> None:
    stored = cloud.table("storage.bucket")[BUCKET_NAME]
    del stored["lifecycle"], stored["labels"]["app"]
    found = refreshed(desk, BUCKET, made)
    assert "lifecycleRules" not in found.outputs
    assert "lifecycleRules" not in found.inputs
    assert found.inputs["labels"] == {}
    assert set(desk.diff(BUCKET, found, bucket())) == {"lifecycleRules", "labels.app"}


def test_what_is_gone_reads_as_none(desk: Desk, cloud: Cloud, made: State) -> None:
    cloud.table("storage.bucket").clear()
    assert desk.refresh(BUCKET, made) is None
    assert desk.provider.read(BUCKET, "never-was", {}, {}) is None


def test_an_import_learns_the_inputs(desk: Desk, made: State, made_job: State) -> None:
    for token, state, inputs in ((BUCKET, made, bucket()), (JOB, made_job, job())):
        found = desk.provider.read(token, state.id, {}, {})
        assert found is not None
        assert found.id == state.id
        for key in ("name", "location", "labels"):
            assert found.inputs.get(key) == inputs.get(key)
        # The program that describes it changes nothing but what no API keeps.
        assert set(desk.diff(token, found, inputs)) <= {"deletionProtection"}
    by_url = desk.provider.read(BUCKET, f"gs://{BUCKET_NAME}", {}, {})
    assert by_url is not None
    assert by_url.id == BUCKET_NAME


@pytest.mark.parametrize(
    ("token", "inputs"),
    [
        (ACCOUNT, account()),
        (SERVICE, {"service": "run.googleapis.com"}),
        (BUCKET_MEMBER, bucket_member()),
        (
            BUCKET_MEMBER,
            bucket_member(member="principal://iam.example/projects/1/subject/ns/a/sa/b"),
        ),
        (
            PROJECT_MEMBER,
            {
                "project": PROJECT,
                "role": "roles/run.viewer",
                "member": "principal://iam.example/projects/1/subject/ns/a/sa/b",
            },
        ),
        (
            ACCOUNT_MEMBER,
            {"serviceAccountId": ACCOUNT_NAME, "role": "roles/iam.serviceAccountUser", "member": DEFAULT_OWNER},
        ),
    ],
)
def test_every_id_can_be_imported(desk: Desk, made_job: State, token: str, inputs: dict[str, Value]) -> None:
    state = State(ACCOUNT_NAME, {}) if token == ACCOUNT else desk.create(token, inputs)
    found = desk.provider.read(token, state.id, {}, {})
    assert found is not None
    assert found.id == state.id
    assert {key: found.inputs[key] for key in inputs} == inputs
    assert desk.diff(token, found, inputs) == {}


def test_an_id_of_another_form_is_refused(desk: Desk) -> None:
    with pytest.raises(ProviderError, match=r"cannot import gcp:cloudrunv2/job:Job: .*'nope'.*projects/\{project\}"):
        desk.provider.read(JOB, "nope", {}, {})


# -- delete --------------------------------------------------------------------------------------------------------


def test_a_protected_job_is_not_deleted(desk: Desk, cloud: Cloud, made_job: State) -> None:
    protected = desk.update(JOB, made_job, job(deletionProtection=True))
    before = written(cloud)
    with pytest.raises(ApiError, match="without setting deletionProtection=false and running `pulumi up`"):
        desk.provider.delete(JOB, protected)
    assert written(cloud) == before
    by_default = {key: value for key, value in job().items() if key != "deletionProtection"}
    with pytest.raises(ApiError, match="deletionProtection"):
        desk.provider.delete(JOB, desk.update(JOB, made_job, by_default))
    desk.provider.delete(JOB, desk.update(JOB, protected, job()))
    assert desk.refresh(JOB, made_job) is None


def test_a_full_bucket_is_deleted_only_by_force(desk: Desk, cloud: Cloud, made: State) -> None:
    (folder(cloud.state_dir, BUCKET_NAME) / "run").mkdir()
    for number in range(1001):  # one more than a page of the listing has
        (folder(cloud.state_dir, BUCKET_NAME) / "run" / f"object-{number}").touch()
    with pytest.raises(ApiError, match=f"bucket {BUCKET_NAME} containing objects without `forceDestroy`"):
        desk.provider.delete(BUCKET, made)
    assert desk.refresh(BUCKET, made) is not None
    desk.provider.delete(BUCKET, desk.update(BUCKET, made, bucket(forceDestroy=True)))
    assert desk.refresh(BUCKET, made) is None


def test_the_deletion_policy_is_obeyed(desk: Desk, cloud: Cloud, made: State) -> None:
    kept = desk.update(BUCKET, made, bucket(deletionPolicy="PREVENT"))
    with pytest.raises(ProviderError, match="deletionPolicy is PREVENT"):
        desk.provider.delete(BUCKET, kept)
    left = desk.update(BUCKET, kept, bucket(deletionPolicy="ABANDON"))
    before = written(cloud)
    desk.provider.delete(BUCKET, left)
    assert written(cloud) == before
    assert desk.refresh(BUCKET, left) is not None


def test_an_api_stays_on_unless_it_is_told_off(desk: Desk, cloud: Cloud) -> None:
    state = desk.create(SERVICE, {"service": "cloudbuild.googleapis.com"})
    desk.provider.delete(SERVICE, state)
    assert "cloudbuild.googleapis.com" in cloud.projects[0].services
    off = desk.update(SERVICE, state, {"service": "cloudbuild.googleapis.com", "disableOnDestroy": True})
    desk.provider.delete(SERVICE, off)
    assert "cloudbuild.googleapis.com" not in cloud.projects[0].services
