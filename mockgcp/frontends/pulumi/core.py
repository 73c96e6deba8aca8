"""The provider's behaviour over decoded values: check, diff, create, read, update, delete, invoke.

The two adapters (grpc.py for the real engine, mocks.py for unit tests) only carry values in and out. Everything that
touches the cloud goes through `Cloud.call`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pulumi_gcp as gcp

from mockgcp.cloud import DEFAULT_OWNER, Cloud
from mockgcp.errors import ApiError
from mockgcp.frontends.pulumi import schema
from mockgcp.frontends.pulumi.diff import Change, compare
from mockgcp.frontends.pulumi.functions import FUNCTIONS
from mockgcp.frontends.pulumi.resource import AutoName, OperationError, ResourceType, Session
from mockgcp.frontends.pulumi.resources import RESOURCES
from mockgcp.frontends.pulumi.schema import Failure
from mockgcp.frontends.pulumi.translate import (
    PROVISIONED,
    from_rest,
    project,
    to_rest,
    with_defaults,
)
from mockgcp.frontends.pulumi.values import MADE_UP, UNKNOWN, Secret, Value, has_unknown, keep_secrets, reveal

Properties = Mapping[str, Value]
# The provider's settings that mean something here, or nothing at all on an emulated cloud (who calls, and how).
_CONFIG = frozenset(
    {
        "accessToken",
        "billingProject",
        "credentials",
        "project",
        "region",
        "requestReason",
        "requestTimeout",
        "scopes",
        "universeDomain",
        "userProjectOverride",
        "zone",
    }
)
_OF_THE_ENGINE = frozenset({"pluginDownloadURL", "version"})


class ProviderError(Exception):
    """A refusal of the provider itself, before or around the API's own."""


@dataclass(frozen=True)
class Checked:
    inputs: dict[str, Value]
    failures: list[Failure] = field(default_factory=list)


@dataclass(frozen=True)
class Diff:
    """`delete_before_replace`: the new one would have the old one's name."""

    changes: list[Change]
    delete_before_replace: bool = False

    @property
    def replaces(self) -> list[str]:
        return [change.path for change in self.changes if change.replace]


@dataclass(frozen=True)
class State:
    """A resource as the engine keeps it."""

    id: str
    outputs: dict[str, Value]
    inputs: dict[str, Value] = field(default_factory=dict)


@dataclass
class NotReadyError(ApiError):
    """The API's error over a resource that is there all the same, as `state`: it is kept, and the next `up` updates it.

    So does pulumi-terraform-bridge with an id that is set (initializationError in pkg/tfbridge/provider.go). There the
    outputs are those that the program asked for; here they are the server's.
    """

    state: State = field(kw_only=True)


class Provider:
    """The `gcp` provider on an emulated cloud. Configure it before any resource."""

    def __init__(self, cloud: Cloud, *, principal: str = DEFAULT_OWNER) -> None:
        self._cloud = cloud
        self._principal = principal
        self._session: Session | None = None

    @property
    def session(self) -> Session:
        if self._session is None:
            raise ProviderError("the gcp provider was used before it was configured")
        return self._session

    def configure(self, config: Properties) -> None:
        """Takes the provider's configuration; the same one again is fine.

        Raises:
            ProviderError: no project, one that this emulated cloud was not seeded with, or another universe.
        """
        values = {key: value for key, value in reveal(config).items() if value not in (None, "")}
        known = schema.Object(gcp.ProviderArgs)
        for key in values:
            if key not in known.fields and key not in _OF_THE_ENGINE:
                raise ProviderError(f"gcp:{schema.Failure(key, schema.unknown_name(known, key))}")
            if key not in _CONFIG and key not in _OF_THE_ENGINE:
                raise ProviderError(
                    f"mockgcp does not emulate the provider's setting gcp:{key}; leave it out to rehearse"
                )
        name = values.get("project", "")
        if not name:
            raise ProviderError("no project: set one with `pulumi config set gcp:project PROJECT`")
        self.require_seeded(name, "gcp:project")
        universe = self._cloud.universe.domain
        if values.get("universeDomain") not in (None, "", universe):
            raise ProviderError(
                f"gcp:universeDomain is {values['universeDomain']!r}, but this emulated Google Cloud is {universe}: "
                "its e-mails and limits would be wrong. Take the emulator's, or start it with that universe."
            )
        self._session = Session(self._cloud, self._principal, name, values.get("region", ""))

    def require_seeded(self, name: str, where: str) -> None:
        """Keeps an emulator from taking the place of a real project unseen.

        Raises:
            ProviderError: the project is not one of the emulated cloud's.
        """
        seeded = [p.id for p in self._cloud.projects]
        if name not in seeded and name not in [str(p.number) for p in self._cloud.projects]:
            raise ProviderError(
                f"{where} is {name!r}, which this emulated Google Cloud was not seeded with (it has "
                f"{', '.join(seeded) or 'no project'}). PULUMI_DEBUG_PROVIDERS attaches the emulator in the place "
                "of the real gcp provider, so an `up` would only record fake resources: unset it to "
                "deploy to the real project, or seed the emulator with it to rehearse."
            )

    # -- resources -------------------------------------------------------------------------------------------------

    def check(
        self, token: str, name: str, news: Properties, olds: Properties, seed: bytes = b"", proposed: str | None = ""
    ) -> Checked:
        """Validates inputs and fills in the generated name.

        `proposed` is the name that the engine's autonaming chose; "" leaves it to the provider, None turns it off.

        Raises:
            ProviderError: an unknown resource type.
        """
        kind = resource_type(token)
        inputs = {key: value for key, value in news.items() if key != MADE_UP}
        failures = schema.check(kind.inputs, inputs)
        if kind.auto_name and inputs.get(kind.auto_name.field) is None:
            generated = _generated_name(kind.auto_name, name, olds, seed, proposed)
            if generated is None:
                failures.append(Failure(kind.auto_name.field, "is required and missing: autonaming is disabled"))
            else:
                inputs[kind.auto_name.field] = generated
                inputs[MADE_UP] = [kind.auto_name.field]
        named = reveal(inputs.get("project"))
        if kind.in_project and isinstance(named, (str, int)):
            try:
                self.require_seeded(str(named), "project")
            except ProviderError as error:
                failures.append(Failure("", str(error)))
        if not failures:
            failures = self._dry_run(kind, inputs)
        return Checked(inputs, failures)

    def _dry_run(self, kind: ResourceType, inputs: Properties) -> list[Failure]:
        """The API's own rules, asked before anything is created, where every input is known already."""
        if kind.dry_run is None or has_unknown(inputs) or self._session is None:
            return []
        properties = self._effective(kind, inputs)
        try:
            kind.dry_run(self._session, properties, self._body(kind, properties))
        except ApiError as error:
            return [Failure("", error.message)]
        return []

    def diff(self, token: str, old: State, news: Properties, ignore: tuple[str, ...] = ()) -> Diff:
        """What would change. `ignore` are top-level properties whose changes the program ignores."""
        kind = resource_type(token)
        live = reveal(old.outputs)
        before, after = (
            with_defaults(kind.defaults, {k: v for k, v in reveal(inputs).items() if k not in (*ignore, MADE_UP)})
            for inputs in (old.inputs, news)
        )
        if kind.in_project and "project" not in ignore:
            before.setdefault("project", live.get("project"))
            after.setdefault("project", self.session.project)
        # Writing out what the server had chosen, or spelling it otherwise, is no change.
        chosen = {k: v for k, v in after.items() if k in kind.computed and before.get(k) is None}
        before |= project(kind.table, kind.inputs, chosen, live, kind.computed)
        before |= {k: v for k, v in after.items() if kind.table.same(k, v, before.get(k))}
        changes = compare(before, after, replace_on=kind.replace_on, in_place=kind.in_place, computed=kind.computed)
        if kind.update is None:
            changes = [Change(change.path, change.action, True) for change in changes]
        name = kind.auto_name.field if kind.auto_name else None
        # A generated name is generated anew for the replacement.
        generated = name in (news.get(MADE_UP) or ())
        same_name = name is not None and not generated and before.get(name) == after.get(name)
        return Diff(changes, delete_before_replace=same_name and any(change.replace for change in changes))

    def create(self, token: str, inputs: Properties, *, preview: bool = False) -> State:
        """Creates the resource; in a preview only says what is known of it.

        Raises:
            ApiError: the API's refusal. NotReadyError: it is made, and not ready. ProviderError: an unknown resource
                type.
        """
        kind = resource_type(token)
        properties = self._effective(kind, inputs)
        if preview:
            later = {name: UNKNOWN for name in kind.outputs if name not in kind.inputs.fields or name in kind.computed}
            return State("", keep_secrets(inputs, {**later, **properties}))
        try:
            rest = kind.create(self.session, properties, self._body(kind, properties))
        except OperationError as error:
            if kind.kept_unready:
                self._raise_if_there(kind, inputs, properties, error)
            raise
        return self._state(kind, inputs, properties, rest)

    def read(self, token: str, identifier: str, inputs: Properties, outputs: Properties) -> State | None:
        """The resource as it is now, in the shape of `inputs` (empty: an import, which learns them); None when gone.

        Raises:
            ProviderError: an id that does not have the type's form.
        """
        kind = resource_type(token)
        properties: dict[str, Value] = {**reveal(outputs), **reveal(inputs)}
        importing = not inputs
        if kind.import_id is not None:
            try:
                properties |= kind.import_id(identifier)
            except ValueError as error:
                if importing:
                    raise ProviderError(f"cannot import {token}: {error}") from error
        properties = self._effective(kind, properties)
        rest = kind.read(self.session, properties)
        if rest is None:
            return None
        found = self._state(kind, inputs, properties, rest)
        return State(found.id, found.outputs, self._live_inputs(kind, inputs, found.outputs))

    def update(self, token: str, old: State, news: Properties, *, preview: bool = False) -> State:
        """Changes the resource in place.

        Raises:
            ApiError: the API's refusal. NotReadyError: it is changed, and not ready.
        """
        kind = resource_type(token)
        properties = self._effective(kind, news)
        if preview:
            return State(old.id, keep_secrets(news, {**old.outputs, **properties}))
        if kind.update is None:
            raise ProviderError(f"{token} cannot change in place; every change replaces it")
        try:
            rest = kind.update(self.session, _stored(kind, old), properties, self._body(kind, properties))
        except OperationError as error:
            self._raise_if_there(kind, news, properties, error)
            raise
        return self._state(kind, news, properties, rest)

    def delete(self, token: str, old: State) -> None:
        """Deletes the resource; one that is gone already is fine.

        Raises:
            ApiError: the API's refusal. ProviderError: deletionPolicy is PREVENT.
        """
        kind = resource_type(token)
        properties = _stored(kind, old)
        match properties.get("deletionPolicy"):
            case "ABANDON":
                return
            case "PREVENT":
                raise ProviderError(
                    f"cannot delete {old.id}: its deletionPolicy is PREVENT. Set another one and run `pulumi up` first"
                )
        kind.delete(self.session, properties)

    def invoke(self, token: str, args: Properties) -> dict[str, Value]:
        """Calls a provider function.

        Raises:
            ProviderError: an unknown function or argument. ApiError: the API's refusal.
        """
        function = FUNCTIONS.get(token)
        if function is None:
            raise ProviderError(f"mockgcp does not emulate the function {token} yet; it has {', '.join(FUNCTIONS)}")
        for name in args:
            if name not in function.arguments:
                raise ProviderError(f"{token} takes no argument {name}; it has {', '.join(function.arguments)}")
        return dict(function.call(self.session, reveal(args)))

    def _raise_if_there(self, kind: ResourceType, inputs: Properties, properties: Properties, error: ApiError) -> None:
        rest = kind.read(self.session, properties)
        if rest is not None:
            state = self._state(kind, inputs, properties, rest)
            raise NotReadyError(error.status, error.message, state=state) from error

    # -- shapes ----------------------------------------------------------------------------------------------------

    def _effective(self, kind: ResourceType, inputs: Properties) -> dict[str, Value]:
        """The inputs as the API will see them: revealed, with the provider's defaults and configuration filled in."""
        properties = with_defaults(kind.defaults, {k: v for k, v in reveal(inputs).items() if k != MADE_UP})
        if kind.in_project and properties.get("project") is None:
            properties["project"] = self.session.project
        return properties

    def _body(self, kind: ResourceType, properties: Properties) -> dict[str, Any]:
        body = to_rest(kind.table, kind.inputs, properties)
        if "labels" in kind.inputs.fields:
            body["labels"] = {**body.get("labels", {}), PROVISIONED: "true"}
        return body

    def _state(self, kind: ResourceType, inputs: Properties, properties: Properties, rest: Mapping[str, Any]) -> State:
        # What no API keeps is as the program has it, and so is a zero that was never sent; all else is the server's.
        local = {
            key: value
            for key, value in properties.items()
            if key in kind.outputs
            and value is not None
            and (key in kind.table.local or value in (False, 0, "", [], {}))
        }
        found = from_rest(kind.table, kind.outputs, rest)
        respelled = {key: properties[key] for key in found if kind.table.same(key, found[key], properties.get(key))}
        outputs = {
            **({"deletionPolicy": "DELETE"} if "deletionPolicy" in kind.outputs else {}),
            **local,
            **found,
            **respelled,
            **_label_outputs(kind, rest),
            **kind.derive(self.session, properties, rest),
        }
        identifier = kind.id.format_map({**outputs, **properties})
        return State(identifier, keep_secrets(inputs, outputs))

    def _live_inputs(self, kind: ResourceType, inputs: Properties, outputs: Properties) -> dict[str, Value]:
        live = reveal(outputs)
        if not inputs:
            # A zero says something only where the provider's default is another.
            said = {k: v for k, v in live.items() if v not in (None, "", [], {}, False) or kind.defaults.get(k)}
            found = {k: v for k, v in said.items() if k in kind.inputs.fields and v is not None}
            normal = {k: normalise(found[k]) for k, normalise in kind.table.spelling.items() if k in found}
            return {k: v for k, v in {**found, **normal}.items() if k not in kind.computed}
        shape = {key: value for key, value in inputs.items() if key != MADE_UP}
        shown = project(kind.table, kind.inputs, reveal(shape), live, kind.computed)
        result = keep_secrets(inputs, {key: value for key, value in shown.items() if value is not None})
        return {**result, **({MADE_UP: inputs[MADE_UP]} if MADE_UP in inputs else {})}


def resource_type(token: str) -> ResourceType:
    """The type of that token.

    Raises:
        ProviderError: the emulator does not have it.
    """
    found = RESOURCES.get(token)
    if found is None:
        raise ProviderError(f"mockgcp does not emulate the resource type {token} yet; it has {', '.join(RESOURCES)}")
    return found


def _label_outputs(kind: ResourceType, rest: Mapping[str, Any]) -> dict[str, Value]:
    """All labels of a resource, the provider's own included; secret, as the official provider has them."""
    labels = Secret(dict(rest.get("labels", {})))
    return {name: labels for name in ("effectiveLabels", "pulumiLabels") if name in kind.outputs}


def _stored(kind: ResourceType, old: State) -> dict[str, Value]:
    """The properties of a resource as it was made, in the project that it was made in."""
    inputs = {k: v for k, v in reveal(old.inputs).items() if k != MADE_UP and v is not None}
    return {**reveal(old.outputs), **with_defaults(kind.defaults, inputs)}


def _generated_name(auto: AutoName, name: str, olds: Properties, seed: bytes, proposed: str | None) -> str | None:
    """The generated name: the one it has already, the engine's, or the logical name with seven random hex digits."""
    old = olds.get(auto.field)
    if auto.field in (olds.get(MADE_UP) or ()) and isinstance(old, str):
        return old
    if proposed != "":
        return proposed
    suffix = hashlib.sha256(seed or name.encode()).hexdigest()[:7]
    return f"{name[: auto.max_length - 8].lower().rstrip('-')}-{suffix}"
