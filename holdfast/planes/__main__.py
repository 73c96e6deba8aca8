"""`python -m holdfast.planes find|ensure`: the Makefile's way to the planes' programs. Prints a line for each."""

from __future__ import annotations

import sys

from holdfast import planes

USAGE = "usage: python -m holdfast.planes find|ensure"


def main(argv: list[str]) -> int:
    """0 with a line for each program's entry on stdout; 1 when one is not there (find) or cannot be had (ensure)."""
    if argv not in (["find"], ["ensure"]):
        print(USAGE, file=sys.stderr)
        return 2
    try:
        if argv == ["ensure"]:
            planes.ensure(lambda line: print(f"holdfast: {line}", flush=True))
    except planes.ToolError as error:
        print(f"holdfast: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("holdfast: stopped; the next run goes on with what is missing", file=sys.stderr)
        return 130
    for recipe in planes.RECIPES:
        entry = recipe.entry()
        print(f"holdfast: {entry.name} {entry.version}: {entry.path if entry.ready else 'missing'}")
    return 1 if planes.missing() else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
