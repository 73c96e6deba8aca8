"""A role on a whole project that gives away more than a workload needs."""

from infra import catalog
from policies.props import bindings
from policies.rule import PROJECT_IAM, Props, Rule

_WORKLOADS = ("serviceAccount:", "principal:", "principalSet:")


def check(props: Props) -> list[str]:
    """One message for each basic role of anybody, and each role over service accounts or policies of a workload."""
    problems = (
        catalog.project_role_problem(role, workload=any(member.startswith(_WORKLOADS) for member in members))
        for role, members in bindings(props)
    )
    return [f"role: {each.message}" for each in problems if each]


RULE = Rule(
    name="broad-role",
    severity="mandatory",
    summary="Nobody gets a basic role, and no workload a role over all accounts of a project.",
    source=catalog.fact("practices", "basic_roles").source,
    way_out="Grant a predefined role, on the single resource that it is for.",
    checks=dict.fromkeys(PROJECT_IAM, check),
)
