"""`python -m holdfast.engine find|ensure`: the Makefile's way to the engine. Prints one line about what there is."""

from __future__ import annotations

import sys

from holdfast import engine

USAGE = "usage: python -m holdfast.engine find|ensure"


def main(argv: list[str]) -> int:
    """0 with the engine's line on stdout; 1 when it is not there (find) or cannot be had (ensure)."""
    if argv not in (["find"], ["ensure"]):
        print(USAGE, file=sys.stderr)
        return 2
    try:
        found = (
            engine.find() if argv == ["find"] else engine.ensure(lambda line: print(f"holdfast: {line}", flush=True))
        )
    except engine.ToolError as error:
        print(f"holdfast: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("holdfast: stopped; the next run starts the build again", file=sys.stderr)
        return 130
    if found is None:
        return 1
    print(f"holdfast: Pulumi engine {found.version} ({found.source}): {found.pulumi}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
