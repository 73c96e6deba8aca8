"""Programs built from Go modules into the cache of tools, with progress: the Pulumi CLI, and the planes' programs."""

from __future__ import annotations

import re
import shutil
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from holdfast import toolcache
from holdfast.engine.golang import Go
from holdfast.toolcache import Progress, ToolError

REPORT_EVERY = 15.0
"""Seconds between two lines of progress."""


@dataclass(frozen=True)
class GoBuild:
    """How programs are built from one Go module.

    Attributes:
        what: as progress calls it.
        module: the folder of `go.mod` and `go.sum`, and of a main package of ours where the programs need one.
        programs: the package of each program, by its name in the entry's `bin`.
        ldflags: what the linker is told.
        takes: how long it takes from empty caches, for progress.
        files: what else is kept of the modules: where in the entry, from which module and where in that (a file or
            a folder).
    """

    what: str
    module: Path
    programs: Mapping[str, str]
    ldflags: str
    takes: str
    files: Mapping[str, tuple[str, str]] = field(default_factory=dict)

    @property
    def flags(self) -> list[str]:
        return ["-trimpath", "-ldflags", self.ldflags]

    def recipe(self) -> list[str | bytes]:
        """All that the result depends on, for `toolcache.recipe_hash`."""
        files = (path for path in sorted(self.module.iterdir()) if path.suffix in (".mod", ".sum", ".go"))
        sources = [path.read_bytes() for path in files]
        said = [*self.flags, *map(str, self.programs.items()), *map(str, self.files.items())]
        return [*sources, *said]


def required(module: Path, name: str) -> str:
    """The version of a module that the go.mod in a folder requires, without the leading v."""
    return _from_go_mod(module, rf"^(?:require)?\s*{re.escape(name)} v(\S+)")


def go_minimum(module: Path) -> str:
    """The oldest Go that the go.mod in a folder accepts."""
    return _from_go_mod(module, r"^go (\S+)")


def _from_go_mod(module: Path, pattern: str) -> str:
    found = re.search(pattern, (module / "go.mod").read_text(), re.MULTILINE)
    assert found, pattern
    return found.group(1)


def build(what: GoBuild, go: Go, folder: Path, log: Path, progress: Progress) -> None:
    """Builds the programs into `folder/bin` and copies the files. Raises ToolError; the log has what Go said."""
    progress(f"building {what.what} with Go {go.version}: about {what.takes} on 2 cores, once")
    began = time.monotonic()

    def fetching(lines: int) -> None:
        progress(f"fetching the Go modules of {what.what}: {lines} so far, {_elapsed(began)}")

    packages = [package for package in what.programs.values() if package != "."]
    total = len(run(what.module, go, ["list", "-deps", *(packages or ["."])], log, fetching))
    done = 0
    for name, package in what.programs.items():
        doing = what.what if len(what.programs) == 1 else f"{what.what}, {name}"

        def report(lines: int, doing: str = doing, before: int = done) -> None:
            # Lines are packages compiled; what Go's cache had before is not among them, hence "of at most".
            stage = f"compiled {before + lines} of at most {total} packages" if before + lines else "compiling"
            progress(f"building {doing}: {stage}, {_elapsed(began)} (about {what.takes}, once)")

        command = ["build", "-v", *what.flags, "-o", str(folder / "bin" / name), package]
        done += _run(what.module, go, command, log, report)[1]
    for there, (module, path) in what.files.items():
        copy(what.module, go, module, path, folder / there, log)
    progress(f"built {what.what} in {_elapsed(began)}: {_mb(folder)}")
    if go.caches:
        progress(f"Go's modules and build cache take {_mb(go.caches)} in {go.caches}; they may be deleted")


def copy(folder: Path, go: Go, module: str, path: str, to: Path, log: Path) -> None:
    """Copies a file or a folder out of a Go module that `folder`'s go.mod names."""
    run(folder, go, ["mod", "download", module], log)
    [found] = run(folder, go, ["list", "-m", "-f", "{{.Dir}}", module], log)
    source = Path(found) / path
    to.parent.mkdir(parents=True, exist_ok=True)
    # Contents alone: Go's module cache is read-only, and a copy of its modes could not be deleted.
    if source.is_dir():
        for file in sorted(source.rglob("*")):
            if file.is_file():
                target = to / file.relative_to(source)
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(file, target)
    else:
        shutil.copyfile(source, to)


def run(
    folder: Path, go: Go, args: Sequence[str], log: Path, report: Callable[[int], None] = lambda lines: None
) -> list[str]:
    """Run a go command in a folder; its stderr goes to the log, its stdout comes back as lines.

    `report(lines of stderr so far)` is called every REPORT_EVERY seconds. Raises ToolError when the command fails.
    """
    return _run(folder, go, args, log, report)[0]


def _run(folder: Path, go: Go, args: Sequence[str], log: Path, report: Callable[[int], None]) -> tuple[list[str], int]:
    """Like `run`, with the number of lines of stderr."""
    with log.open("ab") as out:
        out.write(f"$ go {' '.join(args)}\n".encode())
    process = subprocess.Popen(
        [go.binary, *args], cwd=folder, env=dict(go.environ), stdout=subprocess.PIPE, stderr=subprocess.PIPE
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
    return [line.decode().strip() for line in answer], lines[0]


def _elapsed(began: float) -> str:
    minutes, seconds = divmod(int(time.monotonic() - began), 60)
    return f"{minutes} min {seconds:02d} s"


def _mb(folder: Path) -> str:
    return f"{toolcache.size(folder) / 1e6:.0f} MB"
