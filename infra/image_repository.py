"""The repository of the trainer's images."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import pulumi
import pulumi_gcp as gcp

from infra import catalog, names
from infra.catalog import Problem, Universe
from infra.errors import refuse

_DAY_S = 86400


@dataclass(frozen=True)
class ImageRepositoryArgs:
    """Arguments of ImageRepository."""

    project: str
    """The project's id."""
    location: str
    """The region of the jobs that pull from it: pulls from elsewhere are slower and billed."""
    repository_id: str = "trainers"
    """The repository's id, at most 63 characters."""
    keep_count: int = 10
    """Newest versions of each image that are never deleted, tagged or not, at least 1."""
    untagged_days: int = 7
    """Days after which a version that never had a tag is deleted, at least 1."""
    deletion_protection: bool = True
    """Whether the repository, which holds what past runs ran on, refuses to be deleted, or replaced."""
    labels: Mapping[str, str] = field(default_factory=names.labels)
    """The repository's labels."""
    universe: Universe = field(default_factory=catalog.universe)
    """The universe that the project is in, by default the public one."""


class ImageRepository(pulumi.ComponentResource):
    """An Artifact Registry repository of container images, whose tags stay where they were put.

    A tag is the hash of an image's source, so one that moved would lie. While tags are immutable no tagged image can be
    deleted (https://docs.cloud.google.com/artifact-registry/docs/repositories/update-repo-settings, read 2026-11-29),
    and no page excepts clean-up policies. So there is deliberately no rule on the age of tagged images: what was
    deployed once can be pulled again, and is billed, until the repository goes. Child: NAME.
    """

    repository_id: pulumi.Output[str]
    """The repository's id."""
    url: pulumi.Output[str]
    """What the name of an image in it begins with: HOST/PROJECT/REPOSITORY."""

    def __init__(self, name: str, args: ImageRepositoryArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        refuse(f"ImageRepository {name}", catalog.repository_id_problem(args.repository_id), *_clean_up_problems(args))
        super().__init__("holdfast:image_repository:ImageRepository", name, None, opts)
        repository = gcp.artifactregistry.Repository(
            name,
            project=args.project,
            location=args.location,
            repository_id=args.repository_id,
            format="DOCKER",
            description="Images of the trainer, tagged with the hash of their source",
            docker_config=gcp.artifactregistry.RepositoryDockerConfigArgs(immutable_tags=True),
            cleanup_policies=_clean_up(args),
            labels=args.labels,
            opts=pulumi.ResourceOptions(parent=self, protect=args.deletion_protection),
        )
        url = repository_url(args.universe, args.project, args.location, args.repository_id)
        self.repository_id = repository.repository_id
        self.url = repository.id.apply(lambda _: url)
        self.register_outputs({"repositoryId": self.repository_id, "url": self.url})


def repository_url(universe: Universe, project: str, location: str, repository_id: str) -> str:
    """What the name of an image in a repository begins with. A prefix in the project's id becomes a folder."""
    return f"{universe.docker_registry(location)}/{project.replace(':', '/')}/{repository_id}"


def _clean_up_problems(args: ImageRepositoryArgs) -> list[Problem]:
    numbers = {"keep_count": args.keep_count, "untagged_days": args.untagged_days}
    return [Problem(setting, f"{number}; set at least 1") for setting, number in numbers.items() if number < 1]


def _clean_up(args: ImageRepositoryArgs) -> list[gcp.artifactregistry.RepositoryCleanupPolicyArgs]:
    """What is deleted, and what is kept of it: KEEP wins over DELETE."""
    return [
        gcp.artifactregistry.RepositoryCleanupPolicyArgs(
            id="keep-newest",
            action="KEEP",
            most_recent_versions=gcp.artifactregistry.RepositoryCleanupPolicyMostRecentVersionsArgs(
                keep_count=args.keep_count
            ),
        ),
        gcp.artifactregistry.RepositoryCleanupPolicyArgs(
            id="delete-untagged",
            action="DELETE",
            condition=gcp.artifactregistry.RepositoryCleanupPolicyConditionArgs(
                tag_state="UNTAGGED", older_than=f"{args.untagged_days * _DAY_S}s"
            ),
        ),
    ]
