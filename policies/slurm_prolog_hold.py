"""A prolog's failure, which is a node's, that holds the job until somebody releases it."""

from infra import catalog
from policies import slurm
from policies.props import items
from policies.rule import Props, Rule

_FLAG = "nohold_on_prolog_fail"
_SOURCE = f"{catalog.fact('slurm_conf', 'cluster_keys').source}#OPT_{_FLAG}"


def check(props: Props) -> list[str]:
    """One message if there are prologs, and SchedulerParameters, which replaces the service's own, lacks the flag."""
    written = catalog.slurm_value(slurm.config(props), "SchedulerParameters")
    if written is None or _FLAG in written.split(",") or not items(slurm.spec(props).get("prologBashScripts")):
        return []
    return [
        f"{slurm.SPEC}.config: SchedulerParameters replaces the service's own and lacks {_FLAG}, so a job whose prolog "
        f"fails on a bad node is held until somebody releases it ({_SOURCE}). Add {_FLAG}"
    ]


RULE = Rule(
    name="slurm-prolog-hold",
    severity="mandatory",
    summary="A failing prolog requeues the job without holding it.",
    source=_SOURCE,
    way_out="Add nohold_on_prolog_fail to SchedulerParameters, or leave that key out.",
    checks={slurm.CLUSTER: check},
)
