"""What a program of this folder needs on a cluster whose image has nothing but Ray: its files, and its packages."""

from pathlib import Path

_HERE = Path(__file__).resolve().parent
_WORKLOADS = _HERE.parent

PACKAGES: dict[str, tuple[str, ...]] = {
    # The tutorial's.
    "linear_regression": ("jax[tpu]==0.8.2", "pandas==2.3.3"),
    # As requirements/trainer.lock has them: with others a run may end with other bits.
    "trainer": ("jax[tpu]==0.10.2", "optax==0.2.8", "orbax-checkpoint==0.12.8", "pandas==2.3.3"),
}
"""What Ray installs for each program, on every node, before the job begins."""


def files(program: str) -> dict[str, str]:
    """The files of a program by their names in /app: itself, and the trainer's modules, each by its full name.

    All in one folder, since a ConfigMap's keys have no slashes: trainer.py makes a package of them.
    """
    found = {f"{program}.py": _HERE / f"{program}.py"}
    if program == "trainer":
        modules = [_WORKLOADS / "__init__.py", *sorted((_WORKLOADS / "trainer").glob("*.py"))]
        found |= {".".join(module.relative_to(_WORKLOADS.parent).parts): module for module in modules}
    return {name: path.read_text(encoding="utf-8") for name, path in found.items()}
