"""Long-running operations: started by a call, moved on by the clock or by a plane, read like any resource."""

from __future__ import annotations

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


Step = Callable[[], Mapping[str, Any] | None]


class Operations:
    """All operations of one cloud, by name."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
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

        def advance(index: int) -> None:
            try:
                value = steps[index][1]()
            except ApiError as error:
                operation.fail(error)
                return
            except Exception as defect:
                operation.fail(ApiError("INTERNAL", f"defect in mockgcp: {defect!r}"))
                return
            if index + 1 == len(steps):
                operation.finish(value or {})
            else:
                self._clock.schedule(steps[index + 1][0], lambda: advance(index + 1))

        self._clock.schedule(steps[0][0], lambda: advance(0))
        return operation

    def clear(self) -> None:
        self._by_name.clear()
