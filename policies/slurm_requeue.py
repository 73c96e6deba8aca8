"""Preemption that requeues jobs, in a cluster that forbids it."""

from infra import catalog
from policies import slurm
from policies.props import items, mapping
from policies.rule import Props, Rule

_SOURCE = f"{catalog.fact('slurm_conf', 'cluster_keys').source}#OPT_JobRequeue"


def check(props: Props) -> list[str]:
    """One message if JobRequeue is 0 while the cluster or a partition preempts by REQUEUE: Slurm cancels then."""
    maps = [slurm.config(props), *(mapping(mapping(each).get("config")) for each in items(_partitions(props)))]
    requeues = any("REQUEUE" in (catalog.slurm_value(each, "PreemptMode") or "").upper() for each in maps)
    if not requeues or catalog.slurm_value(slurm.config(props), "JobRequeue") != "0":
        return []
    return [
        f"{slurm.SPEC}.config: JobRequeue is 0, so a preempted job is cancelled and does not wait for its next turn "
        f"({_SOURCE}). Set it to 1, or leave it out"
    ]


def _partitions(props: Props) -> object:
    return slurm.spec(props).get("partitions")


RULE = Rule(
    name="slurm-requeue",
    severity="mandatory",
    summary="Where jobs are preempted by requeuing, they may be requeued.",
    source=_SOURCE,
    way_out="Set JobRequeue to 1, which is Slurm's default.",
    checks={slurm.CLUSTER: check},
)
