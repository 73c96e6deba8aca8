"""The real Pulumi Kubernetes provider, called as the engine calls it: by its protocol, without an engine."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from subprocess import PIPE
from typing import Any

import grpc
from google.protobuf import empty_pb2, struct_pb2
from pulumi.runtime.proto import engine_pb2_grpc, provider_pb2, provider_pb2_grpc

from mockgcp.planes.processes import ProcessLedger

RELEASE = "kubernetes:helm.sh/v3:Release"


class Provider:
    """A provider that is configured for one cluster."""

    def __init__(self, stub: Any) -> None:
        self._stub = stub

    def create(self, kind: str, name: str, inputs: Mapping[str, Any], timeout_s: float = 120.0) -> str:
        """Creates a resource, waits as the provider does, and answers its id. Raises grpc.RpcError."""
        urn = f"urn:pulumi:dev::planes::{kind}::{name}"
        checked = self._stub.Check(provider_pb2.CheckRequest(urn=urn, news=_struct(inputs)))
        assert not checked.failures, checked.failures
        request = provider_pb2.CreateRequest(urn=urn, properties=checked.inputs, timeout=timeout_s)
        made: str = self._stub.Create(request, timeout=timeout_s + 30).id
        return made


@contextmanager
def provider(path: list[Path], kubeconfig: str, folder: Path) -> Iterator[Provider]:
    """Starts the provider, which is in the first folder of PATH, and ends it."""
    folder.mkdir(parents=True, exist_ok=True)
    engine = grpc.server(ThreadPoolExecutor(2))
    engine_pb2_grpc.add_EngineServicer_to_server(_Engine(), engine)
    port = engine.add_insecure_port("127.0.0.1:0")
    engine.start()
    ledger = ProcessLedger(folder / "provider.jsonl")
    env = {"PATH": os.pathsep.join([*map(str, path), os.defpath]), "HOME": str(folder)}
    with (folder / "provider.log").open("wb") as log:
        program = str(path[0] / "pulumi-resource-kubernetes")
        process = ledger.spawn([program, f"127.0.0.1:{port}"], env=env, cwd=folder, stdout=PIPE, stderr=log)
    try:
        assert process.stdout
        said = process.stdout.readline().decode().strip()
        limit = [("grpc.max_receive_message_length", 400 << 20)]
        with grpc.insecure_channel(f"127.0.0.1:{said}", options=limit) as channel:
            stub = provider_pb2_grpc.ResourceProviderStub(channel)
            variables = {"kubernetes:config:kubeconfig": kubeconfig}
            stub.Configure(provider_pb2.ConfigureRequest(variables=variables, args=_struct({"kubeconfig": kubeconfig})))
            yield Provider(stub)
    finally:
        ledger.kill()
        process.wait()
        engine.stop(None)


class _Engine(engine_pb2_grpc.EngineServicer):
    def Log(self, request: Any, context: Any) -> Any:
        return empty_pb2.Empty()


def _struct(values: Mapping[str, Any]) -> struct_pb2.Struct:
    made = struct_pb2.Struct()
    made.update(dict(values))
    return made
