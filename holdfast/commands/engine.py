"""`holdfast engine`: the Pulumi engine."""

from __future__ import annotations

import typer

from holdfast.commands.console import out
from holdfast.errors import OperatorError

app = typer.Typer(no_args_is_help=True, help="The Pulumi engine that Holdfast uses.")


@app.command("build")
def engine_build() -> None:
    """Get the engine: from PATH, else from the cache, else build it (once, about 4 to 8 minutes)."""
    from holdfast import engine

    found = engine.ensure(out.print)
    out.print(f"Pulumi {found.version} ({found.source}: {found.pulumi})")


@app.command("env")
def engine_env() -> None:
    """Print shell lines that put the engine on PATH: eval "$(holdfast engine env)"."""
    from holdfast import engine

    found = engine.find()
    if found is None:
        raise OperatorError("no Pulumi engine yet; `make engine` gets one")
    env = found.environ({"PATH": "$PATH"})
    for name in ("PATH", "HOLDFAST_PYTHON"):
        print(f'export {name}="{env[name]}"')
