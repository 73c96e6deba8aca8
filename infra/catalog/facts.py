"""The loader of the catalog's data files, and the frozen models they are read into."""

import datetime
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from types import MappingProxyType
from typing import Any

import yaml
from pydantic import BaseModel, ConfigDict, Field


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Fact(_Frozen):
    """One fact as the data file has it: the value, the page it was read on, when, and what a reader should know."""

    value: Any
    source: str = Field(min_length=1)
    read: datetime.date
    note: str = ""


class Gpu(_Frozen):
    """What an accelerator asks of a Cloud Run instance. `preview`: it needs launch stage BETA."""

    min_cpu: float
    min_memory_gib: float
    max_per_instance: int
    preview: bool = False


class Band(_Frozen):
    """The memory, in GiB, that an instance with a given number of CPUs may have."""

    min_gib: float
    max_gib: float


class CloudRun(_Frozen):
    """Limits of Cloud Run jobs; durations in seconds, lengths in characters. Sources: cloud_run.yaml."""

    gpus: Mapping[str, Gpu]
    cpu_memory: Mapping[float, Band]
    task_timeout_default_s: int
    task_timeout_max_s: int
    gpu_task_timeout_ga_s: int
    max_retries_min: int
    max_retries_max: int
    max_retries_default: int
    gpu_retries_required_above_s: int
    termination_grace_s: int
    max_task_count: int
    job_and_token_max: int
    execution_suffix_length: int
    job_name_pattern: str
    container_cpu_default: str
    container_memory_default: str
    reserved_env_names: tuple[str, ...]
    reserved_env_prefixes: tuple[str, ...]

    @property
    def job_name_max(self) -> int:
        """The longest job name, in characters, that leaves room for an execution's generated suffix."""
        return self.job_and_token_max - self.execution_suffix_length


class Storage(_Frozen):
    """Limits of Cloud Storage buckets; durations in seconds, lengths in characters. Sources: storage.yaml."""

    bucket_name_min: int
    bucket_name_max: int
    bucket_name_pattern: str
    bucket_name_reserved_prefixes: tuple[str, ...]
    bucket_name_reserved_words: tuple[str, ...]
    soft_delete_default_s: int
    soft_delete_min_s: int
    soft_delete_max_s: int
    hierarchical_namespace_needs_uniform_access: bool
    hierarchical_namespace_allows_versioning: bool
    immutable_fields: tuple[str, ...]
    storage_classes: tuple[str, ...]
    lifecycle_actions: tuple[str, ...]
    object_name_max_bytes: int


class ServiceAccountLimits(_Frozen):
    """Limits of a service account's id, in characters. Source: iam.yaml."""

    id_min: int
    id_max: int
    id_pattern: str


class Services(_Frozen):
    """APIs by their Service Usage names. Sources: services.yaml. `by_hand`: what no `up` can turn on itself."""

    by_hand: tuple[str, ...]
    cloud_run_job: tuple[str, ...]
    gke_tpu: tuple[str, ...]
    slurm: tuple[str, ...]
    known: Mapping[str, str]
    enabled_by_default: frozenset[str]
    batch_enable_max: int


class Universe(_Frozen):
    """A cloud of its own: its domains and what differs in it. Sources: universes.yaml.

    `service_account_domain` is for accounts that a project's users create, `service_agent_domain` for Google's own.
    """

    domain: str
    service_account_domain: str
    service_agent_domain: str
    api_domain: str
    registry_domain: str
    console_domain: str
    cloud_run: bool
    gpu_task_timeout_max_s: int
    project_prefix: str = ""

    def service_account_email(self, account_id: str, project: str) -> str:
        """The e-mail of service account `account_id` of `project` (its id; a universe's prefix is left out)."""
        return f"{account_id}@{project.removeprefix(self.project_prefix)}.{self.service_account_domain}"

    def docker_registry(self, location: str) -> str:
        """The host of Artifact Registry's container images in `location`."""
        return f"{location}-docker.{self.registry_domain}"


@cache
def _facts(name: str) -> Mapping[str, Fact]:
    document = yaml.safe_load(files(__package__).joinpath(f"{name}.yaml").read_text(encoding="utf-8"))
    return MappingProxyType({key: Fact.model_validate(raw) for key, raw in document.items()})


def _values(name: str) -> dict[str, Any]:
    return {key: each.value for key, each in _facts(name).items()}


def fact(file: str, key: str) -> Fact:
    """The fact `key` of data file `file` (without .yaml), to quote a source. KeyError names what is there."""
    facts = _facts(file)
    if key not in facts:
        raise KeyError(f"{file}.yaml has no fact {key!r}; it has: {', '.join(sorted(facts))}")
    return facts[key]


@cache
def cloud_run() -> CloudRun:
    """The limits of Cloud Run jobs."""
    return CloudRun.model_validate(_values("cloud_run"))


@cache
def storage() -> Storage:
    """The limits of Cloud Storage buckets."""
    return Storage.model_validate(_values("storage"))


@cache
def service_account() -> ServiceAccountLimits:
    """The limits of a service account's id."""
    return ServiceAccountLimits.model_validate(fact("iam", "service_account").value)


@cache
def services() -> Services:
    """The APIs that are known, needed and enabled on a new project."""
    return Services.model_validate(_values("services"))


@cache
def roles() -> Mapping[str, frozenset[str]]:
    """Each predefined role's permissions, as far as Holdfast's APIs go; `*` (roles/owner) stands for all of them."""
    return MappingProxyType(
        {name: frozenset(each.value) for name, each in _facts("iam").items() if name.startswith("roles/")}
    )


@cache
def universe(domain: str = "googleapis.com") -> Universe:
    """The universe of `domain`. ValueError, naming the known ones, when the catalog does not have it."""
    known = _facts("universes")
    if domain not in known:
        raise ValueError(
            f"universe domain {domain!r} is not in the catalog; known: {', '.join(known)}. "
            "Add it, with its source, to infra/catalog/universes.yaml."
        )
    return Universe.model_validate(known[domain].value)
