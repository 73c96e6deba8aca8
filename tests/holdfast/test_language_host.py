"""The Python language host: by itself over gRPC, then (marked `engine`) under the real Pulumi engine."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import grpc
import pytest
from google.protobuf import empty_pb2, struct_pb2
from pulumi.runtime.proto import language_pb2 as messages
from pulumi.runtime.proto import language_pb2_grpc as service

from holdfast import engine

ROOT = Path(engine.__file__).parents[2]

# Stands in for the SDK's program runner: says what it was given, then does what the program's name asks.
RUNNER = """
import json, os, signal, sys
program = sys.argv[-1]
print(json.dumps({"argv": sys.argv[1:], "config": os.environ["PULUMI_CONFIG"]}), file=sys.stderr)
what = os.path.basename(program)
if what == "killed":
    os.kill(os.getpid(), signal.SIGKILL)
sys.exit(int(what))
"""

Host = tuple[subprocess.Popen[str], service.LanguageRuntimeStub]


def _environ() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT)}


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[[], Host]]:
    """Starts language hosts and ends them with the test."""
    runner = tmp_path / "runner.py"
    runner.write_text(RUNNER)
    started: list[tuple[subprocess.Popen[str], grpc.Channel]] = []

    def begin() -> Host:
        command = [
            sys.executable,
            "-m",
            "holdfast.engine.language_host",
            "--program-runner",
            str(runner),
            "127.0.0.1:9",
        ]
        process = subprocess.Popen(command, env=_environ(), text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        assert process.stdout
        channel = grpc.insecure_channel(f"127.0.0.1:{int(process.stdout.readline())}")
        started.append((process, channel))
        return process, service.LanguageRuntimeStub(channel)

    yield begin
    for process, channel in started:
        channel.close()
        process.kill()
        process.communicate()


def _info(folder: Path, entry: str = ".", **options: str) -> messages.ProgramInfo:
    known = struct_pb2.Struct()
    known.update(options)
    return messages.ProgramInfo(
        root_directory=str(folder), program_directory=str(folder), entry_point=entry, options=known
    )


def test_run_passes_the_request_on_and_tells_the_outcomes_apart(start: Callable[[], Host], tmp_path: Path) -> None:
    process, stub = start()

    def run(entry: str) -> messages.RunResponse:
        answer: messages.RunResponse = stub.Run(
            messages.RunRequest(
                project="p",
                stack="s",
                pwd=str(tmp_path),
                monitor_address="127.0.0.1:7",
                organization="o",
                parallel=16,
                dryRun=True,
                config={"p:key": "value"},
                info=_info(tmp_path, entry),
            )
        )
        return answer

    fine = run("0")
    assert (fine.error, fine.bail) == ("", False)
    shown = run("32")
    assert (shown.error, shown.bail) == ("", True)
    failed = run("3")
    assert "ended with exit code 3" in failed.error
    assert not failed.bail
    assert "killed by signal 9" in run("killed").error
    process.send_signal(signal.SIGINT)
    assert process.wait(20) == 0
    assert process.stderr
    said = json.loads(process.stderr.readline())
    flags = dict(zip(said["argv"][:-1:2], said["argv"][1:-1:2], strict=True))
    assert flags == {
        "--monitor": "127.0.0.1:7",
        "--engine": "127.0.0.1:9",
        "--project": "p",
        "--stack": "s",
        "--pwd": str(tmp_path),
        "--dry_run": "true",
        "--parallel": "16",
        "--organization": "o",
        "--root_directory": str(tmp_path),
    }
    assert said["argv"][-1] == str(tmp_path / "0")
    assert json.loads(said["config"]) == {"p:key": "value"}


def test_the_virtualenv_option_chooses_the_interpreter(start: Callable[[], Host], tmp_path: Path) -> None:
    _, stub = start()
    python = tmp_path / "env" / "bin" / "python"
    assert stub.About(messages.AboutRequest(info=_info(tmp_path, virtualenv="env"))).executable == sys.executable
    python.parent.mkdir(parents=True)
    python.write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    python.chmod(0o755)
    about = stub.About(messages.AboutRequest(info=_info(tmp_path, virtualenv="env")))
    assert about.executable == str(python)
    assert about.version == sys.version.split()[0]


def test_dependencies_are_direct_unless_all_are_asked_for(start: Callable[[], Host], tmp_path: Path) -> None:
    _, stub = start()

    def names(transitive: bool) -> set[str]:
        request = messages.GetProgramDependenciesRequest(info=_info(tmp_path), transitiveDependencies=transitive)
        return {found.name for found in stub.GetProgramDependencies(request).dependencies}

    assert {"pulumi", "pulumi-gcp"} <= {name.replace("_", "-") for name in names(True)}
    assert "pulumi" not in names(False)
    assert names(False) < names(True)


def test_a_plugin_streams_and_gives_its_exit_code(start: Callable[[], Host], tmp_path: Path) -> None:
    _, stub = start()
    plugin = tmp_path / "pack"
    plugin.mkdir()
    (plugin / "__main__.py").write_text(
        "import os, sys\n"
        "print('4711', os.environ['COLOUR'], sys.argv[1], os.getcwd())\n"
        "sys.stdin.read()\n"
        "print('trouble', file=sys.stderr)\n"
        "sys.exit(7)\n"
    )
    environ = [f"{key}={value}" for key, value in {**_environ(), "COLOUR": "a=b"}.items()]
    request = messages.RunPluginRequest(info=_info(plugin), pwd=str(tmp_path), args=["127.0.0.1:9"], env=environ)
    answers = list(stub.RunPlugin(request))
    assert b"".join(answer.stdout for answer in answers).decode() == f"4711 a=b 127.0.0.1:9 {tmp_path}\n"
    assert b"".join(answer.stderr for answer in answers) == b"trouble\n"
    assert answers[-1].exitcode == 7
    assert [answer.WhichOneof("output") for answer in answers].count("exitcode") == 1


@pytest.mark.parametrize("how", ["dropped", "cancel", "interrupt", "terminate"])
def test_a_plugin_ends_with_its_call_and_with_the_host(start: Callable[[], Host], tmp_path: Path, how: str) -> None:
    process, stub = start()
    alive = tmp_path / "alive"
    os.mkfifo(alive)
    # The plugin holds the pipe's writing end for as long as it lives; end of file is its death.
    (tmp_path / "__main__.py").write_text(
        f"import time\nalive = open({str(alive)!r}, 'w')\nprint('1', flush=True)\ntime.sleep(600)\n"
    )
    call = stub.RunPlugin(messages.RunPluginRequest(info=_info(tmp_path), pwd=str(tmp_path)))
    with alive.open() as pipe:
        assert next(call).stdout.startswith(b"1")
        if how == "dropped":
            call.cancel()
        elif how == "cancel":
            stub.Cancel(empty_pb2.Empty())
        else:
            process.send_signal(signal.SIGINT if how == "interrupt" else signal.SIGTERM)
        assert pipe.read() == ""
    if how != "dropped":
        assert process.wait(20) == 0


def test_it_ends_when_the_engine_dies(tmp_path: Path) -> None:
    runner = tmp_path / "runner.py"
    runner.write_text(RUNNER)
    host = [sys.executable, "-m", "holdfast.engine.language_host", "--program-runner", str(runner)]
    # An engine that starts the host, waits until it serves, and dies without a word. The test reads the host's stderr,
    # which nobody else holds open then: end of file is the host's death.
    parent = (
        "import os, subprocess, sys\n"
        f"host = subprocess.Popen({host!r}, stdout=subprocess.PIPE)\n"
        "host.stdout.readline()\n"
        "os.kill(os.getpid(), 9)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", parent], env=_environ(), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, timeout=60
    )
    assert done.returncode == -signal.SIGKILL
    assert done.stderr == b""


def test_what_it_cannot_do_says_so(start: Callable[[], Host], tmp_path: Path) -> None:
    _, stub = start()
    requests: list[tuple[Callable[..., object], object]] = [
        (stub.GenerateProgram, messages.GenerateProgramRequest()),
        (stub.GeneratePackage, messages.GeneratePackageRequest()),
        (stub.Run, messages.RunRequest(info=_info(tmp_path), attach_debugger=True)),
    ]
    for method, request in requests:
        with pytest.raises(grpc.RpcError) as refused:
            method(request)
        assert refused.value.code() == grpc.StatusCode.UNIMPLEMENTED
        assert "Holdfast's Python language host does not do this; " in str(refused.value.details())


def test_what_the_engine_asks_in_passing_is_answered(start: Callable[[], Host], tmp_path: Path) -> None:
    _, stub = start()
    assert stub.GetPluginInfo(empty_pb2.Empty()).version.count(".") == 2
    assert not stub.GetRequiredPackages(messages.GetRequiredPackagesRequest(info=_info(tmp_path))).packages
    assert not stub.GetRequiredPlugins(messages.GetRequiredPluginsRequest(info=_info(tmp_path))).plugins
    assert not stub.RuntimeOptionsPrompts(messages.RuntimeOptionsRequest(info=_info(tmp_path))).prompts
    [line] = stub.InstallDependencies(messages.InstallDependenciesRequest(info=_info(tmp_path)))
    assert sys.executable.encode() in line.stdout


def test_a_missing_runner_is_an_error_with_a_way_out(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "holdfast.engine.language_host", "--program-runner", str(tmp_path / "no"), "x"]
    done = subprocess.run(command, env=_environ(), capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert "run `make engine` again" in done.stderr


PROGRAM = """
import os, sys, time
import pulumi

class Part(pulumi.ComponentResource):
    def __init__(self, name):
        super().__init__("demo:parts:Part", name)
        self.register_outputs({})

print("said on stdout", flush=True)
print("said on stderr", file=sys.stderr)
Part("one")
gate = os.environ.get("GATE")
if gate:
    open(gate).read()  # blocks until the test writes, which it does when it has seen the lines above
if os.environ.get("FAIL"):
    raise ValueError("kaputt")
pulumi.export("answer", 42)
"""

PACK = """
from pulumi_policy import EnforcementLevel, PolicyPack, ResourceValidationPolicy

def check(args, report):
    if args.resource_type == "demo:parts:Part":
        report("no parts today")

PolicyPack("parts", policies=[ResourceValidationPolicy("no-parts", "forbids parts", check, EnforcementLevel.MANDATORY)])
"""


class Project:
    """A Pulumi project with one component, sealed off from the machine: own home, own state, no plugin downloads."""

    def __init__(self, folder: Path) -> None:
        found = engine.find()
        assert found is not None, "the tests marked `engine` need the Pulumi engine: run `make engine`"
        self.folder = folder / "program"
        self.pack = folder / "pack"
        state = folder / "state"
        for path in (self.folder, self.pack, state):
            path.mkdir()
        (self.folder / "Pulumi.yaml").write_text("name: demo\nruntime: python\n")
        (self.folder / "__main__.py").write_text(PROGRAM)
        (self.pack / "PulumiPolicy.yaml").write_text("runtime: python\n")
        (self.pack / "__main__.py").write_text(PACK)
        base = {key: os.environ[key] for key in ("PATH", "LANG", "HOLDFAST_CACHE") if key in os.environ}
        self._environ = found.environ(
            {
                **base,
                "HOME": str(folder),
                "PYTHONPATH": str(ROOT),
                "PULUMI_HOME": str(folder / "pulumi"),
                "PULUMI_BACKEND_URL": state.as_uri(),
                "PULUMI_CONFIG_PASSPHRASE": "only a test",
                "PULUMI_SKIP_UPDATE_CHECK": "true",
                "PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION": "true",
            }
        )
        self._pulumi = str(found.pulumi)
        self.run("stack", "init", "dev")

    def start(self, *args: str, environ: Mapping[str, str] | None = None) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [self._pulumi, *args, "--non-interactive", "--color", "never"],
            cwd=self.folder,
            env={**self._environ, **(environ or {})},
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )

    def run(self, *args: str, environ: Mapping[str, str] | None = None) -> tuple[int, str]:
        process = self.start(*args, environ=environ)
        out = process.communicate(timeout=120)[0]
        assert "warning" not in out.lower(), out
        return process.returncode, out


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path)


def _diagnostics(out: str) -> str:
    """The summary at the end of a command: each diagnostic once, however often the live display repeated it."""
    return out.split("\nDiagnostics:\n", 1)[1]


@pytest.mark.engine
def test_up_shows_what_the_program_prints_once_and_live_then_destroy(project: Project, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    process = project.start("up", "--yes", "--skip-preview", environ={"GATE": str(gate)})
    assert process.stdout
    seen = ""
    while not ("said on stdout" in seen and "said on stderr" in seen):
        line = process.stdout.readline()
        assert line, seen
        seen += line
    gate.write_text("go on")  # the program was still running when its lines came
    out = seen + process.communicate(timeout=120)[0]
    assert process.returncode == 0, out
    assert "warning" not in out.lower()
    assert _diagnostics(out).count("said on stdout") == 1
    assert _diagnostics(out).count("said on stderr") == 1
    assert "answer: 42" in out
    assert "+ 2 created" in out
    code, out = project.run("preview", "--expect-no-changes")
    assert code == 0, out
    code, out = project.run("destroy", "--yes", "--skip-preview")
    assert code == 0, out
    assert "- 2 deleted" in out


@pytest.mark.engine
def test_a_failing_program_is_an_error_shown_once(project: Project) -> None:
    code, out = project.run("preview", environ={"FAIL": "1"})
    assert code != 0
    assert _diagnostics(out).count("ValueError: kaputt") == 1
    assert _diagnostics(out).count("Traceback") == 1
    assert "1 errored" in out
    assert "exit code" not in out


@pytest.mark.engine
def test_a_mandatory_policy_stops_an_up(project: Project) -> None:
    code, out = project.run("up", "--yes", "--skip-preview", "--policy-pack", str(project.pack))
    assert code != 0
    assert "[mandatory]  no-parts  (demo:parts:Part: one)" in out
    assert "no parts today" in out


@pytest.mark.engine
def test_about_names_the_interpreter(project: Project) -> None:
    code, out = project.run("about")
    assert code == 0
    assert sys.executable in out
