"""Every handler against the discovery documents and the catalog's roles."""

from __future__ import annotations

import re

import pytest

from infra import catalog
from mockgcp import schemas
from mockgcp.durations import NOMINAL
from mockgcp.service import Handler, Service
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
    starts_operation = response in ("Operation", "GoogleLongrunningOperation") and not method_id.endswith(
        "operations.get"
    )
    assert (method_id in NOMINAL) == (starts_operation and method_id not in OTHERS)


def test_services_have_an_api_each_and_methods_are_registered_once() -> None:
    assert len({service.api for service in SERVICES}) == len(SERVICES)
    assert {service.api for service in SERVICES} == set(schemas.VERSIONS)


def test_a_method_that_no_document_has_is_none() -> None:
    assert schemas.method("run.projects.locations.jobs.explode") is None
    assert schemas.method("bigtable.tables.get") is None


def test_an_unknown_api_is_a_key_error() -> None:
    with pytest.raises(KeyError):
        schemas.methods("bigtable")
