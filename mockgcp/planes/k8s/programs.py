"""The programs that a cluster runs. Whoever starts the plane brings them; mockgcp builds nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar


@dataclass(frozen=True)
class Programs:
    """Two folders with `bin` and `share`: the control plane with Kueue, and KubeRay. `versions` by component."""

    kubernetes: Path
    kuberay: Path
    versions: Mapping[str, str]

    KUBERNETES: ClassVar[tuple[str, ...]] = ("kube-apiserver", "kube-controller-manager", "kube-scheduler")

    def program(self, name: str) -> Path:
        return (self.kuberay if name == "kuberay" else self.kubernetes) / "bin" / name

    @property
    def chart(self) -> Path:
        """Kueue's Helm chart as its release ships it, but for the image: its values name a registry of staging."""
        return self.kubernetes / "share" / "kueue"

    @property
    def crds(self) -> list[Path]:
        """What a GKE cluster with the Ray operator brings along: ProvisioningRequest, and KubeRay's own."""
        return sorted([*(self.kubernetes / "share" / "crds").iterdir(), *(self.kuberay / "share" / "crds").iterdir()])

    @property
    def kuberay_rbac(self) -> list[Path]:
        rbac = (self.kuberay / "share" / "rbac").iterdir()
        return sorted(path for path in rbac if path.name != "kustomization.yaml")
