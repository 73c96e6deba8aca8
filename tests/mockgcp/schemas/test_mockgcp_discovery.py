"""Every handler against the discovery documents and the catalog's roles."""

from __future__ import annotations

import json
import re
from importlib import resources
from pathlib import Path

import pytest

from infra import catalog
from mockgcp import schemas
from mockgcp.durations import NOMINAL
from mockgcp.paging import PARAMS
from mockgcp.service import Handler, Service, by_api
from mockgcp.services import SERVICES

HANDLERS = [(service, method_id, handler) for service in SERVICES for method_id, handler in service.handlers.items()]
# These start an operation whose length is not the method's own: an execution's, and that of services.enable.
OTHERS = {"run.projects.locations.jobs.run", "serviceusage.services.batchEnable"}
by_id = pytest.mark.parametrize(("service", "method_id", "handler"), HANDLERS, ids=[h[1] for h in HANDLERS])


@by_id
def test_a_handler_answers_a_method_of_its_services_document(
    service: Service, method_id: str, handler: Handler
) -> None:
    found = schemas.method(method_id)
    assert found is not None
    assert found.api == service.api


@by_id
def test_a_permission_is_well_formed_and_some_role_below_owner_holds_it(
    service: Service, method_id: str, handler: Handler
) -> None:
    if handler.permission is None:
        assert service.api == "mockgcp" or method_id.endswith((".testIamPermissions", ".operations.get"))
        return
    assert re.fullmatch(r"[a-z]+\.[a-zA-Z]+\.[a-zA-Z]+", handler.permission)
    roles = catalog.roles()
    assert roles["roles/owner"] == {"*"}
    assert any(handler.permission in granted for granted in roles.values()), "a misspelt permission is in no role"


@by_id
def test_a_long_running_method_has_a_duration(service: Service, method_id: str, handler: Handler) -> None:
    found = schemas.method(method_id)
    assert found is not None
    response = (found.response or {}).get("$ref", "")
    reads_one = re.search(r"[oO]perations\.(get|wait)$", method_id)
    starts_operation = response in ("Operation", "GoogleLongrunningOperation") and not reads_one
    assert (method_id in NOMINAL) == (starts_operation and method_id not in OTHERS)


@by_id
def test_what_a_handler_reads_and_its_operation_answers_is_in_the_document(
    service: Service, method_id: str, handler: Handler
) -> None:
    found = schemas.method(method_id)
    assert found is not None
    assert set(handler.reads) - set(PARAMS) <= set(found.params)
    starts = method_id in NOMINAL or method_id in OTHERS
    assert (handler.answers in found.schemas) == starts, "the response of an operation has a type"
    assert ("pageToken" in found.params) == ("pageToken" in handler.reads), "every list comes in pages"


def test_services_have_an_api_each_and_methods_are_registered_once() -> None:
    assert set(by_api(SERVICES)) == set(schemas.VERSIONS)
    service = Service("run", host=None)
    with pytest.raises(ValueError, match="two services of the API run"):
        by_api([*SERVICES, service])
    register = service.method("run.projects.locations.jobs.get", on=lambda call: "")
    register(lambda call: {})
    with pytest.raises(ValueError, match=r"jobs\.get has a handler already"):
        register(lambda call: {})


def test_a_document_of_ours_adds_to_googles_and_has_the_last_word(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours = {
        "resources": {"projects": {"methods": {"ping": {"id": "iam.projects.ping", "httpMethod": "GET", "path": "p"}}}},
        "schemas": {"Pong": {"type": "object"}, "Empty": {"description": "ours"}},
    }
    (tmp_path / "iam.v1.json").write_text(json.dumps(ours))
    real = resources.files
    monkeypatch.setattr(resources, "files", lambda package: tmp_path if package == "mockgcp.schemas" else real(package))
    schemas.methods.cache_clear()
    try:
        found = schemas.methods("iam")
    finally:
        schemas.methods.cache_clear()
    assert {"iam.projects.ping", "iam.projects.serviceAccounts.create"} <= found.keys()
    names = found["iam.projects.ping"].schemas
    assert (names["Pong"], names["Empty"]["description"]) == ({"type": "object"}, "ours")
    assert names["Empty"]["type"] == "object", "merged, not replaced"


def test_an_api_without_a_document_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schemas, "VERSIONS", {"nothing": ("v1",)})
    with pytest.raises(FileNotFoundError, match=r"discovery document nothing\.v1\.json"):
        schemas.methods("nothing")


def test_a_method_that_no_document_has_is_none() -> None:
    assert schemas.method("run.projects.locations.jobs.explode") is None
    assert schemas.method("bigtable.tables.get") is None


def test_an_unknown_api_is_a_key_error() -> None:
    with pytest.raises(KeyError):
        schemas.methods("bigtable")
