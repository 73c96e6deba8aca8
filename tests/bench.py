"""The benchmark: `make bench`. Ratios from one interleaved run, since absolute times on a shared machine are noise.

Each pair of measurements is taken in turn, A B A B ..., and what is printed is the median of the pairs' differences or
ratios. Nothing here is a test: no threshold fails.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent import futures
from contextlib import contextmanager
from functools import partial
from typing import Any

import grpc
import psutil
import pulumi
import pulumi_gcp as gcp
import yaml
from google.protobuf import empty_pb2
from pulumi.runtime import mocks, settings, sync_await
from pulumi.runtime.proto import plugin_pb2, provider_pb2, provider_pb2_grpc
from pulumi.runtime.stack import run_in_stack

from holdfast import engine
from holdfast.rehearsal.pulumi_cli import Pulumi
from holdfast.rehearsal.sealed import REPOSITORY, sealed_environment
from mockgcp.cloud import Cloud
from mockgcp.frontends.pulumi.grpc import serve
from mockgcp.frontends.pulumi.mocks import EmulatedGcp
from mockgcp.planes.processes import ProcessLedger

PROJECT = "bench-project"
BUCKETS = """
import pulumi_gcp as gcp
for index in range({count}):
    gcp.storage.Bucket(f"bucket-{{index}}", location="us-central1", name=f"bench-bucket-{{index}}")
"""


def pairs(rounds: int, one: Callable[[], float], other: Callable[[], float]) -> list[tuple[float, float]]:
    """`rounds` pairs of measurements after one unmeasured pair, the order changing each time."""
    one(), other()
    found = []
    for index in range(rounds):
        first, second = (one, other) if index % 2 == 0 else (other, one)
        a, b = first(), second()
        found.append((a, b) if index % 2 == 0 else (b, a))
    return found


# -- mocks ---------------------------------------------------------------------------------------------------------


class EchoMocks(mocks.Mocks):
    """What the SDK's documentation shows: inputs come back as outputs."""

    def new_resource(self, args: mocks.MockResourceArgs) -> tuple[str | None, dict[Any, Any]]:
        return f"{args.name}-id", dict(args.inputs)

    def call(self, args: mocks.MockCallArgs) -> tuple[dict[Any, Any], list[tuple[str, str]] | None]:
        return {}, []


def bench_mocks(rounds: int, count: int) -> None:
    def program() -> None:
        for index in range(count):
            gcp.storage.Bucket(f"bucket-{index}", location="us-central1", name=f"bench-bucket-{index}")

    def emulated() -> float:
        cloud = Cloud()
        cloud.seed_project(PROJECT)
        run = EmulatedGcp(cloud, project=PROJECT)
        return timed(lambda: run.run(program))

    def echo() -> float:
        mocks.set_mocks(EchoMocks(), project="bench", stack="dev")
        settings.set_root_resource(None)  # type: ignore[arg-type]
        pulumi.runtime.set_all_config({"gcp:project": PROJECT})
        return timed(lambda: sync_await._sync_await(run_in_stack(program)))

    found = pairs(rounds, emulated, echo)
    over = statistics.median((a - b) / count * 1000 for a, b in found)
    print(f"mocks, {count} buckets: {over:.2f} ms a resource over the SDK's echo mocks (goal: at most 4)")


# -- engine --------------------------------------------------------------------------------------------------------


class EchoProvider(provider_pb2_grpc.ResourceProviderServicer):
    """The least a provider can do: every input is an output. The floor for what an engine run costs."""

    def Handshake(self, request: Any, context: Any) -> Any:
        return provider_pb2.ProviderHandshakeResponse(accept_secrets=True)

    def Attach(self, request: Any, context: Any) -> Any:
        return empty_pb2.Empty()

    def GetPluginInfo(self, request: Any, context: Any) -> Any:
        return plugin_pb2.PluginInfo(version="10.5.0")

    def CheckConfig(self, request: Any, context: Any) -> Any:
        return provider_pb2.CheckResponse(inputs=request.news)

    def Configure(self, request: Any, context: Any) -> Any:
        return provider_pb2.ConfigureResponse(acceptSecrets=True, supportsPreview=True)

    def Check(self, request: Any, context: Any) -> Any:
        return provider_pb2.CheckResponse(inputs=request.news)

    def Create(self, request: Any, context: Any) -> Any:
        return provider_pb2.CreateResponse(id="" if request.preview else request.urn, properties=request.properties)

    def Delete(self, request: Any, context: Any) -> Any:
        return empty_pb2.Empty()


@contextmanager
def echo_provider() -> Iterator[int]:
    server = grpc.server(futures.ThreadPoolExecutor(16))
    provider_pb2_grpc.add_ResourceProviderServicer_to_server(EchoProvider(), server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        yield port
    finally:
        server.stop(grace=1).wait()


def bench_engine(rounds: int, count: int) -> None:
    found = engine.ensure(print)
    cloud = Cloud()
    cloud.seed_project(PROJECT)
    with sealed_environment() as sealed, serve(cloud) as ours, echo_provider() as echo:
        project = sealed.root / "bench"
        project.mkdir()
        runtime = {"name": "python", "options": {"virtualenv": sys.prefix}}
        (project / "Pulumi.yaml").write_text(yaml.safe_dump({"name": "bench", "runtime": runtime}))
        (project / "__main__.py").write_text(BUCKETS.format(count=count))
        runs = {}
        for name, port in (("ours", ours), ("echo", echo)):
            runs[name] = Pulumi(
                found, project, sealed.environ(found, port), ProcessLedger(sealed.root / "processes.jsonl")
            )
            runs[name].run("stack", "init", name)
            runs[name].run("config", "set", "--stack", name, "gcp:project", PROJECT)

        def measure(name: str, verb: str) -> float:
            seconds = timed(lambda: runs[name].operate(verb, name))
            if verb == "up":
                runs[name].operate("destroy", name)
            return seconds

        for verb in ("preview", "up"):
            taken = pairs(rounds, partial(measure, "ours", verb), partial(measure, "echo", verb))
            ratio = statistics.median(a / b for a, b in taken)
            print(f"engine, {verb} of {count} buckets: {ratio:.2f} times an echo provider (goal: at most 1.5)")


# -- whole rehearsal and unit tests --------------------------------------------------------------------------------


def bench_rehearsal() -> None:
    command = [sys.executable, "-m", "holdfast.cli", "rehearse", "cloud-run", "--preemptions", "1"]
    with tempfile.TemporaryFile() as out:
        began = time.monotonic()
        process = subprocess.Popen(command, cwd=REPOSITORY, stdout=out, stderr=out)
        peak = peak_memory(process)
        seconds = time.monotonic() - began
    print(
        f"rehearsal: {seconds:.0f} s (goal: under 120), all its processes peak at {peak / 2**20:.0f} MiB (goal: 1536)"
    )
    if process.returncode != 0:
        print(f"rehearsal: failed with exit code {process.returncode}")


def peak_memory(process: subprocess.Popen[bytes]) -> int:
    """The largest sum of the process tree's proportional set sizes, in bytes, sampled five times a second."""
    peak = 0
    root = psutil.Process(process.pid)
    while process.poll() is None:
        total = 0
        for each in [root, *root.children(recursive=True)]:
            try:
                total += each.memory_full_info().pss
            except (psutil.NoSuchProcess, psutil.AccessDenied, psutil.ZombieProcess):
                continue
        peak = max(peak, total)
        time.sleep(0.2)
    return peak


def bench_unit_tests() -> None:
    command = [sys.executable, "-m", "pytest", "-n", "2", "-m", "not engine and not jax", "-p", "no:cacheprovider"]
    seconds = timed(lambda: subprocess.run(command, cwd=REPOSITORY, capture_output=True, check=False))
    print(f"unit tests without JAX and engine: {seconds:.0f} s (goal: under 30)")


def timed(action: Callable[[], Any]) -> float:
    began = time.perf_counter()
    action()
    return time.perf_counter() - began


def main() -> None:
    parser = argparse.ArgumentParser(prog="make bench", description=__doc__)
    parser.add_argument("--rounds", type=int, default=5, help="measured pairs (default %(default)s)")
    parser.add_argument("--only", choices=("mocks", "engine", "rehearsal", "tests"), help="one part alone")
    args = parser.parse_args()
    parts: dict[str, Callable[[], None]] = {
        "mocks": lambda: bench_mocks(args.rounds, 200),
        "engine": lambda: bench_engine(args.rounds, 20),
        "rehearsal": bench_rehearsal,
        "tests": bench_unit_tests,
    }
    for name, part in parts.items():
        if args.only in (None, name):
            part()
            sys.stdout.flush()


if __name__ == "__main__":
    main()
