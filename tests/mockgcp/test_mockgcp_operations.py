"""Long-running operations: their states, what a failing step leaves, and waiting for them."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
from mockgcp_client import JOB, LOCATION, Client, job

from mockgcp.clock import Clock
from mockgcp.cloud import Cloud
from mockgcp.errors import ApiError
from mockgcp.operations import Aside, Operation, Operations


def test_an_operation_passes_its_steps_one_after_the_other() -> None:
    clock, seen = Clock(), []
    operation = Operations(clock).run(
        Operation("op"),
        (2.0, lambda: seen.append("first")),
        (3.0, lambda: {"value": clock.seconds()}),
    )
    assert operation.to_dict() == {"name": "op", "metadata": {}, "done": False}
    clock.advance(2.0)
    assert (seen, operation.done) == (["first"], False)
    clock.advance(2.9)
    assert not operation.done
    clock.advance(0.1)
    assert operation.to_dict() == {"name": "op", "metadata": {}, "done": True, "response": {"value": 5.0}}


def test_a_failing_step_ends_the_operation_and_skips_the_rest() -> None:
    clock, later = Clock(), []

    def fail() -> None:
        raise ApiError("RESOURCE_EXHAUSTED", "no capacity")

    operation = Operations(clock).run(Operation("op"), (1.0, fail), (1.0, lambda: later.append(1)))
    clock.advance(10)
    assert later == []
    assert operation.to_dict()["error"] == {"code": 8, "message": "no capacity"}
    assert "response" not in operation.to_dict()


def test_work_that_takes_real_time_is_done_beside_whoever_moves_the_clock() -> None:
    clock, gate = Clock(running=True), threading.Event()
    changed = threading.Condition(clock.lock)
    operations = Operations(clock, changed)

    def slow(outcome: Callable[[], Any]) -> Operation:
        def work() -> Callable[[], Any]:
            assert gate.wait(30)
            return outcome() or (lambda: {"value": 1})

        return operations.run(Operation("op"), (0.0, lambda: Aside(work)))

    good, bad = slow(lambda: None), slow(lambda: {}["missing"])
    clock.run_due()
    with changed:
        assert not good.done
        gate.set()
        assert changed.wait_for(lambda: good.done and bad.done, timeout=30)
    assert (good.response, bad.error and bad.error.status) == ({"value": 1}, "INTERNAL")


def test_a_step_that_breaks_ends_its_operation_as_a_defect_and_not_whoever_moves_the_clock() -> None:
    clock = Clock()
    operation = Operations(clock).run(Operation("op"), (1.0, lambda: {"value": {}["missing"]}))
    clock.advance(2)
    assert operation.error is not None
    assert (operation.error.status, operation.error.message) == ("INTERNAL", "defect in mockgcp: KeyError('missing')")


def test_a_response_that_is_not_of_its_type_is_a_defect(cloud: Cloud, gcp: Client) -> None:
    gcp.make_account()
    made = gcp.start("run.projects.locations.jobs.create", {"parent": LOCATION, "jobId": "train"}, job())
    cloud.table("run.job")[JOB]["made_up"] = 1
    with pytest.raises(ApiError, match=r'INTERNAL: defect in mockgcp: response of .*Unknown name "made_up"'):
        cloud.wait(made)


def test_waiting_lets_a_held_clock_pass_just_as_far_as_needed(cloud: Cloud, gcp: Client) -> None:
    cloud.operations.run(operation := Operation("op"), (7.0, lambda: {"ok": True}))
    assert cloud.wait(operation) == {"ok": True}
    assert cloud.clock.seconds() == 7.0


def test_waiting_raises_the_operations_own_error(cloud: Cloud) -> None:
    operation = Operation("op")
    operation.fail(ApiError("ABORTED", "task failed"))
    with pytest.raises(ApiError, match="409 ABORTED: task failed"):
        cloud.wait(operation)


def test_waiting_ends_at_its_deadline(cloud: Cloud) -> None:
    cloud.operations.run(operation := Operation("op"), (100.0, dict))
    with pytest.raises(ApiError, match=r"504 DEADLINE_EXCEEDED: operation op is not done: after 30 s"):
        cloud.wait(operation, timeout_s=30)
    assert cloud.clock.seconds() == 30.0


def test_waiting_for_what_nothing_can_finish_ends_at_once_on_a_held_clock(cloud: Cloud) -> None:
    with pytest.raises(ApiError, match="the clock is held and nothing is scheduled"):
        cloud.wait(Operation("op"))


def test_waiting_on_a_running_clock_ends_with_the_operation() -> None:
    cloud = Cloud(clock=Clock(running=True))
    cloud.operations.run(operation := Operation("op"), (0.02, lambda: {"ok": True}))
    assert cloud.wait(operation, timeout_s=5) == {"ok": True}
    with pytest.raises(ApiError, match="DEADLINE_EXCEEDED"):
        cloud.wait(Operation("other"), timeout_s=0.02)
