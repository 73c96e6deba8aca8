"""The programs of the emulated cloud's planes that are on no Python registry, built once from their Go modules.

Use: `found = planes.find()`, and where something is missing `planes.ensure(print)`; `make planes` does the same.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from holdfast import toolcache
from holdfast.engine import gobuild, golang
from holdfast.engine.gobuild import GoBuild
from holdfast.toolcache import Entry, Progress, ToolError
from mockgcp.planes.k8s.programs import Programs

__all__ = ["COMMAND", "PROVIDER_VERSION", "RECIPES", "Recipe", "ToolError", "ensure", "find", "missing", "provider"]

COMMAND = "make planes"
"""What brings all of them."""

PROVIDER_VERSION = "4.34.2"
"""The version of the SDK `pulumi-kubernetes` that asks for the provider. It says so of itself: its module's releases
are not tagged, so what is built is the newest commit that the module proxy has."""

_HERE = Path(__file__).parent
_KUBERNETES = "k8s.io/kubernetes"
_KUEUE = "sigs.k8s.io/kueue"
_KUBERAY = "github.com/ray-project/kuberay/ray-operator"
_PROVIDER = "github.com/pulumi/pulumi-kubernetes/provider/v4"
_ETCD = "go.etcd.io/etcd/server/v3"


@dataclass(frozen=True)
class Recipe:
    """One entry of the cache. `version_of`: the module whose version is the entry's; None: PROVIDER_VERSION."""

    name: str
    build: GoBuild
    version_of: str | None

    @property
    def version(self) -> str:
        return gobuild.required(self.build.module, self.version_of) if self.version_of else PROVIDER_VERSION

    def entry(self) -> Entry:
        return toolcache.entry(self.name, self.version, toolcache.recipe_hash(*self.build.recipe()))


def _kubernetes() -> GoBuild:
    programs = {name: f"{_KUBERNETES}/cmd/{name}" for name in Programs.KUBERNETES}
    module = _HERE / "kubernetes"
    release, kueue = gobuild.required(module, _KUBERNETES), gobuild.required(module, _KUEUE)
    major, minor, _ = release.split(".")
    # Without these the API server calls itself v0.0.0-master, and clients that ask for its version go wrong.
    said = {"gitVersion": f"v{release}", "gitMajor": major, "gitMinor": minor, "gitTreeState": "clean"}
    ldflags = " ".join(f"-X k8s.io/component-base/version.{key}={value}" for key, value in said.items())
    return GoBuild(
        f"Kubernetes {release}, etcd and Kueue {kueue}",
        module,
        {"etcd": _ETCD, **programs, "kueue": f"{_KUEUE}/cmd/kueue"},
        f"-s -w {ldflags} -X {_KUEUE}/pkg/version.GitVersion=v{kueue}",
        "5 minutes",
        {
            "share/kueue": (_KUEUE, "charts/kueue"),
            "share/crds/provisioningrequests.yaml": (
                "k8s.io/autoscaler/cluster-autoscaler/apis",
                "config/crd/autoscaling.x-k8s.io_provisioningrequests.yaml",
            ),
        },
    )


RECIPES: tuple[Recipe, ...] = (
    Recipe("kubernetes", _kubernetes(), _KUBERNETES),
    Recipe(
        "kuberay",
        GoBuild(
            "the KubeRay operator",
            _HERE / "kuberay",
            {"kuberay": _KUBERAY},
            "-s -w",
            "1 minute",
            {"share/crds": (_KUBERAY, "config/crd/bases"), "share/rbac": (_KUBERAY, "config/rbac")},
        ),
        _KUBERAY,
    ),
    Recipe(
        "pulumi-resource-kubernetes",
        GoBuild(
            "the Pulumi Kubernetes provider",
            _HERE / "pulumi_kubernetes",
            {"pulumi-resource-kubernetes": "."},
            f"-s -w -X main.version={PROVIDER_VERSION}",
            "4-8 minutes",
            {
                f"share/{name}": (_PROVIDER, f"cmd/pulumi-resource-kubernetes/{name}")
                for name in ("schema.json", "terraform-mapping.json")
            },
        ),
        None,
    ),
)


def missing() -> list[Recipe]:
    """What is not built yet; builds nothing."""
    return [recipe for recipe in RECIPES if not recipe.entry().ready]


def find() -> Programs | None:
    """The programs of the Kubernetes plane, if they are there already; builds and downloads nothing."""
    kubernetes, kuberay, _ = (recipe.entry() for recipe in RECIPES)
    if not (kubernetes.ready and kuberay.ready):
        return None
    module = RECIPES[0].build.module
    return Programs(
        kubernetes.path,
        kuberay.path,
        {
            "kubernetes": kubernetes.version,
            "etcd": gobuild.required(module, _ETCD),
            "kueue": gobuild.required(module, _KUEUE),
            "kuberay": kuberay.version,
        },
    )


def provider() -> Path | None:
    """The folder whose `pulumi-resource-kubernetes` the engine finds when it is on PATH; None if it is not built."""
    entry = RECIPES[2].entry()
    return entry.path / "bin" if entry.ready else None


def ensure(progress: Progress) -> Programs:
    """All programs, built one module at a time where they are missing. Raises ToolError, which says what to do."""
    for recipe in RECIPES:
        toolcache.ensure(recipe.entry(), _builder(recipe.build, progress), progress)
    found = find()
    assert found is not None
    return found


def _builder(build: GoBuild, progress: Progress) -> Callable[[Path, Path], None]:
    def make(folder: Path, log: Path) -> None:
        gobuild.build(build, golang.ensure(gobuild.go_minimum(build.module), progress), folder, log, progress)

    return make
