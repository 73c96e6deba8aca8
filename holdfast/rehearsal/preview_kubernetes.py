"""The Kubernetes provider of a preview where the real one is not built: it takes what a program asks for, unjudged.

It makes nothing: whatever is no preview is refused.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent import futures
from contextlib import contextmanager
from typing import Any

import grpc
from google.protobuf import empty_pb2
from pulumi.runtime.proto import plugin_pb2, provider_pb2, provider_pb2_grpc

from holdfast import planes


class _Servicer(provider_pb2_grpc.ResourceProviderServicer):
    def Handshake(self, request: Any, context: grpc.ServicerContext) -> Any:
        return provider_pb2.ProviderHandshakeResponse(accept_secrets=True)

    def Attach(self, request: Any, context: grpc.ServicerContext) -> Any:
        return empty_pb2.Empty()

    def GetPluginInfo(self, request: Any, context: grpc.ServicerContext) -> Any:
        return plugin_pb2.PluginInfo(version=planes.PROVIDER_VERSION)

    def CheckConfig(self, request: Any, context: grpc.ServicerContext) -> Any:
        return provider_pb2.CheckResponse(inputs=request.news)

    def Configure(self, request: Any, context: grpc.ServicerContext) -> Any:
        return provider_pb2.ConfigureResponse(acceptSecrets=True, supportsPreview=True)

    def Check(self, request: Any, context: grpc.ServicerContext) -> Any:
        return provider_pb2.CheckResponse(inputs=request.news)

    def Create(self, request: Any, context: grpc.ServicerContext) -> Any:
        if not request.preview:
            context.abort(grpc.StatusCode.UNIMPLEMENTED, f"only previews work without {planes.COMMAND}")
        return provider_pb2.CreateResponse(properties=request.properties)

    def Cancel(self, request: Any, context: grpc.ServicerContext) -> Any:
        return empty_pb2.Empty()


@contextmanager
def serve() -> Iterator[int]:
    """Serves it on a free loopback port while the block runs; yields the port."""
    server = grpc.server(futures.ThreadPoolExecutor(4, thread_name_prefix="preview-kubernetes"))
    provider_pb2_grpc.add_ResourceProviderServicer_to_server(_Servicer(), server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        yield port
    finally:
        server.stop(grace=1).wait()
