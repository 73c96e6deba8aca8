"""A prolog or epilog that cannot run, and so drains every node."""

from policies import slurm
from policies.props import UNKNOWN, items
from policies.rule import Props, Rule

_SOURCE = "https://slurm.schedmd.com/prolog_epilog.html"


def check(props: Props) -> list[str]:
    """One message for each script that does not begin with a shebang. An empty one is refused anyway."""
    return [
        f"{slurm.SPEC}.{field}[{index}] does not begin with a shebang: Slurm runs it as a program, and drains a node "
        f"on which it fails ({_SOURCE}). Begin it with #!/bin/bash"
        for field in slurm.SCRIPTS
        for index, script in enumerate(items(slurm.spec(props).get(field)))
        if script != UNKNOWN and str(script).strip() and not str(script).startswith("#!")
    ]


RULE = Rule(
    name="slurm-scripts",
    severity="mandatory",
    summary="Prologs and epilogs are scripts with a shebang.",
    source=_SOURCE,
    way_out="Begin the script with #!/bin/bash, or leave it out.",
    checks={slurm.CLUSTER: check},
)
