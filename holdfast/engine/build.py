"""How the Pulumi CLI is built from its Go module: it is on no Python or JavaScript registry.

The recipe is `cli/go.mod` and `cli/go.sum` (made by `go mod tidy`), the flags below and our language host's wrapper.
"""

from __future__ import annotations

from pathlib import Path

from holdfast import toolcache
from holdfast.engine import gobuild, golang
from holdfast.engine.gobuild import GoBuild
from holdfast.engine.golang import Go
from holdfast.toolcache import Entry, Progress

MODULE = Path(__file__).with_name("cli")
PKG = "github.com/pulumi/pulumi/pkg/v3"
SDK = "github.com/pulumi/pulumi/sdk/v3"
EXEC = "pulumi-language-python-exec"

WRAPPER = """#!/bin/sh
# Holdfast's Python language host. HOLDFAST_PYTHON: an interpreter that has holdfast installed.
exec "${HOLDFAST_PYTHON:-python3}" -P -m holdfast.engine.language_host --program-runner "${0%/*}/../lib/EXEC" "$@"
""".replace("EXEC", EXEC)


def _cli() -> GoBuild:
    ldflags = f"-s -w -X {SDK}/go/common/version.Version=v{version()}"
    return GoBuild(f"the Pulumi CLI {version()}", MODULE, {"pulumi": f"{PKG}/cmd/pulumi"}, ldflags, "4-8 minutes")


def version() -> str:
    """The version of the CLI that is built, without the leading v."""
    return gobuild.required(MODULE, PKG)


def go_minimum() -> str:
    """The oldest Go that the module accepts."""
    return gobuild.go_minimum(MODULE)


def _module() -> list[bytes]:
    return [(MODULE / name).read_bytes() for name in ("go.mod", "go.sum")]


def cli_entry() -> Entry:
    """The CLI with our language host beside it: bin/pulumi, bin/pulumi-language-python, lib/EXEC (the SDK's runner)."""
    return toolcache.entry("pulumi", version(), toolcache.recipe_hash(*_module(), *_cli().flags, WRAPPER))


def host_entry() -> Entry:
    """Our language host alone, for a `pulumi` on PATH that came without one."""
    return toolcache.entry("pulumi-language-python", version(), toolcache.recipe_hash(*_module(), WRAPPER))


def ensure_cli(progress: Progress) -> Path:
    """The folder of `cli_entry`, built if need be. Raises ToolError."""

    def build(folder: Path, log: Path) -> None:
        go = golang.ensure(go_minimum(), progress)
        gobuild.build(_cli(), go, folder, log, progress)
        _add_host(go, folder, log)

    return toolcache.ensure(cli_entry(), build, progress)


def ensure_host(progress: Progress) -> Path:
    """The folder of `host_entry`, made if need be. Raises ToolError."""

    def build(folder: Path, log: Path) -> None:
        progress("the `pulumi` on PATH came without a Python language host: adding ours")
        _add_host(golang.ensure(go_minimum(), progress), folder, log)

    return toolcache.ensure(host_entry(), build, progress)


def _add_host(go: Go, folder: Path, log: Path) -> None:
    gobuild.copy(MODULE, go, SDK, f"python/cmd/{EXEC}", folder / "lib" / EXEC, log)
    (folder / "bin").mkdir(exist_ok=True)
    wrapper = folder / "bin" / "pulumi-language-python"
    wrapper.write_text(WRAPPER)
    wrapper.chmod(0o755)
