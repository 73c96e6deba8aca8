"""Being told before the money is gone."""

from dataclasses import dataclass

import pulumi
import pulumi_gcp as gcp

from infra.catalog import Problem
from infra.errors import refuse
from infra.project_number import project_number


@dataclass(frozen=True)
class ProjectBudgetArgs:
    """Arguments of ProjectBudget."""

    project: str
    """The project's id."""
    billing_account: str
    """The id of the billing account that pays for the project, such as 012345-6789AB-CDEF01."""
    amount: int
    """What a month may cost, in whole units of the currency."""
    currency: str | None = None
    """The billing account's currency, such as EUR; another one is refused. None leaves it to the account."""
    thresholds: tuple[float, ...] = (0.5, 0.9, 1.0)
    """Parts of the amount at which the account's administrators get a mail, once each a month."""


class ProjectBudget(pulumi.ComponentResource):
    """A monthly budget on one project. It tells; it stops nothing.

    The last threshold is also watched for the forecast. The budget lies on the billing account, so whoever deploys
    needs roles/billing.costsManager there; with a person's credentials the provider needs gcp:userProjectOverride and
    gcp:billingProject. Child: NAME.
    """

    def __init__(self, name: str, args: ProjectBudgetArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        refuse(f"ProjectBudget {name}", *_problems(args))
        super().__init__("holdfast:project_budget:ProjectBudget", name, None, opts)
        child = pulumi.ResourceOptions(parent=self)
        number = project_number(args.project, self, opts)
        rules = [("CURRENT_SPEND", part) for part in args.thresholds] + [("FORECASTED_SPEND", args.thresholds[-1])]
        self.budget_id = gcp.billing.Budget(
            name,
            billing_account=args.billing_account,
            display_name=f"holdfast {args.project}",
            # By number: the API answers with it, and an id would be a difference at the next `up`.
            budget_filter=gcp.billing.BudgetBudgetFilterArgs(
                projects=[number.apply(lambda number: f"projects/{number}")], calendar_period="MONTH"
            ),
            amount=gcp.billing.BudgetAmountArgs(
                specified_amount=gcp.billing.BudgetAmountSpecifiedAmountArgs(
                    units=str(args.amount), currency_code=args.currency
                )
            ),
            threshold_rules=[
                gcp.billing.BudgetThresholdRuleArgs(threshold_percent=part, spend_basis=basis) for basis, part in rules
            ],
            opts=child,
        ).id
        self.register_outputs({"budgetId": self.budget_id})


def _problems(args: ProjectBudgetArgs) -> list[Problem]:
    problems = []
    if args.amount < 1:
        problems.append(Problem("amount", f"{args.amount}; a budget needs an amount of at least 1"))
    if not args.thresholds or any(part <= 0 for part in args.thresholds):
        problems.append(Problem("thresholds", f"{args.thresholds}; name parts of the amount above 0, such as 0.9"))
    return problems
