"""A workload under an account that others share."""

from infra import catalog
from policies import jobs
from policies.props import UNKNOWN, bindings
from policies.rule import EVERY_IAM, Props, Rule

_SOURCE = catalog.fact("practices", "default_accounts").source


def check_job(props: Props) -> list[str]:
    """One message if a job names no service account, or one that the platform made for the whole project."""
    task = jobs.task(props)
    account = task.get("serviceAccount")
    if account == UNKNOWN or not task:
        return []
    if not account:
        return [
            f"{jobs.TASK}.serviceAccount is not set: the job runs as Compute Engine's default account, which the whole "
            f"project shares and which often holds editor ({_SOURCE}). Name an account of the workload's own"
        ]
    problem = catalog.default_account_problem(str(account))
    return [f"{jobs.TASK}.serviceAccount: {problem.message}"] if problem else []


def check_grant(props: Props) -> list[str]:
    """One message for each default account that an IAM resource grants something to."""
    accounts = {
        member.removeprefix("serviceAccount:")
        for _, members in bindings(props)
        for member in members
        if member.startswith("serviceAccount:")
    }
    problems = map(catalog.default_account_problem, sorted(accounts))
    return [f"member: {each.message}" for each in problems if each]


RULE = Rule(
    name="default-service-account",
    severity="mandatory",
    summary="No job runs as, and no role goes to, an account that the platform made for a whole project.",
    source=_SOURCE,
    way_out="Make a service account for the workload and name it.",
    checks={jobs.JOB: check_job, **dict.fromkeys(EVERY_IAM, check_grant)},
)
