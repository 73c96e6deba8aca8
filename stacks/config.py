"""A stack's configuration, typed: every key of namespace `holdfast` is read, and one that is unknown is an error.

Keys are written in camelCase in stacks/Pulumi.STACK.yaml. A wrong value is reported with the file and the key, together
with all others of the same file, before any resource is registered.
"""

import difflib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel
from pydantic_core import ErrorDetails

from infra import catalog, names
from infra.build_identity import BuildIdentityArgs
from infra.errors import InputError
from infra.gpu_job import GpuJobArgs, GpuJobNetwork, gpu_job_problems
from infra.image_repository import ImageRepositoryArgs, repository_url
from infra.job_alerts import JobAlertsArgs, job_alerts_problems
from infra.network import NetworkArgs
from stacks.choose import environment
from stacks.source import Source, config_file, of_engine, of_file

NAMESPACE = "holdfast"
# Keys, by a problem's field, of what is not in our namespace.
_KEYS = {"universe": "gcp:universeDomain", "location": "gcp:region"}
_BUDGETS = "billingbudgets.googleapis.com"


def decoded(value: Any) -> Any:
    # The engine hands every value over as text, objects and lists as JSON.
    try:
        return json.loads(value) if isinstance(value, str) else value
    except ValueError:
        return value


TextMap = Annotated[dict[str, str], BeforeValidator(decoded)]
TextList = Annotated[list[str], BeforeValidator(decoded)]


@dataclass(frozen=True)
class Target:
    """Where a stack is deployed, from the provider's own configuration."""

    project: str
    """gcp:project, the project's id."""
    region: str
    """gcp:region."""
    universe: catalog.Universe
    """gcp:universeDomain, by default the public one."""


class StackConfig(BaseModel):
    """What every stack's configuration has."""

    model_config = ConfigDict(frozen=True, extra="forbid", alias_generator=to_camel, coerce_numbers_to_str=True)
    secret_keys: ClassVar[frozenset[str]] = frozenset()
    """Keys whose values the file must hold encrypted."""

    stack: str | None = Field(None, description="the stack's module, when its name does not end in it")
    deletion_protection: bool | None = Field(
        None,
        description="whether job, checkpoint bucket and image repository refuse to be deleted, by default outside dev",
    )

    def protected(self, stack: str) -> bool:
        """Whether what cannot be made again refuses to be deleted: by default in every environment but dev."""
        return environment(stack) != "dev" if self.deletion_protection is None else self.deletion_protection

    def problems(self, target: Target) -> list[catalog.Problem]:
        """What is wrong with values that are well-typed, each under its field's name."""
        return []


class FoundationConfig(StackConfig):
    """Configuration of the foundation stack."""

    services: TextList = Field(
        default_factory=lambda: list(catalog.services().cloud_run_job),
        description="APIs to enable, a list of their names",
    )
    service_account_id: str = Field("gpu-job-sa", description="the id of the service account that jobs run as")
    bucket_name: str | None = Field(
        None, description="the checkpoint bucket's name, by default gpu-checkpoints-PROJECT"
    )
    bucket_role: str = Field("roles/storage.objectUser", description="the jobs' role on the checkpoint bucket")
    soft_delete_seconds: int = Field(0, description="how long deleted checkpoints are kept and billed, in seconds")
    delete_after_days: int | None = Field(None, ge=1, description="the age, in days, at which checkpoints are deleted")
    force_destroy: bool = Field(False, description="whether destroy deletes checkpoints with their bucket")
    network_name: str = Field(NetworkArgs.network_name, description="the network's name")
    subnet_cidr: str = Field(NetworkArgs.subnet_cidr, description="the subnet's range")
    repository_id: str = Field(ImageRepositoryArgs.repository_id, description="the image repository's id")
    image_keep_count: int = Field(
        ImageRepositoryArgs.keep_count, ge=1, description="newest versions of an image that are never deleted"
    )
    image_untagged_days: int = Field(
        ImageRepositoryArgs.untagged_days,
        ge=1,
        description="the age, in days, at which untagged images are deleted; tagged ones stay with the repository",
    )
    build_account_id: str = Field(
        BuildIdentityArgs.account_id, description="the id of the service account that builds images"
    )
    source_bucket_name: str | None = Field(
        None, description="the name of the bucket of image sources, by default PROJECT-build-source"
    )
    source_delete_after_days: int = Field(
        BuildIdentityArgs.delete_after_days, ge=1, description="the age, in days, at which image sources are deleted"
    )
    billing_account: str | None = Field(
        None,
        pattern=r"^[0-9A-F]{6}-[0-9A-F]{6}-[0-9A-F]{6}$",
        description="the billing account on which to put a budget, such as 012345-6789AB-CDEF01",
    )
    budget_amount: int | None = Field(None, ge=1, description="what a month may cost, in whole units of the currency")
    budget_currency: str | None = Field(
        None, pattern=r"^[A-Z]{3}$", description="the billing account's own currency, such as EUR"
    )

    def apis(self) -> list[str]:
        """The APIs to enable: those of `services`, and that of budgets when there is one."""
        return [*self.services, *([_BUDGETS] if self.billing_account else [])]

    def bucket(self, target: Target) -> str:
        """The checkpoint bucket's name."""
        return self.bucket_name or names.bucket_name(target.project)

    def source_bucket(self, target: Target) -> str:
        """The name of the bucket that image sources are uploaded to."""
        return self.source_bucket_name or names.source_bucket_name(target.project)

    def repository(self, target: Target) -> str:
        """What the name of an image in the repository begins with: HOST/PROJECT/REPOSITORY."""
        return repository_url(target.universe, target.project, target.region, self.repository_id)

    def service_account_email(self, target: Target) -> str:
        """The e-mail of the account that jobs run as."""
        return target.universe.service_account_email(self.service_account_id, target.project)

    def build_account_email(self, target: Target) -> str:
        """The e-mail of the account that builds images."""
        return target.universe.service_account_email(self.build_account_id, target.project)

    def problems(self, target: Target) -> list[catalog.Problem]:
        """What the platform refuses of names and numbers, a role that is not one on a bucket, half a budget."""
        refused = {
            "service_account_id": catalog.service_account_id_problem(self.service_account_id),
            "bucket_name": catalog.bucket_name_problem(self.bucket(target)),
            "soft_delete_seconds": catalog.soft_delete_problem(self.soft_delete_seconds),
            "network_name": catalog.compute_name_problem(f"{self.network_name}-{target.region}"),
            "subnet_cidr": catalog.direct_vpc_range_problem(self.subnet_cidr),
            "repository_id": catalog.repository_id_problem(self.repository_id),
            "build_account_id": catalog.service_account_id_problem(self.build_account_id),
            "source_bucket_name": catalog.bucket_name_problem(self.source_bucket(target)),
        }
        found = [catalog.Problem(field, each.message) for field, each in refused.items() if each is not None]
        roles = [role for role in catalog.roles() if role.startswith("roles/storage.")]
        if self.bucket_role not in roles:
            message = f"{self.bucket_role!r} is no role on a bucket. Choose one of {', '.join(roles)}"
            found.append(catalog.Problem("bucket_role", message))
        if self.build_account_id == self.service_account_id:
            message = f"{self.build_account_id!r} is the jobs' account, which may not write images. Choose another id"
            found.append(catalog.Problem("build_account_id", message))
        if (self.billing_account is None) != (self.budget_amount is None):
            missing = "billing_account" if self.billing_account is None else "budget_amount"
            message = "is missing: a budget needs a billing account and an amount. Set both, or neither"
            found.append(catalog.Problem(missing, message))
        return found


class CloudRunConfig(StackConfig):
    """Configuration of the cloud_run stack: a GPU job, by default GpuJobArgs', which are scenario A's."""

    secret_keys: ClassVar[frozenset[str]] = frozenset({"secretEnv"})

    foundation: str | None = Field(None, description="the foundation stack's name, by default the same environment's")
    image: str = Field(description="the trainer's image, pinned by digest")
    image_base: str | None = Field(
        None, description="what `holdfast image` builds on, by default Debian's Python; pin it by digest"
    )
    image_builder: str | None = Field(
        None, description="the image with docker in which Cloud Build builds, by default Google's"
    )
    job_name: str = Field("gpu-resilient-job", description="the job's name")
    accelerator: str = Field(GpuJobArgs.accelerator, description="the GPU's type")
    cpu: str = Field(GpuJobArgs.cpu, description="CPUs a task")
    memory: str = Field(GpuJobArgs.memory, description="memory a task, such as 32Gi")
    task_timeout: str = Field(GpuJobArgs.task_timeout, description="seconds a task attempt may take, followed by `s`")
    max_retries: int = Field(GpuJobArgs.max_retries, description="retries a task")
    task_count: int = Field(GpuJobArgs.task_count, description="tasks an execution, each with a GPU")
    parallelism: int | None = Field(GpuJobArgs.parallelism, description="tasks at once, by default all")
    gpu_zonal_redundancy: bool = Field(
        GpuJobArgs.gpu_zonal_redundancy, description="whether capacity in a second zone is kept"
    )
    mount_options: TextList = Field(
        default_factory=list, description="flags of Cloud Storage FUSE without their hyphens, a list"
    )
    run_id: str | None = Field(
        GpuJobArgs.run_id, description="the run's name; another one begins anew, by default the job's name"
    )
    network_enabled: bool = Field(False, description="whether the tasks are in the foundation's network")
    network_egress: str = Field(GpuJobNetwork.egress, description="which traffic goes through the network")
    alert_email: str | None = Field(
        JobAlertsArgs.email, pattern=r"^[^@\s]+@[^@\s]+$", description="who is told of alerts"
    )
    preemptions_per_day: int = Field(
        JobAlertsArgs.preemptions_per_day, ge=0, description="preemptions in 24 hours above which to alert"
    )
    checkpoint_interval_seconds: int = Field(
        JobAlertsArgs.checkpoint_interval_s, ge=60, description="seconds between two checkpoints, for an alert only"
    )
    missed_checkpoints: int = Field(
        JobAlertsArgs.missed_checkpoints, ge=1, description="intervals without a checkpoint after which to alert"
    )
    env: TextMap = Field(default_factory=dict, description="the trainer's settings, a map of environment variables")
    secret_env: TextMap = Field(default_factory=dict, description="environment variables that are kept encrypted")

    def foundation_stack(self, stack: str) -> str:
        """The name of the foundation stack for `stack`: that of the configuration, else the same environment's."""
        if self.foundation is None and not stack.endswith("cloud-run"):
            raise InputError(
                f"{config_file(stack)}, {NAMESPACE}:foundation: is missing, and the name {stack!r} does not say which "
                f"environment it is in. Set it with `pulumi config set {NAMESPACE}:foundation STACK`"
            )
        return self.foundation or f"{stack.removesuffix('cloud-run')}foundation"

    def alerts(self, target: Target, stack: str = "") -> JobAlertsArgs:
        """What the job's alerts are made of."""
        return JobAlertsArgs(
            project=target.project,
            location=target.region,
            job_name=self.job_name,
            stack=stack,
            preemptions_per_day=self.preemptions_per_day,
            checkpoint_interval_s=self.checkpoint_interval_seconds,
            missed_checkpoints=self.missed_checkpoints,
            email=self.alert_email,
            labels=labels(stack),
        )

    def problems(self, target: Target) -> list[catalog.Problem]:
        """What the platform, or this project, refuses of the job and its alerts."""
        egress = catalog.egress_problem(self.network_egress)
        return [
            *gpu_job_problems(self, target.region, target.universe),
            *([catalog.Problem("network_egress", egress.message)] if egress else []),
            *job_alerts_problems(self.alerts(target)),
        ]


C = TypeVar("C", bound=StackConfig)


def labels(stack: str) -> dict[str, str]:
    """Labels of everything in `stack` that takes some."""
    return names.labels(environment=environment(stack), stack=stack)


def load(model: type[C]) -> tuple[C, Target]:
    """The running stack's configuration as `model`, and where it is deployed.

    InputError with one line a problem: the file, the key, what is wrong, why and the way out.
    """
    return _judged(model, of_engine())


def read(model: type[C], stack: str, path: Path) -> tuple[C, Target]:
    """The same from the file `path` of `stack`, without the engine: `[secret]` stands for encrypted values.

    InputError also for a file that cannot be read.
    """
    return _judged(model, of_file(stack, path))


def _judged(model: type[C], source: Source) -> tuple[C, Target]:
    values = {
        key.removeprefix(f"{NAMESPACE}:"): value
        for key, value in source.values.items()
        if key.startswith(f"{NAMESPACE}:")
    }
    secret = {key for key in values if f"{NAMESPACE}:{key}" in source.secret}
    misplaced = sorted(secret - model.secret_keys)
    wrong = [(key, _misplaced(model, key, isinstance(decoded(values[key]), dict))) for key in misplaced]
    config: C | None = None
    try:
        config = model.model_validate(values)
    except ValidationError as error:
        wrong += [_explained(model, each) for each in error.errors() if each["loc"][0] not in misplaced]
    wrong += [
        (key, f"is in plain text. Encrypt each value: {_ENCRYPT.format(key)}")
        for key in sorted((model.secret_keys & values.keys()) - secret)
        if decoded(values[key])
    ]
    wrong = [(f"{NAMESPACE}:{key}", message) for key, message in wrong] + _misspelt(source)
    target, misdirected = _target(source)
    wrong += misdirected
    if config is not None and target is not None and not misplaced:  # what is said there quotes values
        wrong += [
            (_KEYS.get(each.field, f"{NAMESPACE}:{to_camel(each.field)}"), each.message)
            for each in config.problems(target)
        ]
    if wrong or config is None or target is None:
        raise InputError("\n".join(f"{source.file}, {key}: {message}" for key, message in wrong))
    return config, target


_ENCRYPT = f"`pulumi config set --secret --path '{NAMESPACE}:{{}}.NAME'`"


def _misplaced(model: type[StackConfig], key: str, nested: bool) -> str:
    """Why `key`, which has an encrypted value (`nested`: within an object), may have none, and the way out."""
    path = f"--path '{NAMESPACE}:{key}.NAME'" if nested else f"{NAMESPACE}:{key}"
    places = " or ".join(sorted(model.secret_keys))
    way_out = f"Put a secret in {places}: {_ENCRYPT.format(places)}" if places else "This stack keeps no secrets"
    return (
        "is encrypted, but its value would be in clear in the state, in logs and in messages. "
        f"{way_out}. Take it out of here with `pulumi config rm {path}`, or set what is not secret in plain text: "
        f"`pulumi config set {path} VALUE`"
    )


def _misspelt(source: Source) -> list[tuple[str, str]]:
    """Keys whose namespace is nearly one that matters here. Others may be those of a provider somebody adds."""
    ours, found = (NAMESPACE, "gcp"), []
    for key in sorted(source.values):
        namespace = key.partition(":")[0]
        near = difflib.get_close_matches(namespace, ours, 1)
        if near and namespace not in ours:
            name = key.partition(":")[2]
            found.append((key, f"nothing reads namespace {namespace!r}; did you mean {near[0]}:{name}?"))
    return found


def _explained(model: type[StackConfig], error: ErrorDetails) -> tuple[str, str]:
    path = [str(part) for part in error["loc"]]
    known = {field.alias: field for field in model.model_fields.values() if field.alias}
    if error["type"] == "extra_forbidden":
        near = difflib.get_close_matches(path[0], known, 1)
        guess = f"; did you mean {NAMESPACE}:{near[0]}?" if near else "."
        return path[0], f"there is no such key, so it would have no effect{guess} This stack knows: {', '.join(known)}"
    meaning = known[path[0]].description
    nested = f"--path '{NAMESPACE}:{'.'.join(path)}'" if len(path) > 1 else f"{NAMESPACE}:{path[0]}"
    set_it = f"Set it with `pulumi config set {nested} VALUE`"
    if error["type"] == "missing":
        return path[0], f"is missing, and has no default: {meaning}. {set_it}"
    given = "its value" if path[0] in model.secret_keys else repr(error["input"])
    why = error["msg"][:1].lower() + error["msg"][1:]
    return ".".join(path), f"{given} does not fit ({why}): {meaning}. {set_it}"


def _target(source: Source) -> tuple[Target | None, list[tuple[str, str]]]:
    """Where a stack is deployed; or None, and what is wrong with it: nothing that follows from it is judged then."""
    project, region, domain = (
        str(source.values.get(f"gcp:{key}") or "") for key in ("project", "region", "universeDomain")
    )
    wrong = [
        (f"gcp:{key}", f"is missing, so nothing says {why}. Set it with `pulumi config set gcp:{key} {example}`")
        for key, value, why, example in (
            ("project", project, "which project to deploy to", "PROJECT_ID"),
            ("region", region, "where the bucket and the job are", "us-central1"),
        )
        if not value
    ]
    try:
        universe = catalog.universe(domain or catalog.universe().domain)
    except ValueError as error:
        return None, [*wrong, ("gcp:universeDomain", str(error))]
    refused = (
        catalog.project_id_problem(project) if project else None,
        catalog.compute_region_problem(region, universe) if region else None,
    )
    wrong += [(f"gcp:{each.field}", each.message) for each in refused if each is not None]
    return None if wrong else Target(project, region, universe), wrong
