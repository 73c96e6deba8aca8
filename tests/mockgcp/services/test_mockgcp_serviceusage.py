"""Turning APIs on and off."""

from __future__ import annotations

import pytest
from mockgcp_client import PROJECT, Client

from mockgcp.cloud import Cloud
from mockgcp.durations import NOMINAL

TPU = f"projects/{PROJECT}/services/tpu.googleapis.com"
ENABLE_S = NOMINAL["serviceusage.services.enable"]


def state(gcp: Client, name: str = TPU) -> str:
    found: str = gcp.call("serviceusage.services.get", {"name": name})["state"]
    return found


def test_enabling_is_an_operation_that_passes_its_states_on_a_held_clock(cloud: Cloud, gcp: Client) -> None:
    operation = gcp.start("serviceusage.services.enable", {"name": TPU}, {})
    read = ("serviceusage.operations.get", {"name": operation.name})
    cloud.clock.advance(ENABLE_S - 1)
    assert (gcp.call(*read)["done"], state(gcp)) == (False, "DISABLED")
    cloud.clock.advance(1)
    done = gcp.call(*read)
    assert (done["done"], state(gcp)) == (True, "ENABLED")
    assert done["response"]["service"]["state"] == "ENABLED"


def test_an_api_that_is_on_already_takes_no_time(cloud: Cloud, gcp: Client) -> None:
    name = f"projects/{PROJECT}/services/run.googleapis.com"
    assert gcp.finish("serviceusage.services.enable", {"name": name}, {})["service"]["state"] == "ENABLED"
    assert cloud.clock.seconds() == 0


def test_several_apis_at_once(gcp: Client) -> None:
    names = ["tpu.googleapis.com", "container.googleapis.com"]
    answer = gcp.finish("serviceusage.services.batchEnable", {"parent": f"projects/{PROJECT}"}, {"serviceIds": names})
    assert [s["config"]["name"] for s in answer["services"]] == names
    listed = gcp.call("serviceusage.services.list", {"parent": f"projects/{PROJECT}", "filter": "state:ENABLED"})
    assert set(names) <= {s["config"]["name"] for s in listed["services"]}


@pytest.mark.parametrize("count", [0, 21])
def test_a_batch_has_one_to_twenty(gcp: Client, count: int) -> None:
    body = {"serviceIds": ["tpu.googleapis.com"] * count}
    error = gcp.refused("serviceusage.services.batchEnable", {"parent": f"projects/{PROJECT}"}, body)
    assert f"got {count}" in error.message


def test_an_unknown_api_is_named(gcp: Client) -> None:
    name = f"projects/{PROJECT}/services/runn.googleapis.com"
    error = gcp.refused("serviceusage.services.enable", {"name": name}, {})
    assert (error.status, "runn.googleapis.com" in error.message) == ("NOT_FOUND", True)


def test_disabling_takes_effect_when_it_is_done_and_only_once(gcp: Client) -> None:
    name = f"projects/{PROJECT}/services/run.googleapis.com"
    operation = gcp.start("serviceusage.services.disable", {"name": name}, {})
    assert state(gcp, name) == "ENABLED"
    gcp.cloud.wait(operation)
    assert state(gcp, name) == "DISABLED"
    error = gcp.refused("serviceusage.services.disable", {"name": name}, {})
    assert (error.status, "is not enabled" in error.message) == ("FAILED_PRECONDITION", True)
    parent = {"parent": f"projects/{PROJECT}/locations/europe-west4"}
    assert gcp.refused("run.projects.locations.jobs.list", parent).reason == "SERVICE_DISABLED"


def test_a_filter_that_is_not_understood_is_refused(gcp: Client) -> None:
    params = {"parent": f"projects/{PROJECT}", "filter": "name:run"}
    assert gcp.refused("serviceusage.services.list", params).status == "INVALID_ARGUMENT"


def test_an_unknown_operation_is_not_found(gcp: Client) -> None:
    assert gcp.refused("serviceusage.operations.get", {"name": "operations/none"}).status == "NOT_FOUND"
