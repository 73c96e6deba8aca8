"""What the Google APIs service agent of a project needs to make flex-start nodes."""

import json
from dataclasses import dataclass, field
from typing import Any

import pulumi
import pulumi_gcp as gcp

from infra import catalog
from infra.catalog import Universe
from infra.project_number import project_number


@dataclass(frozen=True)
class ServiceAgentArgs:
    """Arguments of ServiceAgent."""

    project: str
    """The project's id."""
    node_account: pulumi.Input[str] | None = None
    """The e-mail that nodes run as: the agent may use this account alone. None, for Compute Engine's default account,
    which nodes have when nothing else is said."""
    universe: Universe = field(default_factory=catalog.universe)
    """The universe that the project is in, by default the public one."""


class ServiceAgent(pulumi.ComponentResource):
    """Reads the project's policy, and grants the agent its two roles unless it holds roles/editor, which has both.

    Editor itself is never granted, nor taken away. The tutorial grants both on the project; with the second there, the
    agent could act as any account of it. Children, unless the agent is editor: NAME-machines, NAME-account.
    A preview in which the APIs that answer are not enabled yet cannot show them.
    """

    email: pulumi.Output[str]
    """The agent's e-mail, in the domain of the project's universe."""
    roles: pulumi.Output[list[str]]
    """The roles that were granted, known once they are; none if the agent is editor. Make flex-start nodes after it."""

    def __init__(self, name: str, args: ServiceAgentArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("holdfast:service_agent:ServiceAgent", name, None, opts)
        number = project_number(args.project, self, opts)
        awaited = opts.depends_on if opts else None
        policy = gcp.projects.get_iam_policy_output(
            project=args.project, opts=pulumi.InvokeOutputOptions(parent=self, depends_on=awaited)
        )
        self.email = number.apply(lambda known: agent_email(known, args.universe))
        self.roles = pulumi.Output.all(self.email, policy.policy_data).apply(
            lambda known: self._grant(name, args, known[0], json.loads(known[1]))
        )
        self.register_outputs({"email": self.email, "roles": self.roles})

    def _grant(self, name: str, args: ServiceAgentArgs, email: str, policy: Any) -> pulumi.Output[list[str]]:
        member, default = f"serviceAccount:{email}", default_node_account(email.partition("@")[0], args.universe)
        if is_editor(member, policy):
            return pulumi.Output.from_input([])
        roles, child = _facts()["roles"], pulumi.ResourceOptions(parent=self)
        machines = gcp.projects.IAMMember(
            f"{name}-machines", project=args.project, role=roles["machines"], member=member, opts=child
        )
        account = gcp.serviceaccount.IAMMember(
            f"{name}-account",
            service_account_id=pulumi.Output.format(
                "projects/{}/serviceAccounts/{}", args.project, args.node_account or default
            ),
            role=roles["account"],
            member=member,
            opts=child,
        )
        return pulumi.Output.all(machines.id, account.id).apply(lambda _: [roles["machines"], roles["account"]])


def agent_email(number: str, universe: Universe) -> str:
    """The e-mail of the Google APIs service agent of the project of that number."""
    return f"{number}@{_facts()['name']}.{universe.service_agent_domain}"


def default_node_account(number: str, universe: Universe) -> str:
    """The e-mail of Compute Engine's default account in the project of that number."""
    return f"{number}-compute@developer.{universe.service_agent_domain}"


def is_editor(member: str, policy: Any) -> bool:
    """Whether a policy gives a member the role that has all that the agent needs, without a condition."""
    return holds(member, _facts()["wide_role"], policy)


def holds(member: str, role: str, policy: Any) -> bool:
    """Whether a policy gives a member the role, without a condition."""
    return any(
        each.get("role") == role and member in each.get("members", ()) and not each.get("condition")
        for each in policy.get("bindings", ())
    )


def _facts() -> Any:
    return catalog.fact("slurm", "service_agent").value
