"""The engine's adapter: Pulumi's ResourceProvider protocol over gRPC, for `PULUMI_DEBUG_PROVIDERS=gcp:PORT`.

It only carries values: every decision is in core.py. What the protocol has and this provider does not (components,
assets, method calls) answers UNIMPLEMENTED, as gRPC's servicer does by itself.
"""

from __future__ import annotations

import threading
import traceback
from collections.abc import Callable, Iterator
from concurrent import futures
from contextlib import contextmanager
from typing import Any, TypeVar

import grpc
from google.protobuf import empty_pb2
from pulumi.runtime.proto import plugin_pb2, provider_pb2, provider_pb2_grpc, status_pb2

from mockgcp.cloud import DEFAULT_OWNER, Cloud
from mockgcp.errors import ApiError
from mockgcp.frontends.pulumi.core import NotReadyError, Provider, ProviderError, State
from mockgcp.frontends.pulumi.values import UnsupportedValueError, decode, reveal, to_struct

# Resources may pin provider versions of their own (a typed resource of a newer provider): the highest one is answered,
# or every command warns that the plugin is too old.
PLUGIN_VERSION = "10.5.0"
_KINDS = {
    ("add", False): provider_pb2.PropertyDiff.ADD,
    ("add", True): provider_pb2.PropertyDiff.ADD_REPLACE,
    ("delete", False): provider_pb2.PropertyDiff.DELETE,
    ("delete", True): provider_pb2.PropertyDiff.DELETE_REPLACE,
    ("update", False): provider_pb2.PropertyDiff.UPDATE,
    ("update", True): provider_pb2.PropertyDiff.UPDATE_REPLACE,
}
_CODES = {
    "NOT_FOUND": grpc.StatusCode.NOT_FOUND,
    "ALREADY_EXISTS": grpc.StatusCode.ALREADY_EXISTS,
    "PERMISSION_DENIED": grpc.StatusCode.PERMISSION_DENIED,
    "INVALID_ARGUMENT": grpc.StatusCode.INVALID_ARGUMENT,
}
_MESSAGE_MAX = 400 * 2**20
_Handler = TypeVar("_Handler", bound=Callable[..., Any])


def _token(urn: str) -> str:
    """The resource type of a URN: what follows the last `$` of its third part."""
    return urn.split("::")[2].rpartition("$")[2]


def _name(urn: str) -> str:
    return urn.split("::", 3)[3]


def _words(error: ApiError) -> str:
    return f"googleapi: Error {error}"


def _abort_not_ready(context: grpc.ServicerContext, error: NotReadyError) -> None:
    """Fails the call with what the engine keeps, as details of the status in the place where gRPC looks for them."""
    unknown, said = grpc.StatusCode.UNKNOWN, _words(error)
    status = status_pb2.Status(code=unknown.value[0], message=said)
    kept, outputs = error.state, to_struct(error.state.outputs)
    status.details.add().Pack(provider_pb2.ErrorResourceInitFailed(id=kept.id, properties=outputs, reasons=[said]))
    context.set_trailing_metadata((("grpc-status-details-bin", status.SerializeToString()),))
    context.abort(unknown, said)


def _answers(handler: _Handler) -> Any:
    """Turns refusals into the gRPC errors whose text the engine shows."""

    def wrapped(self: Any, request: Any, context: grpc.ServicerContext) -> Any:
        try:
            return handler(self, self.provider(context.peer()), request)
        except NotReadyError as error:
            _abort_not_ready(context, error)
        except ApiError as error:
            context.abort(_CODES.get(error.status, grpc.StatusCode.UNKNOWN), _words(error))
        except (ProviderError, UnsupportedValueError) as error:
            context.abort(grpc.StatusCode.FAILED_PRECONDITION, str(error))
        except Exception:
            context.abort(grpc.StatusCode.INTERNAL, f"defect in mockgcp:\n{traceback.format_exc()}")

    return wrapped


class _Servicer(provider_pb2_grpc.ResourceProviderServicer):
    """Answers every provider instance of a program: its default one, and each `gcp.Provider("x")` of its own.

    The engine opens a connection for each of them to the same port, so each connection has a provider.
    """

    def __init__(self, cloud: Cloud, principal: str) -> None:
        self._cloud, self._principal = cloud, principal
        self._providers: dict[str, Provider] = {}
        self._lock = threading.Lock()

    def provider(self, peer: str) -> Provider:
        with self._lock:
            return self._providers.setdefault(peer, Provider(self._cloud, principal=self._principal))

    @_answers
    def Handshake(self, provider: Provider, request: Any) -> Any:
        # Outputs are declined, so that values arrive as plain, secret or unknown ones.
        return provider_pb2.ProviderHandshakeResponse(
            accept_secrets=True, accept_resources=False, accept_outputs=False, supports_autonaming_configuration=True
        )

    @_answers
    def Attach(self, provider: Provider, request: Any) -> Any:
        return empty_pb2.Empty()

    @_answers
    def GetPluginInfo(self, provider: Provider, request: Any) -> Any:
        return plugin_pb2.PluginInfo(version=PLUGIN_VERSION)

    @_answers
    def CheckConfig(self, provider: Provider, request: Any) -> Any:
        return provider_pb2.CheckResponse(inputs=request.news)

    @_answers
    def DiffConfig(self, provider: Provider, request: Any) -> Any:
        return provider_pb2.DiffResponse()

    @_answers
    def Configure(self, provider: Provider, request: Any) -> Any:
        provider.configure(decode(request.args))
        return provider_pb2.ConfigureResponse(
            acceptSecrets=True,
            supportsPreview=True,
            acceptResources=False,
            acceptOutputs=False,
            supports_autonaming_configuration=True,
        )

    @_answers
    def Check(self, provider: Provider, request: Any) -> Any:
        autonaming = request.autonaming
        disabled = autonaming.mode == provider_pb2.CheckRequest.AutonamingOptions.Mode.DISABLE
        checked = provider.check(
            _token(request.urn),
            _name(request.urn),
            decode(request.news),
            reveal(decode(request.olds)),
            request.randomSeed,
            None if disabled else autonaming.proposed_name,
        )
        return provider_pb2.CheckResponse(
            inputs=to_struct(checked.inputs),
            # The path goes into the reason: the engine would look a nested one up at the top level and show <nil>.
            failures=[provider_pb2.CheckFailure(reason=str(failure)) for failure in checked.failures],
        )

    @_answers
    def Diff(self, provider: Provider, request: Any) -> Any:
        old = State(request.id, decode(request.olds), decode(request.old_inputs))
        diff = provider.diff(_token(request.urn), old, decode(request.news), tuple(request.ignoreChanges))
        some = provider_pb2.DiffResponse.DIFF_SOME if diff.changes else provider_pb2.DiffResponse.DIFF_NONE
        return provider_pb2.DiffResponse(
            changes=some,
            replaces=diff.replaces,
            diffs=sorted({change.path.split(".")[0].split("[")[0] for change in diff.changes}),
            deleteBeforeReplace=diff.delete_before_replace,
            hasDetailedDiff=True,
            detailedDiff={
                change.path: provider_pb2.PropertyDiff(kind=_KINDS[change.action, change.replace], inputDiff=True)
                for change in diff.changes
            },
        )

    @_answers
    def Create(self, provider: Provider, request: Any) -> Any:
        state = provider.create(_token(request.urn), decode(request.properties), preview=request.preview)
        return provider_pb2.CreateResponse(id=state.id, properties=to_struct(state.outputs))

    @_answers
    def Read(self, provider: Provider, request: Any) -> Any:
        found = provider.read(_token(request.urn), request.id, decode(request.inputs), decode(request.properties))
        if found is None:
            return provider_pb2.ReadResponse()
        return provider_pb2.ReadResponse(
            id=found.id, properties=to_struct(found.outputs), inputs=to_struct(found.inputs)
        )

    @_answers
    def Update(self, provider: Provider, request: Any) -> Any:
        old = State(request.id, decode(request.olds), decode(request.old_inputs))
        state = provider.update(_token(request.urn), old, decode(request.news), preview=request.preview)
        return provider_pb2.UpdateResponse(properties=to_struct(state.outputs))

    @_answers
    def Delete(self, provider: Provider, request: Any) -> Any:
        provider.delete(_token(request.urn), State(request.id, decode(request.properties), decode(request.old_inputs)))
        return empty_pb2.Empty()

    @_answers
    def Invoke(self, provider: Provider, request: Any) -> Any:
        result = provider.invoke(request.tok, decode(request.args))
        returned: Any = {"return": to_struct(result)}  # a keyword in Python
        return provider_pb2.InvokeResponse(**returned)

    @_answers
    def Cancel(self, provider: Provider, request: Any) -> Any:
        return empty_pb2.Empty()


@contextmanager
def serve(cloud: Cloud, *, principal: str = DEFAULT_OWNER) -> Iterator[int]:
    """Serves the provider on a free loopback port while the block runs; yields the port."""
    # As large as the engine's own limit: a resource may hold whole scripts and manifests.
    limits = [(f"grpc.max_{way}_message_length", _MESSAGE_MAX) for way in ("receive", "send")]
    server = grpc.server(futures.ThreadPoolExecutor(16, thread_name_prefix="mockgcp-provider"), options=limits)
    provider_pb2_grpc.add_ResourceProviderServicer_to_server(_Servicer(cloud, principal), server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        yield port
    finally:
        server.stop(grace=1).wait()
