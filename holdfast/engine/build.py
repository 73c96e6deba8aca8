"""How the Pulumi CLI is built from its Go module: it is on no Python or JavaScript registry.

The recipe is `cli/go.mod` and `cli/go.sum` (made by `go mod tidy`), the flags below and our language host's wrapper.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from holdfast import toolcache
from holdfast.engine import golang
from holdfast.engine.golang import Go
from holdfast.toolcache import Entry, Progress, ToolError

MODULE = Path(__file__).with_name("cli")
PACKAGE = "github.com/pulumi/pulumi/pkg/v3/cmd/pulumi"
SDK = "github.com/pulumi/pulumi/sdk/v3"
EXEC = "pulumi-language-python-exec"
REPORT_EVERY = 15.0
"""Seconds between two lines of progress."""

WRAPPER = """#!/bin/sh
# Holdfast's Python language host. HOLDFAST_PYTHON: an interpreter that has holdfast installed.
exec "${HOLDFAST_PYTHON:-python3}" -P -m holdfast.engine.language_host --program-runner "${0%/*}/../lib/EXEC" "$@"
""".replace("EXEC", EXEC)


def _from_go_mod(pattern: str) -> str:
    found = re.search(pattern, (MODULE / "go.mod").read_text(), re.MULTILINE)
    assert found, pattern
    return found.group(1)


def version() -> str:
    """The version of the CLI that is built, without the leading v."""
    return _from_go_mod(r"^require github\.com/pulumi/pulumi/pkg/v3 v(\S+)")


def go_minimum() -> str:
    """The oldest Go that the module accepts."""
    return _from_go_mod(r"^go (\S+)")


def _module() -> list[bytes]:
    return [(MODULE / name).read_bytes() for name in ("go.mod", "go.sum")]


def _flags() -> list[str]:
    return ["-trimpath", "-ldflags", f"-s -w -X {SDK}/go/common/version.Version=v{version()}"]


def cli_entry() -> Entry:
    """The CLI with our language host beside it: bin/pulumi, bin/pulumi-language-python, lib/EXEC (the SDK's runner)."""
    return toolcache.entry("pulumi", version(), toolcache.recipe_hash(*_module(), *_flags(), WRAPPER))


def host_entry() -> Entry:
    """Our language host alone, for a `pulumi` on PATH that came without one."""
    return toolcache.entry("pulumi-language-python", version(), toolcache.recipe_hash(*_module(), WRAPPER))


def ensure_cli(progress: Progress) -> Path:
    """The folder of `cli_entry`, built if need be. Raises ToolError."""

    def build(folder: Path, log: Path) -> None:
        go = golang.ensure(go_minimum(), progress)
        progress(f"building the Pulumi CLI {version()} with Go {go.version}: about 4-8 minutes on 2 cores, once")
        began = time.monotonic()
        total = _count_packages(go, log, progress)
        binary = folder / "bin" / "pulumi"

        def report(lines: int) -> None:
            # Lines are packages compiled; what Go's cache had before is not among them, hence "of at most".
            stage = f"compiled {lines} of at most {total} packages" if lines else "compiling"
            progress(f"building the Pulumi CLI: {stage}, {_elapsed(began)} (about 4-8 minutes, once)")

        _run(go, ["build", "-v", *_flags(), "-o", str(binary), PACKAGE], log, report)
        _add_host(go, folder, log)
        progress(f"built the Pulumi CLI {version()} in {_elapsed(began)}: {_mb(folder)}")
        if go.caches:
            progress(f"Go's modules and build cache take {_mb(go.caches)} in {go.caches}; they may be deleted")

    return toolcache.ensure(cli_entry(), build, progress)


def ensure_host(progress: Progress) -> Path:
    """The folder of `host_entry`, made if need be. Raises ToolError."""

    def build(folder: Path, log: Path) -> None:
        progress("the `pulumi` on PATH came without a Python language host: adding ours")
        _add_host(golang.ensure(go_minimum(), progress), folder, log)

    return toolcache.ensure(host_entry(), build, progress)


def _add_host(go: Go, folder: Path, log: Path) -> None:
    _run(go, ["mod", "download", SDK], log)
    [sdk] = _run(go, ["list", "-m", "-f", "{{.Dir}}", SDK], log)
    (folder / "bin").mkdir(exist_ok=True)
    (folder / "lib").mkdir()
    shutil.copyfile(Path(sdk) / "python" / "cmd" / EXEC, folder / "lib" / EXEC)
    wrapper = folder / "bin" / "pulumi-language-python"
    wrapper.write_text(WRAPPER)
    wrapper.chmod(0o755)


def _count_packages(go: Go, log: Path, progress: Progress) -> int:
    """How many packages the CLI has; fetches the modules on the way."""
    began = time.monotonic()

    def report(lines: int) -> None:
        progress(f"fetching the CLI's Go modules: {lines} so far, {_elapsed(began)}")

    return len(_run(go, ["list", "-deps", PACKAGE], log, report))


def _run(go: Go, args: Sequence[str], log: Path, report: Callable[[int], None] = lambda lines: None) -> list[str]:
    """Run a go command in MODULE; its stderr goes to the log, its stdout comes back as lines.

    `report(lines of stderr so far)` is called every REPORT_EVERY seconds. Raises ToolError when the command fails.
    """
    with log.open("ab") as out:
        out.write(f"$ go {' '.join(args)}\n".encode())
    process = subprocess.Popen(
        [go.binary, *args], cwd=MODULE, env=dict(go.environ), stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdout
    assert process.stderr
    answer: list[bytes] = []
    lines = [0]
    stdout, stderr = process.stdout, process.stderr

    def copy_stderr() -> None:
        with log.open("ab") as out:
            for line in stderr:
                lines[0] += 1
                out.write(line)
                out.flush()

    readers = [threading.Thread(target=copy_stderr), threading.Thread(target=lambda: answer.extend(stdout))]
    for reader in readers:
        reader.start()
    try:
        while True:
            try:
                process.wait(REPORT_EVERY)
                break
            except subprocess.TimeoutExpired:
                report(lines[0])
    finally:
        process.kill()  # no-op when it has ended; on Ctrl-C it must not go on building
        process.wait()
        for reader in readers:
            reader.join()
        stdout.close()
        stderr.close()
    if process.returncode:
        raise ToolError(f"`go {args[0]}` ended with {process.returncode} (no way to the Go module proxy? see GOPROXY)")
    return [line.decode().strip() for line in answer]


def _elapsed(began: float) -> str:
    minutes, seconds = divmod(int(time.monotonic() - began), 60)
    return f"{minutes} min {seconds:02d} s"


def _mb(folder: Path) -> str:
    return f"{toolcache.size(folder) / 1e6:.0f} MB"
