"""Injected faults: which calls they hit, how often, and whether the work was done."""

from __future__ import annotations

from pathlib import Path

import pytest
from mockgcp_client import BUCKET, PROJECT, Client, seeded

from mockgcp.cloud import PLATFORM, Cloud
from mockgcp.errors import ApiError
from mockgcp.faults import Fault

LIST = "storage.buckets.list"
IN_PROJECT = {"project": PROJECT}


def unavailable() -> ApiError:
    return ApiError("UNAVAILABLE", "try later")


def outcomes(gcp: Client, calls: int, method: str = LIST) -> str:
    """One letter a call: `.` worked, `x` failed."""
    result = ""
    for _ in range(calls):
        try:
            gcp.call(method, IN_PROJECT)
        except ApiError:
            result += "x"
        else:
            result += "."
    return result


def test_a_fault_strikes_once_unless_told_otherwise(cloud: Cloud, gcp: Client) -> None:
    cloud.faults.inject(Fault(LIST, unavailable()))
    assert outcomes(gcp, 3) == "x.."


def test_times_and_after_count_matching_calls(cloud: Cloud, gcp: Client) -> None:
    cloud.faults.inject(Fault("storage.buckets.*", unavailable(), times=2, after=1))
    gcp.call("cloudresourcemanager.projects.get", {"projectId": PROJECT})
    assert outcomes(gcp, 5) == ".xx.."


def test_a_fault_without_times_goes_on_until_it_is_cleared(cloud: Cloud, gcp: Client) -> None:
    cloud.faults.inject(Fault(LIST, unavailable(), times=None))
    assert outcomes(gcp, 3) == "xxx"
    cloud.faults.clear()
    assert outcomes(gcp, 1) == "."


def test_before_does_nothing_and_after_loses_the_answer_of_work_that_was_done(cloud: Cloud, gcp: Client) -> None:
    insert = ("storage.buckets.insert", IN_PROJECT, {"name": BUCKET, "location": "EU"})
    cloud.faults.inject(Fault("storage.buckets.insert", unavailable(), effect="before"))
    assert gcp.refused(*insert).status == "UNAVAILABLE"
    assert gcp.call(LIST, IN_PROJECT)["items"] == []
    cloud.faults.inject(Fault("storage.buckets.insert", unavailable(), effect="after"))
    assert gcp.refused(*insert).status == "UNAVAILABLE"
    assert [b["name"] for b in gcp.call(LIST, IN_PROJECT)["items"]] == [BUCKET]
    assert gcp.refused(*insert).status == "ALREADY_EXISTS"


def test_a_refused_call_shows_its_own_error_under_an_after_fault(cloud: Cloud, gcp: Client) -> None:
    cloud.faults.inject(Fault("storage.buckets.get", unavailable(), effect="after"))
    assert gcp.refused("storage.buckets.get", {"bucket": BUCKET}).status == "NOT_FOUND"


def test_a_fault_can_choose_by_parameters(cloud: Cloud, gcp: Client) -> None:
    cloud.faults.inject(Fault(LIST, unavailable(), when=lambda params: params["project"] == "acme-other"))
    assert outcomes(gcp, 2) == ".."
    assert gcp.refused(LIST, {"project": "acme-other"}).status == "UNAVAILABLE"


def test_a_probability_is_repeatable_under_a_seed(tmp_path: Path) -> None:
    def run(state: Path, seed: int) -> str:
        cloud = seeded(state, seed)
        cloud.faults.inject(Fault(LIST, unavailable(), times=None, probability=0.5))
        return outcomes(Client(cloud), 40)

    first = run(tmp_path / "1", 5)
    assert first == run(tmp_path / "2", 5)
    assert first != run(tmp_path / "3", 6)
    assert 8 <= first.count("x") <= 32


@pytest.mark.parametrize(("probability", "expected"), [(0.0, "..."), (1.0, "xxx")])
def test_never_and_always(cloud: Cloud, gcp: Client, probability: float, expected: str) -> None:
    cloud.faults.inject(Fault(LIST, unavailable(), times=None, probability=probability))
    assert outcomes(gcp, 3) == expected


def test_faults_strike_clients_and_not_the_planes(cloud: Cloud, gcp: Client) -> None:
    cloud.faults.inject(Fault("*", unavailable(), times=None))
    assert outcomes(gcp, 1) == "x"
    assert gcp.as_(PLATFORM).call("mockgcp.run.executions.list") == {"executions": []}
