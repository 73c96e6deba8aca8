"""When maintenance strikes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mockgcp.planes.maintenance import AtSteps, AtTimes, Maintenance, NoMaintenance, TaskView, seeded_steps


def view(step: int | None = None, elapsed_s: float = 0.0, index: int = 0, execution: str = "e") -> TaskView:
    return TaskView(execution, index, 0, elapsed_s, step)


def strikes(maintenance: Maintenance, task: TaskView) -> bool:
    """Whether maintenance strikes, the task being there to be struck."""
    struck = maintenance.strikes(task)
    if struck:
        maintenance.struck(task)
    return struck


def test_an_event_that_met_nobody_is_still_to_come() -> None:
    maintenance = AtSteps((3,))
    assert [maintenance.strikes(view(3)), maintenance.strikes(view(4))] == [True, True]
    maintenance.struck(view(4))
    assert not maintenance.strikes(view(5))


def test_no_maintenance_never_strikes() -> None:
    assert not NoMaintenance().strikes(view(10**6, 10.0**6))


def test_a_strike_comes_once_the_step_is_reached_and_once_only() -> None:
    maintenance = AtSteps((3, 6))
    seen = [step for step in (None, 1, 2, 3, 3, 4, 1, 5, 7, 8, 9) if strikes(maintenance, view(step))]
    assert seen == [3, 7]


def test_each_task_and_execution_is_struck_on_its_own() -> None:
    maintenance = AtSteps((3,))
    views = [view(3, index=0), view(3, index=1), view(3, execution="f"), view(3, index=0)]
    assert [strikes(maintenance, v) for v in views] == [True, True, True, False]


def test_times_count_from_the_tasks_start() -> None:
    maintenance = AtTimes((10.0, 20.0))
    assert [t for t in (0.0, 9.9, 10.0, 10.1, 25.0, 30.0) if strikes(maintenance, view(elapsed_s=t))] == [10.0, 25.0]


def test_a_seed_always_chooses_the_same_steps_and_another_others() -> None:
    assert seeded_steps(7, 3, 100) == seeded_steps(7, 3, 100)
    assert len({seeded_steps(seed, 3, 100) for seed in range(20)}) > 10


@given(seed=st.integers(), count=st.integers(0, 10), steps=st.integers(14, 500))
def test_seeded_steps_are_different_sorted_and_leave_time_to_finish(seed: int, count: int, steps: int) -> None:
    chosen = seeded_steps(seed, count, steps)
    assert len(chosen) == len(set(chosen)) == count
    assert list(chosen) == sorted(chosen)
    assert all(1 <= step < steps - 3 for step in chosen)


def test_too_few_steps_are_refused_with_the_number_needed() -> None:
    assert len(seeded_steps(1, 3, 7)) == 3
    with pytest.raises(ValueError, match="3 preemptions need at least 7 steps, the job has 6"):
        seeded_steps(1, 3, 6)
