"""A stack's configuration, typed: every key of namespace `holdfast` is read, and one that is unknown is an error.

Keys are written in camelCase in stacks/Pulumi.STACK.yaml. A wrong value is reported with the file and the key, together
with all others of the same file, before any resource is registered.
"""

import difflib
import json
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, TypeVar

import pulumi
from pulumi.runtime.config import CONFIG, get_config_env, is_config_secret
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel
from pydantic_core import ErrorDetails

from infra import catalog, names
from infra.errors import InputError
from infra.gpu_job import GpuJobArgs, gpu_job_problems

NAMESPACE = "holdfast"
# Keys, by a problem's field, of what is not in our namespace.
_KEYS = {"universe": "gcp:universeDomain"}


def _decoded(value: Any) -> Any:
    # The engine hands every value over as text, objects and lists as JSON.
    try:
        return json.loads(value) if isinstance(value, str) else value
    except ValueError:
        return value


TextMap = Annotated[dict[str, str], BeforeValidator(_decoded)]
TextList = Annotated[list[str], BeforeValidator(_decoded)]


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

    def bucket(self, target: Target) -> str:
        """The checkpoint bucket's name."""
        return self.bucket_name or names.bucket_name(target.project)

    def problems(self, target: Target) -> list[catalog.Problem]:
        """What the platform refuses of the names and the retention, and a role that is not one on a bucket."""
        refused = {
            "service_account_id": catalog.service_account_id_problem(self.service_account_id),
            "bucket_name": catalog.bucket_name_problem(self.bucket(target)),
            "soft_delete_seconds": catalog.soft_delete_problem(self.soft_delete_seconds),
        }
        found = [catalog.Problem(field, each.message) for field, each in refused.items() if each is not None]
        roles = [role for role in catalog.roles() if role.startswith("roles/storage.")]
        if self.bucket_role not in roles:
            message = f"{self.bucket_role!r} is no role on a bucket. Choose one of {', '.join(roles)}"
            found.append(catalog.Problem("bucket_role", message))
        return found


class CloudRunConfig(StackConfig):
    """Configuration of the cloud_run stack: a GPU job, by default GpuJobArgs', which are scenario A's."""

    secret_keys: ClassVar[frozenset[str]] = frozenset({"secretEnv"})

    foundation: str | None = Field(None, description="the foundation stack's name, by default the same environment's")
    image: str = Field(description="the trainer's image, pinned by digest")
    job_name: str = Field("gpu-resilient-job", description="the job's name")
    accelerator: str = Field(GpuJobArgs.accelerator, description="the GPU's type")
    cpu: str = Field(GpuJobArgs.cpu, description="CPUs a task")
    memory: str = Field(GpuJobArgs.memory, description="memory a task, such as 32Gi")
    task_timeout: str = Field(GpuJobArgs.task_timeout, description="seconds a task attempt may take, followed by `s`")
    max_retries: int = Field(GpuJobArgs.max_retries, description="retries a task")
    task_count: int = Field(GpuJobArgs.task_count, description="tasks an execution, each with a GPU")
    gpu_zonal_redundancy: bool = Field(
        GpuJobArgs.gpu_zonal_redundancy, description="whether capacity in a second zone is kept"
    )
    deletion_protection: bool = Field(
        GpuJobArgs.deletion_protection, description="whether the job refuses to be deleted"
    )
    env: TextMap = Field(default_factory=dict, description="the trainer's settings, a map of environment variables")
    secret_env: TextMap = Field(default_factory=dict, description="environment variables that are kept encrypted")

    def foundation_stack(self, stack: str) -> str:
        """The name of the foundation stack for `stack`: that of the configuration, else the same environment's."""
        if self.foundation is None and not stack.endswith("cloud-run"):
            raise InputError(
                f"{config_file()}, {NAMESPACE}:foundation: is missing, and the name {stack!r} does not say which "
                f"environment it is in. Set it with `pulumi config set {NAMESPACE}:foundation STACK`"
            )
        return self.foundation or f"{stack.removesuffix('cloud-run')}foundation"

    def problems(self, target: Target) -> list[catalog.Problem]:
        """What the platform, or this project, refuses of the job."""
        return gpu_job_problems(self, target.universe)


C = TypeVar("C", bound=StackConfig)


def config_file() -> str:
    """The running stack's configuration file, from the project's root."""
    return f"stacks/Pulumi.{pulumi.get_stack()}.yaml"


def load(model: type[C]) -> tuple[C, Target]:
    """The running stack's configuration as `model`, and where it is deployed.

    InputError with one line a problem: the file, the key, what is wrong, why and the way out.
    """
    values = _values()
    misplaced = [key for key in sorted(values) if key not in model.secret_keys and _is_secret(key)]
    wrong = [(key, _misplaced(model, key, isinstance(_decoded(values[key]), dict))) for key in misplaced]
    config: C | None = None
    try:
        config = model.model_validate(values)
    except ValidationError as error:
        wrong += [_explained(model, each) for each in error.errors() if each["loc"][0] not in misplaced]
    wrong += [
        (key, f"is in plain text. Encrypt each value: {_ENCRYPT.format(key)}")
        for key in sorted(model.secret_keys & values.keys())
        if _decoded(values[key]) and not _is_secret(key)
    ]
    wrong = [(f"{NAMESPACE}:{key}", message) for key, message in wrong] + _misspelt()
    target, missing = _target()
    wrong += missing
    if config is not None and target is not None and not misplaced:  # what is said there quotes values
        wrong += [
            (_KEYS.get(each.field, f"{NAMESPACE}:{to_camel(each.field)}"), each.message)
            for each in config.problems(target)
        ]
    if wrong or config is None or target is None:
        raise InputError("\n".join(f"{config_file()}, {key}: {message}" for key, message in wrong))
    return config, target


_ENCRYPT = f"`pulumi config set --secret --path '{NAMESPACE}:{{}}.NAME'`"


def _is_secret(key: str) -> bool:
    return is_config_secret(f"{NAMESPACE}:{key}")


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


def _values() -> dict[str, Any]:
    every = {**get_config_env(), **CONFIG.get()}
    return {key.removeprefix(f"{NAMESPACE}:"): value for key, value in every.items() if key.startswith(f"{NAMESPACE}:")}


def _misspelt() -> list[tuple[str, str]]:
    """Keys whose namespace is nearly one that matters here. Others may be those of a provider somebody adds."""
    ours, found = (NAMESPACE, "gcp"), []
    for key in sorted({**get_config_env(), **CONFIG.get()}):
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
    set_it = f"Set it with `pulumi config set {NAMESPACE}:{path[0]} VALUE`"
    if error["type"] == "missing":
        return path[0], f"is missing, and has no default: {meaning}. {set_it}"
    given = "its value" if path[0] in model.secret_keys else repr(error["input"])
    return ".".join(path), f"{given} does not fit ({error['msg'].lower()}): {meaning}. {set_it}"


def _target() -> tuple[Target | None, list[tuple[str, str]]]:
    provider = pulumi.Config("gcp")
    project, region = provider.get("project"), provider.get("region")
    missing = [
        (f"gcp:{key}", f"is missing, so nothing says {why}. Set it with `pulumi config set gcp:{key} {example}`")
        for key, value, why, example in (
            ("project", project, "which project to deploy to", "PROJECT_ID"),
            ("region", region, "where the bucket and the job are", "us-central1"),
        )
        if not value
    ]
    try:
        universe = catalog.universe(provider.get("universeDomain") or catalog.universe().domain)
    except ValueError as error:
        return None, [*missing, ("gcp:universeDomain", str(error))]
    if project and region:
        return Target(project, region, universe), missing
    return None, missing
