"""Pulumi's Python language host: `python -m holdfast.engine.language_host --program-runner FILE ENGINE_ADDRESS`.

The engine starts it, reads the port from the first line of its stdout, and calls LanguageRuntime on it. It ends on the
engine's Cancel, on SIGINT and SIGTERM, and when the engine dies: the engine waits 5-10 s for a host that does not.

This file keeps the start short: the signal handler is set before gRPC is imported, and the SDK's message modules are
imported without the SDK itself (0.2 s instead of 0.5 s, on every command).
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import signal
import sys
import threading
import time
import types
from pathlib import Path

PARENT_WATCH = 0.5
"""Seconds between two looks at whether the engine still lives. PR_SET_PDEATHSIG would do without looking, but it goes
by the thread that started us, and the engine's threads (Go) may end before it does."""


def main() -> None:
    """Serve until told to stop; exits the process."""
    signal.signal(signal.SIGINT, _stop)
    signal.signal(signal.SIGTERM, _stop)
    parser = argparse.ArgumentParser(prog="pulumi-language-python", allow_abbrev=False)
    parser.add_argument("--program-runner", default=os.environ.get("HOLDFAST_PROGRAM_RUNNER", ""))
    parser.add_argument("--tracing", "-tracing", default="")
    parser.add_argument("engine", nargs="?", default="")
    # The engine may pass flags of its own logging (--logtostderr, -v=9): not ours, and no reason to fail.
    args, _ = parser.parse_known_args()
    runner = Path(args.program_runner)
    if not runner.is_file():
        sys.exit(f"pulumi-language-python: no program runner at {args.program_runner!r}: run `make engine` again")
    threading.Thread(target=_die_with, args=(os.getppid(),), daemon=True).start()

    _light_pulumi()
    from holdfast.engine import language_runtime

    server, port = language_runtime.serve(runner=runner, engine=args.engine, tracing=args.tracing, stop=_stop_soon)
    print(port, flush=True)
    server.wait_for_termination()


def _light_pulumi() -> None:
    """Let `pulumi.runtime.proto.*` be imported without running `pulumi/__init__.py`, which loads the whole SDK."""
    spec = importlib.util.find_spec("pulumi")
    if spec is None or not spec.submodule_search_locations:
        sys.exit(f"pulumi-language-python: {sys.executable} has no Pulumi SDK: run `make env`, or set HOLDFAST_PYTHON")
    folder = Path(next(iter(spec.submodule_search_locations)))
    for name in ("pulumi", "pulumi.runtime", "pulumi.runtime.proto"):
        package = types.ModuleType(name)
        package.__path__ = [str(folder.joinpath(*name.split(".")[1:]))]
        sys.modules[name] = package
    sys.modules["grpc.aio"] = types.ModuleType("grpc.aio")  # `import grpc` loads it, and asyncio with it, in 0.1 s


def _stop(*_: object) -> None:
    """End at once. What the host started goes first, or it would hold the engine's pipes open."""
    if runtime := sys.modules.get("holdfast.engine.language_runtime"):
        runtime.kill_children()
    os._exit(0)


def _stop_soon() -> None:
    """End after the answer to the call that asked for it is on its way."""
    threading.Timer(0.05, _stop).start()


def _die_with(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(PARENT_WATCH)
    _stop()


if __name__ == "__main__":
    main()
