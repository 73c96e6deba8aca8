"""The LanguageRuntime service of our Python language host (`language_host.py` starts it)."""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent import futures
from pathlib import Path
from typing import IO, NoReturn

import grpc
from google.protobuf import empty_pb2
from pulumi.runtime.proto import language_pb2 as messages
from pulumi.runtime.proto import language_pb2_grpc as service
from pulumi.runtime.proto import plugin_pb2 as plugin

BAIL = 32
"""Exit code of the SDK's program runner when it has shown the error to the user itself."""

_children: set[subprocess.Popen[bytes]] = set()

# Runs in the program's interpreter, which need not be ours. Prints [[name, version, is it required by another], ...].
_LIST_PACKAGES = """
import json, re
from importlib.metadata import distributions
norm = lambda name: re.sub(r"[-_.]+", "-", name).lower()
found = {norm(d.metadata["Name"]): d for d in distributions() if d.metadata["Name"]}
wants = [want for d in found.values() for want in d.requires or () if "extra ==" not in want]
needed = {norm(re.match(r"[A-Za-z0-9._-]+", want).group()) for want in wants}
print(json.dumps([[d.metadata["Name"], d.version, n in needed] for n, d in sorted(found.items())]))
"""


def serve(*, runner: Path, engine: str, tracing: str, stop: Callable[[], None]) -> tuple[grpc.Server, int]:
    """Start the service on a free port of 127.0.0.1.

    runner: the SDK's pulumi-language-python-exec. engine: the engine's address, unless Handshake gives it.
    stop: called on Cancel, must return and then end the process.
    """
    # RunPlugin holds a thread for as long as the plugin lives: one a policy pack.
    server = grpc.server(futures.ThreadPoolExecutor(32), options=[("grpc.max_receive_message_length", -1)])
    host = LanguageHost(runner, engine, tracing, stop)
    service.add_LanguageRuntimeServicer_to_server(host, server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    return server, port


def kill_children() -> None:
    """Kill what the host started, without waiting."""
    for child in list(_children):
        child.kill()


def interpreter(root: str, options: Mapping[str, object]) -> str:
    """The program's Python: its `virtualenv` runtime option, resolved against the project's root, when that exists;
    else the interpreter that runs this host (HOLDFAST_PYTHON)."""
    virtualenv = options.get("virtualenv")
    if isinstance(virtualenv, str) and virtualenv:
        python = Path(root, virtualenv, "bin", "python")
        if python.is_file():
            return str(python)
    return sys.executable


def run_error(code: int, python: str) -> tuple[str, bool]:
    """(error, bail) of RunResponse for a program's exit code; subprocess gives a signal as a negative code."""
    if code == 0:
        return "", False
    if code == BAIL:
        return "", True
    how = f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code}"
    return f"the program {how}; what it printed is above (interpreter: {python})", False


class LanguageHost(service.LanguageRuntimeServicer):
    """Runs Python programs and Python plugins (policy packs) for the engine. One process a command of `pulumi`."""

    def __init__(self, runner: Path, engine: str, tracing: str, stop: Callable[[], None]) -> None:
        self._runner = runner
        self._engine = engine
        self._tracing = tracing
        self._stop = stop

    def Handshake(
        self, request: messages.LanguageHandshakeRequest, context: grpc.ServicerContext
    ) -> messages.LanguageHandshakeResponse:
        self._engine = request.engine_address or self._engine
        return messages.LanguageHandshakeResponse()

    def GetPluginInfo(self, request: empty_pb2.Empty, context: grpc.ServicerContext) -> plugin.PluginInfo:
        from importlib.metadata import version  # 20 ms, and rarely asked for

        return plugin.PluginInfo(version=version("pulumi"))

    def GetRequiredPackages(
        self, request: messages.GetRequiredPackagesRequest, context: grpc.ServicerContext
    ) -> messages.GetRequiredPackagesResponse:
        """None up front: the engine then asks for a provider when the program registers a resource of it, so an SDK
        that is installed but unused downloads nothing. The SDK sends its version with each resource."""
        return messages.GetRequiredPackagesResponse()

    def GetRequiredPlugins(
        self, request: messages.GetRequiredPluginsRequest, context: grpc.ServicerContext
    ) -> messages.GetRequiredPluginsResponse:
        return messages.GetRequiredPluginsResponse()

    def Run(self, request: messages.RunRequest, context: grpc.ServicerContext) -> messages.RunResponse:
        """Run the program to its end. It inherits our stdout and stderr, which the engine reads line by line and shows
        as diagnostics of the stack while the program runs."""
        if request.attach_debugger:
            _refuse(context, "attach_debugger", "install the official Pulumi CLI, whose language host has a debugger")
        python = interpreter(request.info.root_directory, dict(request.info.options))
        environ = {
            **os.environ,
            "PULUMI_CONFIG": json.dumps(dict(request.config)),
            "PULUMI_CONFIG_SECRET_KEYS": json.dumps(list(request.configSecretKeys)),
        }
        flags = {
            "--monitor": request.monitor_address,
            "--engine": self._engine,
            "--project": request.project,
            "--stack": request.stack,
            "--pwd": request.pwd,
            "--dry_run": "true" if request.dryRun else "false",
            "--parallel": str(request.parallel),
            "--tracing": self._tracing,
            "--organization": request.organization,
            "--root_directory": request.info.root_directory,
        }
        command = [python, "-u", str(self._runner)]
        command += [part for flag, value in flags.items() if value for part in (flag, value)]
        program = os.path.normpath(os.path.join(request.info.program_directory, request.info.entry_point))
        child = subprocess.Popen([*command, program, *request.args], env=environ, stdin=subprocess.DEVNULL)
        with _tracked(child, context):
            error, bail = run_error(child.wait(), python)
        return messages.RunResponse(error=error, bail=bail)

    def RunPlugin(
        self, request: messages.RunPluginRequest, context: grpc.ServicerContext
    ) -> Iterator[messages.RunPluginResponse]:
        """Run a plugin written in Python, such as a policy pack, and stream what it writes, then its exit code."""
        if request.attach_debugger:
            _refuse(context, "attach_debugger", "install the official Pulumi CLI, whose language host has a debugger")
        python = interpreter(request.info.root_directory, dict(request.info.options))
        child = subprocess.Popen(
            [python, "-u", request.info.program_directory, *request.args],
            cwd=request.pwd or None,
            env=dict(pair.split("=", 1) for pair in request.env) or None,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        assert child.stdout
        assert child.stderr
        with _tracked(child, context):
            chunks: queue.SimpleQueue[messages.RunPluginResponse | None] = queue.SimpleQueue()
            out, err = child.stdout, child.stderr
            _pump(out, chunks, lambda data: messages.RunPluginResponse(stdout=data))
            _pump(err, chunks, lambda data: messages.RunPluginResponse(stderr=data))
            for _ in ("stdout", "stderr"):
                yield from iter(chunks.get, None)
            yield messages.RunPluginResponse(exitcode=child.wait())

    def InstallDependencies(
        self, request: messages.InstallDependenciesRequest, context: grpc.ServicerContext
    ) -> Iterator[messages.InstallDependenciesResponse]:
        """Installs nothing: `make env` makes the environment from locks."""
        python = interpreter(request.info.root_directory, dict(request.info.options))
        yield messages.InstallDependenciesResponse(stdout=f"Using {python} as it is (`make env` keeps it)\n".encode())

    def RuntimeOptionsPrompts(
        self, request: messages.RuntimeOptionsRequest, context: grpc.ServicerContext
    ) -> messages.RuntimeOptionsResponse:
        return messages.RuntimeOptionsResponse()

    def Template(self, request: messages.TemplateRequest, context: grpc.ServicerContext) -> messages.TemplateResponse:
        return messages.TemplateResponse()

    def About(self, request: messages.AboutRequest, context: grpc.ServicerContext) -> messages.AboutResponse:
        python = interpreter(request.info.root_directory, dict(request.info.options))
        version = _ask(python, "import platform; print(platform.python_version())")
        return messages.AboutResponse(executable=python, version=version, metadata={"language host": "holdfast"})

    def GetProgramDependencies(
        self, request: messages.GetProgramDependenciesRequest, context: grpc.ServicerContext
    ) -> messages.GetProgramDependenciesResponse:
        python = interpreter(request.info.root_directory, dict(request.info.options))
        packages: list[tuple[str, str, bool]] = json.loads(_ask(python, _LIST_PACKAGES))
        return messages.GetProgramDependenciesResponse(
            dependencies=[
                messages.DependencyInfo(name=name, version=version)
                for name, version, needed in packages
                if request.transitiveDependencies or not needed
            ]
        )

    def Cancel(self, request: empty_pb2.Empty, context: grpc.ServicerContext) -> empty_pb2.Empty:
        kill_children()
        self._stop()
        return empty_pb2.Empty()

    def GenerateProgram(self, request: object, context: grpc.ServicerContext) -> NoReturn:
        _refuse(context, "GenerateProgram", "pass --generate-code=false to `pulumi import`")

    def GenerateProject(self, request: object, context: grpc.ServicerContext) -> NoReturn:
        _refuse(context, "GenerateProject", "install the official Pulumi CLI to convert programs")

    def GeneratePackage(self, request: object, context: grpc.ServicerContext) -> NoReturn:
        _refuse(context, "GeneratePackage", "install the official Pulumi CLI to generate SDKs")

    def Pack(self, request: object, context: grpc.ServicerContext) -> NoReturn:
        _refuse(context, "Pack", "install the official Pulumi CLI to package SDKs")

    def Link(self, request: object, context: grpc.ServicerContext) -> NoReturn:
        _refuse(context, "Link", "add the package to pyproject.toml, then `make lock env`")


def _ask(python: str, script: str) -> str:
    return subprocess.run([python, "-c", script], capture_output=True, text=True, check=True).stdout.strip()


def _refuse(context: grpc.ServicerContext, what: str, way_out: str) -> NoReturn:
    context.abort(grpc.StatusCode.UNIMPLEMENTED, f"{what}: Holdfast's Python language host does not do this; {way_out}")
    raise AssertionError("abort raises")


class _tracked:
    """Keeps a child among those that end with the host, and kills it when the engine drops the call."""

    def __init__(self, child: subprocess.Popen[bytes], context: grpc.ServicerContext) -> None:
        self._child = child
        _children.add(child)
        if not context.add_callback(child.kill):  # the call is over already
            child.kill()

    def __enter__(self) -> None:
        return None

    def __exit__(self, *_: object) -> None:
        self._child.kill()
        self._child.wait()
        _children.discard(self._child)


def _pump(
    stream: IO[bytes],
    chunks: queue.SimpleQueue[messages.RunPluginResponse | None],
    wrap: Callable[[bytes], messages.RunPluginResponse],
) -> None:
    """Put what a stream yields on the queue as it comes, from a thread; None at its end."""

    def copy() -> None:
        with stream:
            while data := os.read(stream.fileno(), 1 << 16):
                chunks.put(wrap(data))
        chunks.put(None)

    threading.Thread(target=copy, daemon=True).start()
