"""The unit-test adapter: a program or a component on the SDK's mock monitor, against the emulated cloud.

The mock monitor never calls Check, so this adapter does: names, types and the API's own rules are enforced as on the
engine.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import pulumi
from pulumi.runtime import mocks as sdk
from pulumi.runtime import rpc, settings, sync_await
from pulumi.runtime.stack import run_in_stack

from mockgcp.cloud import Cloud
from mockgcp.frontends.pulumi.core import Provider, ProviderError
from mockgcp.frontends.pulumi.values import Value, decode, encode, reveal

STACK_REFERENCE = "pulumi:pulumi:StackReference"
# What is left of a failed run waits for nothing but the emulated cloud; a promise that nobody keeps is given up.
_FINISH_S = 1.0


@dataclass(frozen=True)
class Resource:
    """One registered resource, with revealed values. `id` is empty for components."""

    type: str
    name: str
    urn: str
    parent: str
    id: str
    inputs: Mapping[str, Value]
    outputs: Mapping[str, Value]


@dataclass
class Result:
    """What a run registered (in order) and exported."""

    resources: list[Resource] = field(default_factory=list)
    outputs: dict[str, Value] = field(default_factory=dict)

    def of_type(self, token: str) -> list[Resource]:
        return [resource for resource in self.resources if resource.type == token]


class EmulatedGcp:
    """Runs Pulumi code on the mock monitor with the emulated cloud behind it.

    Args:
        config: the stack's configuration, with namespaces (`holdfast:image`); `gcp:project` and `gcp:region` are set
            from `project` and `region`.
        stack_outputs: what a StackReference of each full stack name answers.
        preview: run as a preview; computed outputs are unknown and nothing is created.
        recorded: other providers' packages, such as `kubernetes`, whose resources are taken without a check: what they
            are given is what they answer. Resources of any other package are refused.
    """

    def __init__(
        self,
        cloud: Cloud,
        *,
        project: str,
        region: str = "us-central1",
        config: Mapping[str, Any] | None = None,
        stack: str = "dev",
        pulumi_project: str = "holdfast",
        stack_outputs: Mapping[str, Mapping[str, Any]] | None = None,
        preview: bool = False,
        recorded: Collection[str] = (),
    ) -> None:
        self._provider = Provider(cloud)
        self._provider.configure({"project": project, "region": region})
        self._cloud = cloud
        self._config = {
            key: value if isinstance(value, str) else json.dumps(value)
            for key, value in {"gcp:project": project, "gcp:region": region, **(config or {})}.items()
        }
        self._stack = stack
        self._pulumi_project = pulumi_project
        self._stack_outputs = stack_outputs or {}
        self._preview = preview
        self._recorded = frozenset(recorded)

    def run(self, program: Callable[[], Any]) -> Result:
        """Runs the program to its end, every output resolved.

        Raises:
            ApiError, ProviderError: what the cloud or the provider refused; and whatever the program itself raises.
        """
        result = Result()
        monitor = _Monitor(
            _Mocks(self._cloud, self._provider, self._stack_outputs, self._preview, self._recorded), result
        )
        with _isolated(self._config):
            sdk.set_mocks(
                monitor.mocks,
                project=self._pulumi_project,
                stack=self._stack,
                preview=self._preview,
                monitor=monitor,
                organization="organization",
            )
            settings.set_root_resource(None)  # type: ignore[arg-type]  # run_in_stack makes the stack that the exports belong to
            settings.SETTINGS.rpc_manager.clear()
            try:
                sync_await._sync_await(run_in_stack(program))
            except Exception:
                # The SDK wraps what the mocks raise; the cloud's own error says more.
                if monitor.mocks.error is not None:
                    raise monitor.mocks.error from None
                raise
            finally:
                sync_await._sync_await(_finish_off())
        return result


async def _finish_off() -> None:
    """Ends what a failed run left unfinished: the SDK would await it, and raise its errors, in the next run."""
    left = asyncio.all_tasks() - {asyncio.current_task()}
    if left:
        _, stuck = await asyncio.wait(left, timeout=_FINISH_S)
        for task in stuck:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)
    settings.SETTINGS.outputs.clear()
    settings.SETTINGS.rpc_manager.clear()


class _Mocks(sdk.Mocks):
    def __init__(
        self,
        cloud: Cloud,
        provider: Provider,
        stack_outputs: Mapping[str, Mapping[str, Any]],
        preview: bool,
        recorded: frozenset[str],
    ) -> None:
        self._cloud = cloud
        self._providers = {"": provider}
        self._stack_outputs = stack_outputs
        self._preview = preview
        self._recorded = recorded
        self.error: Exception | None = None

    def new_resource(self, args: sdk.MockResourceArgs) -> tuple[str | None, dict[Any, Any]]:
        try:
            return self._answer(args)
        except Exception as error:
            self.error = self.error or error
            raise

    def _answer(self, args: sdk.MockResourceArgs) -> tuple[str, dict[Any, Any]]:
        inputs, existing = decode(args.inputs), args.resource_id or ""
        if args.typ == STACK_REFERENCE:
            return args.name, self._reference(str(inputs.get("name", args.name)))
        if args.typ == "pulumi:providers:gcp":
            return self._configured(args.name, inputs)
        if args.typ.startswith("gcp:"):
            provider = self._provider_of(args.provider)
            if existing and not args.custom:
                return self._read(provider, args.typ, args.name, existing, inputs)
            return self._new(provider, args.typ, args.name, inputs, existing)
        if args.custom and args.typ.removeprefix("pulumi:providers:").partition(":")[0] in self._recorded:
            return ("" if self._preview else args.name), encode(inputs)
        if args.custom:
            raise ProviderError(f"EmulatedGcp emulates Google Cloud alone; it has no {args.typ} ({args.name!r})")
        return "", {}  # a component

    def _new(
        self, provider: Provider, token: str, name: str, inputs: dict[str, Value], existing: str
    ) -> tuple[str, dict[Any, Any]]:
        checked = provider.check(token, name, inputs, {})
        if checked.failures:
            raise ProviderError(f"{token} {name!r}: {'; '.join(map(str, checked.failures))}")
        if existing:
            return self._read(provider, token, name, existing, checked.inputs)
        state = provider.create(token, checked.inputs, preview=self._preview)
        return state.id, encode(state.outputs)

    def _configured(self, name: str, inputs: dict[str, Value]) -> tuple[str, dict[Any, Any]]:
        """A provider instance of the program's own, `gcp.Provider("x", project=...)`."""
        identifier = f"gcp-{name}"
        self._providers[identifier] = Provider(self._cloud)
        self._providers[identifier].configure(inputs)
        return identifier, encode(inputs)

    def _provider_of(self, reference: str | None) -> Provider:
        """The instance a resource names by `URN::ID`, else the default one."""
        return self._providers.get((reference or "").rpartition("::")[2], self._providers[""])

    @staticmethod
    def _read(
        provider: Provider, token: str, name: str, identifier: str, inputs: dict[str, Value]
    ) -> tuple[str, dict[Any, Any]]:
        """A resource that is there already: one that is imported, or that the program only looks up."""
        found = provider.read(token, identifier, inputs, {})
        if found is None:
            raise ProviderError(f"{token} {name!r}: there is nothing with id {identifier!r}")
        return found.id, encode(found.outputs)

    def _reference(self, name: str) -> dict[str, Any]:
        if name not in self._stack_outputs:
            raise ProviderError(f"no stack {name!r}; stack_outputs has {', '.join(self._stack_outputs) or 'none'}")
        return {"name": name, "outputs": encode(self._stack_outputs[name]), "secretOutputNames": []}

    def call(self, args: sdk.MockCallArgs) -> tuple[dict[Any, Any], list[tuple[str, str]] | None]:
        try:
            return encode(self._provider_of(args.provider).invoke(args.token, decode(args.args))), []
        except Exception as error:
            self.error = self.error or error
            raise


class _Monitor(sdk.MockMonitor):
    """Keeps what was registered, parents and stack outputs included."""

    mocks: _Mocks

    def __init__(self, mocks: _Mocks, result: Result) -> None:
        super().__init__(mocks)
        self._result = result

    def RegisterResource(self, request: Any) -> Any:
        response = super().RegisterResource(request)  # type: ignore[no-untyped-call]
        if request.type != "pulumi:pulumi:Stack":
            self._result.resources.append(
                Resource(
                    type=request.type,
                    name=request.name,
                    urn=response.urn,
                    parent=request.parent,
                    id=response.id,
                    inputs=reveal(decode(request.object)),
                    outputs=reveal(decode(response.object)),
                )
            )
        return response

    def RegisterResourceOutputs(self, request: Any) -> Any:
        if request.urn.split("::")[2] == "pulumi:pulumi:Stack":
            self._result.outputs.update(reveal(decode(rpc.deserialize_properties(request.outputs, keep_unknowns=True))))
        return super().RegisterResourceOutputs(request)  # type: ignore[no-untyped-call]


@contextlib.contextmanager
def _isolated(config: Mapping[str, str]) -> Iterator[None]:
    """The program's configuration, an event loop of its own, and the process's settings as they were afterwards."""
    before = os.environ.pop("PULUMI_CONFIG", None)
    old_config = dict(pulumi.runtime.config.CONFIG.get())
    pulumi.runtime.set_all_config(dict(config))
    with warnings.catch_warnings(action="ignore", category=DeprecationWarning):
        try:
            old_loop = asyncio.get_event_loop()
        except RuntimeError:
            old_loop = None
    loop = asyncio.new_event_loop()
    # `run` raises what went wrong. The SDK's futures that nobody awaits would say it again when they are collected.
    loop.set_exception_handler(lambda loop, context: None)
    asyncio.set_event_loop(loop)
    try:
        yield
    finally:
        loop.run_until_complete(loop.shutdown_default_executor())
        loop.close()
        asyncio.set_event_loop(old_loop)
        pulumi.runtime.set_all_config(old_config)
        if before is not None:
            os.environ["PULUMI_CONFIG"] = before
