"""An image that could change between two attempts of one training run."""

from infra import catalog
from policies import jobs
from policies.props import UNKNOWN
from policies.rule import Props, Rule


def check(props: Props) -> list[str]:
    """One message for each container of a job whose image has no digest."""
    messages = []
    for index, container in enumerate(jobs.containers(jobs.task(props))):
        image = container.get("image")
        problem = catalog.image_problem(image) if isinstance(image, str) and image != UNKNOWN else None
        if problem:
            messages.append(f"{jobs.TASK}.containers[{index}].image: {problem.message}")
    return messages


RULE = Rule(
    name="pinned-image",
    severity="mandatory",
    summary="A job's image is pinned by its digest.",
    source="https://docs.cloud.google.com/artifact-registry/docs/docker/names#versions",
    way_out="Write IMAGE@sha256:DIGEST instead of IMAGE:TAG.",
    checks={jobs.JOB: check},
)
