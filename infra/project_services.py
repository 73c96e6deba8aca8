"""The APIs that a project must have enabled before anything else can be made in it."""

from collections.abc import Sequence
from dataclasses import dataclass

import pulumi
import pulumi_gcp as gcp


@dataclass(frozen=True)
class ProjectServicesArgs:
    """Arguments of ProjectServices."""

    project: str
    """The project's id."""
    services: Sequence[str]
    """The APIs by their Service Usage names, such as run.googleapis.com."""


class ProjectServices(pulumi.ComponentResource):
    """Enables APIs and leaves them enabled on destroy: others in the project may use them.

    Children: NAME-SERVICE, with the API's name up to its first dot.
    """

    services: pulumi.Output[list[str]]
    """The APIs, known once all of them are enabled."""

    def __init__(self, name: str, args: ProjectServicesArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("holdfast:project_services:ProjectServices", name, None, opts)
        enabled = [
            gcp.projects.Service(
                f"{name}-{service.partition('.')[0]}",
                project=args.project,
                service=service,
                disable_on_destroy=False,
                opts=pulumi.ResourceOptions(parent=self),
            )
            for service in sorted(set(args.services))
        ]
        self.services = pulumi.Output.all(*(each.service for each in enabled)).apply(list)
        self.register_outputs({"services": self.services})
