"""What the emulated cloud knows: projects, resources by name, policies, operations, and its time and chance.

Services stand on this; `Cloud` (cloud.py) is this and the seam.
"""

from __future__ import annotations

import random
import shutil
import tempfile
import threading
import uuid
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from infra import catalog
from mockgcp.audit import AuditLog
from mockgcp.builder import ArchiveBuilder, Builder
from mockgcp.clock import Clock
from mockgcp.control_planes import ControlPlanes
from mockgcp.durations import NOMINAL
from mockgcp.errors import permission_denied
from mockgcp.faults import Faults
from mockgcp.operations import Operations
from mockgcp.policy import Policies
from mockgcp.quotas import Quotas
from mockgcp.training_clusters import TrainingClusters

DEFAULT_OWNER = "user:owner@example.com"


@dataclass
class Project:
    """A seeded project. `services` are the enabled APIs by service name."""

    id: str
    number: int
    owner: str
    services: set[str] = field(default_factory=set)

    @property
    def name(self) -> str:
        return f"projects/{self.id}"


class State:
    """An emulated Google Cloud's state.

    Args:
        clock: its time; held still by default.
        seed: makes every generated id and probabilistic fault repeatable.
        state_dir: where buckets keep their objects; a temporary directory by default.
        durations: seconds by method id that replace the nominal ones of long-running operations.
        universe: the universe domain the projects are in; the catalog's default one by default.
    """

    def __init__(
        self,
        *,
        clock: Clock | None = None,
        seed: int = 0,
        state_dir: Path | None = None,
        durations: Mapping[str, float] | None = None,
        universe: str | None = None,
    ) -> None:
        self.clock = clock or Clock()
        self.universe = catalog.universe(universe) if universe else catalog.universe()
        self.durations: Mapping[str, float] = {**NOMINAL, **(durations or {})}
        self.audit = AuditLog()
        self.random = random.Random(seed)
        self.faults = Faults(self.random)
        self.policies = Policies(self.service_account_exists)
        self.quotas = Quotas()
        self.builder: Builder = ArchiveBuilder()
        self.training_clusters: TrainingClusters | None = None
        self.control_planes: ControlPlanes | None = None
        # Notified when a call or an event may have changed something; its lock guards everything here.
        self.changed = threading.Condition(self.clock.lock)
        self.operations = Operations(self.clock, self.changed)
        self._seed = seed
        self._tables: defaultdict[str, dict[str, dict[str, Any]]] = defaultdict(dict)
        self._projects: dict[str, Project] = {}
        self._temporary = None if state_dir else tempfile.TemporaryDirectory(prefix="mockgcp-")
        self.state_dir = state_dir or Path(self._temporary.name if self._temporary else "")

    def table(self, kind: str) -> dict[str, dict[str, Any]]:
        """The resources of one kind (`run.job`, `storage.bucket`, ...) by full name."""
        return self._tables[kind]

    def tables(self) -> Mapping[str, Mapping[str, Mapping[str, Any]]]:
        """Every table by kind."""
        return self._tables

    def uid(self) -> str:
        """A fresh id, repeatable under the seed."""
        return str(uuid.UUID(int=self.random.getrandbits(128), version=4))

    def allowed(self, principal: str, permission: str, resource: str) -> bool:
        """Whether the principal holds the permission on the resource or above it; a disabled account holds none."""
        kind, _, email = principal.partition(":")
        if kind == "serviceAccount" and (self._account(email) or {}).get("disabled"):
            return False
        parts, project = resource.split("/"), self.project_of(resource)
        chain = ["/".join(parts[:end]) for end in range(len(parts), 1, -2)]
        return self.policies.allowed(principal, permission, [*chain, project.name] if project else chain)

    def service_account_exists(self, email: str) -> bool:
        """Whether a service account has that e-mail: created, default once Compute Engine is on, or Google's agent."""
        name = email.partition("@")[0]
        for project in self._projects.values():
            if name == f"{project.number}-compute":
                return "compute.googleapis.com" in project.services
            if name.removeprefix("service-") == str(project.number):
                return True
        return self._account(email) is not None

    def _account(self, email: str) -> dict[str, Any] | None:
        return next((a for a in self.table("iam.serviceAccount").values() if a["email"] == email), None)

    # -- projects ------------------------------------------------------------------------------------------------

    def seed_project(self, project_id: str, *, number: int | None = None, owner: str = DEFAULT_OWNER) -> Project:
        """Makes a project exist, with an owner and the APIs that are on in every new project."""
        if project_id in self._projects:
            raise ValueError(f"project {project_id!r} is seeded already")
        number = number if number is not None else self.random.randrange(10**11, 10**12)
        project = Project(project_id, number, owner, set(catalog.services().enabled_by_default))
        self._projects[project_id] = project
        self.policies.grant(project.name, "roles/owner", owner)
        return project

    @property
    def projects(self) -> tuple[Project, ...]:
        return tuple(self._projects.values())

    def project(self, id_or_number: str) -> Project:
        """The project of that id or number.

        Raises:
            ApiError: PERMISSION_DENIED, as the API answers for a project that does not exist, too.
        """
        for project in self._projects.values():
            if id_or_number in (project.id, str(project.number)):
                return project
        raise permission_denied(
            f"Permission denied on resource project {id_or_number} (or it may not exist).", reason="CONSUMER_INVALID"
        )

    def project_of(self, resource: str) -> Project | None:
        """The project that a resource name begins with; None for a name that says no project."""
        parts = resource.split("/")
        return self.project(parts[1]) if parts[0] == "projects" and parts[1] != "_" else None

    def reset(self) -> None:
        """Forgets all but the time: projects, resources and objects, policies, operations, faults, the audit log."""
        with self.changed:
            shutil.rmtree(self.state_dir / "buckets", ignore_errors=True)
            self._tables.clear()
            self._projects.clear()
            self.random.seed(self._seed)
            self.policies = Policies(self.service_account_exists)
            self.quotas.clear()
            self.operations.clear()
            self.clock.clear()
            self.faults.clear()
            self.audit.clear()
