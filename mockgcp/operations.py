"""Long-running operations: started by a call, moved on by the clock or by a plane, read like any resource."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from mockgcp.clock import Clock
from mockgcp.errors import ApiError


def longrunning(operation: Operation) -> dict[str, Any]:
    """As a google.longrunning.Operation, which most APIs answer."""
    result: dict[str, Any] = {"name": operation.name, "metadata": operation.metadata, "done": operation.done}
    if operation.error is not None:
        result["error"] = operation.error.to_status()
    elif operation.done:
        result["response"] = dict(operation.response or {})
    return result


@dataclass
class Operation:
    """A long-running operation. `metadata` is what the service says of its progress, `form` how its API shows it."""

    name: str
    metadata: dict[str, Any] = field(default_factory=dict)
    done: bool = False
    response: Mapping[str, Any] | None = None
    error: ApiError | None = None
    # Normalises the response; what it raises is the emulator's defect, not the caller's.
    check: Callable[[Mapping[str, Any]], Mapping[str, Any]] | None = field(default=None, repr=False, compare=False)
    form: Callable[[Operation], dict[str, Any]] = field(default=longrunning, repr=False, compare=False)

    def to_dict(self) -> dict[str, Any]:
        return self.form(self)

    def finish(self, response: Mapping[str, Any]) -> None:
        try:
            self.done, self.response = True, response if self.check is None else self.check(response)
        except ApiError as defect:
            self.fail(ApiError("INTERNAL", f"defect in mockgcp: response of {self.name}: {defect.message}"))

    def fail(self, error: ApiError) -> None:
        self.done, self.error = True, error


@dataclass(frozen=True)
class Aside:
    """What a step answers whose work takes real time. `work` runs without the cloud's lock, in a thread of its own, and
    answers how the step goes on. On a held clock, where nobody else waits, it runs in its place."""

    work: Callable[[], Step]


Step = Callable[[], Mapping[str, Any] | Aside | None]


class Operations:
    """All operations of one cloud, by name. `changed` is notified of what ends in a thread of its own."""

    def __init__(self, clock: Clock, changed: threading.Condition | None = None) -> None:
        self._clock = clock
        self._changed = changed or threading.Condition(clock.lock)
        self._by_name: dict[str, Operation] = {}

    def add(self, operation: Operation) -> Operation:
        self._by_name[operation.name] = operation
        return operation

    def get(self, name: str) -> Operation | None:
        return self._by_name.get(name)

    def run(self, operation: Operation, *steps: tuple[float, Step]) -> Operation:
        """Runs `steps` one after the other, each after its delay in seconds; the last one's value is the response.

        A step that raises ApiError ends the operation with that error, any other exception with INTERNAL: a defect of
        the emulator belongs to the operation, not to whoever happens to move the clock.
        """
        self.add(operation)

        def advance(index: int, step: Step) -> None:
            try:
                value = step()
                if isinstance(value, Aside) and not self._clock.running:
                    value = value.work()()
            except ApiError as error:
                operation.fail(error)
                return
            except Exception as defect:
                operation.fail(ApiError("INTERNAL", f"defect in mockgcp: {defect!r}"))
                return
            if isinstance(value, Aside):
                aside = threading.Thread(target=work, args=(index, value), name=operation.name, daemon=True)
                aside.start()
            elif index + 1 == len(steps):
                operation.finish(value or {})
            else:
                schedule(index + 1)

        def work(index: int, aside: Aside) -> None:
            step = _outcome(aside)
            with self._changed:
                advance(index, step)
                self._changed.notify_all()

        def schedule(index: int) -> None:
            delay_s, step = steps[index]
            self._clock.schedule(delay_s, lambda: advance(index, step))

        schedule(0)
        return operation

    def clear(self) -> None:
        self._by_name.clear()


def _outcome(aside: Aside) -> Step:
    """How a step goes on after its work; by raising what that has raised, where it has."""
    try:
        return aside.work()
    except Exception as error:
        raised = error

        def fail() -> Mapping[str, Any]:
            raise raised

        return fail
