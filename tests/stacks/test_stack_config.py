"""Configuration: typed, complete, and wrong in one message that names the file, the key and the way out."""

import dataclasses
import re
from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar
from typing import Any

import pulumi
import pytest
from pulumi.runtime import config as runtime_config

from infra import catalog
from infra.errors import InputError
from infra.gpu_job import GpuJobArgs
from stacks.config import CloudRunConfig, FoundationConfig, load

IMAGE = f"us-central1-docker.pkg.dev/demo-project/trainers/trainer@sha256:{'0' * 64}"
GCP = {"gcp:project": "demo-project", "gcp:region": "us-central1"}

Given = Callable[..., None]


@pytest.fixture
def given(monkeypatch: pytest.MonkeyPatch) -> Iterator[Given]:
    """Sets a stack's configuration as the engine hands it over: text, with objects as JSON."""
    monkeypatch.delenv("PULUMI_CONFIG", raising=False)
    monkeypatch.setattr(pulumi, "get_stack", lambda: "dev-cloud-run")
    variables: tuple[ContextVar[Any], ...] = (runtime_config.CONFIG, runtime_config._SECRET_KEYS)
    tokens = [(variable, variable.set(variable.get())) for variable in variables]

    def configure(values: Mapping[str, str], secret: tuple[str, ...] = (), gcp: Mapping[str, str] = GCP) -> None:
        keys = {f"holdfast:{key}": value for key, value in values.items()}
        pulumi.runtime.set_all_config({**gcp, **keys}, [f"holdfast:{key}" for key in secret])

    yield configure
    for variable, token in tokens:
        variable.reset(token)


def refused(model: type[CloudRunConfig] | type[FoundationConfig] = CloudRunConfig) -> list[str]:
    with pytest.raises(InputError) as raised:
        load(model)
    return str(raised.value).splitlines()


def test_defaults_are_the_scenarios(given: Given) -> None:
    given({"image": IMAGE})
    config, target = load(CloudRunConfig)
    assert (config.accelerator, config.cpu, config.memory) == ("nvidia-l4", "8", "32Gi")
    assert (config.task_timeout, config.max_retries, config.run_id) == ("43200s", 3, None)
    assert (config.network_enabled, config.mount_options, config.parallelism) == (False, [], None)
    assert (target.project, target.region, target.universe) == ("demo-project", "us-central1", catalog.universe())
    assert config.foundation_stack("dev-cloud-run") == "dev-foundation"


def test_a_stack_outside_the_naming_scheme_names_its_foundation(given: Given) -> None:
    given({"image": IMAGE})
    config, _ = load(CloudRunConfig)
    with pytest.raises(InputError, match=r"holdfast:foundation: is missing, and the name 'train'"):
        config.foundation_stack("train")
    given({"image": IMAGE, "foundation": "shared"})
    config, _ = load(CloudRunConfig)
    assert config.foundation_stack("train") == "shared"


def test_the_foundations_defaults(given: Given) -> None:
    given({})
    config, target = load(FoundationConfig)
    assert config.services == list(catalog.services().cloud_run_job)
    assert config.bucket(target) == "gpu-checkpoints-demo-project"
    assert (config.service_account_id, config.soft_delete_seconds, config.force_destroy) == ("gpu-job-sa", 0, False)
    assert config.service_account_email(target) == "gpu-job-sa@demo-project.iam.gserviceaccount.com"
    assert config.build_account_email(target) == "trainer-build@demo-project.iam.gserviceaccount.com"
    assert config.source_bucket(target) == "demo-project-build-source"
    assert config.repository(target) == "us-central1-docker.pkg.dev/demo-project/trainers"
    assert config.apis() == config.services


def test_names_follow_the_universe(given: Given) -> None:
    given(
        {}, gcp={"gcp:project": "s3ns:acme-train", "gcp:region": "u-france-east1", "gcp:universeDomain": "s3nsapis.fr"}
    )
    config, target = load(FoundationConfig)
    assert config.build_account_email(target) == "trainer-build@acme-train.s3ns.iam.gserviceaccount.com"
    assert config.source_bucket(target) == "acme-train-build-source"
    assert config.repository(target) == "u-france-east1-docker.s3nsregistry.fr/s3ns/acme-train/trainers"


def test_a_budget_needs_an_account_and_an_amount(given: Given) -> None:
    given({"billingAccount": "012345-6789AB-CDEF01", "budgetAmount": "500"})
    config, _ = load(FoundationConfig)
    assert config.apis()[-1] == "billingbudgets.googleapis.com"
    assert set(config.apis()) <= set(catalog.services().known)
    for half, missing in (("billingAccount", "budgetAmount"), ("budgetAmount", "billingAccount")):
        given({half: {"billingAccount": "012345-6789AB-CDEF01", "budgetAmount": "500"}[half]})
        [line] = refused(FoundationConfig)
        assert f"holdfast:{missing}: is missing: a budget needs" in line


@pytest.mark.parametrize(
    ("stack", "given_value", "protected"),
    [
        ("dev-foundation", None, False),
        ("dev-foundation", "true", True),
        ("prod-foundation", None, True),
        ("prod-foundation", "false", False),
        ("foundation", None, True),
        ("device-foundation", None, True),
    ],
)
def test_what_cannot_be_made_again_is_protected_outside_dev(
    given: Given, stack: str, given_value: str | None, protected: bool
) -> None:
    given({} if given_value is None else {"deletionProtection": given_value})
    assert load(FoundationConfig)[0].protected(stack) is protected


def test_text_becomes_what_the_key_holds(given: Given) -> None:
    given(
        {
            "image": IMAGE,
            "maxRetries": "5",
            "deletionProtection": "false",
            "env": '{"HOLDFAST_STEPS": 1000, "HOLDFAST_SEED": "7"}',
            "secretEnv": '{"TOKEN": "secret"}',
        },
        secret=("secretEnv",),
    )
    config, _ = load(CloudRunConfig)
    assert config.max_retries == 5
    assert config.deletion_protection is False
    assert config.env == {"HOLDFAST_STEPS": "1000", "HOLDFAST_SEED": "7"}
    assert config.secret_env == {"TOKEN": "secret"}


def test_the_environment_variable_of_the_language_host_is_read_too(
    given: Given, monkeypatch: pytest.MonkeyPatch
) -> None:
    given({})
    monkeypatch.setenv("PULUMI_CONFIG", f'{{"holdfast:image": "{IMAGE}", "holdfast:jobNme": "x"}}')
    [line] = refused()
    assert "holdfast:jobNme" in line


def test_an_unknown_key_names_the_file_the_key_the_nearest_and_all(given: Given) -> None:
    given({"image": IMAGE, "maxRetrys": "3"})
    [line] = refused()
    assert line.startswith("stacks/Pulumi.dev-cloud-run.yaml, holdfast:maxRetrys: there is no such key")
    assert "did you mean holdfast:maxRetries?" in line
    assert "taskTimeout" in line


def test_an_unknown_key_like_no_other_gets_no_guess(given: Given) -> None:
    given({"image": IMAGE, "zzz": "3"})
    [line] = refused()
    assert "did you mean" not in line
    assert "This stack knows: stack, deletionProtection, foundation, image" in line


@pytest.mark.parametrize(
    ("key", "value", "says"),
    [
        ("taskTimeout", "604800s", ["604800s (168 h)", "with a GPU", "up to 43200s", "Set at most 43200s"]),
        ("taskTimeout", "168h", ["604800s (168 h)", "Set at most 43200s"]),
        ("maxRetries", "0", ["0 retries", "not live-migrated", "Set at least 1"]),
        ("maxRetries", "many", ["'many' does not fit", "retries a task", "pulumi config set holdfast:maxRetries"]),
        ("cpu", "2", ["2 CPU", "nvidia-l4 needs at least 4 CPU", "Use 8 CPU and 32 GiB"]),
        ("image", "trainer:latest", ["not pinned by a digest", "@sha256:DIGEST"]),
        ("env", "not an object", ["does not fit", "a map of environment variables"]),
        ("env", '{"A": true}', ["True does not fit", "`pulumi config set --path 'holdfast:env.A' VALUE`"]),
        ("parallelism", "0", ["0 tasks at once", "set at least 1"]),
        ("mountOptions", '["--implicit-dirs"]', ["'--implicit-dirs'", "without its hyphens"]),
        ("runId", "a/b", ["'a/b' is no folder name"]),
        ("networkEgress", "EVERYTHING", ["PRIVATE_RANGES_ONLY, ALL_TRAFFIC"]),
        ("alertEmail", "nobody", ["'nobody' does not fit", "who is told of alerts"]),
        ("preemptionsPerDay", "-1", ["does not fit", "above which to alert"]),
        ("checkpointIntervalSeconds", "1", ["does not fit", "greater than or equal to 60"]),
        ("missedCheckpoints", "1000", ["1000 intervals of 600s", "at most 84600s"]),
    ],
)
def test_a_wrong_value_is_one_line_with_the_key_the_reason_and_the_way_out(
    given: Given, key: str, value: str, says: list[str]
) -> None:
    given({"image": IMAGE, key: value})
    [line] = refused()
    assert re.match(rf"stacks/Pulumi\.dev-cloud-run\.yaml, holdfast:{key}(\.A)?: ", line)
    for part in says:
        assert part in line


@pytest.mark.parametrize(
    ("key", "value", "says"),
    [
        ("serviceAccountId", "a" * 40, "has 40 characters; a service account's id has 6 to 30"),
        ("bucketName", "Checkpoints", "no bucket name"),
        ("bucketName", "goog-it", "Google keeps for itself"),
        ("softDeleteSeconds", "60", "604800s to 7776000s, or is off"),
        ("bucketRole", "roles/storage.objectUsr", "no role on a bucket. Choose one of roles/storage.admin, "),
        ("bucketRole", "roles/run.admin", "no role on a bucket"),
        ("deleteAfterDays", "0", "greater than or equal to 1"),
        ("networkName", "Net", "does not match"),
        ("subnetCidr", "10.0.0.0/28", "/26 or larger"),
        ("repositoryId", "Trainers", "does not match"),
        ("imageKeepCount", "0", "greater than or equal to 1"),
        ("buildAccountId", "b", "Lengthen it"),
        ("buildAccountId", "gpu-job-sa", "the jobs' account, which may not write images"),
        ("sourceBucketName", "Source", "no bucket name"),
        ("billingAccount", "mine", "the billing account on which to put a budget"),
        ("budgetCurrency", "eur", "should match pattern '^[A-Z]{3}$'): the billing account's own currency"),
    ],
)
def test_a_wrong_value_of_the_foundation(given: Given, key: str, value: str, says: str) -> None:
    given({key: value})
    [line] = refused(FoundationConfig)
    assert line.startswith(f"stacks/Pulumi.dev-cloud-run.yaml, holdfast:{key}: ")
    assert says in line


def test_what_is_missing_is_named_with_the_command_that_sets_it(given: Given) -> None:
    given({}, gcp={})
    image, project, region = refused()
    assert "holdfast:image: is missing" in image
    assert "`pulumi config set holdfast:image VALUE`" in image
    assert "gcp:project: is missing" in project
    assert "gcp:region: is missing" in region


def test_a_misspelt_namespace_is_refused_and_somebody_elses_is_not(given: Given) -> None:
    given({"image": IMAGE}, gcp={**GCP, "holdfst:maxRetries": "1", "aws:region": "us-east-1"})
    [line] = refused()
    assert "holdfst:maxRetries: nothing reads namespace 'holdfst'; did you mean holdfast:maxRetries?" in line


@pytest.mark.parametrize(
    ("model", "region", "says"),
    [(CloudRunConfig, "us-west1", "no nvidia-l4 in us-west1"), (FoundationConfig, "us-west9", "no region 'us-west9'")],
)
def test_a_region_that_cannot_be_is_told_under_the_providers_key(
    given: Given, model: type[CloudRunConfig] | type[FoundationConfig], region: str, says: str
) -> None:
    given({"image": IMAGE} if model is CloudRunConfig else {}, gcp={**GCP, "gcp:region": region})
    [line] = refused(model)
    assert line.startswith("stacks/Pulumi.dev-cloud-run.yaml, gcp:region: ")
    assert says in line


@pytest.mark.parametrize("project", ["My project", "123456789012", "acme", "acme-"])
@pytest.mark.parametrize("model", [CloudRunConfig, FoundationConfig])
def test_what_is_no_project_id_is_told_once_and_not_for_each_name_made_of_it(
    given: Given, model: type[CloudRunConfig] | type[FoundationConfig], project: str
) -> None:
    given({"image": IMAGE} if model is CloudRunConfig else {}, gcp={**GCP, "gcp:project": project})
    [line] = refused(model)
    assert line.startswith(f"stacks/Pulumi.dev-cloud-run.yaml, gcp:project: {project!r} is no project id")
    assert "gcloud projects list" in line


def test_an_unknown_universe_is_refused(given: Given) -> None:
    given({"image": IMAGE}, gcp={**GCP, "gcp:universeDomain": "example.org"})
    [line] = refused()
    assert "gcp:universeDomain: universe domain 'example.org'" in line


def test_a_universe_without_cloud_run_is_told_under_the_providers_key(
    given: Given, monkeypatch: pytest.MonkeyPatch
) -> None:
    without = catalog.universe().model_copy(update={"domain": "example.org", "cloud_run": False})
    monkeypatch.setattr(catalog, "universe", lambda _domain=None: without)
    given({"image": IMAGE})
    [line] = refused()
    assert line.startswith(
        "stacks/Pulumi.dev-cloud-run.yaml, gcp:universeDomain: universe example.org has no Cloud Run"
    )


def test_the_jobs_defaults_are_the_components(given: Given) -> None:
    given({"image": IMAGE})
    config, _ = load(CloudRunConfig)
    defaults = {field.name: field.default for field in dataclasses.fields(GpuJobArgs)}
    own = {"env", "secret_env", "image", "job_name", "mount_options", "deletion_protection"}
    shared = defaults.keys() & CloudRunConfig.model_fields.keys() - own
    assert len(shared) == 9
    assert {name: getattr(config, name) for name in shared} == {name: defaults[name] for name in shared}


def test_a_secret_in_plain_text_is_refused_and_not_repeated(given: Given) -> None:
    given({"image": IMAGE, "secretEnv": '{"TOKEN": "hunter2"}'})
    [line] = refused()
    assert "pulumi config set --secret --path 'holdfast:secretEnv.NAME'" in line
    assert "hunter2" not in line
    given({"image": IMAGE, "secretEnv": '{"TOKEN": ["hunter2"]}'}, secret=("secretEnv",))
    [line] = refused()
    assert "holdfast:secretEnv.TOKEN: its value does not fit" in line
    assert "hunter2" not in line


@pytest.mark.parametrize("key", ["env", "image", "maxRetries", "maxRetrys"])
def test_a_secret_where_none_is_kept_is_refused_and_not_repeated(given: Given, key: str) -> None:
    value = '{"WANDB_API_KEY": "hunter2"}' if key == "env" else "hunter2"
    given({"image": IMAGE, key: value}, secret=(key,))
    [line] = refused()
    assert line.startswith(
        f"stacks/Pulumi.dev-cloud-run.yaml, holdfast:{key}: is encrypted, but its value would be in clear"
    )
    assert "pulumi config set --secret --path 'holdfast:secretEnv.NAME'" in line
    path = "--path 'holdfast:env.NAME'" if key == "env" else f"holdfast:{key}"
    assert f"`pulumi config rm {path}`" in line
    assert "hunter2" not in line


def test_a_misplaced_secret_is_told_with_what_else_is_wrong(given: Given) -> None:
    given({"image": IMAGE, "env": '{"A": "hunter2"}', "maxRetries": "many"}, secret=("env",))
    lines = refused()
    assert len(lines) == 2
    assert "holdfast:env: is encrypted" in lines[0]
    assert "holdfast:maxRetries: 'many' does not fit" in lines[1]


def test_a_stack_that_keeps_no_secrets_says_so(given: Given) -> None:
    given({"bucketName": "hunter2"}, secret=("bucketName",))
    [line] = refused(FoundationConfig)
    assert "This stack keeps no secrets" in line
    assert "`pulumi config set holdfast:bucketName VALUE`" in line
    assert "hunter2" not in line


def test_no_secrets_need_no_encryption(given: Given) -> None:
    given({"image": IMAGE, "secretEnv": "{}"})
    assert load(CloudRunConfig)[0].secret_env == {}
