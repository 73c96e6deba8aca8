"""The tables and the bodies against the official provider: its schema, and the requests and outputs seen of it."""

import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest
from facts_at_hand import SCHEMAS, STATES, properties, requests
from scenario_a import ACCOUNT, BUCKET, CLUSTER, JOB, NETWORK, NODE_POOL, SUBNETWORK, Desk

from mockgcp import schemas
from mockgcp.audit import AuditEntry
from mockgcp.cloud import Cloud
from mockgcp.frontends.pulumi.resources import RESOURCES, container
from mockgcp.frontends.pulumi.values import Secret, reveal
from mockgcp.schemas import validate
from mockgcp.services import artifactregistry

# Of the schema: what our tables leave out, and why.
_COMPUTED_DEEPER = {
    # Probes are for services that listen; the whole block is computed, which covers what is in it.
    f"template.template.containers.startupProbe.{way}.port"
    for way in ("grpc", "httpGet", "tcpSocket")
}
_DEFAULTS_LEFT_OUT = {
    # Zero values, which a body leaves out anyway.
    "retentionPolicy.isLocked",
    "template.template.containers.startupProbe.httpGet.httpHeaders.value",
    "template.template.containers.startupProbe.initialDelaySeconds",
}
# What a table need not say anything of, since the property is refused by its name.
_HAD = {CLUSTER: container.CLUSTER_PROPERTIES, NODE_POOL: container.POOL_PROPERTIES}
_ADDONS_REFUSED = {
    f"addonsConfig.{name}"
    for name in (
        *("agentSandboxConfig", "cloudrunConfig", "gkeBackupAgentConfig", "istioConfig", "kalmConfig"),
        *("lustreCsiDriverConfig", "nodeReadinessConfig", "parallelstoreCsiDriverConfig", "podSnapshotConfig"),
        *("sliceControllerConfig", "slurmOperatorConfig", "statefulHaConfig"),
    )
}


def had(token: str, path: str) -> bool:
    known = _HAD.get(token)
    return (known is None or path.partition(".")[0] in known) and path not in _ADDONS_REFUSED


@pytest.mark.parametrize("token", SCHEMAS)
def test_what_replaces(token: str) -> None:
    found = {path for path, schema in properties(SCHEMAS[token]) if schema.get("forceNew")}
    # Whatever is below a path that replaces does so too, and is not repeated in our tables.
    top = {path for path in found if not any(path.startswith(f"{other}.") for other in found)}
    assert RESOURCES[token].replace_on == top


@pytest.mark.parametrize("token", _HAD)
def test_what_of_a_node_changes_in_place(token: str) -> None:
    below = {path: s for path, s in properties(SCHEMAS[token]) if path.startswith("nodeConfig.")}
    replaces = {path for path, schema in below.items() if schema.get("forceNew")}
    free = {path for path in below if not any(path == r or path.startswith(f"{r}.") for r in replaces)}
    top = {path for path in free if not any(path.startswith(f"{other}.") for other in free)}
    # A block whose parts replace is changed in place only where none of these is.
    assert RESOURCES[token].in_place == {path for path in top if not any(r.startswith(f"{path}.") for r in replaces)}


@pytest.mark.parametrize("token", SCHEMAS)
def test_what_the_server_fills_in(token: str) -> None:
    found = {path for path, schema in properties(SCHEMAS[token]) if schema.get("optional") and schema.get("computed")}
    found = {path for path in found if had(token, path)}
    assert found - RESOURCES[token].computed - _COMPUTED_DEEPER == set()


@pytest.mark.parametrize("token", SCHEMAS)
def test_defaults(token: str) -> None:
    found = {path: schema["default"] for path, schema in properties(SCHEMAS[token]) if "default" in schema}
    assert dict(RESOURCES[token].defaults) == {k: v for k, v in found.items() if k not in _DEFAULTS_LEFT_OUT}


# -- recordings ----------------------------------------------------------------------------------------------------


@pytest.fixture
def desk(cloud: Cloud) -> Desk:
    """A provider on a cloud where everything that the recorded resources refer to is there, but not themselves."""
    return Desk(cloud)


_NEEDS = {CLUSTER: (NETWORK, SUBNETWORK), NODE_POOL: (NETWORK, SUBNETWORK, CLUSTER)}


def given(desk: Desk, state: Mapping[str, Any]) -> None:
    for other in STATES:
        if other["type"] in _NEEDS.get(state["type"], (ACCOUNT, BUCKET, NETWORK)) and other is not state:
            desk.create(other["type"], other["inputs"])
    if state["type"] == JOB:
        artifactregistry.seed_image(desk.cloud, state["inputs"]["template"]["template"]["containers"][0]["image"])


_SNAKE = re.compile(r"_([a-z])")


def address(method: str, path: str, query: Mapping[str, str]) -> str:
    return f"{method} {path}?{'&'.join(f'{key}={value}' for key, value in sorted(query.items()))}"


def ours(entry: AuditEntry) -> str:
    """A call as the request it stands for."""
    method = schemas.method(entry.method)
    assert method is not None
    path, query = method.path, {}
    for name, value in entry.params.items():
        filled = path.replace(f"{{+{name}}}", value).replace(f"{{{name}}}", value)
        if filled == path:
            query[name] = value
        path = filled
    return address(method.http_method, path, query)


def theirs(request: Mapping[str, Any]) -> str:
    url = urlsplit(request["path"])
    # The first segment names the custom endpoint; two APIs have a segment of that name in their own paths.
    endpoint, _, path = url.path.strip("/").partition("/")
    path = f"{endpoint}/{path}" if endpoint in ("storage", "compute") else path
    sent = parse_qsl(url.query)
    # The API takes a parameter in either spelling; Google's front end and this test know the discovery document's.
    query = {_SNAKE.sub(lambda m: m[1].upper(), k): value for k, value in sent if k not in ("alt", "prettyPrint")}
    return address(request["method"], path, query)


def comparable(body: Any) -> Any:
    """A body without what depends on the policy that was there before: its version tag and other members."""
    policy = body.get("policy", body)
    if "bindings" in policy:
        policy = {key: value for key, value in policy.items() if key != "etag"}
        policy["bindings"] = [b for b in policy["bindings"] if b["role"] not in _ROLES_OF_THE_START]
        return {**body, "policy": policy} if "policy" in body else policy
    return body


_ROLES_OF_THE_START = ("roles/owner", "roles/storage.legacyBucketOwner", "roles/storage.legacyBucketReader")


@pytest.mark.parametrize("state", STATES, ids=lambda state: state["type"])
def test_a_create_sends_what_the_provider_sent(desk: Desk, cloud: Cloud, state: Mapping[str, Any]) -> None:
    given(desk, state)
    cloud.audit.clear()
    desk.create(state["type"], state["inputs"])
    [entry] = [each for each in cloud.audit.entries(ok=True) if ".get" not in each.method]
    method = schemas.method(entry.method)
    assert method is not None
    sent = [validate.body(method, request["body"]) for request in requests() if theirs(request) == ours(entry)]
    assert comparable(validate.body(method, entry.request)) in [comparable(body) for body in sent]


# What the echoing server made up, and what differs from one creation to the next.
_OF_THE_SERVER = (
    *("etag", "uid", "uniqueId", "selfLink", "timeCreated", "updated", "terminalConditions"),
    *("networkId", "numericId", "subnetworkId"),
    *("endpoint", "masterAuth", "masterVersion", "version"),
)


def says_nothing(seen: Any) -> bool:
    """A zero, or a block of nothing but zeroes."""
    if isinstance(seen, dict):
        return all(says_nothing(value) for value in seen.values())
    return seen in (None, "", [], False, 0)


def agrees(seen: Any, ours: Any, path: str = "") -> list[str]:
    """Where our value lacks, or has otherwise, something that the recorded one says."""
    if says_nothing(seen):
        return []
    if isinstance(seen, dict) and "ciphertext" in seen:
        return []
    if isinstance(seen, dict) and isinstance(ours, dict):
        return [miss for key, value in seen.items() for miss in agrees(value, ours.get(key), f"{path}.{key}")]
    if isinstance(seen, list) and isinstance(ours, list) and len(seen) == len(ours):
        pairs = enumerate(zip(seen, ours, strict=True))
        return [miss for index, (a, b) in pairs for miss in agrees(a, b, f"{path}[{index}]")]
    # It answered references as they were sent, where the API has full links.
    same = seen == ours or (isinstance(ours, str) and ours.partition("/compute/v1/")[2] == seen)
    return [] if same else [f"{path}: recorded {seen!r}, ours {ours!r}"]


@pytest.mark.parametrize("state", STATES, ids=lambda state: state["type"])
def test_the_outputs_agree(desk: Desk, state: Mapping[str, Any]) -> None:
    given(desk, state)
    made = desk.create(state["type"], state["inputs"])
    seen = {key: value for key, value in state["outputs"].items() if key not in _OF_THE_SERVER}
    assert made.id == seen.pop("id")
    # The provider's own word for an `isLive` that is not set, which is how it stands with us too.
    misses = [miss for miss in agrees(seen, reveal(made.outputs)) if "condition.withState: recorded 'ANY'" not in miss]
    assert misses == []
    secret = {key for key, value in seen.items() if isinstance(value, dict) and "ciphertext" in value}
    assert {key for key, value in made.outputs.items() if isinstance(value, Secret)} == secret
