"""Programs on the SDK's mock monitor with the emulated cloud behind it."""

import os
import re

import pulumi
import pulumi_gcp as gcp
import pytest
from pulumi.runtime.sync_await import _ensure_event_loop
from scenario_a import BUCKET, BUCKET_NAME, IMAGE, JOB, NUMBER, PROJECT, REGION

from mockgcp.cloud import Cloud
from mockgcp.errors import ApiError
from mockgcp.frontends.pulumi.core import Provider, ProviderError
from mockgcp.frontends.pulumi.mocks import EmulatedGcp


@pytest.fixture
def gcp_(cloud: Cloud) -> EmulatedGcp:
    return EmulatedGcp(cloud, project=PROJECT)


def bucket(name: str = BUCKET_NAME, **options: str) -> gcp.storage.Bucket:
    return gcp.storage.Bucket("it", name=name, location=REGION, **options)


def test_outputs_are_the_servers(gcp_: EmulatedGcp, cloud: Cloud) -> None:
    def program() -> None:
        made = bucket()
        pulumi.export("url", made.url)
        pulumi.export("number", made.project_number)
        pulumi.export("both", pulumi.Output.concat(made.name, "@", made.project))

    result = gcp_.run(program)
    assert result.outputs == {"url": f"gs://{BUCKET_NAME}", "number": NUMBER, "both": f"{BUCKET_NAME}@{PROJECT}"}
    assert BUCKET_NAME in cloud.table("storage.bucket")
    [registered] = result.of_type(BUCKET)
    assert registered.id == BUCKET_NAME
    assert registered.inputs == {"name": BUCKET_NAME, "location": REGION}
    assert registered.outputs["storageClass"] == "STANDARD"


class Pair(pulumi.ComponentResource):
    def __init__(self, name: str) -> None:
        super().__init__("test:index:Pair", name)
        child = pulumi.ResourceOptions(parent=self)
        self.bucket = gcp.storage.Bucket(f"{name}-bucket", location=REGION, opts=child)
        self.register_outputs({"bucket": self.bucket.name})


def test_parents_and_generated_names(gcp_: EmulatedGcp) -> None:
    component, child = gcp_.run(lambda: Pair("pair")).resources
    assert (component.type, component.id) == ("test:index:Pair", "")
    assert child.parent == component.urn
    assert str(child.outputs["name"]).startswith("pair-bucket-")


def test_a_preview_makes_nothing_and_knows_what_it_can(cloud: Cloud) -> None:
    seen: list[bool] = []

    def program() -> None:
        made = gcp.storage.Bucket("it", location=REGION)
        made.url.apply(lambda url: seen.append(True))
        pulumi.export("location", made.location)
        gcp.storage.BucketIAMMember("m", bucket=made.name, role="roles/storage.objectUser", member="allUsers")

    result = EmulatedGcp(cloud, project=PROJECT, preview=True).run(program)
    assert seen == []
    assert result.outputs == {"location": REGION}
    assert cloud.audit.entries() == []


def test_an_error_is_the_clouds_own(gcp_: EmulatedGcp, cloud: Cloud) -> None:
    cloud.seed_project("other-project", number=2)
    EmulatedGcp(cloud, project="other-project").run(bucket)
    with pytest.raises(ApiError, match="409 ALREADY_EXISTS: The requested bucket name is not available"):
        gcp_.run(bucket)


def test_what_is_made_but_not_ready_is_an_error_too(gcp_: EmulatedGcp, cloud: Cloud) -> None:
    missing = IMAGE.replace("0" * 64, "1" * 64)

    def program() -> None:
        account = gcp.serviceaccount.Account("account", account_id="gpu-job-sa")
        task = {"containers": [{"image": missing}], "service_account": account.email}
        gcp.cloudrunv2.Job("it", name="it", location=REGION, template={"template": task})

    with pytest.raises(ApiError, match=f"404 NOT_FOUND: Image '{missing}' not found."):
        gcp_.run(program)
    assert len(cloud.table("run.job")) == 1


def test_what_the_sdk_lets_pass_is_refused(gcp_: EmulatedGcp, cloud: Cloud) -> None:
    def typo() -> None:
        gcp.storage.Bucket("it", location=REGION, soft_delete_policy={"retentionDuration": 0})  # type: ignore[typeddict-item]

    with pytest.raises(ProviderError) as raised:
        gcp_.run(typo)
    assert f"{BUCKET} 'it': softDeletePolicy.retentionDuration is not a property" in str(raised.value)
    assert "did you mean 'retentionDurationSeconds'" in str(raised.value)
    with pytest.raises(ProviderError, match="storageClass is 'COLD', expected one of"):
        gcp_.run(lambda: bucket(storage_class="COLD"))
    assert cloud.audit.entries() == []


def test_unknown_types_and_functions_name_themselves(gcp_: EmulatedGcp) -> None:
    with pytest.raises(ProviderError, match="resource type gcp:pubsub/topic:Topic"):
        gcp_.run(lambda: gcp.pubsub.Topic("n"))
    with pytest.raises(ProviderError, match="function gcp:compute/getZones:getZones"):
        gcp_.run(gcp.compute.get_zones)


def test_functions_answer(gcp_: EmulatedGcp) -> None:
    def program() -> None:
        pulumi.export("now", gcp.organizations.get_project().number)
        pulumi.export("later", gcp.organizations.get_project_output(project_id=PROJECT).project_id)

    assert gcp_.run(program).outputs == {"now": str(NUMBER), "later": PROJECT}


def test_a_program_may_import_and_look_up(gcp_: EmulatedGcp) -> None:
    gcp_.run(bucket)

    def program() -> None:
        pulumi.export("looked up", gcp.storage.Bucket.get("there", BUCKET_NAME).url)
        taken = gcp.storage.Bucket(
            "taken", name=BUCKET_NAME, location=REGION, opts=pulumi.ResourceOptions(import_=BUCKET_NAME)
        )
        pulumi.export("imported", taken.url)

    assert gcp_.run(program).outputs == {"looked up": f"gs://{BUCKET_NAME}", "imported": f"gs://{BUCKET_NAME}"}
    with pytest.raises(ProviderError, match="there is nothing with id 'nowhere'"):
        gcp_.run(lambda: gcp.storage.Bucket.get("it", "nowhere"))


def test_stack_references(cloud: Cloud) -> None:
    def program() -> None:
        reference = pulumi.StackReference("organization/holdfast/dev-foundation")
        pulumi.export("bucket", reference.require_output("checkpointBucket"))

    outputs = {"organization/holdfast/dev-foundation": {"checkpointBucket": BUCKET_NAME}}
    emulated = EmulatedGcp(cloud, project=PROJECT, stack_outputs=outputs)
    assert emulated.run(program).outputs == {"bucket": BUCKET_NAME}
    with pytest.raises(ProviderError, match=r"no stack 'organization/holdfast/dev-foundation'; stack_outputs has none"):
        EmulatedGcp(cloud, project=PROJECT).run(program)


def test_secrets_reach_the_cloud_and_are_revealed_to_the_test(gcp_: EmulatedGcp, cloud: Cloud) -> None:
    def program() -> None:
        made = gcp.storage.Bucket("it", name="it-1", location=REGION, labels={"token": pulumi.Output.secret("hunter2")})
        pulumi.export("labels", made.labels)

    assert gcp_.run(program).outputs == {"labels": {"token": "hunter2"}}
    assert cloud.table("storage.bucket")["it-1"]["labels"]["token"] == "hunter2"


def test_one_run_leaves_nothing_for_the_next(cloud: Cloud, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PULUMI_CONFIG", '{"holdfast:stray": "x"}')

    def read() -> None:
        config = pulumi.Config("holdfast")
        for key in ("one", "two", "stray"):
            pulumi.export(key, config.get(key) or "not there")
        pulumi.export("stack", pulumi.get_stack())

    first = EmulatedGcp(cloud, project=PROJECT, config={"holdfast:one": {"a": 1}}, stack="dev-one").run(read)
    assert first.outputs == {"one": '{"a": 1}', "two": "not there", "stray": "not there", "stack": "dev-one"}
    second = EmulatedGcp(cloud, project=PROJECT, config={"holdfast:two": "2"}, stack="dev-two").run(read)
    assert second.outputs == {"one": "not there", "two": "2", "stray": "not there", "stack": "dev-two"}
    assert os.environ["PULUMI_CONFIG"] == '{"holdfast:stray": "x"}'
    monkeypatch.delenv("PULUMI_CONFIG")
    assert pulumi.Config("holdfast").get("two") is None


def test_a_run_that_fails_does_not_spoil_the_next(gcp_: EmulatedGcp) -> None:
    def broken() -> None:
        bucket()
        raise ZeroDivisionError("the program's own")

    with pytest.raises(ZeroDivisionError, match="the program's own"):
        gcp_.run(broken)
    assert gcp_.run(lambda: gcp.storage.Bucket("other", location=REGION)).of_type(BUCKET)
    assert not gcp_.run(lambda: None).of_type(JOB)


def test_a_run_leaves_the_threads_event_loop_as_it_was(gcp_: EmulatedGcp) -> None:
    loop = _ensure_event_loop()
    gcp_.run(lambda: None)
    assert _ensure_event_loop() is loop


def test_a_provider_of_the_programs_own_has_its_own_project(cloud: Cloud) -> None:
    cloud.seed_project("other-project")

    def program() -> None:
        own = gcp.Provider("own", project="other-project")
        gcp.storage.Bucket("here", name="here-bucket", location=REGION)
        gcp.storage.Bucket("there", name="there-bucket", location=REGION, opts=pulumi.ResourceOptions(provider=own))
        gcp.storage.Bucket("again", name="again-bucket", location=REGION)

    made = EmulatedGcp(cloud, project=PROJECT).run(program).of_type("gcp:storage/bucket:Bucket")
    projects = {each.name: each.outputs["project"] for each in made}
    assert projects == {"here": PROJECT, "there": "other-project", "again": PROJECT}


def test_other_providers_resources_are_refused_by_name(gcp_: EmulatedGcp) -> None:
    with pytest.raises(ProviderError, match="no random:index/randomId:RandomId"):
        gcp_.run(lambda: pulumi.CustomResource("random:index/randomId:RandomId", "r", {"byteLength": 4}))


@pytest.mark.parametrize(
    ("config", "says"),
    [
        ({"projct": "x"}, "did you mean 'project'"),
        ({"impersonateServiceAccount": "x@y"}, "does not emulate the provider's setting gcp:impersonateServiceAccount"),
    ],
)
def test_a_providers_settings_are_checked(cloud: Cloud, config: dict[str, str], says: str) -> None:
    with pytest.raises(ProviderError, match=says):
        Provider(cloud).configure({"project": PROJECT, **config})


def test_a_service_account_without_an_id_gets_a_legal_one(gcp_: EmulatedGcp) -> None:
    name = "an-account-with-quite-a-long-name"
    [made] = gcp_.run(lambda: gcp.serviceaccount.Account(name)).of_type("gcp:serviceaccount/account:Account")
    assert re.fullmatch(r"an-account-with-quite-[0-9a-f]{7}", made.outputs["accountId"])
