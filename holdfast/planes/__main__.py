"""`python -m holdfast.planes find|ensure`: the Makefile's way to the planes' programs. Prints a line for each."""

from __future__ import annotations

import sys

from holdfast import planes
from holdfast.planes import slurm

USAGE = "usage: python -m holdfast.planes find|ensure"


def main(argv: list[str]) -> int:
    """0 with a line for each program's entry on stdout; 1 when one is not there (find) or cannot be had (ensure)."""
    if argv not in (["find"], ["ensure"]):
        print(USAGE, file=sys.stderr)
        return 2
    try:
        if argv == ["ensure"]:
            slurm.bring(_say)
            planes.ensure(_say)
    except planes.ToolError as error:
        print(f"holdfast: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("holdfast: stopped; the next run goes on with what is missing", file=sys.stderr)
        return 130
    for recipe in planes.RECIPES:
        entry = recipe.entry()
        print(f"holdfast: {entry.name} {entry.version}: {entry.path if entry.ready else 'missing'}")
    print(f"holdfast: {slurm.summary()}")
    return 1 if planes.missing() or slurm.wanted() else 0


def _say(line: str) -> None:
    print(f"holdfast: {line}", flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
