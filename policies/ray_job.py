"""A RayJob that Kueue refuses, does not see, or holds quota for without its ever starting."""

from infra import catalog
from policies import kueue
from policies.props import UNKNOWN, is_off, mapping
from policies.rule import Props, Rule

TYPE = "kubernetes:ray.io/v1:RayJob"
_SOURCE = "https://kueue.sigs.k8s.io/docs/tasks/run/rayjobs/"


def check(props: Props) -> list[str]:
    """One message for each: a name that is too long, no queue, and a cluster that would outlive its job."""
    metadata, label, found = props.get("metadata"), catalog.kueue()["queue_label"], []
    if metadata != UNKNOWN:
        labels, name = mapping(metadata).get("labels"), mapping(metadata).get("name")
        problem = catalog.ray_job_name_problem(str(name)) if name and name != UNKNOWN else None
        if problem is not None:
            found.append(f"metadata.name: {problem.message}")
        if labels != UNKNOWN and not mapping(labels).get(label):
            found.append(
                f"metadata.labels has no `{label}`: Kueue does not see the job, and it takes nodes past all queues "
                f"({_SOURCE}). Name the namespace's LocalQueue"
            )
    if props.get("spec") != UNKNOWN and is_off(kueue.spec(props).get("shutdownAfterJobFinishes")):
        found.append(
            "spec.shutdownAfterJobFinishes is not on: the job's cluster would outlive it, with its nodes and quota, "
            f"so Kueue refuses the job ({_SOURCE}). Set it to true"
        )
    return found


RULE = Rule(
    name="ray-job",
    severity="mandatory",
    summary="A RayJob names its queue, leaves no cluster behind, and has a name that KubeRay can add to.",
    source=_SOURCE,
    way_out="Set the queue's label and shutdownAfterJobFinishes, and shorten the name.",
    checks={TYPE: check},
)
