"""A job that anybody could run, on our bill."""

from policies.props import EVERYBODY, bindings
from policies.rule import JOB_IAM, PROJECT_IAM, Props, Rule


def check_job(props: Props, roles: str = "") -> list[str]:
    """One message for each role, if it begins with `roles`, that a job's IAM resource grants to everybody."""
    return [
        f"{role} to {member}: anybody could run or read the job, at this project's cost. Grant it to those who submit"
        for role, members in bindings(props)
        for member in members
        if member in EVERYBODY and role.startswith(roles)
    ]


def check_project(props: Props) -> list[str]:
    """The same for a project's, a folder's or an organization's roles on Cloud Run."""
    return check_job(props, "roles/run.")


RULE = Rule(
    name="public-job",
    severity="mandatory",
    summary="No job can be run by everybody.",
    source="https://docs.cloud.google.com/run/docs/securing/managing-access",
    way_out="Grant roles/run.invoker to the people or the group who submit jobs.",
    checks={**dict.fromkeys(JOB_IAM, check_job), **dict.fromkeys(PROJECT_IAM, check_project)},
)
