"""A workload, or a node, under an account that others share."""

from typing import Any

from infra import catalog
from policies import gke, jobs
from policies.props import UNKNOWN, bindings, is_on
from policies.rule import EVERY_IAM, Props, Rule

_SOURCE = catalog.fact("practices", "default_accounts").source


def check_job(props: Props) -> list[str]:
    """One message if a job names no service account, or one that the platform made for the whole project."""
    task = jobs.task(props)
    return _judged(f"{jobs.TASK}.serviceAccount", "the job runs", task.get("serviceAccount")) if task else []


def check_cluster(props: Props) -> list[str]:
    """The same for the nodes that a cluster is made with; Autopilot, or another pool's block, has them elsewhere."""
    elsewhere = (props.get(key) for key in ("enableAutopilot", "removeDefaultNodePool", "nodePools"))
    return [] if any(map(is_on, elsewhere)) else check_pool(props)


def check_pool(props: Props) -> list[str]:
    """The same for a pool's nodes; pods have identities of their own."""
    account = UNKNOWN if props.get("nodeConfig") == UNKNOWN else gke.node(props).get("serviceAccount")
    return _judged("nodeConfig.serviceAccount", "the nodes run", account)


def _judged(where: str, who_runs: str, account: Any) -> list[str]:
    if account == UNKNOWN:
        return []
    if account in (None, "", "default"):
        return [
            f"{where} is not set: {who_runs} as Compute Engine's default account, which the whole project shares and "
            f"which often holds editor ({_SOURCE}). Name an account of the workload's own"
        ]
    problem = catalog.default_account_problem(str(account))
    return [f"{where}: {problem.message}"] if problem else []


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
    summary="No job and no node runs as, and no role goes to, an account that the platform made for a whole project.",
    source=_SOURCE,
    way_out="Make a service account for the workload and name it.",
    checks={
        jobs.JOB: check_job,
        gke.CLUSTER: check_cluster,
        gke.POOL: check_pool,
        **dict.fromkeys(EVERY_IAM, check_grant),
    },
)
